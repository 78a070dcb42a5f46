"""One run of chaos.c under faults: what the seed says, and what came of it."""

import collections
import contextlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import time

from harness import MUSTER, PROGRAMS, Process, RanksTest, default_signals

CHAOS = PROGRAMS / "chaos"
WAIT = 60  # seconds until a rank counts as hanging
TIMEOUT = 3.0  # seconds, of calls in trials with the fault "freeze"

# What happens to the victims. The first faults are deaths; the seed draws one of these, or "pause".
DEATHS = {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV, "SIGTERM": signal.SIGTERM, "exit": signal.SIGUSR1}
OTHERS = {
    "pause": signal.SIGSTOP,  # and SIGCONT a little later
    "freeze": signal.SIGSTOP,  # for longer than the timeout, then SIGKILL
    "store": signal.SIGKILL,  # to the process that has the store
    "descriptors": None,  # a low limit on open files
}
FAULTS = {**DEATHS, **OTHERS}
FULL = 'for d in /dev/shm "$MUSTER_TRACE"; do mount -t tmpfs -o size=8k tmpfs "$d" || exit 1; done; exec "$@"'
FULL_DISK = ("unshare", "--mount", "sh", "-c", FULL, "sh")  # runs a command without space for traces and in /dev/shm

# A survivor: milliseconds from the first fault to its first error and to its next success, that error, and its last line.
Survivor = collections.namedtuple("Survivor", "rank detected recovered culprit message end")


class Trial:
    """The layout, the victims, the faults and their moments, all drawn from the seed unless they are given."""

    def __init__(self, seed, mode, victims=None, **given):
        self.arguments = {"seed": seed, "mode": mode, "victims": victims, **given}
        draw = random.Random(seed)
        self.seed, self.mode = seed, mode
        self.size = draw.choice((3, 4, 8))
        self.hosts = draw.choice((1, 1, 2, 3))
        self.launched = draw.random() < 0.3  # by `muster run`, which has the store
        self.hosted = draw.random() < 0.5  # rank 0 hosts the store
        self.threads = draw.choice((1, 1, 3))
        self.fault = draw.choice(("SIGKILL", "SIGKILL", "SIGSEGV", "SIGTERM", "exit", "pause"))
        self.full_disk = False
        vars(self).update(given)
        if mode == "shrink":
            self.threads = 1
        self.launched = self.launched and self.fault not in ("store", "descriptors")
        self.hosted = self.hosted and not self.launched
        most = 1 if self.size < 4 or self.fault not in (*DEATHS, "pause") else 2
        count = victims or draw.randint(1, most)
        first = 1 if self.hosted and self.fault != "pause" and count > 1 else 0  # rank 0 and its standby must not both die
        self.victims = draw.sample(range(first, self.size), count)
        if self.fault == "store":
            self.victims = [0] if self.hosted else []
        self.delays = [draw.uniform(0, 0.3) for _ in self.victims] or [draw.uniform(0, 0.3)]
        self.pause = draw.uniform(0.05, 0.6)
        self.limit = draw.randint(8, 60)  # of open files
        unharmed = self.fault in ("pause", "descriptors")
        self.steps = 800 // self.size if unharmed else 1000000 if mode == "stop" else 1600 // self.size

    def __str__(self):
        store = "muster run" if self.launched else "rank 0 hosts the store" if self.hosted else "the store outlives the ranks"
        store += ", full disk" * self.full_disk
        more = {"pause": f" for {self.pause:.3f} s", "descriptors": f", {self.limit} of them"}.get(self.fault, "")
        return (f"CHAOS_TRIAL='{json.dumps(self.arguments)}': {self.size} ranks with {self.threads} threads on {self.hosts} hosts, "
                f"{store}, {self.fault} to {self.victims} after {[round(d, 3) for d in self.delays]} s{more}")


class Job:
    """The processes of a trial, and the lines of each rank."""

    def __init__(self, case, trial):
        self.trial, self.store = trial, None
        self.lines = [[] for _ in range(trial.size)]
        command = [CHAOS, trial.seed, trial.steps, trial.mode, trial.hosts, trial.threads]
        env = {"MUSTER_SLOW_S": 0}
        if trial.fault == "freeze":
            env["MUSTER_TIMEOUT_MS"] = int(TIMEOUT * 1000)
        if trial.launched:
            self.processes = [Process(self.launch(case, command, env))]
            return
        env.update(MASTER_ADDR="127.0.0.1", WORLD_SIZE=trial.size)
        if trial.hosted:
            env["MASTER_PORT"] = case.free_port()
        else:
            self.store, env["MASTER_PORT"] = case.serve()
            env["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        self.processes = [Process(case.popen(*command, env={**env, "RANK": r}, preexec_fn=self.limit(r))) for r in range(trial.size)]

    def launch(self, case, command, env):
        options = [] if self.trial.mode == "stop" else ["--survive"]
        prefix = ()
        if self.trial.full_disk:
            prefix, env["MUSTER_TRACE"] = FULL_DISK, case.directory
        return case.popen(*prefix, MUSTER, "run", "--shutdown-timeout", 1, "-n", self.trial.size, *options, *command, env=env,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=default_signals)

    def limit(self, rank):
        def restrict():
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.trial.limit, self.trial.limit))
        return restrict if self.trial.fault == "descriptors" and rank in self.trial.victims else None

    def read(self, index):
        """The next line of a process goes to its rank: the rank, or None at the end."""
        line = self.processes[index].line()
        if line is None:
            return None
        if self.trial.launched:
            number, line = re.fullmatch(r"\[(\d+)\] (.*)", line).groups()
            index = int(number)
        self.lines[index].append(line)
        return index

    def begin(self):
        """Waits until all ranks have begun: what is wrong."""
        for r in range(self.trial.size):
            while not self.lines[r] and self.read(0 if self.trial.launched else r) is not None:
                pass
        return [f"rank {r} did not start: {lines}" for r, lines in enumerate(self.lines) if not lines or not lines[0].startswith("ready")]

    def send(self, rank, number):
        with contextlib.suppress(ProcessLookupError):  # it has ended because of the first victim
            os.kill(int(self.lines[rank][0].split()[1]), number)

    def strike(self):
        """Sends the faults; returns the time of the first one in milliseconds."""
        trial, since, first = self.trial, time.monotonic(), None
        number = FAULTS[trial.fault]
        for delay, victim in sorted(zip(trial.delays, trial.victims or [None])):
            time.sleep(max(0, since + delay - time.monotonic()))
            first = first or time.monotonic() * 1000
            if victim is None:
                self.store.kill()
            elif number:
                self.send(victim, number)
        if trial.fault == "pause":
            time.sleep(trial.pause)
        if trial.fault == "freeze" and trial.mode != "stop":
            time.sleep(TIMEOUT * 1.5)
        for victim in trial.victims if trial.fault == "pause" or (trial.fault == "freeze" and trial.mode != "stop") else ():
            self.send(victim, signal.SIGCONT if trial.fault == "pause" else signal.SIGKILL)
        return first

    def finish(self):
        """Reads the output of the survivors to their end: exit statuses by process."""
        statuses = []
        for index, process in enumerate(self.processes):
            if not self.trial.launched and index in self.trial.victims and self.trial.fault in (*DEATHS, "freeze", "store"):
                process.kill()
            while self.read(index) is not None:
                pass
            statuses.append(process.process.wait(timeout=WAIT))
        return statuses

    def end(self):
        for process in [*self.processes, *([self.store] if self.store else [])]:
            process.kill()
            for stream in process.process.stdin, process.process.stdout, process.process.stderr:
                if stream:
                    stream.close()


class Case(RanksTest):
    """For scripts that call play themselves."""

    def runTest(self):
        pass

    def __enter__(self):
        self.setUp()
        return self

    def __exit__(self, *_):
        self.doCleanups()
        self.tearDown()


def survivor(number, lines, since):
    """What the lines of a rank say."""
    detected = recovered = None
    culprit, message = -1, ""
    for line in lines:
        word, *rest = line.split(" ", 3)
        if word == "lost" and detected is None:
            detected, culprit, message = float(rest[0]) - since, int(rest[1]), rest[2]
        if word == "again" and recovered is None:
            recovered = float(rest[0]) - since
    ends = [line for line in lines if line.startswith("failed")] or lines[-1:]  # other threads may write after that
    return Survivor(number, detected, recovered, culprit, message, "".join(ends[:1]))


def expected(trial):
    """The first words of the last line of a survivor, and the exit status with each."""
    if trial.fault == "descriptors":
        return {"done": 0, "lost": 3, "failed": 5}
    if trial.fault == "pause" or (trial.mode != "stop" and (trial.fault != "store" or trial.hosted)):
        return {"done": 0}
    if trial.launched:
        return {"lost": 3, "ready": None}  # the launcher may be the first to notice
    if trial.mode == "stop":
        return {"lost": 3, "failed": 5} if trial.fault == "freeze" else {"lost": 3}  # also while it makes its groups
    return {"failed": 5, "done": 0}  # shrinking needs the store; most calls do not


def may_blame_others(trial):
    """
    Whether the first error of a survivor may be that another survivor has ended because of the fault: the others cannot ask
    the store then.
    """
    return trial.fault == "store" and not trial.hosted


def blames_other(trial, s):
    """Whether a survivor blames neither a victim nor, if that is the fault, the store."""
    if trial.fault == "store" and "store" in s.message:
        return False
    if trial.fault == "freeze" and "message from any rank" in s.message and s.culprit < 0:  # several ranks could have sent it
        return not any(f"rank {victim} (" in s.message for victim in trial.victims)
    return s.detected is not None and s.culprit not in trial.victims


def judge(trial, s, status):
    """What is wrong with a survivor and its exit status."""
    ends = expected(trial)
    word = s.end.split(" ")[0]
    if word not in ends or (not trial.launched and status != ends[word]):
        return f"rank {s.rank} ended with {status}, not {ends}: {s.end or 'no output'}"
    if s.detected is None or trial.fault == "descriptors":
        return None
    if trial.fault == "pause" or (blames_other(trial, s) and not may_blame_others(trial)):
        return f"rank {s.rank} blames rank {s.culprit}: {s.message}"
    if s.culprit < 0 and not blames_other(trial, s):
        return None
    if not re.search(rf"\brank {s.culprit}\b", s.message.split(": ", 1)[-1]):
        return f"rank {s.rank}: its culprit is {s.culprit}, but its message: {s.message}"
    return None


def judge_launcher(trial, died, status, err):
    """What is wrong with the end of `muster run`. died: victims that had not ended before."""
    fails = trial.mode == "stop" and trial.fault != "pause"
    if (status != 0) != fails:
        return [f"muster run ended with {status}: {err}"]
    named = re.findall(r"^  rank +(\d+) \(|^muster run:   rank (\d+) \(", err, re.MULTILINE)
    named = {int(a or b) for a, b in named}
    if trial.fault in DEATHS and died and not (named and named <= set(trial.victims)):
        return [f"muster run names {named}: {err}"]
    return []


def judge_limits(ends):
    """Of the fault "descriptors": all ranks are done, or all fail and one says why."""
    if all(end.startswith("done") for end in ends):
        return []
    if any(end.startswith("done") for end in ends) or not re.search("descriptor|RLIMIT_NOFILE|open files", "".join(ends)):
        return [f"the ranks end with {ends}"]
    return []


def play(case, trial):
    """Runs the trial: the survivors, and a list of what is wrong."""
    job = Job(case, trial)
    survivors, problems = [], []
    try:
        problems = job.begin() if trial.fault != "descriptors" else []
        if not problems:
            since = job.strike()
            statuses = job.finish()
            dead = trial.victims if trial.fault in (*DEATHS, "freeze", "store") else []
            survivors = [survivor(r, lines, since) for r, lines in enumerate(job.lines) if r not in dead]
            problems = [judge(trial, s, statuses[0 if trial.launched else s.rank]) for s in survivors]
            if trial.launched:
                died = [r for r in trial.victims if not job.lines[r][-1].startswith("done")]
                err = job.processes[0].process.stderr.read().decode(errors="replace")
                problems += judge_launcher(trial, died, statuses[0], err)
            named = any(s.culprit in trial.victims or "store" in s.message for s in survivors)
            if may_blame_others(trial) and not named and any(s.message for s in survivors):
                problems.append(f"no survivor names {trial.victims or 'the store'}: {survivors}")
            if trial.fault == "descriptors":
                problems += judge_limits([s.end for s in survivors])
    except (AssertionError, subprocess.TimeoutExpired) as error:
        problems.append(f"a rank hangs: {error}; {[lines[-1:] for lines in job.lines]}")
    finally:
        job.end()
    return survivors, [problem for problem in problems if problem]
