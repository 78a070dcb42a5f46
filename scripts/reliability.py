#!/usr/bin/env python3
"""reliability.py - measures how the ranks of random programs notice faults and go on; then runs kills.py and soak.py.

  scripts/reliability.py [--trials 20] [--size 8] [--workers 1] [--kills 10000] [--soak 10000000] [--write docs/reliability.md]

Each row of the table is a fault and a layout, with --trials runs of tests/chaos/chaos.c. A run fails if a rank hangs, a
result is wrong, a survivor blames a rank that lives, or its message and its culprit differ; the script then prints its
arguments, which repeat the run: CHAOS_TRIAL='{…}' tests/chaos/test_chaos.py, or test_network.py for faults of the network,
which need root and ss. Needs a build with tests in build/.
"""

import argparse
import concurrent.futures
import os
import pathlib
import platform
import random
import shutil
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("MUSTER_BUILD_DIR", str(SOURCE / "build"))
os.environ.setdefault("MUSTER_SOURCE_DIR", str(SOURCE))
sys.path[:0] = [str(SOURCE / "tests"), str(SOURCE / "tests/chaos")]
import kills  # noqa: E402
import network  # noqa: E402
from soak import ALLOWED, soak  # noqa: E402
from trial import TIMEOUT, Case, Trial, blames_other, play  # noqa: E402

FAULTS = {
    "SIGKILL": {"fault": "SIGKILL", "victims": 1},
    "SIGKILL, two ranks within 0.3 s": {"fault": "SIGKILL", "victims": 2},
    "SIGSEGV": {"fault": "SIGSEGV", "victims": 1},
    "SIGTERM, not handled": {"fault": "SIGTERM", "victims": 1},
    "exit without `mst_destroy_process_group`": {"fault": "exit", "victims": 1},
    "SIGSTOP, SIGCONT within 0.6 s": {"fault": "pause", "victims": 1},
    f"SIGSTOP for longer than the timeout of {TIMEOUT:.0f} s": {"fault": "freeze", "victims": 1},
    "SIGKILL to the process with the store": {"fault": "store", "victims": 1},
}
LAYOUTS = {
    f"{hosts}, {store}": {"hosts": n, **how}
    for n, hosts in ((1, "one host"), (2, "two hosts"))
    for store, how in (
        ("`muster run`", {"launched": True}),
        ("the store outlives the ranks", {"launched": False, "hosted": False}),
        ("rank 0 hosts the store", {"launched": False, "hosted": True}),
    )
}
NETWORK_FAULTS = {
    f"host cut off for less than {network.OUTAGE:.1f} s": {"fault": "outage"},
    "host cut off, its link is down": {"fault": "cut"},
    "host cut off, packets are dropped": {"fault": "partition"},
    "reset of connections to the store": {"fault": "reset_store"},
    "reset of a connection between two ranks": {"fault": "reset_link"},
}
NETWORK_LAYOUTS = {
    f"three hosts in namespaces, {store}": {"hosts": "aabbcc", **how}
    for store, how in (
        ("`muster run`", {"launched": True}),
        ("the store outlives the ranks", {"launched": False, "hosted": False}),
        ("rank 0 hosts the store", {"launched": False, "hosted": True}),
    )
}
HEAD = """# What happens when ranks die

Written by `scripts/reliability.py --trials {trials} --size {size}` on {machine}. Hosts are simulated: ranks of different hosts
exchange data by TCP. Hosts in namespaces have network namespaces with {timeout} s as `MUSTER_TCP_TIMEOUT_S`, and two ranks each. Every run is a random mix of all collectives and messages of 4 bytes to 16 MiB, blocking and not, with memory of
`malloc` and of `mst_alloc`, in one or three threads with two groups each, with verified results. Times are in milliseconds, from the first
fault. *Detected*: a survivor's call returns the error. *Recovered*: its next call succeeds, after `mst_shrink_world` and the agreement on
the step to repeat. Under `muster run` the launcher may end the ranks before they notice a death.

A survivor must name the rank to which the fault happened, also if it only sees that another survivor ends or shrinks the group because of
that. One case is exempt: a store that outlives the ranks is killed, and a survivor ends because of that.

If a host is cut off, the ranks of both sides get an error, and those that still have the store, or its standby, recover. After the reset of
a connection between two ranks all ranks are alive and recover; ranks that did not use the connection may name a rank that ended or recovers
because of it.

{faults} faults in {runs} runs. {problems}

| fault | layout | detected: median | p99 | max | recovered: median | p99 | max | example |
|---|---|---|---|---|---|---|---|---|
"""
KILLS = """
## Successive kills

`scripts/kills.py` kills the ranks of a run with SIGKILL until one is left; the others shrink the world, or a group, after each kill. Every
survivor must name the killed rank each time. {killed:,} kills, {reports:,} reports of survivors. {problems}

{rows}
"""
SOAK = """
## Soak

`scripts/soak.py` runs one job of {size} ranks for 10 million operations. It fails if memory, descriptors or threads of a rank or of the
launcher grow after a warm-up, or if a result is wrong. {figures}
"""


def run(arguments):
    """One trial in a process of its own."""
    seed, mode, size, how = arguments
    if how["fault"] in network.FAULTS:
        with network.NetworkCase() as case:
            trial = network.NetworkTrial(seed, mode, **how)
            return str(trial), *network.play(case, trial), 0
    with Case() as case:
        trial = Trial(seed, mode, size=size, **how)
        survivors, problems = play(case, trial)
        return str(trial), survivors, problems, sum(blames_other(trial, s) for s in survivors)


def quantiles(values):
    """Median, 99th percentile and maximum, as cells of a table."""
    values = sorted(v for v in values if v is not None)
    if not values:
        return "– | – | –"
    return " | ".join(f"{values[min(len(values) - 1, int(len(values) * q))]:.1f}" for q in (0.5, 0.99, 1))


def measure(pool, options, name, fault, where, layout):
    """The row of a fault and a layout, the numbers of victims, runs and survivors that blame others, and the problems."""
    draw = random.Random(f"{options.seed} {name} {where}")
    jobs = [(draw.randrange(1 << 32), mode, options.size, {**fault, **layout}) for mode in ("stop", "shrink")
            for _ in range(options.trials)]
    results = list(pool.map(run, jobs))
    problems = [f"{trial}: {problem}" for trial, _, found, _ in results for problem in found]
    survivors = [s for _, some, _, _ in results for s in some]
    example = next((s.message for s in survivors if s.message), "").replace("|", "\\|")
    row = (f"| {name} | {where} | {quantiles([s.detected for s in survivors])} | {quantiles([s.recovered for s in survivors])} "
           f"| {example} |")
    return row, (len(jobs) * fault.get("victims", 1), len(jobs), sum(others for *_, others in results)), problems


def can_change_networks():
    """Whether this process can make network namespaces and reset connections."""
    try:
        with network.NetworkCase():
            return bool(shutil.which("ss"))
    except unittest.SkipTest as reason:
        print(f"without faults of the network: {reason}")
        return False


def rows_of_table():
    """The faults and layouts to measure."""
    for name, fault in FAULTS.items():
        for where, layout in LAYOUTS.items():
            if fault["fault"] != "store" or not layout["launched"]:  # else the ranks end with their launcher
                yield name, fault, where, layout
    for name, fault in NETWORK_FAULTS.items() if can_change_networks() else ():
        for where, layout in NETWORK_LAYOUTS.items():
            yield name, fault, where, layout


def describe_kills(options):
    """The section about kills, and its problems."""
    options.seconds = 0
    times, killed, problems = kills.kill(options)
    verdict = f"{len(problems)} of the runs went wrong: see the end." if problems else \
        "No rank hung, no result was wrong, nothing was left, and each report named the right rank."
    return KILLS.format(killed=killed, reports=sum(map(len, times.values())), problems=verdict, rows="\n".join(kills.table(times))), problems


def describe_soak(options):
    """The section about the soak, and its problems."""
    rate, rows, problems = soak(options.soak, options.size)
    grown = [max(late[i] - early[i] for _, early, late in rows) for i in range(len(ALLOWED))]
    figures = f"The last run had {options.soak:,} operations, {rate:,.0f} per second. Most growth of a process: " + \
        ", ".join(f"{n} {what}" for n, what in zip(grown, ALLOWED)) + "."
    return SOAK.format(size=options.size, figures=figures), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--kills", type=int, default=10000)
    parser.add_argument("--soak", type=int, default=10_000_000, help="operations of the soak")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    rows, counts, problems = [], (0, 0, 0), []
    with concurrent.futures.ProcessPoolExecutor(options.workers) as pool:
        for name, fault, where, layout in rows_of_table():
            row, more, found = measure(pool, options, name, fault, where, layout)
            rows.append(row)
            counts, problems = [a + b for a, b in zip(counts, more)], problems + found
            print(row, *found, sep="\n", flush=True)
    sections = ""
    for describe in describe_kills, describe_soak:
        section, found = describe(options)
        sections, problems = sections + section, problems + found
    faults, runs, others = counts
    verdict = f"{others} survivors named another survivor. " + (
        f"There were {len(problems)} problems, which are listed at the end." if problems else
        "No rank hung, no result was wrong, and no other error was unexpected.")
    machine = f"{os.cpu_count()} processors, {platform.machine()}"
    text = HEAD.format(trials=options.trials, size=options.size, machine=machine, faults=faults, runs=runs, problems=verdict,
                       timeout=network.TIMEOUT)
    if options.write:
        wrong = ["", "## What went wrong", "", *(f"- {problem}" for problem in problems)] if problems else []
        options.write.write_text("\n".join([text.rstrip("\n"), *rows, sections.rstrip("\n"), *wrong]) + "\n")
    print(sections, f"{faults} faults in {runs} runs. {verdict}", sep="\n")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
