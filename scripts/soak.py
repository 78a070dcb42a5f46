#!/usr/bin/env python3
"""soak.py - runs one job for millions of operations and fails if a rank grows.

  scripts/soak.py [--steps 10000000] [--size 8] [--hosts 1] [--threads 1] [--seed 1]

The ranks run tests/chaos/chaos.c under `muster run`: random collectives and messages of at most 64 elements, of which
every hundredth is verified, on two groups, of which one is made again every 20,000 operations. The script samples resident
memory, descriptors and threads of all ranks and of the launcher twice a second. It compares the maxima of two quarters of
the samples, the second and the last: memory may grow by 512 KiB, and descriptors by 4, since links are opened on demand
after each new group. Needs a build with tests in build/.
"""

import argparse
import contextlib
import os
import pathlib
import re
import select
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("MUSTER_BUILD_DIR", str(SOURCE / "build"))
os.environ.setdefault("MUSTER_SOURCE_DIR", str(SOURCE))
sys.path[:0] = [str(SOURCE / "tests"), str(SOURCE / "tests/chaos")]
from harness import MUSTER, Process, default_signals, open_files  # noqa: E402
from trial import CHAOS, Case  # noqa: E402

BITS, EVERY, INTERVAL = 6, 100, 0.5
ALLOWED = {"KiB": 512, "descriptors": 4, "threads": 0}


def sample(pid):
    """Resident memory, descriptors and threads of a process; None if it has ended."""
    with contextlib.suppress(OSError, AttributeError):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        found = (re.search(rf"^{name}:\s+(\d+)", status, re.M) for name in ("VmRSS", "Threads"))
        memory, threads = (int(match[1]) for match in found)
        return memory, len(open_files(pid)), threads
    return None


def soak(steps, size=8, hosts=1, threads=1, seed=1, show=lambda line: None):
    """Runs the job: operations per second, rows (process, second quarter, last quarter), and what is wrong."""
    samples, problems, begin = {}, [], time.monotonic()
    with Case() as case:
        process = case.popen(MUSTER, "run", "-n", size, CHAOS, seed, steps, "group", hosts, threads, BITS, EVERY,
                             env={"MUSTER_SLOW_S": 0}, stdin=subprocess.DEVNULL, preexec_fn=default_signals)
        job, pids, done, due = Process(process), {"launcher": process.pid}, 0, 0.0
        while True:
            if b"\n" in job.pending[process.stdout] or select.select([process.stdout], [], [], INTERVAL)[0]:
                line = job.line()
                if line is None:
                    break
                rank, word, *rest = line.split()
                if word == "ready":
                    pids[f"rank {rank[1:-1]}"] = int(rest[0])
                elif word == "done":
                    done += 1
                elif word != "step":
                    problems.append(line)
                elif rank == "[0]":
                    show(f"{int(rest[0]):,} operations in {time.monotonic() - begin:.0f} s")
            if len(pids) > size and not done and time.monotonic() > due:
                due = time.monotonic() + INTERVAL
                for name, pid in pids.items():
                    samples.setdefault(name, []).append(sample(pid))
        if process.wait() or done < size:
            problems.append(f"muster run ended with {process.returncode}, {done} ranks are done")
    rate = steps * threads / (time.monotonic() - begin)
    rows = []
    for name, found in samples.items():
        found = [one for one in found if one]
        quarter = len(found) // 4
        early, late = ([max(column) for column in zip(*part)] for part in
                       (found[quarter:2 * quarter + 1], found[-quarter - 1:]))
        rows.append((name, early, late))
        problems += [f"{name} grew from {a} to {b} {what}" for (what, most), a, b in zip(ALLOWED.items(), early, late) if b > a + most]
    return rate, rows, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in ("steps", 10_000_000), ("size", 8), ("hosts", 1), ("threads", 1), ("seed", 1):
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = vars(parser.parse_args())
    rate, rows, problems = soak(**options, show=lambda line: print(line, flush=True))
    for name, early, late in rows:
        print(f"{name}: " + ", ".join(f"{a} to {b} {what}" for what, a, b in zip(ALLOWED, early, late)))
    print(f"{rate:,.0f} operations per second", *problems, sep="\n")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
