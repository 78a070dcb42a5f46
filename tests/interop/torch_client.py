"""What test_torch.py has an interpreter with torch do: python3 torch_client.py JOB ARGUMENT...

Works with torch 1.13 and every later one: what a version lacks is left out. A job exits 0 if all went as it
should. Waits end by themselves after TIMEOUT; whoever started a job kills it if it hangs all the same.
"""

import datetime
import json
import os
import sys
import threading
import traceback

import torch
import torch.distributed as dist

from torch_support import PORT_TAKEN, free_port

TIMEOUT = datetime.timedelta(seconds=30)
SHORT = datetime.timedelta(milliseconds=200)
LARGE = bytes(range(256)) * (8 << 12)  # 8 MiB
ODD_KEYS = ["", " ", "a b", "/", "a//b", "../x", "ключ", "new\nline", "nul\0inside", "%s", "-/k", "init/"]
ODD_KEYS += ["k" * 8000]


def store(port, is_master=False, world=None, libuv="default"):
    """A TCPStore; libuv is on, off or default, where the version has a choice."""
    more = {} if libuv == "default" else {"use_libuv": libuv == "on"}
    return dist.TCPStore("127.0.0.1", int(port), world, is_master, TIMEOUT, world is not None, **more)


def refuses(call, *arguments, kind=RuntimeError):
    try:
        call(*arguments)
    except kind:
        return
    raise AssertionError(f"{call} {arguments} did not fail")


def equal(got, expected):
    assert got == expected, f"{got!r:.200} is not {expected!r:.200}"


def at_once(n, job, start):
    """Runs job(0) … job(n - 1) at once, in processes or threads as start says; all must succeed."""
    failed = [i for i, wait in [(i, start(job, i)) for i in range(n)] if not wait()]
    assert not failed, f"of {n}, these failed: {failed}"


def in_process(job, i):
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return lambda: os.waitpid(pid, 0)[1] == 0
    status = 1
    try:
        job(i)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def in_thread(job, i):
    done = []
    thread = threading.Thread(target=lambda: done.append(job(i)), daemon=True)
    thread.start()
    return lambda: thread.join(TIMEOUT.total_seconds()) or bool(done)


# Jobs


def about():
    text = dist.TCPStore.__init__.__doc__
    methods = [name for name in dir(dist.TCPStore) if not name.startswith("_")]
    print(json.dumps({"version": torch.__version__, "libuv": "use_libuv" in text, "methods": methods}))


def operations(port, libuv):
    """Every method of a TCPStore that is a client of the server at port."""
    s = store(port, libuv=libuv)
    values(s)
    numbers(s)
    swaps(s)
    timeouts(s, store(port, libuv=libuv))
    for key in ODD_KEYS:
        s.set(key, key)
        equal(s.get(key), key.encode())
    s.set("large", LARGE)
    equal(s.get("large"), LARGE)
    s.delete_key("large")
    prefixes(s)
    if hasattr(s, "append"):
        extended(s)
    if hasattr(s, "queue_push"):
        queues(s, libuv)
    if hasattr(s, "list_keys"):
        equal(set(s.list_keys()) >= {"k", "n", "swap"}, True)
    if hasattr(s, "barrier"):
        barriers(s, store(port, libuv=libuv))
    if hasattr(s, "clone"):
        other = s.clone()
        other.set("cloned", "1")
        equal(s.get("cloned"), b"1")


def values(s):
    s.set("k", "v")
    equal(s.get("k"), b"v")
    s.set("k", b"\0\xff")
    equal(s.get("k"), b"\0\xff")
    s.set("empty", "")
    equal(s.get("empty"), b"")
    before = s.num_keys()
    equal(s.delete_key("empty"), True)
    equal(s.delete_key("empty"), False)
    equal(s.num_keys(), before - 1)


def numbers(s):
    equal(s.add("n", 5), 5)
    equal(s.add("n", -7), -2)
    equal(s.add("n", 1 << 40), (1 << 40) - 2)
    equal(s.get("n"), b"1099511627774")


def swaps(s):
    equal(s.compare_set("swap", "x", "y"), b"x")
    equal(s.compare_set("swap", "", "one"), b"one")
    equal(s.compare_set("swap", "two", "three"), b"one")
    equal(s.compare_set("swap", "one", "two"), b"two")
    equal(s.get("swap"), b"two")


def timeouts(s, other):
    """A wait that timed out leaves the connection in step, also if its key comes later."""
    s.wait(["k", "n"])
    s.wait(["k"], TIMEOUT)
    for i in range(3):
        refuses(s.wait, ["k", f"never{i}"], SHORT)
        equal(s.add("after", 1), i + 1)
        other.set(f"never{i}", "now")
        equal(s.get("k"), b"\0\xff")
    s.set_timeout(SHORT)
    equal(s.timeout, SHORT)
    refuses(s.get, "never")
    s.set_timeout(TIMEOUT)
    equal(s.get("k"), b"\0\xff")
    setter = in_thread(lambda i: other.set("later", "x") or True, 0)
    equal(s.get("later"), b"x")
    assert setter()


def prefixes(s):
    inner = dist.PrefixStore("p", s)
    innermost = dist.PrefixStore("q", inner)
    innermost.set("k", "nested")
    equal(s.get("p/q/k"), b"nested")
    equal(inner.add("n", 3), 3)
    equal(s.add("p/n", 1), 4)
    equal(innermost.compare_set("k", "nested", "changed"), b"changed")
    innermost.wait(["k"], TIMEOUT)
    equal(innermost.delete_key("k"), True)


def extended(s):
    equal(s.has_extended_api(), True)
    s.append("log", "ab")
    s.append("log", b"\0c")
    equal(s.get("log"), b"ab\0c")
    s.multi_set(["m1", "m2", "m3"], ["1", "", LARGE])
    equal(s.multi_get(["m3", "m1", "m2"]), [LARGE, b"1", b""])
    s.set_timeout(SHORT)
    refuses(s.multi_get, ["m1", "never"])
    s.set_timeout(TIMEOUT)
    equal(s.multi_get(["m1"]), [b"1"])
    s.delete_key("m3")
    if hasattr(s, "check"):
        equal(s.check(["m1", "m2"]), True)
        equal(s.check(["m1", "never"]), False)


def queues(s, libuv):
    if libuv == "off":
        return refuses(s.queue_len, "q", kind=NotImplementedError)
    equal(s.queue_len("q"), 0)
    refuses(s.queue_pop, "q", False)
    for value in ("a", "b", ""):
        s.queue_push("q", value)
    equal(s.queue_len("q"), 3)
    equal([s.queue_pop("q"), s.queue_pop("q", False), s.queue_pop("q")], [b"a", b"b", b""])
    s.set_timeout(SHORT)
    refuses(s.queue_pop, "q")
    s.set_timeout(TIMEOUT)
    equal(s.queue_len("q"), 0)


def barriers(s, other):
    s.barrier("b1", 1)
    refuses(s.barrier, "b2", 2, SHORT)
    equal(s.get("k"), b"\0\xff")
    wait = in_thread(lambda i: other.barrier("b3", 2, TIMEOUT) or True, 0)
    s.barrier("b3", 2, TIMEOUT)
    assert wait()


def crowd(port, n, adds):
    """n processes with a client each, then n threads with one client."""
    n, adds = int(n), int(adds)

    def one(i, s):
        s.set(f"crowd/{i}", str(i) * 1000)
        for _ in range(adds):
            s.add("crowd/sum", 1)
        s.add(f"crowd/own/{i}", i)
        return True

    def process(i):
        s = store(port)
        one(i, s)
        s.wait([f"crowd/own/{other}" for other in range(n)], TIMEOUT)
        for other in range(n):
            equal(s.get(f"crowd/{other}"), (str(other) * 1000).encode())

    at_once(n, process, in_process)
    shared = store(port)
    equal(shared.add("crowd/sum", 0), n * adds)
    at_once(n, lambda i: one(i, shared), in_thread)
    equal(shared.add("crowd/sum", 0), 2 * n * adds)


def gloo(port, size, how):
    """size ranks whose store is the one at port, given as such or found as torchrun's workers find it.

    They end without destroy_process_group, in which torch 2.2 hangs now and then, whoever serves the store.
    """
    size = int(size)

    def rank_of(rank):
        torch.set_num_threads(1)
        if how == "store":
            dist.init_process_group("gloo", store=store(port), rank=rank, world_size=size, timeout=TIMEOUT)
        else:
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            os.environ.update(TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
            dist.init_process_group("gloo", init_method="env://", timeout=TIMEOUT)
        tensor = torch.arange(10000, dtype=torch.float64) + rank
        dist.all_reduce(tensor)
        expected = torch.arange(10000, dtype=torch.float64) * size + sum(range(size))
        assert torch.equal(tensor, expected), tensor
        ends = dist.new_group([0, size - 1])
        if rank in (0, size - 1):
            tensor = torch.tensor([float(rank)])
            dist.all_reduce(tensor, group=ends)
            equal(tensor.item(), float(size - 1))
        objects = [None] * size
        dist.all_gather_object(objects, f"rank {rank}")
        equal(objects, [f"rank {i}" for i in range(size)])
        dist.barrier()

    at_once(size, rank_of, in_process)


def worker():
    """What torchrun starts: RANK and the rest are in the environment."""
    dist.init_process_group("gloo", timeout=TIMEOUT)
    tensor = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(tensor)
    equal(tensor.item(), sum(range(dist.get_world_size() + 1)))
    dist.barrier()


def meet(port, parties, adds):
    """As store_client's meet."""
    s = store(port)
    for _ in range(int(adds)):
        s.add("meet/sum", 1)
    if s.add("meet/arrived", 1) == int(parties):
        s.set("meet/done", "1")
    s.wait(["meet/done"], TIMEOUT)
    equal(s.add("meet/sum", 0), int(parties) * int(adds))


def barrier(port, key, n):
    store(port).barrier(key, int(n), TIMEOUT)


def join(port, world):
    """A client that is counted as one of world workers."""
    store(port, world=int(world)).add("joined", 1)


def master(libuv, world):
    """Hosts a server: prints its port, then "complete" once world have come (0: at once), and then calls the
    methods that stdin names, a line of JSON each: [method, argument…]."""
    world, port = int(world), 0
    if world:  # whoever comes must know the port before the store is there
        port = free_port()
        print(port, flush=True)
    try:
        s = store(port, True, world or None, libuv)
    except RuntimeError as e:
        sys.exit(PORT_TAKEN if "address already in use" in str(e).lower() else str(e))
    print("complete" if world else f"{s.port}\ncomplete", flush=True)
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        result = getattr(s, method)(*arguments)
        print(json.dumps(result.decode("latin-1") if isinstance(result, bytes) else result), flush=True)


if __name__ == "__main__":
    JOBS = [about, operations, crowd, gloo, worker, meet, barrier, join, master]
    {job.__name__: job for job in JOBS}[sys.argv[1]](*sys.argv[2:])
    sys.stdout.flush()
    os._exit(0)  # torch's threads may take long to end
