"""Times training steps with muster and with gloo: steps.py [--ranks 2] [--cores 0,1] [CASE…]

Both backends run in the same processes, in turns, each with a copy of the model. Prints the median time of a step with each, gloo's time
divided by muster's, and whether the trained models differ: with more than two ranks the order of additions may differ.
"""

import argparse
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

CASES = {  # kind, width, layers, batch
    "ddp_small": ("ddp", 64, 4, 8),
    "ddp_medium": ("ddp", 256, 8, 16),
    "ddp_large": ("ddp", 1024, 6, 16),
    "fsdp2_small": ("fsdp2", 64, 4, 8),
    "fsdp2_medium": ("fsdp2", 256, 8, 16),
    "fsdp2_large": ("fsdp2", 1024, 6, 16),
}


class Training:
    def __init__(self, kind, width, layers, batch, group):
        torch.manual_seed(4)
        parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
        self.model = {"ddp": self.ddp, "fsdp2": self.fsdp2}[kind](nn.Sequential(*parts), group)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01)
        torch.manual_seed(50 + dist.get_rank())
        self.data, self.wanted = torch.randn(2, batch, width)

    @staticmethod
    def ddp(model, group):
        return nn.parallel.DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True, bucket_cap_mb=4)

    @staticmethod
    def fsdp2(model, group):
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        mesh = DeviceMesh.from_group(group, "cpu")
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    def step(self):
        nn.functional.mse_loss(self.model(self.data), self.wanted).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self):
        return [getattr(weight, "full_tensor", lambda weight=weight: weight)().detach() for weight in self.model.parameters()]


def timed(training, steps):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(steps):
        training.step()
    return (time.perf_counter() - begin) / steps


def compare(name, groups, options):
    trainings = {backend: Training(*CASES[name], group) for backend, group in groups.items()}
    slowest = torch.tensor([max(timed(training, 1) + 0 * timed(training, 1) for training in trainings.values())])
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    steps = max(2, int(options.seconds / slowest.item()))
    times = {backend: [] for backend in groups}
    for _ in range(options.turns):
        for backend, training in trainings.items():
            times[backend].append(timed(training, steps))
    same = all(map(torch.equal, *(training.weights() for training in trainings.values())))
    return {backend: statistics.median(each) for backend, each in times.items()}, same


def run(rank, options):
    import muster_torch  # noqa: F401

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port), RANK=str(rank), WORLD_SIZE=str(options.ranks))
    if options.hosts > 1:
        os.environ["MUSTER_FORCE_HOST"] = f"steps-{rank * options.hosts // options.ranks}"
    if options.cores:
        os.sched_setaffinity(0, options.cores)
    torch.set_num_threads(1)
    dist.init_process_group("muster")
    groups = {backend: dist.new_group(backend=backend) for backend in ("muster", "gloo")}
    ratios = []
    if rank == 0:
        print(f"torch {torch.__version__}, {options.ranks} ranks, {len(os.sched_getaffinity(0))} cores")
        print(f"{'case':14}{'gloo us':>10}{'muster us':>11}{'ratio':>7}", flush=True)
    for name in options.cases or CASES:
        medians, same = compare(name, groups, options)
        ratios.append(medians["gloo"] / medians["muster"])
        if rank == 0:
            text = "" if same else "  results differ"
            print(f"{name:14}{medians['gloo'] * 1e6:10.0f}{medians['muster'] * 1e6:11.0f}{ratios[-1]:7.2f}{text}", flush=True)
    if rank == 0:
        print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"default: {' '.join(CASES)}")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=1, help="divide the ranks among simulated hosts, between which muster uses TCP, too")
    parser.add_argument("--cores", type=lambda text: set(map(int, text.split(","))), help="cores that all ranks share, such as 0,1")
    parser.add_argument("--turns", type=int, default=7, help="of each backend; default 7")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn; default 0.5")
    parser.add_argument("--port", type=int, default=29512)
    options = parser.parse_args()
    if unknown := set(options.cases) - set(CASES):
        sys.exit(f"unknown cases: {' '.join(unknown)}; known: {' '.join(CASES)}")
    mp.spawn(run, (options,), options.ranks)


if __name__ == "__main__":
    main()
