"""Lists in gather and scatter, several dtypes in coalesced calls, opaque dtypes: on every layout and loaded backend."""

import unittest

from collective_kit import CollectiveTest
from harness import BUILD, PROGRAMS, main

LISTS = PROGRAMS / "lists"
MODULES = BUILD / "lib/muster"


class Lists(CollectiveTest):
    ranks = (2, 3, 4)
    hosts = None  # the simulated host of each rank
    env = None

    cases = ("gather", "scatter", "dtypes", "opaque", "misuse")

    def test_all(self):
        for case in self.cases:
            for ranks in self.ranks:
                with self.subTest(case=case, ranks=ranks):
                    hosts = self.hosts and self.hosts[:ranks]
                    out = self.run_suite(ranks, case, program=LISTS, hosts=hosts, env=self.env)
                    self.assertEqual(out.count("done\n"), ranks, out)


class BetweenHosts(Lists):
    hosts = "abcd"


class TwoRanksPerHost(Lists):
    ranks = (4,)
    hosts = "aabb"


class Composed(Lists):
    """A loaded backend, of which muster composes some operations."""

    ranks = (2, 3)
    cases = Lists.cases[:-1]
    env = {"MUSTER_BACKEND_PATH": BUILD / "tests/backends", "MUSTER_BACKEND": "minimal"}


@unittest.skipUnless((MODULES / "mst_backend_gloo.so").exists(), "the gloo backend is not built (libgloo-dev)")
class Gloo(Lists):
    ranks = (2, 3)
    cases = Lists.cases[:-1]
    env = {"MUSTER_BACKEND_PATH": MODULES, "MUSTER_BACKEND": "gloo"}


if __name__ == "__main__":
    main()
