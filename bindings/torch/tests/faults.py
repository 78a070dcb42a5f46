"""One rank of a world of three in which something fails: writes the exception and the seconds until it came.

  faults.py CASE   under a launcher that sets RANK and WORLD_SIZE
"""

import os
import signal
import sys
import time
from datetime import timedelta

import muster_torch  # noqa: F401
import torch
import torch.distributed as dist

ONES = torch.ones(4)


def die():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def killed(rank):
    if rank == 1:
        die()
    dist.all_reduce(ONES)


def killed_during_a_work(rank):
    if rank == 1:
        die()
    dist.all_reduce(ONES, async_op=True).wait()


def killed_sender(rank):
    if rank == 1:
        die()
    dist.recv(ONES, 1)


def left_without_destroy(rank):
    if rank == 1:
        sys.exit(0)
    dist.all_reduce(ONES)


def different_sizes(rank):
    dist.all_reduce(torch.ones(4 + rank))


def late_rank(rank):
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank == 1:
        time.sleep(2)
    else:
        dist.all_reduce(ONES, group=group)


def monitored_barrier(rank):
    if rank == 1:
        time.sleep(2)
    else:
        dist.group.WORLD.monitored_barrier(timedelta(seconds=1), wait_all_ranks=True)


def wait_with_a_timeout(rank):
    if rank == 1:
        time.sleep(1.5)
        dist.all_reduce(ONES)
        return
    work = dist.all_reduce(ONES, async_op=True)
    try:
        work.wait(timedelta(milliseconds=300))
    finally:
        work.wait()  # the operation goes on


def aborted(rank):
    if rank == 0:
        time.sleep(0.5)
        dist.group.WORLD._get_backend(torch.device("cpu")).abort()
    dist.all_reduce(ONES)


def destroyed_during_a_call(rank):
    """Another thread waits in a collective that rank 2 does not call."""
    import threading

    found = []

    def call():
        try:
            dist.all_reduce(ONES)
        except dist.DistBackendError as error:
            found.append(error)

    if rank == 2:
        time.sleep(1)
        raise dist.DistBackendError("right")
    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.3)
    dist.destroy_process_group()
    thread.join()
    raise found[0]


def destroyed_with_pending_works(rank):
    group = dist.new_group()
    works = [dist.irecv(torch.zeros(4), (rank + 1) % 3, group=group, tag=tag) for tag in range(5)]
    dist.all_reduce(torch.ones(1000), group=group)
    dist.destroy_process_group(group)
    works[0].wait()


def wrong_arguments(rank):
    """Raises on each rank before anything is sent, so the next call works."""
    for call in (
        lambda: dist.all_gather([torch.zeros(4)], ONES),
        lambda: dist.all_gather_into_tensor(torch.zeros(5), ONES),
        lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4)),
        lambda: dist.all_to_all_single(torch.zeros(3), torch.zeros(6)),
        lambda: dist.all_gather([torch.zeros(9)] * 3, ONES),
        lambda: dist.all_gather([torch.zeros(2)] * 3, ONES),
        lambda: dist.reduce_scatter(torch.zeros(2), [ONES] * 3),
        lambda: dist.group.WORLD.allgather([[torch.zeros(4, dtype=torch.float64)] * 3], [ONES]),
    ):
        try:
            call()
        except dist.DistBackendError:
            raise SystemExit("a wrong argument reached the other ranks") from None
        except (RuntimeError, ValueError):
            continue
        raise SystemExit("a wrong argument was accepted")
    dist.all_reduce(ONES)
    raise dist.DistBackendError(f"right: {ONES[0].item():g}")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("muster", timeout=timedelta(seconds=30))
    dist.barrier()
    begin = time.monotonic()
    try:
        globals()[sys.argv[1]](dist.get_rank())
        print("no exception")
    except dist.DistBackendError as error:
        text = str(error).split("\n")[0]
        print(f"DistBackendError {time.monotonic() - begin:.2f} {text}")


if __name__ == "__main__":
    main()
