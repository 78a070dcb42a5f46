"""
Training over a mesh: every mesh has the loss curve of one process.

Sums are made in another order when they are split, and no more than that differs: after five steps the curves of all meshes of
2, 4 and 8 ranks were within 5e-9 of the one-process curve. The limit leaves room for other processors' rounding; a gradient
that is summed once too often or not at all is above 1e-6.
"""

import itertools
import unittest

from gpt_kit import TINY, command, farthest, losses, output

LIMIT = 1e-7
WAYS = ("dp", "tp", "pp", "cp")


def meshes(ranks):
    """All ways to split so many ranks, those of size 1 left out."""
    for sizes in itertools.product((1, 2, 4, 8), repeat=len(WAYS)):
        if sizes[0] * sizes[1] * sizes[2] * sizes[3] == ranks:
            yield ",".join(f"{way}={size}" for way, size in zip(WAYS, sizes) if size > 1)


def curve(mesh, *extra):
    return losses(output(command(mesh, "train", "--steps", 5, *TINY, *extra)))


class Mesh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one = curve(None)

    def check(self, mesh, *extra):
        with self.subTest(mesh=mesh, extra=extra):
            far = farthest(self.one, curve(mesh, *extra))
            print(f"{mesh} {' '.join(extra)}: {far:.1e}")
            self.assertLess(far, LIMIT)

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
            self.assertLess(farthest(one, curve(mesh, *extra)), LIMIT)


if __name__ == "__main__":
    unittest.main()
