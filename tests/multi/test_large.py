"""Tensors of more than 2^31 elements. Runs with RANKS_TEST_LARGE=1; needs 13 GiB of memory and two minutes."""

import os
import unittest

from collective_kit import CollectiveTest
from harness import PROGRAMS, main

LARGE = PROGRAMS / "large"


@unittest.skipUnless(os.environ.get("RANKS_TEST_LARGE"), "takes minutes and 13 GiB: set RANKS_TEST_LARGE=1")
class Large(CollectiveTest):
    def test_one_host(self):
        self.assertIn("elements on 1 hosts", self.run_suite(2, program=LARGE))

    def test_shared(self):
        self.assertIn("elements on 1 hosts", self.run_suite(2, "shared", program=LARGE))

    def test_two_hosts(self):
        self.assertIn("elements on 2 hosts", self.run_suite(2, hosts="ab", program=LARGE))


if __name__ == "__main__":
    main()
