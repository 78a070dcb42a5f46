"""A rank aborts a group: blocked calls end on all ranks, with the reason, and other groups stay usable."""

import re
import subprocess

from collective_kit import LIMIT, CollectiveTest
from harness import ALL, BUILD, PROGRAMS, SANITIZED, SLOWER, main

ABORTS = PROGRAMS / "aborts"
SOON = 1000 * SLOWER  # milliseconds
CALLS = ("barrier", "monitored_barrier", "all_reduce", "recv_next", "recv_before", "recv_any", "send_large", "work")


class Aborts(CollectiveTest):
    hosts = None  # the simulated host of each rank
    env = None
    sizes = (2, 3)
    soon = SOON

    def check(self, ranks, out):
        self.assertEqual(out.count("done\n"), ranks, out)
        for ms in re.findall(r"\bms (\d+)", out):
            self.assertLess(int(ms), self.soon, out)

    def abort(self, ranks, *arguments):
        hosts = self.hosts and self.hosts[:ranks]
        self.check(ranks, self.run_suite(ranks, *arguments, program=ABORTS, hosts=hosts, env=self.env))

    def each(self, who, *how, sizes=None):
        """Every call; the sizes in turn, or all of them with MUSTER_TEST_ALL=1."""
        sizes = sizes or self.sizes
        for i, call in enumerate(CALLS):
            for ranks in sizes if ALL else [sizes[(i + (who == "own")) % len(sizes)]]:
                with self.subTest(call=call, ranks=ranks):
                    self.abort(ranks, who, call, *how)

    def test_own_thread(self):
        self.each("own")

    def test_own_thread_in_the_first_call(self):
        self.each("own", "cold", sizes=(3,))

    def test_other_ranks(self):
        self.each("others")

    def test_other_ranks_in_the_first_call(self):
        self.each("others", "cold", sizes=(3,))

    def test_large_reductions(self):
        for ranks in (2, 3):
            self.abort(ranks, "race")

    def test_world(self):
        for ranks in (2, 3):
            self.abort(ranks, "world")

    def test_misuse(self):
        self.abort(2, "misuse")

    def test_without_launcher(self):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port(), "WORLD_SIZE": 3, **(self.env or {})}
        hosts = [{"MUSTER_FORCE_HOST": self.hosts[r]} if self.hosts else {} for r in range(3)]
        ranks = [
            self.popen(ABORTS, "others", "barrier", env={"RANK": r, **place, **hosts[r]}, stderr=subprocess.STDOUT) for r in range(3)
        ]
        self.check(3, "".join(rank.communicate(timeout=LIMIT)[0].decode() for rank in ranks))
        self.assert_nothing_left()


class BetweenHosts(Aborts):
    hosts = "aba"
    sizes = (3,)


class Loaded(Aborts):
    """A loaded backend. An abort waits for a step of its large reduction, which is slow on a busy machine."""

    def setUp(self):
        super().setUp()
        if SANITIZED:
            self.skipTest("such a step takes too long with a sanitizer")

    sizes = (3,)
    soon = 4 * SOON
    env = {"MUSTER_BACKEND_PATH": BUILD / "tests/backends", "MUSTER_BACKEND": "minimal"}


if __name__ == "__main__":
    main()
