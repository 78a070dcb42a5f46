"""Meshes: groups, slices and flattening, on one host and on several; and every small mesh against a naive computation."""

import itertools
import json
import math
import subprocess

from collective_kit import CollectiveTest
from harness import BUILD, PROGRAMS, SANITIZED, main

MESH = PROGRAMS / "mesh"
ANSWERS = PROGRAMS / "mesh_answers"
NAMES = "abcd"


class Meshes(CollectiveTest):
    def run_mesh(self, n, *arguments, hosts=None, env=None):
        out = self.run_suite(n, *arguments, hosts=hosts, program=MESH, env=env)
        self.assertEqual(out.count("ok\n"), n, out)

    def test_groups(self):
        self.run_mesh(8, "groups")

    def test_groups_of_several_hosts(self):
        self.run_mesh(8, "groups", hosts="aabbccdd")

    def test_slices(self):
        self.run_mesh(8, "slices")

    def test_part_of_the_world(self):
        self.run_mesh(8, "part")
        self.run_mesh(8, "part", hosts="abababab")

    def test_wrong_arguments(self):
        for n in (1, 3, 8):
            with self.subTest(n=n):
                self.run_mesh(n, "wrong")

    def test_ranks_that_differ(self):
        self.run_mesh(2, "differ")

    def test_given_groups(self):
        self.run_mesh(8, "given")

    def test_given_groups_of_several_hosts(self):
        self.run_mesh(8, "given", hosts="aabbabab")

    def test_given_groups_of_a_loaded_backend(self):
        self.run_mesh(8, "given", env={"MUSTER_BACKEND_PATH": BUILD / "tests/backends", "MUSTER_BACKEND": "minimal"})

    def test_life(self):
        for n in (1, 2, 5):
            with self.subTest(n=n):
                self.run_mesh(n, "life")


def naive(order, shape, rank):
    """The expected result for a rank, from all coordinates."""
    ndim, names = len(shape), NAMES[: len(shape)]
    at = dict(zip(order, itertools.product(*map(range, shape))))
    if rank not in at:
        return {"coordinate": None}

    def ranks_along(dims):
        return [r for r in order if all(at[r][d] == at[rank][d] for d in range(ndim) if d not in dims)]

    said = {"coordinate": list(at[rank]), "groups": [sorted(ranks_along([d])) for d in range(ndim)], "slices": {}}
    said["local"] = [group.index(rank) for group in said["groups"]]
    for n in range(1, ndim + 1):
        for dims in itertools.combinations(range(ndim), n):
            ranks, picked = ranks_along(dims), [names[d] for d in dims]
            said["slices"][",".join(picked)] = {
                "shape": [shape[d] for d in dims],
                "ranks": ranks,
                "flat": "_".join(picked),
                "flat_ranks": ranks,
                "flat_group": sorted(ranks),
            }
    return said


class Answers(CollectiveTest):
    def compare(self, n, how):
        process = self.popen(ANSWERS, n, how, stdin=subprocess.DEVNULL)
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        shapes = set()
        for line in out.splitlines():
            said = json.loads(line)
            rank, shape, order = said.pop("rank"), said.pop("shape"), said.pop("mesh")
            self.assertEqual(said, naive(order, shape, rank), (rank, shape, order))
            shapes.add(tuple(shape))
        places = n // 2 if how == "odd" else n
        for ndim in range(1, 5):
            wanted = [s for s in itertools.product(range(1, places + 1), repeat=ndim) if math.prod(s) == places]
            self.assertEqual(len(wanted), sum(len(shape) == ndim for shape in shapes))

    def test_every_small_mesh(self):
        for n in (1, 2, 3, 4, 6, 8) if SANITIZED else (*range(1, 9), 12, 16):
            for how in ("up", "mixed", "odd")[: 3 if n % 2 == 0 else 2]:
                with self.subTest(n=n, how=how):
                    self.compare(n, how)


if __name__ == "__main__":
    main()
