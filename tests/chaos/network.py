"""Runs of chaos.c on three hosts, which are network namespaces, under faults of the network."""

import collections
import json
import random
import re
import subprocess
import sys
import time

from harness import DEADLINE, MUSTER, SLOWER, TESTS, Process, default_signals
from trial import CHAOS, WAIT, survivor

sys.path.append(str(TESTS / "net"))
from test_netns import NAMES, NetnsTest  # noqa: E402

TIMEOUT = 3  # seconds: MUSTER_TCP_TIMEOUT_S
SLACK = 2  # seconds that an error may take after that (docs/errors.md)
PORT = 29500  # nobody else is in these namespaces
# Seconds. A longer interruption may be too long: TCP then waits for as long again before its next retransmission.
OUTAGE = 0.4 * TIMEOUT
ADDRESS = {name: f"10.77.0.{n}" for n, name in enumerate(NAMES, 1)}

# The seed draws the host, or the connections.
FAULTS = {
    "outage": "the host is cut off for a short time",
    "cut": "the link of the host is down for longer than the timeout",
    "partition": "packets to and from the host are dropped for longer than the timeout",
    "reset_store": "connections to the store are reset",
    "reset_link": "a connection between two ranks is reset",
}
HARMLESS = ("outage", "reset_store")
SPLITS = ("cut", "partition")

Connection = collections.namedtuple("Connection", "space own peer pid")


class NetworkCase(NetnsTest):
    """For scripts that call play themselves."""

    grace = 10  # seconds, of ranks whose launcher was killed

    def runTest(self):
        pass

    def __enter__(self):
        self.setUpClass()
        self.setUp()
        return self

    def __exit__(self, *_):
        self.doCleanups()
        self.tearDown()
        self.tearDownClass()


class NetworkTrial:
    """The layout and the fault, drawn from the seed unless they are given."""

    def __init__(self, seed, mode, fault, **given):
        self.arguments = {"seed": seed, "mode": mode, "fault": fault, **given}
        draw = random.Random(seed)
        self.seed, self.mode, self.fault = seed, mode, fault
        self.hosts = draw.choice(("abc", "aabbcc", "abcabc", "abcc", "aaabc"))  # of the ranks
        self.launched = draw.random() < 0.3  # by `muster run`, which has the store
        self.hosted = draw.random() < 0.5  # rank 0 hosts the store
        self.server = draw.choice(NAMES)  # the host of a store that outlives the ranks
        self.threads = draw.choice((1, 1, 3))
        self.victim = draw.choice(NAMES)
        self.drops = draw.random() < 0.5  # packets; else its link goes down
        self.delay = draw.uniform(0, 0.5)
        self.outage = draw.uniform(0.05, OUTAGE)
        self.restored = draw.choice((None, draw.uniform(1.05, 2) * TIMEOUT))  # seconds after the cut; None: after the trial
        self.resets = draw.randint(1, 3)
        self.steps = None
        vars(self).update(given)
        if mode == "shrink":
            self.threads = 1
        if self.launched:
            self.hosted, self.server = False, "a"
            self.hosts = "".join(sorted(self.hosts)) if len(self.hosts) % len(NAMES) == 0 else "aabbcc"
        if self.hosted:
            self.server = "a"
        self.drops = {"cut": False, "partition": True}.get(fault, self.drops)
        self.size = len(self.hosts)
        self.standby = next(host for host in self.hosts if host != "a")  # its host, if rank 0 hosts the store
        self.draw = draw
        self.steps = self.steps or (1000000 if mode == "stop" and fault not in HARMLESS else 4000 // self.size)

    def __str__(self):
        store = "muster run" if self.launched else "rank 0 hosts the store" if self.hosted else f"the store is on {self.server}"
        more = f"{self.victim} cut off ({'packets dropped' if self.drops else 'link down'})"
        if self.fault == "outage":
            more += f" for {self.outage:.3f} s"
        elif self.fault in SPLITS:
            more += f" for {self.restored:.3f} s" if self.restored else ""
        else:
            more = f"{self.fault}, {self.resets} times" if self.fault == "reset_store" else self.fault
        return (f"CHAOS_TRIAL='{json.dumps(self.arguments)}': ranks with {self.threads} threads on hosts {self.hosts}, {store}, "
                f"{more}, after {self.delay:.3f} s")

    def serves(self, side):
        """Whether the hosts of a side have the store, or its standby."""
        return self.server in side or (self.hosted and self.standby in side)

    def sides(self):
        """The hosts that reach each other after a cut."""
        return (self.victim, NAMES.replace(self.victim, ""))


class NetworkJob:
    """The processes of a trial, and the lines of each rank."""

    def __init__(self, case, trial):
        self.trial, self.case, self.store, self.undo = trial, case, None, []
        self.lines = {}  # of each rank
        self.hosts = {}  # of each rank
        command = [CHAOS, trial.seed, trial.steps, trial.mode, 1, trial.threads]
        if trial.launched:
            self.processes = [self.launch(space, command) for space in NAMES]
            return
        if not trial.hosted:
            self.store = self.start(trial.server, [MUSTER, "store", "serve", "--host", ADDRESS[trial.server], "--port", PORT], {})
        env = {"MASTER_ADDR": ADDRESS[trial.server], "MASTER_PORT": PORT, "WORLD_SIZE": trial.size}
        if not trial.hosted:
            env["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        self.processes = [self.start(space, command, {**env, "RANK": r}) for r, space in enumerate(trial.hosts)]

    def start(self, space, command, env, **options):
        name = ["unshare", "--uts", "sh", "-c", f'hostname host-{space}; exec "$@"', "sh"]
        env = {**env, "MUSTER_FORCE_HOST": space, "MUSTER_TCP_TIMEOUT_S": TIMEOUT, "MUSTER_SLOW_S": 0}
        return Process(self.case.popen(*self.case.spaces.inside(space), *name, *command, env=env, stdin=subprocess.DEVNULL, **options))

    def launch(self, space, command):
        options = [] if self.trial.mode == "stop" else ["--survive"]
        n = self.trial.size // len(NAMES)
        run = [MUSTER, "run", "--nnodes", len(NAMES), "-n", n, "--rdzv-endpoint", f"{ADDRESS['a']}:{PORT}", "--shutdown-timeout", 1]
        return self.start(space, [*run, *options, *command], {}, stderr=subprocess.PIPE, preexec_fn=default_signals)

    def read(self, index):
        """The next line of a process goes to its rank; False at the end."""
        line, rank = self.processes[index].line(), index
        if line is None:
            return False
        if self.trial.launched:
            number, line = re.fullmatch(r"\[(\d+)\] (.*)", line).groups()
            rank = int(number)
        self.hosts[rank] = NAMES[index] if self.trial.launched else self.trial.hosts[rank]
        self.lines.setdefault(rank, []).append(line)
        return True

    def begin(self):
        """Waits until all ranks have begun: what is wrong."""
        each = self.trial.size // len(self.processes)
        for index in range(len(self.processes)):
            wanted = len(self.lines) + each
            while len(self.lines) < wanted and self.read(index):
                pass
        first = {r: self.lines.get(r, [""])[0] for r in range(self.trial.size)}
        return [f"rank {r} did not start: {line}" for r, line in first.items() if not line.startswith("ready")]

    # The network

    def change(self, command, undo):
        inside = self.case.spaces.inside("hub")
        subprocess.run([*inside, *command.split()], check=True, timeout=DEADLINE)
        self.undo.append([*inside, *undo.split()])

    def cut(self):
        device = f"{self.trial.victim}0"
        if self.trial.drops:
            self.change(f"ip link set {device} nomaster", f"ip link set {device} master bridge0")
        else:
            self.change(f"ip link set {device} down", f"ip link set {device} up")

    def mend(self):
        while self.undo:
            subprocess.run(self.undo.pop(), check=True, timeout=DEADLINE)

    def connections(self, of_store):
        """The connections of processes on different hosts, of each end: to the store, or the others."""
        found = []
        for space in NAMES:
            command = [*self.case.spaces.inside(space), "ss", "-n", "-t", "-p", "-H", "state", "established"]
            for line in subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE).stdout.splitlines():
                _, _, own, peer, *users = line.split()
                pid = re.search(r"pid=(\d+)", "".join(users))
                if pid and of_store == (str(PORT) in (own.split(":")[1], peer.split(":")[1])):
                    found.append(Connection(space, own, peer, int(pid[1])))
        return sorted(found)

    def reset(self):
        """Resets connections of the store, or one between two ranks: when, and the ranks that have it."""
        of_store = self.trial.fault == "reset_store"
        found = self.connections(of_store)
        since = time.monotonic() * 1000
        if not found:  # the ranks have ended
            return since, []
        chosen = self.trial.draw.sample(found, self.trial.draw.randint(1, len(found)) if of_store else 1)
        for c in chosen:
            command = [*self.case.spaces.inside(c.space), "ss", "-K", "-n", "-t", "-H", "src", c.own, "dst", c.peer]
            subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
        pids = {int(lines[0].split()[1]): rank for rank, lines in self.lines.items()}
        owners = {c.own: pids.get(c.pid) for c in found}
        return since, [owners.get(chosen[0].own), owners.get(chosen[0].peer)]

    def strike(self):
        """Causes the fault; returns its time in milliseconds, and the ranks of a link that was reset."""
        trial, ends = self.trial, []
        time.sleep(trial.delay)
        since = time.monotonic() * 1000
        if trial.fault in ("reset_store", "reset_link"):
            for _ in range(trial.resets if trial.fault == "reset_store" else 1):
                since, ends = self.reset()
        else:
            self.cut()
            seconds = trial.outage if trial.fault == "outage" else trial.restored
            if seconds:
                time.sleep(seconds)
                self.mend()
        return since, ends

    def finish(self):
        """Reads the output of the processes to their end: exit statuses by rank."""
        statuses = []
        for index, process in enumerate(self.processes):
            while self.read(index):
                pass
            statuses.append(process.process.wait(timeout=WAIT))
        return {r: statuses[NAMES.index(host) if self.trial.launched else r] for r, host in self.hosts.items()}

    def end(self):
        self.mend()
        for process in [*self.processes, *([self.store] if self.store else [])]:
            process.kill()
            for stream in process.process.stdout, process.process.stderr:
                if stream:
                    stream.close()


class Judge:
    """What is wrong with the ranks after a trial."""

    def __init__(self, trial, hosts, ends):
        self.trial, self.hosts, self.ends = trial, hosts, ends

    def side(self, rank):
        """The hosts that the rank reaches."""
        if self.trial.fault not in SPLITS:
            return NAMES
        return next(side for side in self.trial.sides() if self.hosts[rank] in side)

    def continues(self, rank):
        return self.trial.fault in HARMLESS or (self.trial.mode != "stop" and self.trial.serves(self.side(rank)))

    def size(self, rank):
        """Of the world after the fault."""
        return sum(host in self.side(rank) for host in self.hosts.values())

    def names_cause(self, s):
        """Whether the first error of a rank names a rank or a host that it does not reach, or an end of the link."""
        if self.trial.fault not in SPLITS:
            return s.culprit in self.ends
        others = [host for host in NAMES if host not in self.side(s.rank)]
        # A host that returns after the others have given it up learns from them that it is lost.
        if self.trial.restored and re.search("does not answer|count it as lost", s.message):
            return True
        if s.culprit >= 0:
            return self.hosts[s.culprit] in others
        return any(re.search(rf"\bhost-{host}\b|{re.escape(ADDRESS[host])}\b", s.message) for host in others)

    def may_name_others(self, s):
        """After the reset of a link all ranks are alive: one may name a rank that ended or recovers because of it."""
        return self.trial.fault == "reset_link" and s.culprit >= 0 and s.culprit != s.rank

    def end(self, s, status):
        """What is wrong with the end of a rank."""
        trial, word = self.trial, s.end.split(" ")[0]
        launched = trial.launched
        if self.continues(s.rank):
            right = word == "done" and status == 0
        elif trial.mode == "stop":
            right = (word == "lost" or (launched and word == "ready")) and (status != 0 if launched else status == 3)
        else:
            right = (word == "failed" or (launched and word in ("ready", "lost"))) and (status != 0 if launched else status == 5)
        return [] if right else [f"rank {s.rank} ended with {status}: {s.end or 'no output'}"]

    def error(self, s):
        """What is wrong with the first error of a rank, and with the world after it."""
        if self.trial.fault in HARMLESS:
            return [f"rank {s.rank} failed: {s.message}"] if s.message else []
        if s.detected is None:
            return [] if self.trial.launched or s.end.startswith("done") else [f"rank {s.rank} had no error"]
        problems = []
        late = s.detected > (TIMEOUT + SLACK * SLOWER) * 1000
        if late and self.trial.fault in SPLITS:  # a reset of a link is noticed when its group is used next
            problems.append(f"rank {s.rank} had its error after {s.detected:.0f} ms")
        if not self.names_cause(s) and not self.may_name_others(s):
            problems.append(f"rank {s.rank} blames rank {s.culprit}: {s.message}")
        return problems

    def worlds(self, s, lines):
        """What is wrong with the sizes of the groups in which a rank went on."""
        sizes = [int(line.split()[2]) for line in lines if line.startswith("again")]
        if sizes and not self.continues(s.rank):
            return [f"rank {s.rank} went on with {sizes} ranks"]
        return [f"rank {s.rank} went on with {sizes} ranks, not {self.size(s.rank)}"] if set(sizes) - {self.size(s.rank)} else []


def play(case, trial):
    """Runs the trial: the survivors, and a list of what is wrong. case: a NetnsTest."""
    job = NetworkJob(case, trial)
    survivors, problems = [], []
    try:
        problems = job.begin()
        if not problems:
            since, ends = job.strike()
            statuses = job.finish()
            judge = Judge(trial, job.hosts, ends)
            survivors = [survivor(r, lines, since) for r, lines in sorted(job.lines.items())]
            for s in survivors:
                problems += judge.end(s, statuses[s.rank]) + judge.error(s) + judge.worlds(s, job.lines[s.rank])
            if trial.fault == "reset_link" and any(s.message for s in survivors) and not any(map(judge.names_cause, survivors)):
                problems.append(f"no rank names an end of the link, {ends}: {survivors}")
    except (AssertionError, subprocess.TimeoutExpired) as error:
        problems.append(f"a rank hangs: {error}; {[lines[-1:] for lines in job.lines.values()]}")
    finally:
        job.end()
    return survivors, problems
