"""One rank of the value tests: every operation, type, reduction and layout against results computed locally.

  values.py PART…   under a launcher that sets RANK and WORLD_SIZE; BACKEND is muster, or gloo to compare; DEVICE is cpu, or where the tensors are
"""

import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

BACKEND = os.environ.get("BACKEND", "muster")
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
MOVED = FLOATS + INTEGERS + [torch.int16, torch.bool, torch.complex64, torch.complex128]
OPS = {"SUM": torch.sum, "PRODUCT": torch.prod, "MIN": torch.amin, "MAX": torch.amax}
SHAPES = [(), (0,), (1,), (7,), (3, 5), (1000,), (40, 33)]


def layouts(tensor):
    """Tensors with these values in different memory layouts."""
    yield tensor.clone()
    if tensor.dim() >= 1 and tensor.numel():
        wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype)
        wide[..., ::2] = tensor
        yield wide[..., ::2]
    if tensor.dim() == 2:
        yield tensor.t().contiguous().t()
        padded = torch.zeros(tensor.shape[0] + 2, tensor.shape[1] + 3, dtype=tensor.dtype)
        padded[1:-1, 2:-1] = tensor
        yield padded[1:-1, 2:-1]


def values(rank, shape, dtype, salt=0):
    """Small numbers that differ among ranks; sums and products of a few are exact in all types."""
    n = int(torch.tensor(shape).prod()) if shape else 1
    numbers = (torch.arange(n) * 7 + rank * 3 + salt) % 4 + 1  # of up to four ranks
    if dtype == torch.bool:
        return (numbers % 2 == 0).reshape(shape)
    return numbers.reshape(shape).to(dtype)


class Ranks:
    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def equal(self, got, wanted, *what):
        if got.shape != wanted.shape or not torch.equal(got, wanted):
            raise AssertionError(f"rank {self.rank}: {what}: got {got.flatten()[:8]}, not {wanted.flatten()[:8]}")

    def all(self, shape, dtype, salt=0):
        return [values(r, shape, dtype, salt) for r in range(self.size)]

    def reduced(self, name, parts):
        stacked = torch.stack(parts)
        if name in ("SUM", "PRODUCT"):
            return OPS[name](stacked, 0).to(parts[0].dtype)
        return OPS[name](stacked, 0)

    def each(self, dtypes):
        for dtype in dtypes:
            for shape in SHAPES:
                for layout in layouts(values(self.rank, shape, dtype)):
                    for asynchronous in (False, True):
                        yield dtype, shape, layout.clone(memory_format=torch.preserve_format) if layout.is_contiguous() else layout, asynchronous

    @staticmethod
    def finish(work, asynchronous):
        if asynchronous:
            work.wait()

    def all_reduce(self):
        for name in OPS:
            for dtype, shape, tensor, late in self.each(FLOATS + INTEGERS):
                before = tensor.clone()
                self.finish(dist.all_reduce(tensor, getattr(dist.ReduceOp, name), async_op=late), late)
                self.equal(tensor, self.reduced(name, self.all(shape, dtype)), "all_reduce", name, dtype, shape)
                tensor.copy_(before)
        for name, fold in (("BAND", torch.bitwise_and), ("BOR", torch.bitwise_or), ("BXOR", torch.bitwise_xor)):
            for dtype in INTEGERS:
                tensor, wanted = values(self.rank, (9,), dtype), self.all((9,), dtype)
                dist.all_reduce(tensor, getattr(dist.ReduceOp, name))
                total = wanted[0]
                for part in wanted[1:]:
                    total = fold(total, part)
                self.equal(tensor, total, name, dtype)

    def averages(self):
        """AVG and PREMUL_SUM, which gloo lacks for most calls."""
        for dtype, shape, tensor, late in self.each(FLOATS):
            before = tensor.clone()
            wanted = self.reduced("SUM", self.all(shape, torch.float64)) / self.size
            self.finish(dist.all_reduce(tensor, dist.ReduceOp.AVG, async_op=late), late)
            torch.testing.assert_close(tensor, wanted.to(dtype))
            tensor.copy_(before)
            self.finish(dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5), async_op=late), late)
            self.equal(tensor, (self.reduced("SUM", self.all(shape, torch.float64)) / 2).to(dtype), "PREMUL_SUM", dtype, shape)
            tensor.copy_(before)
            if shape and shape[0]:
                parts = torch.cat([values(self.rank, shape, dtype, r) for r in range(self.size)])
                dist.reduce_scatter_tensor(tensor, parts, dist.ReduceOp.AVG)
                wanted = self.reduced("SUM", self.all(shape, torch.float64, self.rank)) / self.size
                torch.testing.assert_close(tensor, wanted.to(dtype))
                tensor.copy_(before)

    def reduce(self):
        for root in range(self.size):
            for name in OPS:
                for dtype, shape, tensor, late in self.each([torch.float32, torch.int64]):
                    before = tensor.clone()
                    self.finish(dist.reduce(tensor, root, getattr(dist.ReduceOp, name), async_op=late), late)
                    if self.rank == root:
                        self.equal(tensor, self.reduced(name, self.all(shape, dtype)), "reduce", name, dtype, shape)
                    tensor.copy_(before)

    def broadcast(self):
        for root in range(self.size):
            for dtype, shape, tensor, late in self.each(MOVED):
                before = tensor.clone()
                self.finish(dist.broadcast(tensor, root, async_op=late), late)
                self.equal(tensor, values(root, shape, dtype), "broadcast", dtype, shape)
                tensor.copy_(before)

    def all_gather(self):
        for dtype, shape, tensor, late in self.each(MOVED):
            outs = [next(iter(list(layouts(torch.zeros(shape, dtype=dtype)))[-1:])) for _ in range(self.size)]
            self.finish(dist.all_gather(outs, tensor, async_op=late), late)
            for r, out in enumerate(outs):
                self.equal(out, values(r, shape, dtype), "all_gather", dtype, shape)
            if shape and shape[0]:
                out = torch.zeros((shape[0] * self.size, *shape[1:]), dtype=dtype)
                self.finish(dist.all_gather_into_tensor(out, tensor, async_op=late), late)
                self.equal(out, torch.cat(self.all(shape, dtype)), "all_gather_into_tensor", dtype, shape)

    def gather_and_scatter(self):
        for root in range(self.size):
            for dtype, shape, tensor, late in self.each([torch.float32, torch.uint8, torch.bool, torch.complex64]):
                mine = self.rank == root
                outs = [torch.zeros(shape, dtype=dtype) for _ in range(self.size)] if mine else None
                self.finish(dist.gather(tensor, outs, root, async_op=late), late)
                for r in range(self.size if mine else 0):
                    self.equal(outs[r], values(r, shape, dtype), "gather", dtype, shape)
                parts = [values(r, shape, dtype, 5) for r in range(self.size)] if mine else None
                self.finish(dist.scatter(tensor, parts, root, async_op=late), late)
                self.equal(tensor, values(self.rank, shape, dtype, 5), "scatter", dtype, shape)
                tensor.copy_(values(self.rank, shape, dtype))

    def reduce_scatter(self):
        for name in OPS:
            for dtype, shape, tensor, late in self.each([torch.float32, torch.bfloat16, torch.int64]):
                ins = [values(self.rank, shape, dtype, r) for r in range(self.size)]
                wanted = self.reduced(name, self.all(shape, dtype, self.rank))
                op = getattr(dist.ReduceOp, name)
                self.finish(dist.reduce_scatter(tensor, ins, op, async_op=late), late)
                self.equal(tensor, wanted, "reduce_scatter", name, dtype, shape)
                if shape and shape[0]:
                    tensor.zero_()
                    self.finish(dist.reduce_scatter_tensor(tensor, torch.cat(ins), op, async_op=late), late)
                    self.equal(tensor, wanted, "reduce_scatter_tensor", name, dtype, shape)
                tensor.copy_(values(self.rank, shape, dtype))

    def all_to_all(self):
        for dtype in MOVED:
            for late in (False, True):
                ins = [values(self.rank, (r + 1, 3), dtype, r) for r in range(self.size)]
                outs = [torch.zeros((self.rank + 1, 3), dtype=dtype) for _ in range(self.size)]
                wanted = [values(r, (self.rank + 1, 3), dtype, self.rank) for r in range(self.size)]
                self.finish(dist.all_to_all(outs, ins, async_op=late), late)
                for got, want in zip(outs, wanted):
                    self.equal(got, want, "all_to_all", dtype)
                out = torch.zeros(((self.rank + 1) * self.size, 3), dtype=dtype)
                splits = [self.rank + 1] * self.size, [r + 1 for r in range(self.size)]
                self.finish(dist.all_to_all_single(out, torch.cat(ins), *splits, async_op=late), late)
                self.equal(out, torch.cat(wanted), "all_to_all_single", dtype)
                whole = torch.cat([values(self.rank, (2, 3), dtype, r) for r in range(self.size)])
                out = torch.zeros_like(whole)
                self.finish(dist.all_to_all_single(out, whole, async_op=late), late)
                self.equal(out, torch.cat([values(r, (2, 3), dtype, self.rank) for r in range(self.size)]), "equal", dtype)

    def coalesced(self):
        """Several tensors, also of different types and layouts, in one call."""
        dtypes = [torch.float32, torch.int64, torch.float32, torch.bfloat16]
        for late in (False, True):
            tensors = [list(layouts(values(self.rank, (4, 5 + i), dtype, i)))[i % 3] for i, dtype in enumerate(dtypes)]
            with dist._coalescing_manager(async_ops=late) as manager:
                for tensor in tensors:
                    dist.all_reduce(tensor)
            self.finish(manager, late)
            for i, (tensor, dtype) in enumerate(zip(tensors, dtypes)):
                self.equal(tensor, self.reduced("SUM", self.all((4, 5 + i), dtype, i)), "all_reduce", i)
            outs = [torch.zeros((4 * self.size, 5 + i), dtype=dtype) for i, dtype in enumerate(dtypes)]
            with dist._coalescing_manager(async_ops=late) as manager:
                for i, (out, dtype) in enumerate(zip(outs, dtypes)):
                    dist.all_gather_into_tensor(out, values(self.rank, (4, 5 + i), dtype, i))
            self.finish(manager, late)
            for i, (out, dtype) in enumerate(zip(outs, dtypes)):
                self.equal(out, torch.cat(self.all((4, 5 + i), dtype, i)), "all_gather", i)
            parts = [torch.zeros((4, 5 + i), dtype=dtype) for i, dtype in enumerate(dtypes)]
            with dist._coalescing_manager(async_ops=late) as manager:
                for i, (part, dtype) in enumerate(zip(parts, dtypes)):
                    dist.reduce_scatter_tensor(part, torch.cat([values(self.rank, (4, 5 + i), dtype, r) for r in range(self.size)]))
            self.finish(manager, late)
            for i, (part, dtype) in enumerate(zip(parts, dtypes)):
                self.equal(part, self.reduced("SUM", self.all((4, 5 + i), dtype, self.rank)), "reduce_scatter", i)

    def lists(self):
        """Several tensors of each rank, which count as those of several ranks; PyTorch's functions pass one."""
        group, n = dist.group.WORLD, 3

        def mine(dtype):
            return [list(layouts(values(self.rank, (4, 5), dtype, i)))[i] for i in range(n)]

        for dtype in (torch.float32, torch.int64):
            everything = [self.all((4, 5), dtype, i)[r] for r in range(self.size) for i in range(n)]
            for name in OPS:
                options, tensors, wanted = dist.AllreduceOptions(), mine(dtype), self.reduced(name, everything)
                options.reduceOp = getattr(dist.ReduceOp, name)
                group.allreduce(tensors, options).wait()
                for tensor in tensors:
                    self.equal(tensor, wanted, "all_reduce", name, dtype)
                options, tensors = dist.ReduceOptions(), mine(dtype)
                options.reduceOp, options.rootRank, options.rootTensor = getattr(dist.ReduceOp, name), self.size - 1, 1
                group.reduce(tensors, options).wait()
                if self.rank == self.size - 1:
                    self.equal(tensors[1], wanted, "reduce", name, dtype)
            for i in range(n):
                options, tensors = dist.BroadcastOptions(), mine(dtype)
                options.rootTensor = i
                group.broadcast(tensors, options).wait()
                for tensor in tensors:
                    self.equal(tensor, values(0, (4, 5), dtype, i), "broadcast", dtype)
            outs = [[torch.zeros((4, 5), dtype=dtype) for _ in everything] for _ in range(n)]
            group.allgather(outs, mine(dtype)).wait()
            for out in outs:
                for got, wanted in zip(out, everything):
                    self.equal(got, wanted, "all_gather", dtype)

    def merged(self):
        """A group that is made by ranks that know only a store."""
        store = dist.PrefixStore("merged", dist.distributed_c10d._get_default_store())
        group = dist.group.WORLD.merge_remote_group(store, self.size, timedelta(seconds=60), "merged")
        tensor = torch.tensor([self.rank + 1.0])
        group.allreduce([tensor]).wait()
        assert tensor.item() == self.size * (self.size + 1) // 2 and group.size() == self.size, tensor
        group._enable_collectives_timing()
        group.shutdown()

    def lazy(self):
        """Tensors whose values in memory are not negated or conjugated yet. PyTorch resolves those that are not in lists of lists."""
        n, factor = self.size, self.rank + 1
        for make, wanted in (
            (lambda: torch._neg_view(torch.tensor([1.0, 2.0]) * factor), torch.tensor([-1.0, -2.0])),
            (lambda: (torch.tensor([1 + 2j, 3j]) * factor).conj(), torch.tensor([1 - 2j, -3j])),
        ):
            out, total = torch.zeros_like(wanted), n * (n + 1) // 2
            dist.reduce_scatter(out, [make() for _ in range(n)])
            self.equal(out, wanted * total, "reduce_scatter", wanted.dtype)
            if wanted.is_complex():
                continue  # PyTorch itself refuses them in the other calls
            dist.scatter(out, [make() for _ in range(n)] if self.rank == 0 else None)
            self.equal(out, wanted, "scatter", wanted.dtype)
            outs = [make() for _ in range(n)]
            dist.all_gather(outs, wanted * factor)
            for r, got in enumerate(outs):
                self.equal(got, wanted * (r + 1), "all_gather", wanted.dtype)
            outs = [make() for _ in range(n)] if self.rank == 0 else None
            dist.gather(wanted * factor, outs)
            for r, got in enumerate(outs or []):
                self.equal(got, wanted * (r + 1), "gather", wanted.dtype)

    def messages(self):
        to, source = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for dtype, shape, tensor, _ in self.each(MOVED):
            got = list(layouts(torch.zeros(shape, dtype=dtype)))[-1]
            works = [dist.irecv(got, source, tag=3), dist.isend(tensor, to, tag=3)]
            for work in works:
                work.wait()
            self.equal(got, values(source, shape, dtype), "message", dtype, shape)
        if self.rank == 0:
            seen = set()
            for _ in range(self.size - 1):
                got = torch.zeros(3)
                sender = dist.recv(got)
                self.equal(got, torch.full((3,), float(sender)), "any source")
                seen.add(sender)
            assert seen == set(range(1, self.size)), seen
        else:
            dist.send(torch.full((3,), float(self.rank)), 0)
        dist.barrier()  # rank 0 must not receive the next messages from any source
        ops = [dist.P2POp(dist.isend, torch.full((4,), self.rank), to), dist.P2POp(dist.irecv, out := torch.zeros(4, dtype=torch.int64), source)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        self.equal(out, torch.full((4,), source), "batch")

    def tags(self):
        """Receives match their tag, not the order of the sends."""
        to, source = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        sends = [dist.isend(torch.full((5,), float(tag)), to, tag=tag) for tag in (1, 2, 3)]
        for tag in (3, 1, 2):
            got = torch.zeros(5)
            dist.recv(got, source, tag=tag)
            self.equal(got, torch.full((5,), float(tag)), "tag", tag)
        for work in sends:
            work.wait()

    def dropped(self):
        """Nobody keeps the tensors: their memory must not be used again before the operation is done."""
        to, source = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for i, n in enumerate((100, 10000, 100000, 3000000)):
            for layout in (lambda tensor: tensor, lambda tensor: tensor.reshape(2, -1).t()):
                sends = [dist.isend(layout(torch.full((n,), float(r))), to) for r in range(3)]
                others = [torch.full((n,), -1.0) for _ in range(6)]  # takes memory that was freed
                self.pause(f"dropped/{i}/{layout(others[0]).dim()}")
                for r in range(3):
                    got = torch.zeros(n)
                    dist.recv(got, source)
                    self.equal(got, torch.full((n,), float(r)), "dropped", n)
                for work in sends:
                    work.wait()

    def pause(self, key):
        """Waits for the other ranks without the backend."""
        store = dist.distributed_c10d._get_default_store()
        store.add(key, 1)
        while store.add(key, 0) < self.size:
            time.sleep(0.001)

    def sparse(self):
        """Ranks have different numbers of elements, some at the same place."""
        for _ in range(3):
            places = torch.tensor([[0, self.rank + 1, 0], [1, 2, 2]][: 2])[:, : self.rank % 3 + 1]
            tensor = torch.sparse_coo_tensor(places, torch.ones(places.shape[1]) * (self.rank + 1), (self.size + 2, 4))
            wanted = torch.zeros(self.size + 2, 4)
            for r in range(self.size):
                wanted[0, 1] += r + 1
                if r % 3 + 1 > 1:
                    wanted[r + 1, 2] += r + 1
                if r % 3 + 1 > 2:
                    wanted[0, 2] += r + 1
            dist.all_reduce(tensor)
            self.equal(tensor.to_dense(), wanted, "sparse")

    def objects(self):
        gathered = [None] * self.size
        dist.all_gather_object(gathered, {"rank": self.rank, "text": "x" * (self.rank * 1000)})
        assert [len(g["text"]) for g in gathered] == [r * 1000 for r in range(self.size)]
        listed = [{"a": 1}, "two", 3] if self.rank == 0 else [None] * 3
        dist.broadcast_object_list(listed)
        assert listed == [{"a": 1}, "two", 3]

    def groups(self):
        everyone = list(range(self.size))
        for _ in range(3):
            evens = dist.new_group(everyone[::2])
            whole = dist.new_group(everyone)
            if self.rank % 2 == 0:
                tensor = torch.tensor([self.rank + 1.0])
                dist.all_reduce(tensor, group=evens)
                assert tensor.item() == sum(r + 1 for r in everyone[::2])
            tensor = torch.ones(2)
            dist.all_reduce(tensor, group=whole)
            assert tensor[0].item() == self.size
            if self.rank % 2 == 0:
                dist.destroy_process_group(evens)
            dist.destroy_process_group(whole)

    def split(self):
        """Groups made by split_group, also of a group whose ranks are not those of the world."""
        halves = [list(range(self.size))[::2], list(range(self.size))[1::2]][: min(self.size, 2)]
        try:
            half = dist.split_group(split_ranks=halves)
        except RuntimeError as error:
            if "No device associated" not in str(error):
                raise
            return  # torch 2.11 splits groups of GPUs only
        mine = halves[self.rank % 2]
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor, group=half)
        assert tensor.item() == sum(r + 1 for r in mine), tensor
        assert dist.get_process_group_ranks(half) == mine and half.rank() == mine.index(self.rank)
        last = dist.split_group(half, [[len(mine) - 1]])
        if self.rank == mine[-1]:
            dist.all_reduce(tensor, group=last)
            assert tensor.item() == sum(r + 1 for r in mine), tensor
            dist.destroy_process_group(last)
        again = dist.split_group(split_ranks=halves)
        dist.barrier(group=again)
        dist.destroy_process_group(half)
        dist.barrier(group=again)
        dist.destroy_process_group(again)

    def memory(self):
        """Tensors of muster_torch.empty, which outlive views, forked processes and their group."""
        import muster_torch

        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            for n in (0, 1, 5000, 300000):
                tensor = muster_torch.empty(n, 2, dtype=dtype)
                assert tensor.shape == (n, 2) and tensor.dtype == dtype and not tensor.any()
                tensor += self.rank + 1
                for late in (False, True):
                    before = tensor.clone()
                    self.finish(dist.all_reduce(tensor, async_op=late), late)
                    self.equal(tensor, torch.full((n, 2), self.size * (self.size + 1) // 2, dtype=dtype), "empty", dtype, n)
                    tensor.copy_(before)
        child = os.fork()
        if child == 0:
            del tensor
            os._exit(0)
        os.waitpid(child, 0)
        assert (tensor == self.rank + 1).all()
        view = tensor[1:3].t()
        del tensor
        dist.all_reduce(view)
        self.equal(view, torch.full((2, 2), self.size * (self.size + 1) // 2), "view")
        group = dist.new_group()
        late = muster_torch.empty((4,), group=group)
        dist.destroy_process_group(group)
        late.fill_(1)
        dist.all_reduce(late)
        self.equal(late, torch.full((4,), float(self.size)), "after its group")

    def works(self):
        """Waits of several threads, repeated waits, futures with callbacks that wait, and dropped works."""
        import threading

        for _ in range(50):
            tensor = torch.ones(1000)
            work = dist.all_reduce(tensor, async_op=True)
            threads = [threading.Thread(target=work.wait) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            work.wait()
            assert tensor[999].item() == self.size and work.is_completed() and work.is_success()
        first = dist.all_reduce(torch.ones(4), async_op=True)

        def wait_for_another(future):
            second = dist.all_reduce(future.value()[0], async_op=True)
            second.wait()
            return future.value()[0]

        result = first.get_future().then(wait_for_another).wait()
        self.equal(result, torch.full((4,), float(self.size**2)), "callback")
        for _ in range(20):
            dist.all_reduce(torch.ones(100000), async_op=True)  # nobody keeps the tensor or the work
        tensor = torch.ones(5)
        dist.all_reduce(tensor)
        self.equal(tensor, torch.full((5,), float(self.size)), "after dropped works")

    def hooks(self):
        """A hook sees the operations that have succeeded; waiting for the pending ones waits for it."""
        from torch._C._distributed_c10d import OpType

        group, seen = dist.new_group(), []
        group._register_on_completion_hook(lambda info: seen.append((info.op_type, info.seq)))
        tensor = torch.ones(1000)
        for i in range(6):
            dist.all_reduce(tensor, group=group, async_op=i % 2 == 1)
        dist.broadcast(tensor, 0, group=group, async_op=True)
        group._wait_for_pending_works()
        seen.sort(key=lambda info: info[1])  # two threads complete operations
        assert seen == [(OpType.ALLREDUCE, i + 1) for i in range(6)] + [(OpType.BROADCAST, 7)], seen
        dist.destroy_process_group(group)

    def profiled(self):
        """Operations are events of a profiler, with the shapes of their inputs."""
        with torch.autograd.profiler.profile(record_shapes=True) as profile:
            dist.all_reduce(torch.ones(3, 4))
            dist.broadcast(torch.ones(5), 0, async_op=True).wait()
            dist.all_gather([torch.ones(2) for _ in range(self.size)], torch.ones(2))
        seen = {event.name: event.input_shapes for event in profile.function_events if event.name.startswith("muster:")}
        assert seen == {"muster:all_reduce": [[3, 4]], "muster:broadcast": [[5]], "muster:all_gather": [[2]]}, seen

    def parameters(self):
        """Tensors that require gradients."""
        for late in (False, True):
            parameter = torch.nn.Parameter(torch.ones(4, 6).t())
            self.finish(dist.all_reduce(parameter, async_op=late), late)
            self.equal(parameter.data, torch.full((6, 4), float(self.size)), "parameter")

            with torch.inference_mode():
                tensor = torch.ones(4, 6).t()
                self.finish(dist.all_reduce(tensor, async_op=late), late)
                self.equal(tensor, torch.full((6, 4), float(self.size)), "inference")

    def barriers(self):
        for _ in range(20):
            dist.barrier()
        dist.barrier(async_op=True).wait()


def main():
    if BACKEND == "muster":
        import muster_torch  # noqa: F401
    torch.set_num_threads(1)
    torch.set_default_device(os.environ.get("DEVICE", "cpu"))
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))
    ranks = Ranks()
    for part in sys.argv[1:]:
        getattr(ranks, part)()
        dist.barrier()
        print(f"{part}: right", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
