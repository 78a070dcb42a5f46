"""torch_init.py [TIMESTAMPS] - one rank of torch in `muster bench init`.

Reads RANK and WORLD_SIZE and appends "START END" to the file TIMESTAMPS: CLOCK_MONOTONIC in nanoseconds after every rank
has imported torch, and at the end of the first barrier. As under torchrun, PyTorch's store runs before the ranks connect.
Without an argument, prints the version of torch.
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


def main(timestamps):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    ready, port = timestamps + ".ready", timestamps + ".port"
    if rank == 0:
        agent = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        append(port, f"{agent.port}")
    append(ready, "x")
    while os.stat(ready).st_size < size:
        time.sleep(PAUSE)
    with open(port, encoding="ascii") as file:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=file.read(), TORCHELASTIC_USE_AGENT_STORE="True")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    start = time.monotonic_ns()
    dist.init_process_group("gloo")
    dist.barrier()
    append(timestamps, f"{start} {time.monotonic_ns()}\n")
    dist.barrier()  # rank 0 must not close the store before all ranks are done
    dist.destroy_process_group()


if len(sys.argv) > 1:
    main(sys.argv[1])
else:
    assert dist.is_available(), "torch was built without torch.distributed"
    print(torch.__version__)
