"""Works: several waits, callbacks and their order, combined works; on one host, between hosts, over a loaded backend."""

import re

from collective_kit import LIMIT, CollectiveTest
from harness import BUILD, PROGRAMS, main

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

    def test_destroyed_groups(self):
        self.check("destroy")


class ProcessorTime(CollectiveTest):
    """How long a wait of 400 ms polls is set by MUSTER_SPIN_US."""

    def used(self, spin_us, hosts=None):
        out = self.run_suite(2, "cpu", program=WORKS, hosts=hosts, env={"MUSTER_SPIN_US": spin_us})
        polling, *times = (int(ms) for ms in re.findall(r"used (\d+) ms", out))
        if polling < 100:
            self.skipTest(f"other programs need the processors: polling for 400 ms used {polling} ms")
        return times

    def follows_setting(self, hosts):
        times = zip(*(self.used(spin_us, hosts) for spin_us in (1000000, 1, "auto")), strict=True)
        # Waits for several works wake up every millisecond.
        bounds = zip(times, ((2, 15), (2, 15), (1.5, 5)), strict=True)
        return all(long > factor * max(short, auto) + more for (long, short, auto), (factor, more) in bounds)

    def test_setting(self):
        for hosts in (None, "ab"):
            with self.subTest(hosts=hosts):  # other programs may take the processor during a wait
                self.assertTrue(any(self.follows_setting(hosts) for attempt in range(4)))


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
