"""Compares muster with gloo: python -m muster_torch.bench [--ranks 2] [--most 64M] [OPERATION…]

Both backends run in the same processes, in turns. Prints the median time of each and gloo's time divided by muster's.
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def bytes_of(text):
    return int(text[:-1]) * UNITS[text[-1].upper()] if text[-1].upper() in UNITS else int(text)


def show(size):
    for unit, factor in reversed(UNITS.items()):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}iB"
    return f"{size} B"


def operations(count, size, rank):
    """What each operation does with tensors of count floats in all."""
    whole = torch.ones(max(count, size) // size * size)
    part = torch.ones(whole.numel() // size)
    return {
        "all_reduce": lambda group: dist.all_reduce(whole, group=group),
        "broadcast": lambda group: dist.broadcast(whole, 0, group=group),
        "reduce": lambda group: dist.reduce(whole, 0, group=group),
        "all_gather": lambda group: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda group: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all": lambda group: dist.all_to_all_single(torch.empty_like(whole), whole, group=group),
        "send_recv": lambda group: exchange(whole, rank, size, group),
        "barrier": lambda group: dist.barrier(group=group),
    }


def exchange(tensor, rank, size, group):
    """Even ranks send to the next one, which sends back."""
    if rank ^ 1 >= size:
        return
    (dist.send if rank % 2 == 0 else dist.recv)(tensor, rank ^ 1, group=group)
    (dist.recv if rank % 2 == 0 else dist.send)(tensor, rank ^ 1, group=group)


def measure(call, group, seconds):
    """Seconds of one call: the calls of one turn together take about so long."""
    begin = time.perf_counter()
    call(group)
    once = torch.tensor([time.perf_counter() - begin])
    dist.all_reduce(once, dist.ReduceOp.MAX, group=group)
    n = max(1, min(2000, int(seconds / max(once.item(), 1e-6))))
    dist.barrier(group=group)
    begin = time.perf_counter()
    for _ in range(n):
        call(group)
    return (time.perf_counter() - begin) / n


def run(rank, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port), RANK=str(rank), WORLD_SIZE=str(options.ranks))
    if options.hosts > 1:
        os.environ["MUSTER_FORCE_HOST"] = f"bench-{rank * options.hosts // options.ranks}"
    torch.set_num_threads(1)
    dist.init_process_group("muster")
    groups = {"muster": dist.new_group(backend="muster"), "gloo": dist.new_group(backend="gloo")}
    if rank == 0:
        print(f"{'operation':16}{'size':>10}{'gloo us':>12}{'muster us':>12}{'ratio':>8}", flush=True)
    ratios, size = [], 4
    while size <= options.most:
        for name, call in operations(size // 4, options.ranks, rank).items():
            if (options.operations and name not in options.operations) or (name == "barrier" and size > 4):
                continue
            times = {backend: [] for backend in groups}
            for _ in range(options.turns):
                for backend, group in groups.items():
                    times[backend].append(measure(call, group, options.seconds))
            median = {backend: statistics.median(each) for backend, each in times.items()}
            ratios.append(median["gloo"] / median["muster"])
            if rank == 0:
                print(f"{name:16}{show(size):>10}{median['gloo'] * 1e6:12.1f}{median['muster'] * 1e6:12.1f}{ratios[-1]:8.2f}", flush=True)
        size *= 16
    if rank == 0:
        print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(prog="python -m muster_torch.bench", description=__doc__.splitlines()[0])
    parser.add_argument("operations", nargs="*", help="default: all")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=1, help="divide the ranks among simulated hosts, between which muster uses TCP, too")
    parser.add_argument("--most", type=bytes_of, default=bytes_of("16M"), help="bytes of the largest tensors; default 16M")
    parser.add_argument("--turns", type=int, default=5, help="of each backend; default 5")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a turn; default 0.1")
    parser.add_argument("--port", type=int, default=29511)
    options = parser.parse_args()
    mp.spawn(run, (options,), options.ranks)


if __name__ == "__main__":
    main()
