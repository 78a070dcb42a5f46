"""Makes traces and flight recordings as muster writes them, by hand for tests, and large ones from a seed:

    trace_make.py DIR --ranks 64 --events 100000 --hosts 8
"""

import argparse
import array
import json
import multiprocessing
import os
import random


def line(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Trace:
    """One rank's trace; times are microseconds."""

    def __init__(self, rank, size, host="a", program="train", unix_ns=1789000000000000000, **more):
        about = {"version": 1, "rank": rank, "size": size, "host": host, "pid": 4000 + rank, "program": program, "unix_ns": unix_ns}
        self.rank, self.lines, self.works, self.last = rank, [], 0, 0.0
        self.about("muster", **{**about, **more})

    def add(self, **event):
        self.lines.append(line(event))

    def about(self, name, /, **args):
        self.add(ph="M", pid=self.rank, name=name, args=args)

    def group(self, number, name, ranks, **more):
        self.about("muster_group", group=number, name=name, size=len(ranks), ranks=ranks, **more)

    def op(self, name, ts, dur, seq, group=0, size=0, cat="collective", tid=0, **args):
        """A blocking operation of size bytes."""
        self.last = max(self.last, ts + dur)
        args = {"group": group, "seq": seq, "bytes": size, "dtype": "f32", "op": "SUM", "backend": "native", "algorithm": "region", "site": "train.c:33", "function": "step", "queued": 0.0, "waited": dur, **args}
        self.add(ph="X", pid=self.rank, tid=tid, ts=ts, dur=dur, name=name, cat=cat, args=args)

    def message(self, name, ts, dur, seq, peer, tag=0, **args):
        self.op(name, ts, dur, seq, **{"cat": "message", "peer": peer, "tag": tag, "dir": "send" if "send" in name else "recv", **args})

    def work(self, name, ts, dur, seq, waited, queued=0.0, group=0, size=0, cat="collective", **args):
        """An operation that the program began and waited for later."""
        self.works += 1
        self.last = max(self.last, ts + dur)
        both = {"pid": self.rank, "tid": 100001, "id": f"{self.rank}.{self.works}", "name": name, "cat": cat}
        args = {"group": group, "seq": seq, "bytes": size, "dtype": "f32", "site": "train.c:40", "function": "step", "work": True, "queued": queued, "waited": waited, **args}
        self.add(ph="b", ts=ts, **both, args=args)
        self.add(ph="e", ts=ts + dur, **both)

    def end(self, ts=None, dropped=0):
        self.about("muster_end", ts=self.last if ts is None else ts, events=len(self.lines), dropped=dropped)
        return self

    def text(self, ended=True):
        return "[" + ",\n".join(self.lines) + ("\n]\n" if ended else "")

    def write(self, folder, ended=True, number=""):
        """number: ".2" of the second trace of that rank in the folder."""
        with open(os.path.join(folder, f"rank-{self.rank}{number}.trace.json"), "w", encoding="utf-8") as file:
            file.write(self.text(ended))


def flight(folder, rank, size, operations, reason="", host="a", **more):
    """operations: (name, seq, state, site) or dictionaries with more."""
    listed = []
    for n, operation in enumerate(operations):
        if not isinstance(operation, dict):
            operation = dict(zip(("name", "seq", "state", "site"), operation))
        base = {"n": n, "group": 0, "group_name": "world", "group_size": size, "count": 1024, "dtype": "f32", "function": "step", "begin_us": 10.0 * n}
        if "peer" in operation:
            base |= {"tag": 0, "dir": "send" if "send" in operation["name"] else "recv"}
        listed.append({**base, **operation})
    about = {"version": 1, "rank": rank, "size": size, "host": host, "pid": 4000 + rank, "reason": reason, "unix_ns": 1, **more, "operations": listed}
    with open(os.path.join(folder, f"rank-{rank}.flight.json"), "w", encoding="utf-8") as file:
        json.dump(about, file)


# ---- large ones: steps of a training, with a rank that is slow for a while ----

SITES = {"all_reduce": "train.c:120", "all_gather": "shard.c:48", "reduce_scatter": "shard.c:77", "broadcast": "data.c:31"}
STEP = ("all_gather", "all_reduce", "reduce_scatter", "all_reduce", "send", "recv", "broadcast", "all_reduce")
PLANNED = []  # what processes inherit, since it is large
SIZES = (4096, 65536, 1 << 20, 16 << 20)


def plan(ranks, events, seed):
    """When each operation can begin, how late each rank comes to it, and the last of them; in nanoseconds."""
    rng = random.Random(seed)
    slow = rng.randrange(ranks)
    late = [array.array("q", (value >> 3 for value in array.array("H", rng.randbytes(2 * events)))) for _ in range(ranks)]
    for k in range(events // 3, 2 * events // 3):
        late[slow][k] += 15000
    begins, base = array.array("q"), 0
    for k in range(events):
        base += 60000 + 1000 * (k % 7)
        begins.append(base)
    return begins, late, [max(each) for each in zip(*late)]


def write_rank(job):
    folder, rank, ranks, hosts, events = job
    begins, late, last = PLANNED
    host = f"node{rank * hosts // ranks}"
    trace = Trace(rank, ranks, host=host, program="train_gpt")
    trace.group(0, "world", list(range(ranks)))
    near = ranks // hosts or 1
    mine = [r for r in range(ranks) if r // near == rank // near]
    trace.group(1, "node", mine, id=f"node{rank // near}")
    if hosts > 1:
        trace.about("muster_clock", ts=1.0, offset_ns=-1200 * rank, error_ns=400 + 3 * rank)
    out = trace.lines
    seqs, messages = [0, 0], 0
    for k in range(events):
        name = STEP[k % len(STEP)]
        size = SIZES[(k // 16) % len(SIZES)]
        begin = begins[k] + late[rank][k]
        group = 1 if name in ("all_gather", "reduce_scatter") and near > 1 else 0
        end = begins[k] + last[k] + 9000 + size // 1024
        head = f'{{"ph":"X","pid":{rank},"tid":0,"ts":{begin / 1000:.3f},"dur":{(end - begin) / 1000:.3f},"name":"{name}",'
        if name in ("send", "recv"):
            peer = (rank + 1 if name == "send" else rank - 1 + ranks) % ranks
            out.append(f'{head}"cat":"message","args":{{"group":0,"seq":{messages},"peer":{peer},"tag":0,"dir":"{name}","bytes":{size},"dtype":"f32","backend":"native","algorithm":"ring","site":"pipe.c:{50 if name == "send" else 61}","function":"pass_on","queued":0.000,"waited":{(end - begin) / 1000:.3f}}}}}')
            messages += name == "recv"
        elif name == "reduce_scatter":
            both = f'"pid":{rank},"tid":100001,"id":"{rank}.{k}","name":"{name}","cat":"collective"'
            out.append(f'{{"ph":"b",{both},"ts":{begin / 1000:.3f},"args":{{"group":{group},"seq":{seqs[group]},"bytes":{size},"dtype":"f32","op":"SUM","backend":"native","algorithm":"ring","site":"{SITES[name]}","function":"shard_grads","queued":0.400,"waited":{(end - begin) / 3000:.3f},"work":true}}}}')
            out.append(f'{{"ph":"e",{both},"ts":{end / 1000:.3f}}}')
            seqs[group] += 1
        else:
            out.append(f'{head}"cat":"collective","args":{{"group":{group},"seq":{seqs[group]},"bytes":{size},"dtype":"f32","op":"SUM","backend":"native","algorithm":"region","site":"{SITES[name]}","function":"step","queued":0.100,"waited":{(end - begin) / 1000:.3f}}}}}')
            seqs[group] += 1
        trace.last = max(trace.last, end / 1000)
    trace.end()
    trace.write(folder)
    return rank


def make(folder, ranks, events, hosts=1, seed=1, processes=1):
    os.makedirs(folder, exist_ok=True)
    PLANNED[:] = plan(ranks, events, seed)
    jobs = [(folder, rank, ranks, hosts, events) for rank in range(ranks)]
    if processes == 1:
        return [write_rank(job) for job in jobs]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        return pool.map(write_rank, jobs, chunksize=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    make(wanted.folder, wanted.ranks, wanted.events, wanted.hosts, wanted.seed, os.cpu_count())


if __name__ == "__main__":
    main()
