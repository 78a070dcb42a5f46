"""One run of chaos.c under faults: what the seed says, and what came of it."""

import collections
import random
import re
import signal
import time

from harness import PROGRAMS, Process

CHAOS = PROGRAMS / "chaos"
WAIT = 60  # seconds until a rank counts as hanging

# A survivor: milliseconds from the first fault to its first error and to its next success, and that error.
Survivor = collections.namedtuple("Survivor", "rank detected recovered culprit message failed")


class Trial:
    """The layout, the victims, the faults and their moments, all drawn from the seed unless they are given."""

    def __init__(self, seed, mode, size=None, hosts=None, hosted=None, fault=None, victims=None):
        draw = random.Random(seed)
        self.seed, self.mode = seed, mode
        self.size = draw.choice((3, 4, 8)) if size is None else size
        self.hosts = draw.choice((1, 1, 2, 3)) if hosts is None else hosts
        self.hosted = draw.random() < 0.5 if hosted is None else hosted  # rank 0 hosts the store
        count = (draw.choice((1, 1, 2)) if self.size > 3 else 1) if victims is None else victims
        self.victims = draw.sample(range(1 if self.hosted else 0, self.size), count)
        self.delays = [draw.uniform(0, 0.3) for _ in self.victims]
        self.fault = draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)) if fault is None else fault

    def __str__(self):
        return (f"CHAOS_SEED={self.seed} {self.mode}: {self.size} ranks on {self.hosts} hosts, hosted {self.hosted}, "
                f"{self.fault.name} to {self.victims} after {[round(d, 3) for d in self.delays]} s")


def start(case, trial, steps):
    """Starts the ranks, and a store if they do not host it. case is a RanksTest."""
    if trial.hosted:
        store, place = None, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": case.free_port()}
    else:
        store, port = case.serve()
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    ranks = []
    for r in range(trial.size):
        env = {"RANK": r, "WORLD_SIZE": trial.size, **place, "MUSTER_SLOW_S": 0}
        if trial.hosts > 1:
            env["MUSTER_FORCE_HOST"] = r % trial.hosts
        ranks.append(Process(case.popen(CHAOS, trial.seed, steps, trial.mode, env=env)))
    return store, ranks


def strike(trial, ranks):
    """Sends the faults; returns the time of the first one in milliseconds."""
    begin, first = time.monotonic(), None
    for delay, victim in sorted(zip(trial.delays, trial.victims)):
        time.sleep(max(0, begin + delay - time.monotonic()))
        first = first or time.monotonic() * 1000
        ranks[victim].send(trial.fault)
    return first


def read(rank, number, since):
    """The lines of a survivor until it ends."""
    detected = recovered = None
    culprit, message, failed = -1, "", ""
    while (line := rank.line()) is not None:
        word, *rest = line.split(" ", 3)
        if word == "lost" and detected is None:
            detected, culprit, message = float(rest[0]) - since, int(rest[1]), rest[2]
        if word == "again" and recovered is None:
            recovered = float(rest[0]) - since
        if word == "failed":
            failed = line
    return Survivor(number, detected, recovered, culprit, message, failed)


def judge(trial, survivor, status):
    """What is wrong with the end of a survivor."""
    wanted = 3 if trial.mode == "stop" else 0
    if status != wanted:
        return f"rank {survivor.rank} ended with {status}, not {wanted}: {survivor.failed or survivor.message}"
    if survivor.detected is None:
        return None if trial.mode != "stop" else f"rank {survivor.rank} has noticed nothing"
    if survivor.culprit not in trial.victims:
        return f"rank {survivor.rank} blames rank {survivor.culprit}: {survivor.message}"
    if not re.search(rf"\brank {survivor.culprit}\b", survivor.message.split(": ", 1)[-1]):
        return f"rank {survivor.rank}: its culprit is {survivor.culprit}, but its message: {survivor.message}"
    return None


def play(case, trial):
    """Runs the trial: the survivors, and a list of what is wrong."""
    store, ranks = start(case, trial, 1000000 if trial.mode == "stop" else 400)
    problems = [f"rank {r} did not start" for r, rank in enumerate(ranks) if rank.line() != "ready"]
    since = strike(trial, ranks)
    survivors = []
    for number, rank in enumerate(ranks):
        if number in trial.victims or problems:
            rank.kill()
            continue
        try:
            survivors.append(read(rank, number, since))
            status = rank.process.wait(timeout=WAIT)
        except (AssertionError, TimeoutError) as error:
            problems.append(f"rank {number} hangs: {error}")
            continue
        wrong = judge(trial, survivors[-1], status)
        problems += [wrong] if wrong else []
    for process in [*ranks, *([store] if store else [])]:
        process.kill()
        for stream in process.process.stdin, process.process.stdout, process.process.stderr:
            if stream:
                stream.close()
    return survivors, problems
