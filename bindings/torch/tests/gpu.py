"""Tensors on a GPU: values of all operations, the order of streams and failures, with several ranks on one GPU.

  gpu.py [--ranks 2,4] [CASE…]   starts the ranks of each case (default: all); exits with 77 if there is no GPU

NCCL takes ranks that share a GPU for hosts (MUSTER_NCCL_SHARE_GPU), and they communicate over sockets.
"""

import argparse
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist

HERE = pathlib.Path(__file__).resolve().parent
VALUES = (
    "all_reduce", "averages", "reduce", "broadcast", "all_gather", "gather_and_scatter", "reduce_scatter", "all_to_all", "coalesced", "messages",
    "tags", "dropped", "sparse", "objects", "groups", "works", "hooks", "profiled", "parameters", "barriers",
)  # fmt: skip
ORDER = ("late_input", "busy_output", "other_stream", "several_streams", "dropped", "futures", "training", "freed_at_once")
PATIENCE = 150  # seconds for the ranks of one run
N = 4_000_000
LATE = 100_000_000  # cycles: some 50 ms, much longer than a copy of N floats
SHARED = {"MUSTER_NCCL_SHARE_GPU": "1", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}
NO_NCCL = {"MUSTER_NCCL_LIBRARY": "/nowhere/libnccl.so.2"}
REASON = "because nccl cannot be used: "


def full(value, n=N):
    return torch.full((n,), float(value), device="cuda")


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
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                tensor, to, source = full(-1), (rank + 1) % size, (rank - 1) % size
                sent = full(-1)
                torch.cuda._sleep(LATE)
                before = tensor.clone()
                sent += rank + 1
                works = [dist.irecv(tensor, source), dist.isend(sent, to)]
                for work in works:
                    work.wait()
                after = tensor.clone()
            stream.synchronize()
            equal(before, -1, "values before a message")
            equal(after, source, "message")


def other_stream(rank, size):
    """A wait orders the stream on which it is made, not the one of the call."""
    tensor, stream = full(rank + 1), torch.cuda.Stream()
    work = dist.all_reduce(tensor, async_op=True)
    with torch.cuda.stream(stream):
        work.wait()
        twice = tensor * 2
    stream.synchronize()
    equal(twice, size * (size + 1), "other stream")


def several_streams(rank, size):
    """Operations are called on streams that are late in different ways, and waited for in another order; strided, too."""
    streams, tensors, works = [torch.cuda.Stream() for _ in range(4)], [], []
    for i, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            tensor = torch.zeros(2000, 1000, device="cuda").t()[:: i % 2 + 1]
            torch.cuda._sleep(LATE // (i + 1))
            tensor += rank + i
            works.append(dist.all_reduce(tensor, async_op=True))
            tensors.append(tensor)
    for i in (2, 0, 3, 1):
        with torch.cuda.stream(streams[3 - i]):
            works[i].wait()
            twice = tensors[i] * 2
        streams[3 - i].synchronize()
        equal(twice, 2 * (size * (size - 1) // 2 + size * i), f"stream {i}")


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
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).cuda()
    inputs = [torch.randn(8, 64, generator=torch.Generator().manual_seed(r)).cuda() for r in range(size)]
    wanted = [torch.zeros_like(p) for p in model.parameters()]
    for each in inputs:
        for total, part in zip(wanted, torch.autograd.grad(model(each).square().sum(), list(model.parameters()))):
            total += part / size
    copy = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=0.05)
    for _ in range(3):
        copy.zero_grad()
        copy(inputs[rank]).square().sum().backward()
        torch.testing.assert_close([p.grad for p in model.parameters()], wanted)


def freed_at_once(rank, size):
    """A group is destroyed before its operations have been executed; nobody has waited."""
    group = dist.new_group()
    tensor = full(rank)
    torch.cuda._sleep(LATE)
    dist.all_reduce(tensor, group=group)
    dist.destroy_process_group(group)
    equal(tensor, size * (size - 1) // 2, "a destroyed group")


def returns_at_once(rank, size):
    """Only in place: neither a call nor a wait waits for the device."""
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            tensor = full(rank)
            dist.all_reduce(tensor)
            torch.cuda.synchronize()
            torch.cuda._sleep(20 * LATE)
            begin = time.monotonic()
            dist.all_reduce(tensor)
            dist.all_reduce(tensor, async_op=True).wait()
            called = time.monotonic() - begin
            stream.synchronize()
            took = time.monotonic() - begin
            assert called < took / 4, f"the calls took {called:.3f} s of {took:.3f} s"
            equal(tensor, size * size * (size * (size - 1) // 2), "after three reductions")


def messages(rank, size):
    """Messages in place: of all kinds, started in any order, before and after collectives. Tags and any source are refused."""
    to, source = (rank + 1) % size, (rank - 1) % size
    for round in range(3):
        for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64):
            sent = torch.arange(1000, device="cuda").remainder(rank + 2).to(dtype).reshape(10, 100)
            wanted = torch.arange(1000, device="cuda").remainder(source + 2).to(dtype).reshape(10, 100)
            got = [torch.zeros_like(sent) for _ in range(3)]
            works = [dist.isend(sent, to), dist.irecv(got[0], source)]  # the receives would deadlock in one stream
            works += [dist.irecv(got[1].t(), source), dist.isend(sent.t(), to)]
            dist.all_reduce(torch.ones(1, device="cuda"))
            for work in works:
                work.wait()
            ops = [dist.P2POp(dist.isend, sent, to), dist.P2POp(dist.irecv, got[2], source)]
            for work in dist.batch_isend_irecv(ops):
                work.wait()
            for each in got:
                assert torch.equal(each, wanted), (dtype, each, wanted)
    for call, text in ((lambda: dist.send(full(0), to, tag=3), "has no tags"), (lambda: dist.recv(full(0)), "from any source")):
        try:
            call()
        except dist.DistBackendError as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"not refused: {text}")


def staged(rank, size):
    """Collectives whose tensors pass through host memory on all ranks."""
    for n in (1, N):
        tensor = full(rank, n)
        dist.all_reduce(tensor)
        equal(tensor, size * (size - 1) // 2, "staged")
    group = dist.new_group()
    dist.broadcast(tensor := full(rank), 1, group=group)
    equal(tensor, 1, "staged broadcast")


def refused(rank, size):
    """With MUSTER_TORCH_CUDA=nccl all ranks get an error that names the rank."""
    for _ in range(2):
        try:
            dist.all_reduce(full(rank))
        except dist.DistBackendError as error:
            assert "MUSTER_TORCH_CUDA is nccl, but it cannot be used: rank 1: " in str(error), error
            assert NO_NCCL["MUSTER_NCCL_LIBRARY"] in str(error), error
        else:
            raise AssertionError("no error")


def killed(rank, size):
    """A rank dies during an operation on the GPU: the device of the others goes on, and their next call names it."""
    tensor = full(rank)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    if rank == size - 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    torch.cuda.synchronize()
    for call in (lambda: work.wait(timedelta(seconds=30)), lambda: dist.all_reduce(tensor), lambda: dist.all_reduce(torch.ones(1))):
        try:
            call()
        except dist.DistBackendError as error:
            assert f"rank {size - 1} (host" in str(error), error
        else:
            raise AssertionError("no error")
    took = time.monotonic() - begin
    assert took < 15, f"it took {took:.1f} s"
    assert work.is_completed() and not work.is_success()


def late_rank(rank, size):
    """A rank does not call: the others get an error at the deadline, and their device goes on."""
    dist.all_reduce(full(rank))
    torch.cuda.synchronize()
    if rank == 1:
        time.sleep(5)
        return
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=2)
    try:
        dist.group.WORLD.allreduce([full(rank)], options).wait(timedelta(seconds=30))
    except dist.DistBackendError as error:
        assert "rank 1 (host" in str(error), error
    else:
        raise AssertionError("no error")
    torch.cuda.synchronize()


def ended(rank, size):
    """The program ends without destroying the process group."""
    dist.all_reduce(full(rank))
    torch.cuda.synchronize()


def times(rank, size):
    """Microseconds of an all_reduce that is waited for, and of its call; muster and PyTorch's own backends in turns."""
    names = ("nccl",) if "MUSTER_NCCL_SHARE_GPU" in os.environ else ("gloo",)
    dist.all_reduce(torch.ones(1, device="cuda"))  # muster sets NCCL_HOSTID
    groups = {"muster": dist.group.WORLD, **{name: dist.new_group(backend=name) for name in names}}
    for n in (1, 1 << 18, 1 << 24):
        tensor, rounds, took = torch.ones(n, device="cuda"), 20 if n < 1 << 20 else 3, {}
        for turn in range(4):
            for name, group in groups.items():
                dist.barrier()
                for waits in (True, False):
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    for _ in range(rounds):
                        dist.all_reduce(tensor, group=group)
                        if waits:
                            torch.cuda.synchronize()
                    if turn:  # the first one warms up
                        took.setdefault((name, waits), []).append((time.perf_counter() - begin) / rounds * 1e6)
                torch.cuda.synchronize()
        for (name, waits), all in took.items() if rank == 0 else ():
            print(f"TIME {4 * n} B {name} {'done' if waits else 'called'}: {sorted(all)[len(all) // 2]:.1f} us", flush=True)


def run_rank():
    import muster_torch  # noqa: F401

    torch.cuda.set_device(0)
    torch.set_num_threads(1)
    dist.init_process_group("muster", timeout=timedelta(seconds=60))
    for name in sys.argv[1:]:
        globals()[name](dist.get_rank(), dist.get_world_size())
        if name not in ("killed", "late_rank", "ended"):
            dist.barrier()
        print(f"{name}: right", flush=True)
    if sys.argv[-1] not in ("killed", "ended"):
        dist.destroy_process_group()


class Run:
    """The output of one set of ranks."""

    def __init__(self, title, ranks, script, parts, env=None, rank_env=None, dies=None):
        self.right, self.title, begin = True, f"{title}, {ranks} ranks", time.monotonic()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        common = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        common.update(OMP_NUM_THREADS="1", PYTHONFAULTHANDLER="1", DEVICE="cuda", LOCAL_RANK="0", **(env or {}))
        files = [tempfile.TemporaryFile("w+") for _ in range(ranks)]
        command, end = [sys.executable, "-B", str(script), *parts], begin + PATIENCE
        processes = [
            subprocess.Popen(command, env={**common, "RANK": str(r), **(rank_env or {}).get(r, {})}, stdout=file, stderr=subprocess.STDOUT)
            for r, file in enumerate(files)
        ]
        for process in processes:
            try:
                process.wait(max(1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)  # shows where its threads are
                process.wait()
        self.outs = []
        for rank, (process, file) in enumerate(zip(processes, files)):
            file.seek(0)
            self.outs.append(file.read())
            wanted = (-signal.SIGKILL, 0) if rank == dies else (0, len(parts))
            if (process.returncode, self.outs[-1].count(": right")) != wanted:
                self.fail(f"rank {rank}: exit {process.returncode}: {self.outs[-1][-3000:]}")
        print(f"{self.title}: {', '.join(parts)}: {'right' if self.right else 'WRONG'}, {time.monotonic() - begin:.1f} s", flush=True)

    def fail(self, why):
        self.right = False
        print(f"{self.title}: {why}", flush=True)

    def warns(self, *texts):
        """Exactly one rank tells that tensors are staged, with these texts; without texts none does."""
        lines = [line for out in self.outs for line in out.splitlines() if REASON in line]
        found = len(lines) == 1 and all(text in lines[0] for text in texts) if texts else not lines
        if not found:
            self.fail(f"wanted {texts or 'no warning'}, but the warnings are {lines}")
        return self


GPU = HERE / "gpu.py"
NCCL = {**SHARED, "MUSTER_TORCH_CUDA": "nccl"}


def cases(ranks):
    """Names and functions, each of which gives runs."""
    return {
        "stage": lambda: [Run("stage", ranks, script, parts, {"MUSTER_TORCH_CUDA": "stage"}).warns() for script, parts in ((GPU, ORDER), (HERE / "values.py", VALUES))],
        "auto": lambda: [
            Run("auto", ranks, GPU, (*ORDER, "returns_at_once"), SHARED).warns(),
            Run("auto", ranks, HERE / "values.py", VALUES, SHARED).warns(),
        ],
        "nccl": lambda: [Run("nccl", ranks, GPU, ("messages", *ORDER, "returns_at_once", "messages"), NCCL).warns()],
        "refused by NCCL": lambda: [Run("refused by NCCL", ranks, GPU, ("staged",)).warns("Duplicate GPU")] if torch.cuda.nccl.version() < (2, 30) else [],
        "without nccl": lambda: [
            Run("without nccl", ranks, GPU, ("staged", *ORDER), SHARED, {1: NO_NCCL}).warns("rank 1: ", NO_NCCL["MUSTER_NCCL_LIBRARY"]),
            Run("without nccl", ranks, GPU, ("refused",), NCCL, {1: NO_NCCL}).warns(),
        ],
        "failures": lambda: [
            Run("killed", ranks, GPU, ("killed",), SHARED, dies=ranks - 1),
            Run("late", ranks, GPU, ("late_rank",), SHARED),
            Run("ended", ranks, GPU, ("ended",), SHARED),
        ],
    }  # fmt: skip


def compare(ranks):
    """Times of muster's two ways, beside PyTorch's backends."""
    for title, env in (("nccl", NCCL), ("stage", {"MUSTER_TORCH_CUDA": "stage"})):
        run = Run(title, ranks, GPU, ("times",), env)
        print("".join(f"  {line}\n" for line in run.outs[0].splitlines() if line.startswith("TIME")), end="", flush=True)
        yield run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--times", action="store_true", help="compare times instead")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="; ".join(cases(2)))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU")
        sys.exit(77)
    runs = []
    for ranks in options.ranks:
        if options.times:
            runs += compare(ranks)
            continue
        named = cases(ranks)
        for name in options.cases or named:
            runs += named[name]()
    sys.exit(0 if all(run.right for run in runs) else 1)


if __name__ == "__main__":
    run_rank() if "RANK" in os.environ else main()
