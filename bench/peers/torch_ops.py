"""torch_ops.py OPERATION DTYPE SIZES COVER SECONDS BIND PLACE RESULTS - one rank of torch's gloo in `muster bench`.

Reads RANK and WORLD_SIZE and measures like loop.h, which describes the arguments; loop_data.h describes the contents of the
buffers. all_reduce and reduce of torch work in place, so their buffers hold zeros while they are timed. Without an argument,
prints the version of torch.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

PAUSE = 0.005
WARM_UP_MOST = 0.25
PRIME = 61
POISON = -1
SETS_MOST, BATCHES_MOST, BATCHES_LEAST = 256, 201, 3
SINGLES_LEAST, SINGLES_MOST = 100, 2000
IN_PLACE = ("all_reduce", "reduce", "broadcast")
DTYPES = {  # the type and the largest exact integer
    "f64": (torch.float64, 1 << 20),
    "f32": (torch.float32, 1 << 20),
    "f16": (torch.float16, 2048),
    "bf16": (torch.bfloat16, 256),
    "i8": (torch.int8, 127),
    "i32": (torch.int32, 1 << 20),
    "i64": (torch.int64, 1 << 20),
}


def append(path, text):
    with open(path, "a", encoding="utf-8") as file:
        file.write(text + "\n")


def clamp(x, least, most):
    return max(least, min(most, x))


def percentile(samples, percent):
    return sorted(samples)[(len(samples) * percent + 99) // 100 - 1]


def max_over_ranks(seconds):
    most = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return most.item()


def rendezvous(results, rank, size):
    """Rank 0 hosts PyTorch's store; the others read its port from a file next to the results."""
    port = results + ".port"
    if rank == 0:
        agent = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        append(port + ".new", f"{agent.port}")
        os.rename(port + ".new", port)
    while not os.path.exists(port):
        time.sleep(PAUSE)
    with open(port, encoding="ascii") as file:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=file.read().strip(), TORCHELASTIC_USE_AGENT_STORE="True")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo")
    return agent if rank == 0 else None


def warm_up(seconds):
    """Passes barriers until the scheduler has spread the ranks over the processors."""
    start, spent = time.perf_counter(), 0.0
    while spent < seconds:
        dist.barrier()
        spent = max_over_ranks(time.perf_counter() - start)


class Measurement:
    def __init__(self, op, dtype, size_bytes, cover, budget):
        self.op, self.budget = op, budget
        self.dtype, exact = DTYPES[dtype]
        element = torch.tensor([], dtype=self.dtype).element_size()
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.reduces = op in ("all_reduce", "reduce_scatter", "reduce")
        self.in_place = op in ("all_reduce", "reduce")  # torch has no other form
        self.period = min(PRIME, (exact // self.size if self.reduces else exact) + 1)
        self.count = size_bytes // element
        self.bytes = self.count * element
        self.block = self.count // self.size
        n_in = {"all_gather": self.block, "gather": self.block, "broadcast": 0}.get(op, self.count)
        n_out = self.block if op in ("reduce_scatter", "scatter") else self.count
        sets = 1
        if cover > 0 and n_in + n_out > 0:
            sets = int(clamp(cover // (element * (n_in + n_out)) + 1, 2, SETS_MOST))
        self.ins = [self.value(self.rank, n_in) for _ in range(sets)]
        self.outs = [torch.full((n_out,), 0 if self.in_place else POISON, dtype=self.dtype) for _ in range(sets)]
        self.set = self.root = self.token = self.wrong = 0
        self.first, self.ends = "", {}
        self.call = getattr(self, op)

    def value(self, rank, count, start=0):
        return (torch.arange(rank + start, rank + start + count) % self.period).to(self.dtype)

    def all_reduce(self, out, _in, _root):
        dist.all_reduce(out)

    def reduce(self, out, _in, root):
        dist.reduce(out, root)

    def all_gather(self, out, in_, _root):
        try:
            dist.all_gather_into_tensor(out, in_)
        except RuntimeError as error:
            if "support" not in str(error):
                raise
            self.call = self.all_gather_list  # gloo before torch 2
            self.call(out, in_, _root)

    def all_gather_list(self, out, in_, _root):
        dist.all_gather(list(out.split(self.block)), in_)

    def reduce_scatter(self, out, in_, _root):
        dist.reduce_scatter_tensor(out, in_)

    def gather(self, out, in_, root):
        dist.gather(in_, list(out.split(self.block)) if root == self.rank else None, root)

    def scatter(self, out, in_, root):
        dist.scatter(out, list(in_.split(self.block)) if root == self.rank else None, root)

    def broadcast(self, out, _in, root):
        dist.broadcast(out, root)

    def all_to_all(self, out, in_, _root):
        dist.all_to_all_single(out, in_)

    def send_recv(self, out, in_, _root):
        peer = self.rank ^ 1
        if peer >= self.size:
            return
        if self.rank & 1 == 0:
            dist.send(in_, peer)
        dist.recv(out, peer)
        if self.rank & 1:
            dist.send(in_, peer)

    def barrier(self, _out, _in, _root):
        dist.barrier()

    def step(self):
        self.call(self.outs[self.set], self.ins[self.set], self.root)
        self.set = (self.set + 1) % len(self.outs)
        self.root = (self.root + 1) % self.size

    def receives(self, root):
        if self.op in ("reduce", "gather"):
            return root == self.rank
        return self.op != "send_recv" or self.rank ^ 1 < self.size

    def expected(self, root):
        n, block, mine = self.size, self.block, self.rank * self.block
        if self.reduces:
            start, count = (mine, block) if self.op == "reduce_scatter" else (0, self.count)
            index = torch.arange(start, start + count)
            return sum(((index + r) % self.period for r in range(n)), torch.zeros_like(index)).to(self.dtype)
        if self.op in ("all_gather", "gather"):
            return torch.cat([self.value(r, block) for r in range(n)])
        if self.op == "all_to_all":
            return torch.cat([self.value(r, block, mine) for r in range(n)])
        if self.op == "scatter":
            return self.value(root, block, mine)
        return self.value(self.rank ^ 1 if self.op == "send_recv" else root, self.count)

    def record_wrong(self, count, i, got, expected):
        if self.wrong == 0 and count > 0:
            self.first = f"element {i} is {got:g}, not {expected:g}"
        self.wrong += count

    def check_all(self):
        out, root = self.outs[self.set], self.root
        if self.in_place or self.op == "broadcast":
            out.copy_(self.value(self.rank, len(out)))
        else:
            out.fill_(POISON)
        self.step()
        if self.receives(root) and len(out) > 0:
            expected = self.expected(root)
            differ = (out != expected).nonzero()
            i = int(differ[0]) if len(differ) else 0
            self.record_wrong(len(differ), i, float(out[i]), float(expected[i]))
        if self.in_place:
            out.zero_()

    def poison_ends(self, calls):
        """Overwrites the ends of the output of the last of the next calls; returns that output and the root of that call."""
        out = self.outs[(self.set + calls - 1) % len(self.outs)]
        last = (self.root + calls - 1) % self.size
        if self.count > 0 and not self.in_place:
            self.token += 1
            first = (self.root + (calls - 1) % len(self.outs)) % self.size
            sends = self.op == "broadcast" and first == self.rank
            out[0] = out[-1] = self.token % self.period if sends else POISON
        return out, last

    def check_ends(self, out, root):
        if self.count == 0 or not self.receives(root):
            return
        if self.in_place:
            ends = (0, 0)
        elif self.op == "broadcast":
            ends = (self.token % self.period,) * 2
        else:
            if root not in self.ends:
                expected = self.expected(root)
                self.ends[root] = (float(expected[0]), float(expected[-1]))
            ends = self.ends[root]
        for i, end in zip((0, len(out) - 1), ends):
            self.record_wrong(float(out[i]) != end, i, float(out[i]), end)

    def batch(self, calls):
        out, root = self.poison_ends(calls)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            self.step()
        spent = max_over_ranks(time.perf_counter() - start)
        self.check_ends(out, root)
        return spent / calls

    def singles(self, each):
        """The 99th percentile of single calls, on the rank where it is longest."""
        samples = []
        dist.barrier()
        before = time.perf_counter()
        for _ in range(int(clamp(self.budget / 4 / each, SINGLES_LEAST, SINGLES_MOST))):
            self.step()
            now = time.perf_counter()
            samples.append(now - before)
            before = now
        return max_over_ranks(percentile(samples, 99))

    def measure(self):
        """The line for the results: bytes, and nanoseconds of the median and of the 99th percentile."""
        self.check_all()
        self.check_all()
        each = self.batch(1)
        each = self.batch(int(clamp(self.budget / 5 / each, 1, 500)))
        calls = int(clamp(self.budget / 50 / each, 1, 2000))
        if calls > 1:
            calls = (calls + self.size - 1) // self.size * self.size
        samples, spent = [], 0.0
        while len(samples) < BATCHES_MOST and (len(samples) < BATCHES_LEAST or spent < self.budget):
            samples.append(self.batch(calls))
            spent += samples[-1] * calls
        median = percentile(samples, 50)
        p99 = max(median, self.singles(median) if calls > 1 else percentile(samples, 99))
        self.check_all()
        scale = 0.5e9 if self.op == "send_recv" else 1e9
        return f"{self.bytes} {median * scale:.1f} {p99 * scale:.1f}"


def run(op, dtype, sizes, cover, budget, place, results):
    if place == "1" and op not in IN_PLACE:
        raise ValueError(f"torch does not support {op} in place")
    if dtype not in DTYPES:
        raise ValueError(f"torch's gloo does not support {dtype}")
    warm_up(clamp(3 * budget, 0, WARM_UP_MOST))
    for size_bytes in map(int, sizes.split(",")):
        measurement = Measurement(op, dtype, size_bytes, cover, budget)
        line = measurement.measure()
        if measurement.rank == 0:
            append(results, line)
        if measurement.wrong > 0:
            where = f"rank {measurement.rank} of {measurement.size}"
            append(results, f"wrong {measurement.bytes} {measurement.wrong} {where}: {measurement.first}")


def main(op, dtype, sizes, cover, budget, bind, place, results):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    if bind == "1":
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[rank % len(allowed)]})
    store = rendezvous(results, rank, size)
    try:
        run(op, dtype, sizes, int(cover), float(budget), place, results)
    except (RuntimeError, ValueError, NotImplementedError, AttributeError) as error:
        reason = str(error).splitlines()[0][:160]
        unsupported = "support" in reason or "Invalid scalar type" in reason
        append(results, f"unsupported {reason}" if unsupported else f"failed {reason}")
        sys.exit(1)
    dist.barrier()  # rank 0 must not close the store before all ranks are done
    dist.destroy_process_group()
    del store


if len(sys.argv) > 8:
    main(*sys.argv[1:9])
else:
    assert dist.is_available(), "torch was built without torch.distributed"
    print(torch.__version__)
