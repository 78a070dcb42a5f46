"""A Python rank in a process group with C ranks (tests/interop/torch_rank.c). Writes "right"."""

import muster_torch  # noqa: F401
import torch
import torch.distributed as dist

dist.init_process_group("muster")
rank, size = dist.get_rank(), dist.get_world_size()
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
assert total.item() == size * (size + 1) / 2, total
weights = torch.arange(1000.0) if rank == size - 1 else torch.zeros(1000)
dist.broadcast(weights, size - 1)
assert torch.equal(weights, torch.arange(1000.0))
activation = torch.zeros(8, dtype=torch.float64)
if rank > 0:
    dist.recv(activation, rank - 1)
assert activation[7].item() == rank, activation
if rank < size - 1:
    dist.send(activation + 1, rank + 1)
dist.barrier()
dist.destroy_process_group()
print("right")
