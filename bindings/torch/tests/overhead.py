"""What a call of PyTorch costs more than the C call, and what muster_torch.empty gains: overhead.py [--muster build/bin/muster]

Measures in turns:
- all_reduce of 4 B by C programs (muster bench), by PyTorch with muster, and by PyTorch with its backend "fake", which sends nothing;
- all_reduce of tensors of torch.empty and of muster_torch.empty.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZES = [2**power for power in (12, 16, 18, 20, 22, 24, 26)]
MUSTER = pathlib.Path(__file__).resolve().parents[3] / "build/bin/muster"


def seconds_of(call, seconds=0.2):
    """Of one call; as many calls on all ranks."""
    begin = time.perf_counter()
    for _ in range(3):
        call()
    once = torch.tensor([(time.perf_counter() - begin) / 3])
    dist.all_reduce(once, dist.ReduceOp.MAX)
    n = max(3, min(20000, int(seconds / max(once.item(), 1e-6))))
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - begin) / n


def in_turns(calls, turns):
    """The median seconds of each of the calls."""
    times = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            times[name].append(seconds_of(call))
    return {name: statistics.median(each) for name, each in times.items()}


def c_call(options):
    """Microseconds of a C program's all_reduce of 4 B."""
    words = ("bench", "all_reduce", "--backend", "native", "--place", "both", "--bytes", "4:4", "--seconds", "0.2")
    command = [options.muster, *words, "--ranks", str(options.ranks)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    line = next(line for line in out.splitlines() if re.match(r"\s+4\s+1\s", line))
    return float(line.split()[8])  # in place


def run(rank, options, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port), RANK=str(rank), WORLD_SIZE=str(options.ranks))
    from torch.testing._internal.distributed import fake_pg  # noqa: F401  the backend "fake"

    import muster_torch

    torch.set_num_threads(1)
    dist.init_process_group("muster")
    fake = dist.new_group(backend="fake")
    small = torch.ones(1)
    calls = {
        "with muster": lambda: dist.all_reduce(small),
        "with fake": lambda: dist.all_reduce(small, group=fake),
        "with muster, async_op": lambda: dist.all_reduce(small, async_op=True).wait(),
        "with fake, async_op": lambda: dist.all_reduce(small, group=fake, async_op=True).wait(),
    }
    found = {"small": in_turns(calls, options.turns), "large": {}}
    for size in SIZES:
        tensors = {"torch": torch.zeros(size // 4), "muster_torch": muster_torch.empty(size // 4)}
        calls = {name: lambda tensor=tensor: dist.all_reduce(tensor) for name, tensor in tensors.items()}
        found["large"][size] = in_turns(calls, options.turns)
    if rank == 0:
        results.put(found)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--muster", default=MUSTER)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=29513)
    options = parser.parse_args()
    results, c_times, rounds = mp.get_context("spawn").SimpleQueue(), [], []
    for _ in range(options.rounds):
        c_times.append(c_call(options))
        mp.spawn(run, (options, results), options.ranks)
        rounds.append(results.get())
    print(f"torch {torch.__version__}, {options.ranks} ranks; all_reduce of 4 B, us:")
    print(f"{'C call':30}{statistics.median(c_times):8.2f}")
    for name in rounds[0]["small"]:
        print(f"{'PyTorch ' + name:30}{statistics.median(each['small'][name] for each in rounds) * 1e6:8.2f}")
    print(f"{'all_reduce of bytes':>20}{'torch.empty us':>16}{'muster_torch.empty us':>23}{'ratio':>7}")
    for size in SIZES:
        usual, ours = (statistics.median(each["large"][size][name] for each in rounds) * 1e6 for name in ("torch", "muster_torch"))
        print(f"{size:20}{usual:16.1f}{ours:23.1f}{usual / ours:7.2f}")


if __name__ == "__main__":
    main()
