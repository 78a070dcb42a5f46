#!/usr/bin/env bash
# fuzz_long.sh - runs the fuzz targets for long, and prints what they reached as the table of docs/security.md.
#
#     cmake --preset fuzz && cmake --build --preset fuzz --target fuzzers
#     scripts/fuzz_long.sh SECONDS [JOBS] [DIRECTORY] [TARGET...]
#
# Each target runs for SECONDS in one process, JOBS of them side by side (one per processor). Corpora, logs, inputs that
# fail and the list of runs are in DIRECTORY (build-fuzz/long). Another call with the same DIRECTORY continues from its
# corpora, and the table sums up all calls. The programs in build-fuzz/bin/fuzz may come from another machine.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
seconds=${1:?SECONDS for each target}
jobs=${2:-$(nproc)}
export seconds directory=${3:-build-fuzz/long}
shift $(($# < 3 ? $# : 3))
mkdir -p "$directory"

fuzz_one() { # target
    local name=$1 failed=no log=$directory/$1.log
    mkdir -p "$directory/corpus/$name"
    ASAN_OPTIONS=leak_check_at_exit=0 "build-fuzz/bin/fuzz/$name" -max_total_time="$seconds" -timeout=25 \
        -print_final_stats=1 -artifact_prefix="$directory/$name-" "$directory/corpus/$name" \
        "tests/fuzz/seeds/$name" >"$log" 2>&1 || failed=yes
    times >>"$log" # the last line: of this process's children
    # Name, seconds of processor time, executions, edges that the seeds and corpus reach, edges in the end, failed.
    awk -v name="$name" -v failed=$failed '
        match($0, /cov: [0-9]+/) { cov = substr($0, RSTART + 5, RLENGTH - 5); if (/INITED/) first = cov }
        /number_of_executed_units/ { runs = $2 }
        END { split($0, t, /[ms ]+/); print name, 60 * (t[1] + t[3]) + t[2] + t[4], runs + 0, first + 0, cov + 0, failed }' "$log" >>"$directory/runs.txt"
    if [[ $failed = yes ]]; then
        printf '%s failed:\n' "$name"
        tail -n 40 "$log"
    fi
}
export -f fuzz_one

if (($# == 0)); then mapfile -t targets < <(find build-fuzz/bin/fuzz -type f -executable -printf '%f\n' | sort); else targets=("$@"); fi
if ((${#targets[@]} == 0)); then
    echo 'build-fuzz/bin/fuzz has no programs' >&2
    exit 1
fi
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz_one {}'

sort -s -k1,1 "$directory/runs.txt" | awk '
    function row() { if (name) printf "| `%s` | %.2f | %.1f | %d | %d | %s |\n", name, time / 3600, runs / 1e6, first, last, failed }
    BEGIN { print "| target | CPU hours | million inputs | edges at first | edges | failed |\n|---|---|---|---|---|---|" }
    $1 != name { row(); name = $1; time = runs = failed = last = 0; first = $4 }
    { time += $2; runs += $3; if ($5 > last) last = $5; failed += $6 == "yes" }
    END { row() }'
! grep -q ' yes$' "$directory/runs.txt"
