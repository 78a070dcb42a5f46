"""torch_coll.py OPERATION SIZES COVER SECONDS BIND RESULTS - one rank of torch's gloo in `muster bench coll`.

Reads RANK and WORLD_SIZE and measures as coll_loop.h does, which says what the words mean. torch's all_reduce works in
place, so its buffer holds zeros while it is timed. Without an argument, prints torch's version.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

PAUSE = 0.005
SETTLE_MOST = 0.25
PRIME = 61
SETS_MOST, BATCHES_MOST, BATCHES_LEAST = 256, 201, 3


class Wrong(Exception):
    pass


def say(path, text):
    with open(path, "a", encoding="utf-8") as file:
        file.write(text + "\n")


def clamp(x, least, most):
    return max(least, min(most, x))


def meet(results, rank, size):
    """Rank 0 hosts PyTorch's store; the others learn its port from a file beside the results."""
    port = results + ".port"
    if rank == 0:
        agent = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        say(port + ".new", f"{agent.port}")
        os.rename(port + ".new", port)
    while not os.path.exists(port):
        time.sleep(PAUSE)
    with open(port, encoding="ascii") as file:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=file.read().strip(), TORCHELASTIC_USE_AGENT_STORE="True")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo")
    return agent if rank == 0 else None


def settle(seconds):
    """Passes barriers until the system has spread the ranks over the processors."""
    start, spent = time.perf_counter(), torch.zeros(1, dtype=torch.float64)
    while spent.item() < seconds:
        dist.barrier()
        spent[0] = time.perf_counter() - start
        dist.all_reduce(spent, dist.ReduceOp.MAX)


class Measurement:
    def __init__(self, op, size_bytes, cover, budget):
        self.op, self.budget = op, budget
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.count = size_bytes // 4
        self.block = self.count // self.size
        n_in = {"all_gather": self.block, "broadcast": 0}.get(op, self.count)
        n_out = self.block if op == "reduce_scatter" else self.count
        sets = 1
        if cover > 0 and n_in + n_out > 0:
            sets = int(clamp(cover // (4 * (n_in + n_out)) + 1, 2, SETS_MOST))
        self.ins = [self.value(self.rank, n_in) for _ in range(sets)]
        self.outs = [torch.full((n_out,), 0.0 if op == "all_reduce" else -1.0) for _ in range(sets)]
        self.index = torch.arange(n_out)
        self.set = self.root = self.token = 0
        self.call = getattr(self, op)

    @staticmethod
    def value(rank, count, start=0):
        return (torch.arange(start, start + count) % PRIME + (rank + 1)).float()

    def all_reduce(self, out, _in, _root):
        dist.all_reduce(out)

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

    def expected(self, root):
        n, block, mine = self.size, self.block, self.rank * self.block
        if self.op in ("all_reduce", "reduce_scatter"):
            start = mine if self.op == "reduce_scatter" else 0
            return ((self.index + start) % PRIME * n + n * (n + 1) // 2).float()
        if self.op == "all_gather":
            return torch.cat([self.value(r, block) for r in range(n)])
        if self.op == "all_to_all":
            return torch.cat([self.value(r, block, mine) for r in range(n)])
        peer = self.rank ^ 1
        if self.op == "send_recv":
            return self.value(peer, self.count) if peer < n else torch.full((self.count,), -1.0)
        return self.value(root, self.count)

    def check_all(self):
        out, root = self.outs[self.set], self.root
        if self.op in ("all_reduce", "broadcast"):
            out.copy_(self.value(self.rank, len(out)))
        else:
            out.fill_(-1)
        self.step()
        expected = self.expected(root)
        if not torch.equal(out, expected):
            i = int((out != expected).nonzero()[0])
            self.wrong(i, float(out[i]), float(expected[i]))
        if self.op == "all_reduce":
            out.zero_()

    def wrong(self, i, got, expected):
        raise Wrong(f"rank {self.rank} of {self.size}: {self.count * 4} bytes: element {i} is {got:g}, not {expected:g}")

    def spoil(self, calls):
        out = self.outs[(self.set + calls - 1) % len(self.outs)]
        if self.count == 0 or self.op == "all_reduce":
            return out
        self.token += 1
        first = (self.root + (calls - 1) % len(self.outs)) % self.size
        out[0] = out[-1] = self.token if self.op == "broadcast" and first == self.rank else -1
        return out

    def check_ends(self, out, ends):
        if self.count == 0:
            return
        if self.op == "broadcast":
            ends = (self.token, self.token)
        for i in (0, len(out) - 1):
            if float(out[i]) != ends[i > 0]:
                self.wrong(i, float(out[i]), ends[i > 0])

    def batch(self, calls, ends):
        out = self.spoil(calls)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            self.step()
        spent = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
        dist.all_reduce(spent, dist.ReduceOp.MAX)
        self.check_ends(out, ends)
        return spent.item() / calls

    def ends(self):
        if self.op == "all_reduce":
            return (0.0, 0.0)
        expected = self.expected(0)
        return (float(expected[0]), float(expected[-1])) if len(expected) else None

    def measure(self):
        """The line for the results: bytes and nanoseconds."""
        self.check_all()
        if self.op == "broadcast":
            self.check_all()
        ends = self.ends()
        each = self.batch(1, ends)
        each = self.batch(int(clamp(self.budget / 5 / each, 1, 500)), ends)
        calls = int(clamp(self.budget / 50 / each, 1, 2000))
        if calls > 1:
            calls = (calls + self.size - 1) // self.size * self.size
        samples, spent = [], 0.0
        while len(samples) < BATCHES_MOST and (len(samples) < BATCHES_LEAST or spent < self.budget):
            samples.append(self.batch(calls, ends))
            spent += samples[-1] * calls
        self.check_all()
        samples.sort()
        scale = 0.5e9 if self.op == "send_recv" else 1e9
        return f"{self.count * 4} {samples[len(samples) // 2] * scale:.1f}"


def main(op, sizes, cover, budget, bind, results):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    if bind == "1":
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[rank % len(allowed)]})
    store = meet(results, rank, size)
    try:
        settle(clamp(3 * float(budget), 0, SETTLE_MOST))
        for size_bytes in map(int, sizes.split(",")):
            line = Measurement(op, size_bytes, int(cover), float(budget)).measure()
            if rank == 0:
                say(results, line)
    except Wrong as error:
        say(results, f"wrong {error}")
        sys.exit(3)
    except (RuntimeError, ValueError, NotImplementedError, AttributeError) as error:
        reason = str(error).splitlines()[0][:160]
        say(results, f"unsupported {reason}" if "support" in reason else f"failed {reason}")
        sys.exit(1)
    dist.barrier()  # rank 0 may take the store away only when nobody needs it any more
    dist.destroy_process_group()
    del store


if len(sys.argv) > 6:
    main(*sys.argv[1:7])
else:
    assert dist.is_available(), "torch was built without torch.distributed"
    print(torch.__version__)
