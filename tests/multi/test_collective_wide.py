"""Every communication call against a naive reference, over shared memory, in worlds of more ranks than processors."""

import unittest

from collective_kit import CollectiveTest
from harness import ALL, main

SIMILAR = "an odd and an even number of ranks are enough: set MUSTER_TEST_ALL=1 for the others"


class OneHost(CollectiveTest):
    def test_5(self):
        self.run_size(5)

    @unittest.skipUnless(ALL, SIMILAR)
    def test_6(self):
        self.run_size(6)

    @unittest.skipUnless(ALL, SIMILAR)
    def test_7(self):
        self.run_size(7)

    def test_8(self):
        self.run_size(8)

    def test_large(self):
        """Large tensors, which ranks reduce in parts, also in memory of mst_alloc."""
        self.run_suite(3, "--all", "--dtype", "f32", "--max-count", 70000)


if __name__ == "__main__":
    main()
