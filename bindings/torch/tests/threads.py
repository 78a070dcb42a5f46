"""One rank whose Python threads use process groups at the same time.

  threads.py CASE…   under a launcher that sets RANK and WORLD_SIZE; BACKEND is muster, or gloo to compare
"""

import os
import queue
import sys
import threading
from datetime import timedelta

import torch
import torch.distributed as dist

BACKEND = os.environ.get("BACKEND", "muster")
THREADS, TURNS = 4, 60


def run(*jobs):
    """Runs the jobs in threads of their own, and raises the first exception of one."""
    errors = []

    def work(job):
        try:
            job()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def equal(got, wanted, *what):
    if not torch.equal(got, wanted):
        raise AssertionError(f"rank {dist.get_rank()}: {what}: got {got.flatten()[:8]}, not {wanted.flatten()[:8]}")


def numbers(rank, thread, turn):
    """Small numbers of different sizes; their sums are exact."""
    n = (1, 50, 3000, 70000)[turn % 4]
    return torch.arange(n, dtype=torch.float32) % 97 + rank * 11 + thread * 5 + turn


def collectives(group, thread):
    """A thread with a group of its own."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for turn in range(TURNS):
        parts = [numbers(r, thread, turn) for r in range(size)]
        total = sum(parts)
        mine = parts[rank].clone()
        work = dist.all_reduce(mine, group=group, async_op=turn % 2 == 1)
        if work:
            work.wait()
        equal(mine, total, "all_reduce", thread, turn)
        gathered = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(gathered, parts[rank], group=group)
        for got, part in zip(gathered, parts):
            equal(got, part, "all_gather", thread, turn)
        got = parts[rank].clone()
        dist.broadcast(got, turn % size, group=group)
        equal(got, parts[turn % size], "broadcast", thread, turn)


def groups():
    """Each thread has a group."""
    own = [dist.new_group() for _ in range(THREADS)]
    run(*(lambda group=group, thread=thread: collectives(group, thread) for thread, group in enumerate(own)))


def send_all(thread, peer):
    for turn in range(TURNS):
        dist.send(numbers(dist.get_rank(), thread, turn), peer, tag=thread)


def receive_all(thread, peer):
    for turn in range(TURNS):
        wanted = numbers(peer, thread, turn)
        got = torch.empty_like(wanted)
        dist.recv(got, peer, tag=thread)
        equal(got, wanted, "message", thread, turn)


def messages():
    """Threads send and receive in one group; each pair of them has a tag."""
    rank, size = dist.get_rank(), dist.get_world_size()
    senders = [lambda thread=thread: send_all(thread, (rank + 1) % size) for thread in range(THREADS)]
    receivers = [lambda thread=thread: receive_all(thread, (rank - 1) % size) for thread in range(THREADS)]
    run(*senders, *receivers)


def works():
    """One thread begins operations, others wait for them."""
    begun = queue.Queue(8)
    total = [sum(numbers(r, 0, turn) for r in range(dist.get_world_size())) for turn in range(TURNS)]

    def begin():
        for turn in range(TURNS):
            mine = numbers(dist.get_rank(), 0, turn)
            begun.put((turn, mine, dist.all_reduce(mine, async_op=True)))
        for _ in range(THREADS):
            begun.put(None)

    def finish():
        while (item := begun.get()) is not None:
            turn, mine, work = item
            work.wait()
            equal(mine, total[turn], "work", turn)

    run(begin, *[finish] * THREADS)


def all_at_once():
    """Collectives, messages and works, while another thread keeps the interpreter busy."""
    own = [dist.new_group() for _ in range(2)]
    over = threading.Event()

    def compute():
        while not over.is_set():
            sum(range(1000))

    busy = threading.Thread(target=compute)
    busy.start()
    try:
        rank, size = dist.get_rank(), dist.get_world_size()
        run(
            *(lambda group=group, thread=thread: collectives(group, thread) for thread, group in enumerate(own)),
            lambda: send_all(9, (rank + 1) % size), lambda: receive_all(9, (rank - 1) % size), works,
        )  # fmt: skip
    finally:
        over.set()
        busy.join()


def main():
    if BACKEND == "muster":
        import muster_torch  # noqa: F401
    torch.set_num_threads(1)
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))
    for case in sys.argv[1:]:
        globals()[case]()
        dist.barrier()
        print(f"{case}: right", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
