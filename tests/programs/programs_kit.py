"""Shared by the drivers of tests/programs/*.c: runs a program with several numbers of ranks in one layout.

A program compares its results with a sequential computation. A rank with a wrong result prints it and exits with 1.
Rank 0 reports the number of ranks and of hosts, so a run in another layout than the intended one fails, too.
"""

import subprocess
import time

from harness import DEADLINE, MUSTER, PROGRAMS, SOURCE, RanksTest

DIRECTORY = PROGRAMS / "programs"
NAMES = sorted(path.stem for path in (SOURCE / "tests/programs").glob("*.c"))
# The host of each rank. The groups and neighbours of the programs are on one host in some sizes, on several in others.
ONE_HOST = ("a", "aa", "aaa", "aaaa", "aaaaaaaa")
TWO_HOSTS = ("ab", "aba", "aabb", "abbabaab")
SEVERAL_HOSTS = ("a", "ab", "aab", "abca", "aabbccdd")
# A call that does not end fails, and names the ranks that it waits for, before the driver ends the ranks.
LIMITS = {"MUSTER_TIMEOUT_MS": 40000, "MUSTER_INIT_TIMEOUT_MS": 40000}


class ProgramsTest(RanksTest):
    def start(self, *command, env=None, **options):
        """Starts a rank or a launcher with the limits of a run."""
        options.setdefault("stdin", subprocess.DEVNULL)
        return self.popen(*command, stderr=subprocess.STDOUT, env={**LIMITS, **(env or {})}, **options)

    def finish(self, processes):
        """Waits for all processes: their exit statuses and their output."""
        end = time.monotonic() + DEADLINE
        texts = [process.communicate(timeout=max(0.0, end - time.monotonic()))[0] for process in processes]
        return [process.returncode for process in processes], b"".join(texts).decode(errors="replace")

    def start_job(self, command, hosts):
        """Starts one rank for each letter of hosts; the layouts define it. Returns the processes."""
        raise NotImplementedError

    def run_layouts(self, name, layouts):
        for hosts in layouts:
            with self.subTest(ranks=len(hosts), hosts=hosts), self.ended():
                statuses, out = self.finish(self.start_job([DIRECTORY / name], hosts))
                self.assertEqual(statuses, [0] * len(statuses), out[-8000:])
                self.assertIn(f"{name}: ok: {len(hosts)} ranks on {len(set(hosts))} hosts\n", out)
                self.assert_nothing_left()


def with_simulated_hosts(command, hosts):
    """The command of a rank with the host of its rank in MUSTER_FORCE_HOST."""
    pick = " ".join(f"{rank}) host={host};;" for rank, host in enumerate(hosts))
    return ["sh", "-c", f'case $RANK in {pick} esac; MUSTER_FORCE_HOST=$host exec "$0" "$@"', *command]


def add_tests(layouts):
    """A decorator for a class of tests: adds a test of each program in the layouts."""

    def add(cls):
        for name in NAMES:
            setattr(cls, f"test_{name}", lambda self, name=name: self.run_layouts(name, layouts))
        return cls

    return add


def run_command(n, command):
    """The command that runs n ranks under the launcher."""
    return [MUSTER, "run", "-n", n, *command]
