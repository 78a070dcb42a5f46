"""
Training over a mesh: every mesh has the loss curve of one process.

Splitting changes the order of sums, and nothing else: after five steps the curves of all meshes of 2, 4 and 8 ranks were
within 5e-9 of the curve of one process. The limit allows for the rounding of other processors; a gradient that is summed
twice or not at all gives a difference above 1e-6.
"""

import itertools
import unittest

from gpt_kit import TINY, command, losses, max_difference, output

LIMIT = 1e-7
DIMS = ("dp", "tp", "pp", "cp")


def meshes(ranks):
    """All meshes of so many ranks, without dimensions of size 1."""
    for sizes in itertools.product((1, 2, 4, 8), repeat=len(DIMS)):
        if sizes[0] * sizes[1] * sizes[2] * sizes[3] == ranks:
            yield ",".join(f"{dim}={size}" for dim, size in zip(DIMS, sizes) if size > 1)


def curve(mesh, *extra):
    return losses(output(command(mesh, "train", "--steps", 5, *TINY, *extra)))


class Mesh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one = curve(None)

    def check(self, mesh, *extra):
        with self.subTest(mesh=mesh, extra=extra):
            difference = max_difference(self.one, curve(mesh, *extra))
            print(f"{mesh} {' '.join(extra)}: {difference:.1e}")
            self.assertLess(difference, LIMIT)

    def test_one_rank(self):
        self.assertEqual(self.one, curve("dp=1,tp=1"))

    def test_two_ranks(self):
        for mesh in meshes(2):
            self.check(mesh)

    def test_four_ranks(self):
        for mesh in meshes(4):
            self.check(mesh)

    def test_eight_ranks(self):
        for mesh in meshes(8):
            self.check(mesh)

    def test_dimensions_in_any_order(self):
        for mesh in ("tp=2,dp=2", "cp=2,pp=2", "tp=2,pp=2,dp=2", "pp=2,cp=2,dp=2"):
            self.check(mesh)

    def test_schedules(self):
        for schedule, micros in itertools.product(("gpipe", "1f1b", "interleaved"), ("2", "4")):
            self.check("pp=2", "--schedule", schedule, "--micro-batches", micros)
        self.check("dp=2,pp=2,tp=2", "--schedule", "interleaved", "--micro-batches", "4")
        self.check("pp=4", "--schedule", "interleaved", "--micro-batches", "8")
        self.check("dp=2,pp=2", "--schedule", "gpipe", "--micro-batches", "4")

    def test_other_forms_of_model(self):
        extra = ["--norm", "rms", "--activation", "relu"]
        one = curve(None, *extra)
        for mesh in ("dp=2,tp=2", "pp=2,cp=2"):
            self.assertLess(max_difference(one, curve(mesh, *extra)), LIMIT)


if __name__ == "__main__":
    unittest.main()
