#!/usr/bin/env python3
"""reliability.py - kills ranks of random programs and measures how the others notice it and go on.

  scripts/reliability.py [--trials 20] [--size 8] [--workers 1] [--write docs/reliability.md]

Each row of the table is a fault and a layout, with --trials runs of tests/chaos/chaos.c. A run fails if a rank hangs, a
result is wrong, a survivor blames a rank that lives, or its message and its culprit differ; the script then prints the
seed, which repeats the run: CHAOS_SEED=N tests/chaos/test_chaos.py. Needs a build with tests in build/.
"""

import argparse
import concurrent.futures
import os
import pathlib
import platform
import random
import signal
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("MUSTER_BUILD_DIR", str(SOURCE / "build"))
os.environ.setdefault("MUSTER_SOURCE_DIR", str(SOURCE))
sys.path[:0] = [str(SOURCE / "tests"), str(SOURCE / "tests/chaos")]
from harness import RanksTest  # noqa: E402
from trial import Trial, play  # noqa: E402

FAULTS = {
    "SIGKILL": {"fault": signal.SIGKILL, "victims": 1},
    "SIGKILL, two ranks within 0.3 s": {"fault": signal.SIGKILL, "victims": 2},
    "SIGSEGV": {"fault": signal.SIGSEGV, "victims": 1},
    "SIGTERM, not handled": {"fault": signal.SIGTERM, "victims": 1},
}
LAYOUTS = {
    "one host, the store outlives the ranks": {"hosts": 1, "hosted": False},
    "one host, rank 0 hosts the store": {"hosts": 1, "hosted": True},
    "two hosts, the store outlives the ranks": {"hosts": 2, "hosted": False},
    "two hosts, rank 0 hosts the store": {"hosts": 2, "hosted": True},
}
HEAD = """# What happens when ranks die

Written by `scripts/reliability.py --trials {trials} --size {size}` on {machine}. Hosts are simulated: ranks of different hosts
exchange data by TCP. Every run is a random mix of collectives and messages of 4 bytes to 4 MiB, blocking and not, on two groups, with
verified results. Times are in milliseconds, from the first fault. *Detected*: a survivor's call returns the error. *Recovered*: its next
call succeeds, after `mst_shrink_world` and the agreement on the step to repeat.

{kills} ranks were killed in {runs} runs. {problems}

| fault | layout | detected: median | p99 | max | recovered: median | p99 | max | example |
|---|---|---|---|---|---|---|---|---|
"""


class Case(RanksTest):
    def runTest(self):
        """The script calls play itself."""


def run(arguments):
    """One trial in a process of its own."""
    seed, mode, size, how = arguments
    case = Case()
    case.setUp()
    try:
        trial = Trial(seed, mode, size=size, **how)
        survivors, problems = play(case, trial)
        return str(trial), survivors, problems
    finally:
        case.doCleanups()
        case.tearDown()


def quantiles(values):
    """Median, 99th percentile and maximum, as cells of a table."""
    values = sorted(v for v in values if v is not None)
    if not values:
        return "– | – | –"
    return " | ".join(f"{values[min(len(values) - 1, int(len(values) * q))]:.1f}" for q in (0.5, 0.99, 1))


def measure(pool, options, name, fault, where, layout):
    """The row of a fault and a layout, the number of victims, and the problems."""
    draw = random.Random(f"{options.seed} {name} {where}")
    jobs = [(draw.randrange(1 << 32), mode, options.size, {**fault, **layout}) for mode in ("stop", "shrink")
            for _ in range(options.trials)]
    results = list(pool.map(run, jobs))
    problems = [f"{trial}: {problem}" for trial, _, found in results for problem in found]
    survivors = [s for _, some, _ in results for s in some]
    example = next((s.message for s in survivors if s.message), "").replace("|", "\\|")
    row = (f"| {name} | {where} | {quantiles([s.detected for s in survivors])} | {quantiles([s.recovered for s in survivors])} "
           f"| {example} |")
    return row, len(jobs) * fault["victims"], len(jobs), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    rows, kills, runs, problems = [], 0, 0, []
    with concurrent.futures.ProcessPoolExecutor(options.workers) as pool:
        for name, fault in FAULTS.items():
            for where, layout in LAYOUTS.items():
                row, more, n, found = measure(pool, options, name, fault, where, layout)
                rows.append(row)
                kills, runs, problems = kills + more, runs + n, problems + found
                print(row, *found, sep="\n", flush=True)
    verdict = "No rank hung, no result was wrong, and every survivor named a rank that was killed." if not problems else \
        f"{len(problems)} survivors did not do what they should; they are listed at the end."
    machine = f"{os.cpu_count()} processors, {platform.machine()}"
    text = HEAD.format(trials=options.trials, size=options.size, machine=machine, kills=kills, runs=runs, problems=verdict)
    if options.write:
        wrong = ["", "## What went wrong", "", *(f"- {problem}" for problem in problems)] if problems else []
        options.write.write_text("\n".join([text.rstrip("\n"), *rows, *wrong]) + "\n")
    print(f"{kills} kills in {runs} runs. {verdict}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
