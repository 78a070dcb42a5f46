#!/usr/bin/env bash
# check.sh - static checks of the tree and of the library in build/. Runs all of them and fails if one fails.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
scripts/deps.sh check || exit 1
git rev-parse --git-dir >/dev/null || exit 1 # git knows which files belong to the project
jobs=$(nproc)
failed=()

step() { # name, command...
    local name=$1 start=$SECONDS
    shift
    if "$@"; then
        echo "check: $name: ok ($((SECONDS - start)) s)"
    else
        echo "check: $name: FAILED" >&2
        failed+=("$name")
    fi
}

# Files of the project, tracked or new, that match the patterns.
files() { git ls-files -z --cached --others --exclude-standard -- "$@" | xargs -0 -r ls -d 2>/dev/null; }

# Compiles each header that standard input names: alone, and included twice.
headers_alone() { # compiler and flags
    # shellcheck disable=SC2016
    xargs -r -P "$jobs" -I{} sh -c \
        'printf "#include <%s>\n#include <%s>\n" "$0" "$0" | "$@" -fsyntax-only - || { echo "$1: $0" >&2; exit 1; }' {} "$@"
}

public_headers() {
    local c="-x c -std=c11" cxx="-x c++ -std=c++20" warn="-Wall -Wextra -Wpedantic -Werror -Iinclude" compiler
    for compiler in "gcc $c" "clang $c" "g++ $cxx" "clang++ $cxx"; do
        # shellcheck disable=SC2086
        (cd include && ls muster/*.h) | headers_alone $compiler $warn || return 1
    done
}

internal_headers() {
    files 'src/*.h' 'tools/*.h' | sed -E 's,^(src|tools/muster)/,,' |
        headers_alone gcc -x c -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Iinclude -Isrc -Itools/muster -Ibench/peers
}

format() { files '*.c' '*.h' '*.cpp' '*.hpp' | xargs -r clang-format --dry-run -Werror; }

# Prints the place of each finding; clang-tidy -p build FILE prints the path to it as well. The time grows with the number of states
# that the analyzer visits in a function. ANALYSIS_NODES=225000, the default of clang, takes five times as long.
tidy() { # clang-tidy options...; files on standard input
    local extra=(-Wno-unknown-warning-option -Wno-ignored-optimization-argument -Wno-unused-command-line-argument
        -Xclang -analyzer-config -Xclang
        "max-nodes=${ANALYSIS_NODES:-30000}")
    xargs -r -P "$jobs" -n 2 clang-tidy --quiet -p build "${extra[@]/#/--extra-arg=}" "$@" 2>&1 |
        grep -E '(error|warning): |^Error'
    return "${PIPESTATUS[0]}"
}

analysis() {
    local ok=0
    files 'src/*.c' 'tools/*.c' ':!src/base/error.c' |
        tidy --extra-arg=-include --extra-arg="$PWD/scripts/analysis.h" || ok=1
    files 'examples/*.c' src/base/error.c | tidy || ok=1
    return $ok
}

no_match() { # pattern, files...: fails if a line matches, and prints it
    local pattern=$1
    shift
    ! files "$@" | xargs -r grep -nHE "$pattern" -- /dev/null
}

manners() {
    local ok=0
    no_match '\b(TODO|FIXME|XXX)\b' '*.[ch]' '*.cpp' '*.py' '*.md' 'man/*' 'cmake/*' '*CMakeLists.txt' || ok=1
    no_match '\bvolatile\b' '*.[ch]' '*.cpp' || ok=1
    files 'src/*.[ch]' | xargs -r awk 'FNR == 601 { print FILENAME ": more than 600 lines"; bad = 1 } END { exit bad }' || ok=1
    python3 -B scripts/check_style.py || ok=1
    return $ok
}

documents() {
    local ok=0
    python3 -B scripts/check_docs.py || ok=1
    python3 -B scripts/architecture_svg.py --check || ok=1
    return $ok
}

manual() {
    local pages
    mapfile -t pages < <(files 'man/*.[137]')
    if [[ -e build/man/muster-env.7 ]]; then pages+=(build/man/muster-env.7); fi
    ((${#pages[@]} == 0)) || mandoc -Tlint -W warning "${pages[@]}"
}

scripts_parse() {
    local ok=0 file
    while read -r file; do bash -n "$file" || ok=1; done < <(files '*.sh' .ci/run)
    files '*.py' | xargs -r python3 -B -c 'import sys
for name in sys.argv[1:]: compile(open(name, encoding="utf-8").read(), name, "exec")' || ok=1
    return $ok
}

# These two tools report different things in different versions. Version 14 decides; the reports of others are only printed.
version_14() { # tool, command...
    local tool=$1
    shift
    "$@" && return
    "$tool" --version | grep -q 'version 14\.' && return 1
    echo "check: $tool is not version 14, so this does not count"
}

step layers python3 -B scripts/check_layers.py
step documents documents
step "public headers" public_headers
step "internal headers" internal_headers
step symbols scripts/check_symbols.sh
step format version_14 clang-format format
step manners manners
step manual manual
step scripts scripts_parse
step analysis version_14 clang-tidy analysis

if ((${#failed[@]})); then
    echo "check: failed: ${failed[*]}" >&2
    exit 1
fi
