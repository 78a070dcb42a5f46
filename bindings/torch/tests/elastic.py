"""One rank of a training with checkpoints, which dies once and is restarted by its launcher: writes a digest of the result.

  elastic.py FOLDER [RANK]   in the first attempt this rank kills itself; BACKEND is muster, or gloo to compare

The other ranks write the exception that they get.
"""

import hashlib
import os
import pathlib
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

BACKEND = os.environ.get("BACKEND", "muster")
STEPS, DEATH = 8, 5


def train(model, optimizer, first, checkpoint, victim):
    for step in range(first, STEPS):
        numbers = torch.Generator().manual_seed(step * 100 + dist.get_rank())
        data, wanted = torch.randn(16, 8, generator=numbers), torch.randn(16, 2, generator=numbers)
        loss = nn.functional.mse_loss(model(data), wanted)
        if step == DEATH and dist.get_rank() == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            new = checkpoint.with_suffix(".new")
            torch.save({"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, new)
            new.replace(checkpoint)


def main():
    if BACKEND == "muster":
        import muster_torch  # noqa: F401
    checkpoint = pathlib.Path(sys.argv[1]) / "checkpoint"
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    victim = int(sys.argv[2]) if len(sys.argv) > 2 and attempt == 0 else None
    torch.set_num_threads(1)
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)), bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    saved = torch.load(checkpoint) if checkpoint.exists() else {"step": 0}
    if saved["step"]:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    dist.barrier()
    try:
        train(model, optimizer, saved["step"], checkpoint, victim)
    except RuntimeError as error:
        print(f"attempt {attempt}: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
        raise
    sha = hashlib.sha256(b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters()))
    print(f"attempt {attempt}: steps {saved['step']} to {STEPS}: {sha.hexdigest()[:16]}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
