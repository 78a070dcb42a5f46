"""Tensors on a GPU: values of all operations and the order of streams, with several ranks on one GPU.

  gpu.py [--ranks 2,4]   starts the ranks; exits with 77 if there is no GPU
"""

import argparse
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist

HERE = pathlib.Path(__file__).resolve().parent
PARTS = (
    "all_reduce", "averages", "reduce", "broadcast", "all_gather", "gather_and_scatter", "reduce_scatter", "all_to_all", "coalesced", "messages",
    "tags", "dropped", "sparse", "objects", "groups", "works", "hooks", "profiled", "parameters", "barriers",
)  # fmt: skip
PATIENCE = 150  # seconds for the ranks of one run
N = 4_000_000
LATE = 100_000_000  # cycles: some 50 ms, much longer than a copy of N floats


def full(value):
    return torch.full((N,), float(value), device="cuda")


def equal(tensor, value, what):
    wrong = int((tensor != value).sum())
    assert wrong == 0, f"{what}: {wrong} of {tensor.numel()} elements are wrong: {tensor[tensor != value][:4]}, not {value}"


def late_input(rank, size):
    """The stream computes the input when the operation is called; what follows a wait sees the result."""
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        for late in (False, True):
            with torch.cuda.stream(stream):
                tensor = full(0)
                torch.cuda._sleep(LATE)
                tensor += rank + 1
                work = dist.all_reduce(tensor, async_op=late)
                if late:
                    work.wait()
                twice = tensor * 2
            stream.synchronize()
            equal(twice, size * (size + 1), "late input")


def busy_output(rank, size):
    """The stream still reads the old values when the operation that writes new ones is called."""
    for root in range(size):
        with torch.cuda.stream(torch.cuda.Stream()):
            tensor = full(rank)
            torch.cuda._sleep(LATE)
            before = tensor.clone()
            dist.broadcast(tensor, root, async_op=True).wait()
            after = tensor.clone()
        torch.cuda.synchronize()
        equal(before, rank, "values before a broadcast")
        equal(after, root, "values after it")
        tensor, to, source = full(-1), (rank + 1) % size, (rank - 1) % size
        torch.cuda._sleep(LATE)
        before = tensor.clone()
        works = [dist.irecv(tensor, source), dist.isend(full(rank), to)]
        for work in works:
            work.wait()
        equal(before, -1, "values before a message")
        equal(tensor, source, "message")


def other_stream(rank, size):
    """A wait orders the stream on which it is made, not the one of the call."""
    tensor, stream = full(rank + 1), torch.cuda.Stream()
    work = dist.all_reduce(tensor, async_op=True)
    with torch.cuda.stream(stream):
        work.wait()
        twice = tensor * 2
    stream.synchronize()
    equal(twice, size * (size + 1), "other stream")


def dropped(rank, size):
    """Nobody waits or keeps the tensors: their memory must not be used again while it is written."""
    for _ in range(20):
        dist.all_reduce(full(rank), async_op=True)
        others = [full(-1) for _ in range(3)]
    dist.barrier()
    torch.cuda.synchronize()
    for other in others:
        equal(other, -1, "memory of a dropped tensor")


def futures(rank, size):
    """A callback of a future sees the result on its stream, and may wait for another operation."""

    def again(future):
        tensor = future.value()[0] + 1
        dist.all_reduce(tensor, async_op=True).wait()
        return tensor

    result = dist.all_reduce(full(rank), async_op=True).get_future().then(again).wait()
    equal(result, size * (size * (size - 1) // 2 + 1), "future")


def training(rank, size):
    """DistributedDataParallel on the GPU: the gradients are the averages of all ranks'."""
    torch.manual_seed(1)
    model = torch.nn.Linear(64, 64).cuda()
    wanted = torch.zeros_like(model.weight)
    inputs = [torch.randn(8, 64, generator=torch.Generator().manual_seed(r)).cuda() for r in range(size)]
    for each in inputs:
        wanted += torch.autograd.grad(model(each).square().sum(), model.weight)[0] / size
    copy = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    copy(inputs[rank]).square().sum().backward()
    torch.testing.assert_close(model.weight.grad, wanted)


def run_rank():
    import muster_torch  # noqa: F401

    torch.cuda.set_device(0)
    torch.set_num_threads(1)
    dist.init_process_group("muster", timeout=timedelta(seconds=60))
    for part in (late_input, busy_output, other_stream, dropped, futures, training):
        part(dist.get_rank(), dist.get_world_size())
        dist.barrier()
        print(f"{part.__name__}: right", flush=True)
    dist.destroy_process_group()


def start(ranks, *arguments):
    """Runs the ranks and returns whether all succeeded."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    env.update(OMP_NUM_THREADS="1", DEVICE="cuda")
    files = [tempfile.TemporaryFile("w+") for _ in range(ranks)]
    command, end = [sys.executable, "-B", *map(str, arguments)], time.monotonic() + PATIENCE
    processes = [
        subprocess.Popen(command, env={**env, "RANK": str(r), "LOCAL_RANK": "0"}, stdout=file, stderr=subprocess.STDOUT) for r, file in enumerate(files)
    ]
    for process in processes:
        try:
            process.wait(max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for rank, (process, file) in enumerate(zip(processes, files)):
        file.seek(0)
        out = file.read()
        print(f"rank {rank} of {ranks}: exit {process.returncode}, {out.count(': right')} parts right", flush=True)
        if process.returncode:
            print(out[-3000:], flush=True)
    return all(process.returncode == 0 for process in processes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4", type=lambda text: [int(n) for n in text.split(",")])
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU")
        sys.exit(77)
    begin, right = time.monotonic(), True
    for ranks in options.ranks:
        right &= start(ranks, __file__)
        right &= start(ranks, HERE / "values.py", *PARTS)
        print(f"{ranks} ranks: {time.monotonic() - begin:.0f} s", flush=True)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    run_rank() if "RANK" in os.environ else main()
