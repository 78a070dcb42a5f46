"""One rank of small programs that use PyTorch's frameworks: writes a digest of what each of them computed.

  frameworks.py CASE…   under a launcher that sets RANK and WORLD_SIZE; BACKEND is muster, or gloo to compare

With two ranks the results of all backends are equal to the last digit: a + b is b + a. With more the order of additions may differ.
A case that cannot run writes "CASE: skipped: REASON".
"""

import hashlib
import importlib
import os
import sys
import tempfile
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

BACKEND = os.environ.get("BACKEND", "muster")
STEPS = 4
DEEPSPEED = ("zero", "deepspeed")  # how its cases begin


def digest(tensors):
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
        sha.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()[:16]


def network(width=64):
    """The same weights on all ranks."""
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 8))


def batches():
    """Different data on each rank."""
    numbers = torch.Generator().manual_seed(100 + dist.get_rank())
    for _ in range(STEPS):
        yield torch.randn(16, 32, generator=numbers), torch.randn(16, 8, generator=numbers)


def train(model, optimizer):
    """The losses."""
    losses = []
    for data, wanted in batches():
        loss = nn.functional.mse_loss(model(data), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def train_ddp(hook=None, state=None, bucket_cap_mb=0.01, **options):
    model = nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=bucket_cap_mb, **options)
    if hook:
        model.register_comm_hook(state, hook)
    losses = train(model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9))
    return [*losses, *model.parameters()]


def ddp():
    return train_ddp() + train_ddp(gradient_as_bucket_view=True, static_graph=True)


def ddp_bf16():
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

    return train_ddp(bf16_compress_hook)


def ddp_power_sgd():
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5)
    return train_ddp(powerSGD_hook.powerSGD_hook, state, bucket_cap_mb=25)  # one: its callbacks reduce, in no order among buckets


def sharded():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def fsdp2():
    model = sharded()
    losses = train(model, torch.optim.Adam(model.parameters(), 0.01))
    return [*losses, *(parameter.full_tensor() for parameter in model.parameters())]


def dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(3)
    results = []
    for shape in ((8, 6), (7, 5), (1, 9)):  # also sizes that the ranks do not divide
        whole = torch.randn(shape)
        for first in (Shard(0), Shard(1), Replicate()):
            spread = distribute_tensor(whole, mesh, [first])
            for second in (Shard(0), Shard(1), Replicate()):
                moved = spread.redistribute(mesh, [second])
                assert torch.equal(moved.full_tensor(), whole), (shape, first, second)
                results += [moved.to_local(), moved.full_tensor()]
        part = DTensor.from_local(torch.randn(shape) * (dist.get_rank() + 1), mesh, [Partial()])
        results += [part.redistribute(mesh, [place]).to_local() for place in (Replicate(), Shard(0), Shard(1))]
        average = DTensor.from_local(torch.randn(shape), mesh, [Partial("avg")])
        results.append(average.redistribute(mesh, [Replicate()]).to_local())
    left, right = distribute_tensor(torch.randn(12, 10), mesh, [Shard(1)]), distribute_tensor(torch.randn(10, 6), mesh, [Shard(0)])
    return [*results, (left @ right).full_tensor()]


def pipeline():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank = dist.get_rank()
    if dist.get_world_size() != 2:
        raise unittest.SkipTest("it has two stages")
    layers = network()
    part = layers[:3] if rank == 0 else layers[3:]
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 4, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(part.parameters(), 0.05)
    numbers, results = torch.Generator().manual_seed(9), []
    for _ in range(STEPS):
        data, wanted, losses = torch.randn(16, 32, generator=numbers), torch.randn(16, 8, generator=numbers), []
        results += [schedule.step(data)] if rank == 0 else [schedule.step(target=wanted, losses=losses)]
        results += losses
        optimizer.step()
        optimizer.zero_grad()
    return [result for result in results if result is not None] + list(part.parameters())


def checkpoint():
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model = sharded()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    train(model, optimizer)
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder[0])
    dcp.async_save({"model": weights}, checkpoint_id=folder[0] + "/later").result()
    saved = [parameter.full_tensor() for parameter in model.parameters()]
    for place in ("", "/later"):
        other = sharded()
        new = torch.optim.Adam(other.parameters(), 0.01)
        weights, moments = get_state_dict(other, new)
        state = {"model": weights} if place else {"model": weights, "optimizer": moments}
        dcp.load(state, checkpoint_id=folder[0] + place)
        set_state_dict(other, new, model_state_dict=state["model"], optim_state_dict=state.get("optimizer", moments))
        assert all(torch.equal(a, b.full_tensor()) for a, b in zip(saved, other.parameters()))
    return saved + train(other, new)


def import_deepspeed():
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed

    backend = importlib.import_module("deepspeed.comm.torch")
    backend.build_shm_op = lambda: None  # DeepSpeed would compile its own all_reduce for one host
    return deepspeed


def start():
    """Opens the default process group: DeepSpeed does it if its cases are to run."""
    if any(case.startswith(DEEPSPEED) for case in sys.argv[1:]):
        try:
            import_deepspeed().init_distributed(dist_backend=BACKEND, timeout=timedelta(seconds=60))
            return
        except ImportError:
            pass  # the cases say it
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))


def need_deepspeed():
    try:
        return import_deepspeed()
    except ImportError as error:
        raise unittest.SkipTest(f"no deepspeed: {error}") from None


def zero(stage):
    deepspeed = need_deepspeed()
    config = {
        "train_micro_batch_size_per_gpu": 16, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    }  # fmt: skip
    model = network()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    losses = []
    for data, wanted in batches():
        loss = nn.functional.mse_loss(engine(data), wanted)
        engine.backward(loss)
        engine.step()
        losses.append(loss.detach())
    with deepspeed.zero.GatheredParameters(list(model.parameters()), enabled=stage == 3):
        return losses + [parameter.detach().clone() for parameter in model.parameters()]


def deepspeed_comm():
    comm = need_deepspeed().comm
    rank, size = comm.get_rank(), comm.get_world_size()
    numbers = torch.Generator().manual_seed(rank)

    def some(*shape):
        return torch.randn(shape, generator=numbers)

    results = [some(40), some(41), some(42), some(43)]
    comm.all_reduce(results[0])
    comm.inference_all_reduce(results[1])
    comm.broadcast(results[2], size - 1)
    comm.reduce(results[3], 0)
    if rank > 0:
        results.pop()  # only the root has a result
    gathered, part, exchanged = torch.zeros(size * 8), torch.zeros(8), torch.zeros(size * 4)
    comm.all_gather_into_tensor(gathered, some(8))
    comm.reduce_scatter_tensor(part, some(size * 8))
    comm.all_to_all_single(exchanged, some(size * 4))
    results += [gathered, part, exchanged]
    pair = comm.new_group([0, 1])
    if rank < 2:
        got = torch.zeros(5)
        works = [comm.isend(some(5), 1 - rank, group=pair), comm.irecv(got, 1 - rank, group=pair)]
        for work in works:
            work.wait()
        results.append(got)
    comm.barrier()
    return results


def zero_1():
    return zero(1)


def zero_2():
    return zero(2)


def zero_3():
    return zero(3)


def main():
    if BACKEND == "muster":
        import muster_torch  # noqa: F401
    torch.set_num_threads(1)
    start()
    for case in sys.argv[1:]:
        try:
            result = digest(globals()[case]())
        except unittest.SkipTest as why:
            result = f"skipped: {why}"
        dist.barrier()
        print(f"{case}: {result}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
