#!/usr/bin/env bash
# check_symbols.sh [--update] - compares the exported symbols of the library, the list in scripts/symbols.txt and the
# declarations of the public headers. --update writes the list from build/lib/libmuster.so.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
list=scripts/symbols.txt

exported() { nm -D --defined-only build/lib/libmuster.so | awk '$2 != "A" { print $3 }' | sort; }
declared() {
    echo '#include <muster/muster.h>' | gcc -x c -std=c11 -Iinclude -fsyntax-only -aux-info /dev/stdout - |
        grep -v '\*/ static ' | sed -nE 's,^/\* include/muster/.*[ *](mst_[a-z0-9_]+) \(.*,\1,p' |
        grep -vx mst_backend_module | sort -u # modules define it, and the library calls it
}

if [[ ${1-} == --update ]]; then exported >"$list"; fi
diff -u --label "listed in $list" --label "exported by libmuster.so" "$list" <(exported)
diff -u --label "declared in include/muster" --label "exported by libmuster.so" <(declared) <(exported | sed 's/@.*//')
