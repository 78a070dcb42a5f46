"""Reducers of many tensors: on one host, between hosts, over loaded backends, and ranks that differ or die."""

import signal

from collective_kit import LIMIT, CollectiveTest
from harness import BUILD, PROGRAMS, SANITIZED, main

BUCKETS = PROGRAMS / "buckets"
SEEDS = range(1, 3 if SANITIZED else 5)
MODULES = BUILD / "lib/muster"


class Buckets(CollectiveTest):
    hosts = None  # the simulated host of each rank
    env = None

    def reduce(self, ranks, how, *arguments):
        hosts = self.hosts and self.hosts[:ranks]
        out = self.run_suite(ranks, how, *arguments, program=BUCKETS, hosts=hosts, env=self.env)
        self.assertEqual(out.count("done\n"), ranks, out)

    def test_averages(self):
        for seed in SEEDS:
            self.reduce(2, "train", seed)
        self.reduce(4, "train", 9)

    def test_sums(self):
        self.reduce(2, "sum", 1)
        self.reduce(3, "sum", 2)

    def test_threads(self):
        self.reduce(2, "threads", 1)
        self.reduce(4, "threads", 2)

    def test_two_reducers(self):
        self.reduce(2, "two")
        self.reduce(3, "two")

    def test_ranks_differ(self):
        self.reduce(2, "mismatch")
        self.reduce(3, "mismatch")

    def test_misuse(self):
        self.reduce(2, "misuse")

    def test_late(self):
        self.reduce(2, "late")
        self.reduce(3, "late")

    def alone(self, ranks, *arguments):
        """Ranks without a launcher."""
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port(), "WORLD_SIZE": ranks, **(self.env or {})}
        hosts = [{"MUSTER_FORCE_HOST": self.hosts[r]} if self.hosts else {} for r in range(ranks)]
        return [self.popen(BUCKETS, *arguments, env={"RANK": r, **place, **hosts[r]}) for r in range(ranks)]

    def test_without_launcher(self):
        for rank in self.alone(2, "train", 3):
            out, _ = rank.communicate(timeout=LIMIT)
            self.assertEqual((rank.returncode, out), (0, b"done\n"))
        self.assert_nothing_left()

    def test_killed(self):
        for n in (2, 3):
            *others, last = self.alone(n, "die")
            last.communicate(timeout=LIMIT)
            self.assertEqual(last.returncode, -signal.SIGKILL)
            for rank in others:
                out, _ = rank.communicate(timeout=LIMIT)
                self.assertEqual((rank.returncode, out), (0, b"done\n"))
            self.assert_nothing_left()


class BetweenHosts(Buckets):
    hosts = "abab"


class Composed(Buckets):
    """A loaded backend without reductions: muster composes them."""

    env = {"MUSTER_BACKEND_PATH": BUILD / "tests/backends", "MUSTER_BACKEND": "minimal"}


if __name__ == "__main__":
    main()
