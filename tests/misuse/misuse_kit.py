"""Runs the cases of tests/misuse/misuse.c with several ranks and says what is wrong with their results."""

import collections
import re
import subprocess
import tempfile

from harness import MUSTER, PROGRAMS, SOON

MISUSE = PROGRAMS / "misuse"
ODD = 1  # the rank that makes the odd call
LIMIT_MS = int(1000 * SOON)  # every rank must have its error after this time; tests run in parallel on few cores
TIMEOUT_MS = 15000  # of all calls, less than SYNC_MS of misuse.c; never reached
RUN = 300.0  # seconds for one run; reached only when something is wrong

# hosts has a letter for the simulated host of each rank. Plain ranks are started without a launcher. check: MUSTER_CHECK
# is set, so that ranks compare every call, not only the first of its kind.
Layout = collections.namedtuple("Layout", "name hosts plain mode check")
Case = collections.namedtuple("Case", "name expect odd others")
Step = collections.namedtuple("Step", "status ms culprit line message")


def words(name):
    """The words that a sub-command of the program lists, a line each."""
    out = subprocess.run([MISUSE, name], check=True, stdout=subprocess.PIPE, timeout=60).stdout.decode()
    return [line.split("\t") for line in out.splitlines()]


def cases():
    return [Case(*fields) for fields in words("cases")]


def describe(rank, step, result):
    return f"rank {rank}, {step}: {result.status} after {result.ms / 1000:.1f} s: {result.message or '(no message)'}"


class Wrong(Exception):
    """What is wrong with the results of a case."""


class Slow(Wrong):
    """The error came after the limit, which also happens on a machine with too few cores."""


def check(what, status, *patterns):
    """Requires a status in time, and a message that matches all patterns."""
    result = what[2]
    if result.status not in status.split("|"):
        raise Wrong(describe(*what))
    if result.ms >= LIMIT_MS:
        raise Slow(f"too slow: {describe(*what)}")
    for pattern in patterns:
        if not re.search(pattern, result.message):
            raise Wrong(f"{describe(*what)}: no '{pattern}'")


def patterns_of(case, rank, odd_line):
    """What the error of a rank must contain if calls do not match."""
    if case.expect == "rejecter":
        return [case.odd, rf"rank {ODD}\b"]
    if case.expect == "rejected":
        return [case.others, rf"rank {ODD}\b", rf"\.c:{odd_line}\b"]
    any_rank = rank == ODD or case.expect == "any"
    return [rf"rank (?!{rank}\b)\d" if any_rank else rf"rank {ODD}\b", case.others if rank == ODD else case.odd]


def check_mismatch(case, rank, steps, odd_line, compares):
    call, after = (rank, "call", steps["call"]), (rank, "after", steps["after"])
    if rank == ODD and case.expect == "rejected":
        check(call, "MST_ERR_INVALID|MST_ERR_UNSUPPORTED", case.odd)
    elif case.expect == "later" and not compares:
        check(call, "MST_OK|MST_ERR_MISMATCH")
    else:
        check(call, "MST_ERR_MISMATCH", *patterns_of(case, rank, odd_line))
    check(after, "MST_ERR_MISMATCH")


def check_case(case, ranks, compares):
    """Raises Wrong unless the results are those that the case requires. ranks[r] has the steps of rank r."""
    for rank, steps in enumerate(ranks):
        call, after = (rank, "call", steps["call"]), (rank, "after", steps.get("after"))
        if case.expect in ("ok", "invalid"):
            check(call, "MST_OK" if case.expect == "ok" else "MST_ERR_INVALID")
            check(after, "MST_OK")
        elif case.expect != "receiver":
            check_mismatch(case, rank, steps, ranks[ODD]["call"].line, compares)
        elif rank == 0:
            check(call, "MST_ERR_MISMATCH", rf"rank {ODD}\b", case.odd)


class Run:
    """The results of some cases with one layout. A case after which the world is unusable ends a world."""

    def __init__(self, test, layout):
        self.test = test
        self.layout = layout
        self.results = {}  # of each case: the steps of each rank
        self.ends = {}  # of cases that ended the world: how

    def plain_starts(self, command, address="127.0.0.1", inside=lambda host: ()):
        """The command and the environment of each rank that is started without a launcher."""
        place = {"WORLD_SIZE": len(self.layout.hosts), "MASTER_ADDR": address, "MASTER_PORT": self.test.free_port()}
        return [
            ([*inside(host), *command], {**place, "RANK": rank, "MUSTER_FORCE_HOST": host})
            for rank, host in enumerate(self.layout.hosts)
        ]

    def starts(self, command):
        if self.layout.plain:
            return self.plain_starts(command)
        pick = " ".join(f"{rank}) host={host};;" for rank, host in enumerate(self.layout.hosts))
        script = f'case $RANK in {pick} esac; MUSTER_FORCE_HOST=$host exec "$0" "$@"'
        return [([MUSTER, "run", "-n", len(self.layout.hosts), "--no-prefix", "sh", "-c", script, *command], {})]

    def start(self, names):
        """Starts a world for these cases and returns its output when it has ended."""
        env = {
            "MUSTER_TIMEOUT_MS": TIMEOUT_MS,
            "MUSTER_STORE_LINGER_MS": 5000,
            "MUSTER_CHECK": int(self.layout.check),
        }
        with tempfile.TemporaryFile() as output:  # a pipe could fill up and delay a rank
            options = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            starts = self.starts([MISUSE, "ranks", self.layout.mode, *names])
            for process in [self.test.popen(*start, env={**env, **own}, **options) for start, own in starts]:
                process.wait(RUN)
            output.seek(0)
            return output.read().decode(errors="replace")

    def read(self, output):
        """Stores the results in the output. Returns the lines that are none."""
        others = []
        for line in output.splitlines():
            fields = line.split("\t")
            if len(fields) != 8:
                others.append(line)
                continue
            ranks = self.results.setdefault(fields[1], [{} for _ in self.layout.hosts])
            ranks[int(fields[0])][fields[2]] = Step(fields[3], *map(int, fields[4:7]), fields[7])
        return others

    def run(self, cases):
        """Runs the cases, and once more those that are only too slow. Returns the verdict of each by its name."""
        self.run_names([case.name for case in cases])
        slow = [case for case in cases if isinstance(self.judge(case), Slow)]
        self.run_names([case.name for case in slow])
        return {case.name: self.judge(case) for case in cases}

    def run_names(self, names):
        while names:
            others = self.read(self.start(names))
            done = 0
            while done < len(names) and all("end" in rank for rank in self.results.get(names[done], [{}])):
                done += 1
            if done < len(names):
                self.ends[names[done]] = " / ".join(others[-6:])
                done += 1
            names = names[done:]

    def judge(self, case):
        """None if the results are as required, or a Wrong."""
        ranks = self.results.get(case.name, [])
        failed = [
            describe(r, name, step)
            for r, steps in enumerate(ranks)
            for name, step in steps.items()
            if name not in ("call", "after") and step.status != "MST_OK"
        ]
        if case.name in self.ends or failed:
            return Wrong(f"the world was lost: {'; '.join(failed)} {self.ends.get(case.name, '')}")
        try:
            check_case(case, ranks, self.layout.check)
        except Wrong as why:
            return why
        return None
