"""Compares what the library says of meshes with the DeviceMesh of the torch that this interpreter has.

  python3 torch_mesh.py MESH_ANSWERS [--most 64] [--order up|mixed|odd] [--ranks 0]

For every number of ranks up to --most, and every shape of up to four dimensions: coordinates, groups along each dimension and ranks
in them, slices by every choice of names in every order, and flattening. One process plays all ranks: torch's fake backend makes
the groups of one of them for real, those of the others are the lists that torch made on the way, and coordinates and slices are
asked for as each rank. --ranks limits for how many ranks of each mesh slices are compared; 0: for all. Prints the counts as JSON.
"""

import argparse
import collections
import itertools
import json
import subprocess
import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed import device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

NAMES = "abcd"
counts = collections.Counter()
made = {}  # lists of ranks that groups were made of, by what they are for
real_new_group, real_get_rank = device_mesh.new_group, device_mesh.get_rank
played = None  # the rank that get_rank answers with


def new_group(ranks=None, **options):
    made.setdefault(options["group_desc"], []).append(sorted(ranks))
    return real_new_group(ranks=ranks, **options)


def get_rank(group=None):
    return real_get_rank() if group is None and played is None else real_get_rank(group) if group else played


device_mesh.new_group, device_mesh.get_rank = new_group, get_rank


def same(ours, theirs, *what):
    if ours != theirs:
        raise SystemExit(f"{what}: ours is {ours}, torch's is {theirs}")
    counts[what[0]] += 1


def group_lists(name, world):
    """All groups for a dimension; torch makes none where one has the whole world in it."""
    return made.get(f"mesh_{name}", [list(range(world))])


def group_with(lists, rank):
    found = [ranks for ranks in lists if rank in ranks]
    assert len(found) == 1, (rank, lists)
    return found[0]


def compare_real(answers, shape, order, world, rank):
    """As one rank, with groups; the lists of the others' come by the way."""
    names = tuple(NAMES[: len(shape)])
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    made.clear()
    if order == list(range(world)):
        mesh = device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=names)
    else:
        mesh = device_mesh.DeviceMesh("cpu", torch.tensor(order).reshape(shape), mesh_dim_names=names)
    ours = answers[rank]
    same(ours["coordinate"], list(mesh.get_coordinate()), "real coordinates", shape, rank)
    for dim, name in enumerate(names):
        theirs = sorted(dist.get_process_group_ranks(mesh.get_group(name)))
        same(ours["groups"][dim], theirs, "real groups", shape, rank, name)
        same(ours["local"][dim], mesh.get_local_rank(name), "real local ranks", shape, rank, name)
        lists = group_lists(name, world)
        for other in order:
            theirs = group_with(lists, other)
            same(answers[other]["groups"][dim], theirs, "groups", shape, other, name)
            same(answers[other]["local"][dim], theirs.index(other), "local ranks", shape, other, name)
    for n in range(2, len(shape) + 1):
        for picked in itertools.combinations(names, n):
            compare_flat(answers, shape, order, world, rank, mesh, picked)
    dist.destroy_process_group()


def compare_flat(answers, shape, order, world, rank, mesh, picked):
    key = ",".join(picked)
    flat = mesh[picked]._flatten()
    ours = answers[rank]["slices"][key]
    same(ours["flat"], flat.mesh_dim_names[0], "flattened names", shape, rank, key)
    same(ours["flat_ranks"], flat.mesh.tolist(), "flattened meshes", shape, rank, key)
    lists = group_lists(ours["flat"], world)
    for other in order:
        same(answers[other]["slices"][key]["flat_group"], group_with(lists, other), "flattened groups", shape, other, key)


def slice_as(mesh, picked):
    try:
        return mesh[picked]
    except (KeyError, RuntimeError, NotImplementedError):
        return None


def compare_slices(ours, mesh, shape, rank):
    names = NAMES[: len(shape)]
    for n in range(1, len(shape) + 1):
        for picked in itertools.permutations(names, n):
            key, theirs = ",".join(picked), slice_as(mesh, picked)
            if list(picked) == sorted(picked):
                same(ours[key]["shape"], list(theirs.mesh.shape), "slices", shape, rank, key)
                same(ours[key]["ranks"], theirs.mesh.flatten().tolist(), "slices", shape, rank, key)
            elif theirs is None:
                same(key in ours, False, "refused slices", shape, rank, key)
            else:  # newer ones do not mind where dimensions of size 1 come in the order; we do
                longer = [name for name in picked if shape[names.index(name)] > 1]
                same(longer, sorted(longer), "slices that only torch allows", shape, rank, key)
                assert key not in ours


def compare_each(answers, shape, order, world, limit):
    """As every rank, without groups."""
    global played
    step = max(1, len(order) // limit) if limit else 1
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    for rank in range(world):
        played = rank
        table = torch.tensor(order).reshape(shape)
        mesh = device_mesh.DeviceMesh("cpu", table, mesh_dim_names=tuple(NAMES[: len(shape)]), _init_backend=False)
        mesh._dim_group_names = ["unused"] * len(shape)
        mesh._dim_group_infos = [("", [], "unused")] * len(shape)
        theirs = mesh.get_coordinate()
        same(answers[rank]["coordinate"], theirs if theirs is None else list(theirs), "coordinates", shape, rank)
        if theirs is not None and order.index(rank) % step == 0:
            compare_slices(answers[rank]["slices"], mesh, shape, rank)
    played = None
    dist.destroy_process_group()


def compare_world(program, world, how, limit):
    said = subprocess.run([program, str(world), how], stdout=subprocess.PIPE, check=True).stdout
    answers = collections.defaultdict(dict)
    for line in said.splitlines():
        answer = json.loads(line)
        answers[tuple(answer["shape"])][answer["rank"]] = answer
    for number, (shape, of) in enumerate(answers.items()):
        order = of[0]["mesh"]
        counts["shapes"] += 1
        assert len(of) == world
        compare_real(of, shape, order, world, order[number * 7 % len(order)])
        compare_each(of, shape, order, world, limit)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("--least", type=int, default=1)
    options.add_argument("--most", type=int, default=64)
    options.add_argument("--order", choices=("up", "mixed", "odd"), default="up")
    options.add_argument("--ranks", type=int, default=0)
    wanted = options.parse_args()
    warnings.simplefilter("ignore")
    for world in range(wanted.least, wanted.most + 1):
        if wanted.order != "odd" or world % 2 == 0:
            compare_world(wanted.program, world, wanted.order, wanted.ranks)
    print(json.dumps({"torch": torch.__version__, **counts}))


if __name__ == "__main__":
    sys.exit(main())
