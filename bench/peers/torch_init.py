"""torch_init.py [MARKS] - one rank of the torch side of `muster bench init`.

Reads RANK and WORLD_SIZE and appends "START END" to the file MARKS: CLOCK_MONOTONIC in nanoseconds when every rank
had imported torch, and when the first barrier was over. As under torchrun, PyTorch's own store is there before the
ranks look for it. Without an argument, prints torch's version.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

PAUSE = 0.005


def append(path, text):
    with open(path, "a", encoding="ascii") as file:
        file.write(text)


def main(marks):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    here, port = marks + ".here", marks + ".port"
    if rank == 0:
        agent = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        append(port, f"{agent.port}")
    append(here, "x")
    while os.stat(here).st_size < size:
        time.sleep(PAUSE)
    with open(port, encoding="ascii") as file:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=file.read(), TORCHELASTIC_USE_AGENT_STORE="True")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    start = time.monotonic_ns()
    dist.init_process_group("gloo")
    dist.barrier()
    append(marks, f"{start} {time.monotonic_ns()}\n")
    dist.barrier()  # rank 0 may take the store away only when nobody needs it any more
    dist.destroy_process_group()


if len(sys.argv) > 1:
    main(sys.argv[1])
else:
    assert dist.is_available(), "torch was built without torch.distributed"
    print(torch.__version__)
