#!/usr/bin/env bash
# test.sh - runs everything: release build and all tests, static checks, sanitizers, fuzz targets (built with clang).
# Continues after a failed step. The last line has the number of tests of all runs; a failed build or check counts
# as one failed test.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
jobs=$(nproc)
reports=()
broken=()
# Ranks on different hosts share the user's secret, which is in the home directory.
if [[ ! -w ${HOME:-} ]]; then
    HOME=$(mktemp -d)
    export HOME
    trap 'rm -rf "$HOME"' EXIT
fi

step() { # name, command...
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    "$@"
    local status=$?
    if ((status)); then broken+=("$name"); fi
    printf '== %s: %d s\n' "$name" $((SECONDS - start))
    return $status
}

configure_and_build() { # preset, build directory, target, cmake options...
    local preset=$1 directory=$2 target=$3
    shift 3
    mkdir -p "$directory"
    if ! { cmake --preset "$preset" "$@" && cmake --build "$directory" -j"$jobs" --target "$target"; } \
        >"$directory/build.log" 2>&1; then
        tail -n 60 "$directory/build.log"
        return 1
    fi
}

# The report has the failed tests; a run without a report has failed as a whole. Many tests wait most of the time, so two jobs more than
# there are processors keep all of them busy. One or two failed tests run once more, alone: the summary lists a test
# that passes only then as "failed once", so that a rare fault is seen and does not hide the other results.
run_tests() { # preset, build directory
    local report=$PWD/$2/report.xml again=$PWD/$2/report-again.xml failed=$2/Testing/Temporary/LastTestsFailed.log
    rm -f "$report" "$again" "$failed"
    ctest --preset "$1" -j$((jobs + 2)) --output-junit "$report" --test-output-size-passed 65536
    if [[ ! -s $report ]]; then return 1; fi
    reports+=("$1=$report")
    if [[ -s $failed ]] && (($(wc -l <"$failed") <= 2)); then
        ctest --preset "$1" --rerun-failed --output-junit "$again" --test-output-size-passed 65536
        if [[ -s $again ]]; then reports+=("$1=$again"); fi
    fi
    return 0
}

# A brief run with a fixed seed: a failure is one of this change. libFuzzer checks for leaks after each suspicious
# input; another check at the end takes seconds on aarch64.
fuzz_one() { # target
    local name=${1##*/}
    local corpus=build-fuzz/corpus/$name log=build-fuzz/$name.log
    mkdir -p "$corpus"
    if ! ASAN_OPTIONS=leak_check_at_exit=0 "$1" -seed=1 -max_total_time=2 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="build-fuzz/" "$corpus" "tests/fuzz/seeds/$name" >"$log" 2>&1; then
        printf 'fuzz: %s failed\n' "$name"
        tail -n 60 "$log"
        return 1
    fi
    printf 'fuzz: %s: %s\n' "$name" "$(grep -o 'number_of_executed_units: *[0-9]*' "$log")"
}
export -f fuzz_one

fuzz_briefly() {
    find build-fuzz/bin/fuzz -type f -executable -print0 | xargs -0 -P "$jobs" -I{} bash -c 'fuzz_one {}'
}

step "packages" scripts/deps.sh test || exit 1
step "release build" configure_and_build release build all -DMUSTER_BUILD_TESTS=ON -DMUSTER_WERROR=ON &&
    step "release tests" run_tests release build
step "static checks" scripts/check.sh
step "ASan and UBSan build" configure_and_build asan build-asan all &&
    step "ASan and UBSan tests" run_tests asan build-asan
step "TSan build" configure_and_build tsan build-tsan threaded_tests &&
    step "TSan tests" run_tests tsan build-tsan
step "fuzz build" configure_and_build fuzz build-fuzz fuzzers &&
    step "fuzz" fuzz_briefly

printf '\n'
exec python3 -B scripts/summary.py "${reports[@]}" -- "${broken[@]}"
