"""One rank of a world of three in which something fails: writes the exception and the seconds until it came.

  faults.py CASE   under a launcher that sets RANK and WORLD_SIZE
"""

import functools
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


def killed_before_the_end(rank):
    """The others end in the usual way: they do not wait for rank 1."""
    if rank == 1:
        die()
    try:
        dist.all_reduce(ONES)
    except dist.DistBackendError:
        dist.destroy_process_group()
        raise


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


def rejected(rank):
    """The library refuses the call of rank 1: the others learn it with their calls."""
    dist.all_reduce(ONES, dist.ReduceOp.BAND if rank == 1 else dist.ReduceOp.SUM)


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


def shrunk(rank):
    """Rank 1 dies; the others go on without it, as ranks 0 and 1."""
    if rank == 1:
        die()
    try:
        dist.all_reduce(ONES)
    except dist.DistBackendError:
        dist.shrink_group([1])
    assert (dist.get_rank(), dist.get_world_size()) == (rank // 2, 2)
    ones, last = torch.ones(4), dist.new_group([1])
    dist.all_reduce(ones)
    if rank == 2:
        dist.all_reduce(ones, group=last)
    raise dist.DistBackendError(f"right: {ones[0].item():g}")


def shrunk_twice(rank):
    """Ranks that live are left out, one after the other: they leave when the others have what they need."""
    group, ones = dist.new_group(), torch.ones(4)
    if rank > 0:
        group = dist.shrink_group([0], group, dist.distributed_c10d.SHRINK_ABORT)
        dist.all_reduce(ones, group=group)
    if rank == 2:
        group = dist.shrink_group([0], group)
        dist.all_reduce(ones, group=group)
        assert group.size() == 1
    dist.all_reduce(ones)
    raise dist.DistBackendError(f"right: {ones[0].item():g}")


def reconfigured(rank):
    """The group opens with all ranks, then without rank 1, which has died, then in another order."""
    if not hasattr(dist, "_reconfigure"):
        raise dist.DistBackendError("right: this torch has no reconfigure")
    store = dist.PrefixStore("reconfigured", dist.distributed_c10d._get_default_store())
    dist.destroy_process_group()
    dist.init_process_group("muster", store=store, rank=rank, world_size=3, enable_reconfigure=True, timeout=timedelta(seconds=30))
    store.set(f"handle {rank}", dist._get_reconfigure_handle())
    handles, totals = [store.get(f"handle {r}").decode() for r in range(3)], []
    assert dist._supports_reconfigure()
    for uuid, members in ((7, set(handles)), (8, {handles[0], handles[2]}), (9, [handles[2], handles[0]])):
        if uuid == 8 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist._reconfigure(uuid, members).wait()
        ones = torch.ones(4) + dist.get_rank()
        dist.broadcast(ones, 0) if uuid == 9 else dist.all_reduce(ones)
        totals.append((dist.get_rank(), ones[0].item()))
    assert totals == [(rank, 6), (rank // 2, 3), (1 - rank // 2, 1)], totals
    assert dist.get_world_size() == 2
    raise dist.DistBackendError("right: 2 ranks are left")


def forked(rank):
    """A forked process that ends in the usual way, while another thread of its parent is in a call."""
    import threading

    thread = threading.Thread(target=dist.recv, args=(torch.zeros(1), (rank + 1) % 3))
    thread.start()
    work = dist.irecv(torch.zeros(1), (rank + 1) % 3, tag=1)
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(ONES)
            os._exit(1)
        except dist.DistBackendError as error:
            assert "forked" in str(error), error
        signal.alarm(60)  # ends it if it hangs
        dist.destroy_process_group()
        dist.init_process_group("muster", store=dist.HashStore(), rank=0, world_size=1)  # of its own
        dist.all_reduce(ONES)
        sys.exit(7)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for tag in (0, 1):
        dist.send(torch.ones(1), (rank - 1) % 3, tag=tag)
    thread.join()
    work.wait()
    dist.all_reduce(ONES)
    raise dist.DistBackendError(f"right: {status} {ONES[0].item():g}")


def forked_during_a_collective(rank):
    """Another thread of the parent is in a collective, which rank 2 calls late. The child also waits for a work of its parent."""
    import threading

    thread = threading.Thread(target=dist.all_reduce, args=(torch.ones(1),))
    work = dist.irecv(torch.zeros(1), (rank + 1) % 3, tag=1)
    if rank == 2:
        for other in (0, 1):
            dist.recv(torch.zeros(1), other, tag=2)
    thread.start()
    if rank != 2:
        time.sleep(0.3)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends it if it hangs
            for call in (lambda: dist.all_reduce(ONES), lambda: dist.send(ONES, 2), work.wait):
                try:
                    call()
                    os._exit(1)
                except dist.DistBackendError as error:
                    assert "forked" in str(error), error
            os._exit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 7, status
        dist.send(torch.ones(1), 2, tag=2)
    thread.join()
    dist.send(torch.ones(1), (rank - 1) % 3, tag=1)
    work.wait()
    raise dist.DistBackendError("right")


def ended_during_callbacks(rank):
    """The program ends without destroy_process_group while its callbacks run."""
    if rank == 0:
        time.sleep(0.3)
    work = dist.all_reduce(ONES, async_op=True)
    work.get_future().then(lambda future: time.sleep(0.5))
    work.wait()
    raise dist.DistBackendError("right")


def ended_in_a_call(rank):
    """The program ends without destroy_process_group while a thread is in a call, which fails while Python ends: rank 0 ends last."""
    import threading

    class Slow:
        def __del__(self, sleep=time.sleep):
            sleep(1.5)

    if rank == 0:
        time.sleep(0.5)
    else:
        threading.Thread(target=dist.recv, args=(torch.zeros(1), 0), daemon=True).start()
        sys.modules[__name__].slow = Slow()  # freed after Python has ended its threads
    raise dist.DistBackendError("right")


def ended_before_works_are_freed(rank):
    """The program ends without destroy_process_group while a thread of muster waits for Python's lock, to free tensors that nobody else has."""
    sys.setswitchinterval(100)  # this thread keeps the lock
    for _ in range(5):
        dist.all_reduce(torch.ones(1000), async_op=True)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    raise dist.DistBackendError("right")


def killed_with_pending_works(rank):
    """Works of messages and of collectives, futures and callbacks: all of them fail, and later calls at once."""
    if rank == 1:
        die()
    works = [dist.irecv(torch.zeros(4), 1, tag=tag) for tag in range(3)]
    works += [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(3)]
    seen, futures = [], [work.get_future() for work in works]
    told = [future.then(lambda future: seen.append(future.value())) for future in futures]
    texts = []
    for wait in [*(work.wait for work in works), *(future.wait for future in futures), *(future.wait for future in told), lambda: dist.barrier()]:
        try:
            wait()
        except (dist.DistBackendError, RuntimeError) as error:
            texts.append(str(error))
    assert len(texts) == 3 * len(works) + 1 and not seen, texts
    wrong = [text for text in texts if "rank 1 (host" not in text]
    assert not wrong, wrong
    assert all(work.is_completed() and not work.is_success() for work in works)
    raise dist.DistBackendError("right")


def short_timeout(rank):
    """A timeout of less than a millisecond is not the default one."""
    group = dist.new_group(timeout=timedelta(microseconds=200))
    if rank == 1:
        time.sleep(1)
    else:
        dist.all_reduce(ONES, group=group)


class PythonStore(dist.Store):
    """A store that a program has written. It has no clones, and PyTorch does not find its delete_key."""

    def __init__(self, store):
        super().__init__()
        for name in ("set", "get", "add", "compare_set", "check", "wait"):
            setattr(self, name, functools.partial(getattr(store, name)))


def reinitialised(rank):
    """Process groups are destroyed and made again, also while works of the old one are kept; the last one with a store of the program."""
    store = dist.distributed_c10d._get_default_store()
    kept = []
    for i in range(4):
        kept.append(dist.all_reduce(torch.ones(1000), async_op=True))
        kept[-1].wait()
        dist.destroy_process_group()
        store = PythonStore(store) if i == 3 else store
        dist.init_process_group("muster", store=dist.PrefixStore(f"again {i}", store), rank=rank, world_size=3, timeout=timedelta(seconds=30))
        part = dist.new_group([0, 2])
        if rank != 1:
            dist.barrier(group=part)
    for work in kept:
        work.wait()
        assert work.is_success() and work.result()[0][999].item() == 3
    dist.all_reduce(ONES)
    raise dist.DistBackendError(f"right: {ONES[0].item():g}")


def reinitialised_at_once(rank):
    """Process groups are destroyed and made again at the same address: rank 0 must end its store before the others look for the next one."""
    for _ in range(5):
        dist.all_reduce(torch.ones(4))
        dist.destroy_process_group()
        dist.init_process_group("muster", timeout=timedelta(seconds=10))
    raise dist.DistBackendError("right")


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
