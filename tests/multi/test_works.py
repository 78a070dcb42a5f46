"""Works: several waits, callbacks and their order, combined works; on one host, between hosts, over a loaded backend."""

import math
import re
import unittest

from collective_kit import LIMIT, CollectiveTest
from harness import BUILD, PROGRAMS, SANITIZED, main

WORKS = PROGRAMS / "works"


class Works(CollectiveTest):
    hosts = None  # the simulated host of each rank
    env = None

    def check(self, *cases):
        for case in cases:
            for ranks in (2, 3):
                hosts = self.hosts and self.hosts[:ranks]
                out = self.run_suite(ranks, case, program=WORKS, hosts=hosts, env=self.env)
                self.assertEqual(out.count("done\n"), ranks, out)

    def test_several_threads_wait(self):
        self.check("keep")

    def test_order_of_callbacks(self):
        self.check("order", "late")

    def test_callbacks_that_wait(self):
        self.check("wait")

    def test_combined(self):
        self.check("combine")

    def test_now(self):
        self.check("now")

    def test_misuse(self):
        self.check("misuse")

    def test_missing_ranks(self):
        self.check("missing")

    def test_thread_rests(self):
        self.check("rest", "threads")

    def test_destroyed_groups(self):
        self.check("destroy")


@unittest.skipIf(SANITIZED, "the code of a sanitizer uses processor time, too")
class ProcessorTime(CollectiveTest):
    """How long a wait of 400 ms polls is set by MUSTER_SPIN_US."""

    # Waits for several works wake up every millisecond.
    BOUNDS = ((2, 15), (2, 15), (1.5, 5))

    def used(self, spin_us, hosts):
        """What polling for 400 ms used on this machine just before, and what each kind of wait used."""
        out = self.run_suite(2, "cpu", program=WORKS, hosts=hosts, env={"MUSTER_SPIN_US": spin_us})
        polling, *times = (int(ms) for ms in re.findall(r"used (\d+) ms", out))
        return polling, times

    def check_setting(self, hosts):
        """Other programs take processor time from a wait that polls and never add to it, so the longest of several
        polling waits and the shortest of several sleeping ones count."""
        polled, most, least = 0, [0] * 3, {1: [math.inf] * 3, "auto": [math.inf] * 3}
        for _ in range(6):
            polling, times = self.used(1000000, hosts)
            polled, most = max(polled, polling), list(map(max, most, times))
            for spin_us, before in least.items():
                least[spin_us] = list(map(min, before, self.used(spin_us, hosts)[1]))
            sleeping = map(max, *least.values())
            if all(long > factor * short + more for long, short, (factor, more) in zip(most, sleeping, self.BOUNDS)):
                return
        if polled < 100:
            self.skipTest(f"other programs need the processors: polling for 400 ms used {polled} ms")
        self.fail(f"milliseconds of processor time: {most} when it polls, {least} when it sleeps")

    def test_one_host(self):
        self.check_setting(None)

    def test_between_hosts(self):
        self.check_setting("ab")


class BetweenHosts(Works):
    hosts = ("a", "b", "a")


class Composed(Works):
    """A loaded backend, of which muster composes some operations."""

    env = {"MUSTER_BACKEND_PATH": BUILD / "tests/backends", "MUSTER_BACKEND": "minimal"}
    test_missing_ranks = None  # a barrier that timed out ends a group with a loaded backend


class WithoutLauncher(CollectiveTest):
    def test_all(self):
        for case in ("keep", "order", "late", "wait", "combine", "now", "misuse", "destroy", "missing"):
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port(), "WORLD_SIZE": 2}
            ranks = [self.popen(WORKS, case, env={"RANK": r, **place}) for r in range(2)]
            for rank in ranks:
                out, _ = rank.communicate(timeout=LIMIT)
                self.assertEqual((rank.returncode, out), (0, b"done\n"), case)
        self.assert_nothing_left()

    def test_more_missing_ranks_than_listed(self):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port(), "WORLD_SIZE": 200, "RANK": 0}
        first = self.popen(WORKS, "absent", env=place)
        out, _ = first.communicate(timeout=LIMIT)
        self.assertEqual((first.returncode, out), (0, b"done\n"))


if __name__ == "__main__":
    main()
