#!/usr/bin/env python3
"""kills.py - kills ranks one after the other and checks that every survivor names each of them.

  scripts/kills.py [--kills 10000] [--size 8] [--workers 1] [--seed 1] [--seconds 0]

Each run is a random program of --size ranks (tests/chaos/chaos.c) on one to three simulated hosts, with `muster run`,
with a store that outlives the ranks or with the store on rank 0. Its ranks are killed with SIGKILL until one is left;
the others shrink the world each time. A run fails if a rank hangs, a result is wrong, a survivor names another rank, or
a process, port, segment or file is left. It is then printed with arguments that repeat it:
CHAOS_SERIES='{…}' tests/chaos/test_chaos.py. Needs a build with tests in build/.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("MUSTER_BUILD_DIR", str(SOURCE / "build"))
os.environ.setdefault("MUSTER_SOURCE_DIR", str(SOURCE))
sys.path[:0] = [str(SOURCE / "tests"), str(SOURCE / "tests/chaos")]
from series import Series, play_series  # noqa: E402
from trial import Case  # noqa: E402


def run(arguments):
    """One series in a process of its own: its layout, reports and problems."""
    seed, size = arguments
    series = Series(seed, ("shrink", "group")[seed % 2], size=size)
    store = "muster run" if series.launched else "rank 0 hosts the store" if series.hosted else "the store outlives the ranks"
    layout = f"{series.hosts} hosts, {store}" if series.hosts > 1 else f"one host, {store}"
    reports, problems = [], []
    try:
        with Case() as case:
            reports, problems = play_series(case, series)
            if not problems:
                case.assert_nothing_left()
    except AssertionError as error:
        problems.append(str(error))
    return layout, [report[:4] for report in reports], [f"{series}: {problem}" for problem in problems]


def kill(options):  # kills, size, workers, seed, seconds
    """Runs series until enough ranks are killed: (detected, recovered) of each survivor by layout, the kills, the problems."""
    times, problems, killed, begin = collections.defaultdict(list), [], 0, time.monotonic()
    seed = options.seed * 1000003
    with concurrent.futures.ProcessPoolExecutor(options.workers) as pool:
        running = set()
        while True:
            late = options.seconds and time.monotonic() - begin > options.seconds
            while len(running) < options.workers and not late and killed + len(running) * (options.size - 1) < options.kills:
                seed += 1
                running.add(pool.submit(run, (seed, options.size)))
            if not running:
                return times, killed, problems
            done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for layout, reports, found in (future.result() for future in done):
                killed += len({victim for _, victim, *_ in reports})
                times[layout] += [(detected, recovered) for *_, detected, recovered in reports]
                problems += found
                print(*found, sep="\n", end="\n" if found else "", flush=True)


def quantiles(values):
    """Median, 99th percentile and maximum."""
    values = sorted(values)
    return " | ".join(f"{values[min(len(values) - 1, int(len(values) * q))]:.1f}" for q in (0.5, 0.99, 1))


def table(times):
    """The lines of a table with a row for each layout."""
    head = "| layout | reports | detected: median | p99 | max | recovered: median | p99 | max |", "|---|---|---|---|---|---|---|---|"
    return [*head, *(f"| {layout} | {len(some)} | {quantiles(d for d, _ in some)} | {quantiles(r for _, r in some)} |"
                     for layout, some in sorted(times.items()))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10000)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=0, help="begin no run after that time; 0: no limit")
    options = parser.parse_args()
    times, killed, problems = kill(options)
    print(*table(times), sep="\n")
    print(f"{killed} kills, {sum(map(len, times.values()))} reports of survivors, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
