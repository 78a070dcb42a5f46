"""muster run with random command lines, from a fixed seed: it never crashes or hangs, and a mistake is one line on stderr."""

import concurrent.futures
import os
import random
import socket
import subprocess
import tempfile
import unittest

from harness import MUSTER, ToolTest, default_signals

CASES, AT_ONCE, SECONDS = 400, 4, 30
SEED = 20240607
ODD = ["", " ", "é ü", "'", '"x"', "a b", "-", "--", "-1", "0x10", "1e3", "nan", "inf", "1.5", "9" * 30, "x" * 300,
       "%s%n", "a\nb", "\t", "=", ",", ":", "²", "💥", "\x1b[31m", "\udcff", "1 2", "+-1"]
# Names that are none at first sight: others would be looked up.
ODD_PLACES = ["", " ", "a b", "127.0.0.1:x", "127.0.0.1:", ":1", "127.0.0.1:65536", "[::1", "a/b", "x" * 300, "a?b:1",
              "127.0.0.1:-1", "127.0.0.1:\n"]
PORT = object()

# What makes sense; None: no value is taken.
OPTIONS = {
    "nproc-per-node": ["1", "2", "3", "cpu"],
    "nnodes": ["1", "2", "1:2", "1:1", "3"],
    "rdzv-endpoint": [PORT],
    "node-rank": ["0", "1", "2"],
    "master-addr": ["127.0.0.1", "localhost"],
    "master-port": ["0", PORT],
    "rdzv-id": ["job", "a.b-c_d"],
    "rdzv-conf": ["join_timeout=0.2", "join_timeout=0.2,last_call_timeout=0"],
    "rdzv-backend": ["c10d", "static"],
    "standalone": None,
    "max-restarts": ["0", "1", "2"],
    "monitor-interval": ["0.1", "5"],
    "shutdown-timeout": ["0", "0.1", "5"],
    "signals-to-handle": ["SIGTERM", "TERM,INT", "15"],
    "log-dir": ["logs", "deep/er/logs"],
    "redirects": ["1", "3", "0:1", "0:3,1:2"],
    "tee": ["1", "3", "0:1"],
    "local-ranks-filter": ["0", "0,1"],
    "bind": ["none", "cores", "numa"],
    "numa-binding": ["node", "none"],
    "env": ["A=b", "PATH", "E=é", "EMPTY="],
    "no-env": None,
    "verbose": None,
    "no-prefix": None,
}
LETTERS = {"nproc-per-node": "n", "redirects": "r", "tee": "t", "verbose": "v"}
UNKNOWN = ["--nproc", "--", "-x", "--no", "--é", "--=", "--" + "x" * 200, "-5", "---", "--nnodes2", "-nv", "--standalone=1"]
PROGRAMS = [["/bin/true"]] * 5 + [["sh", "-c", "exit 3"]] * 4 + [["sh", "-c", "exit 3", "--nnodes", "x", "-n"], [],
            ["no-such-program"], ["/"], [""], ["/bin/true", "é", "", "--help"]]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


class Case:
    """One command line, made of a random generator's next numbers."""

    def __init__(self, rng):
        self.rng = rng
        self.port = free_port()
        names = rng.sample(list(OPTIONS), rng.choice([0, 1, 1, 2, 2, 3, 4, 6]))
        several = rng.random() < 0.1  # nodes that could meet, if the others were there
        if several:
            names = [n for n in names if n not in ("nnodes", "rdzv-endpoint", "master-addr", "master-port", "standalone")]
        self.words = [word for name in names for word in self.option(name)]
        if several:
            self.words += ["--nnodes", rng.choice(["2", "1:2", "2:3"]), "--rdzv-endpoint", "127.0.0.1:" + self.port]
        if rng.random() < 0.08:
            self.words.insert(rng.randrange(len(self.words) + 1), rng.choice(UNKNOWN))
        if "master-addr" in names:
            self.words += ["--master-port", self.port]  # or else one that another test may use
        if several or "nnodes" in names:
            self.words += ["--rdzv-conf", "join_timeout=0.2,last_call_timeout=0"]
        if rng.random() < 0.05 and names:
            self.words.append("--" + rng.choice(names))  # which lacks its value, or takes the program for it
        self.words += rng.choice(PROGRAMS)
        self.talks = bool({"verbose", "redirects", "tee"} & set(names)) or "-nv" in self.words

    def value(self, name):
        place = name in ("rdzv-endpoint", "master-addr")
        if self.rng.random() < 0.2:
            return self.rng.choice(ODD_PLACES if place else ODD)
        value = self.rng.choice(OPTIONS[name])
        if value is PORT:
            return ("127.0.0.1:" if place else "") + self.port
        return value

    def option(self, name):
        long = "--" + (name.replace("-", "_") if self.rng.random() < 0.2 else name)
        if OPTIONS[name] is None:
            return ["-" + LETTERS[name]] if name in LETTERS and self.rng.random() < 0.5 else [long]
        value = self.value(name)
        if name in LETTERS and self.rng.random() < 0.5:
            return ["-" + LETTERS[name], value]
        return [f"{long}={value}"] if self.rng.random() < 0.4 else [long, value]


class CommandLines(ToolTest):
    def check(self, case):
        """Runs it in a directory of its own, where its logs stay too; returns what is wrong, and the exit status."""
        with tempfile.TemporaryDirectory() as directory:
            process = subprocess.Popen([MUSTER, "run", *(os.fsencode(w) for w in case.words)], cwd=directory,
                                       env=self.environment({"TMPDIR": directory}), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default_signals)
            try:
                out, err = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                return f"not done in {SECONDS} s: {process.communicate()}", None
        rc = process.returncode
        lines = err.splitlines(keepends=True)
        if rc < 0 or rc >= 128:
            return f"exit status {rc}: {err}", rc
        if rc not in (0, 1, 2, 3):
            return f"exit status {rc}, of nobody's: {err}", rc
        if rc == 2 and (out or not lines or (len(lines) > 1 and not case.talks)):
            return f"a mistake, and not one line: {out} {err}", rc
        if rc == 2 and not all(line.startswith(b"muster run: ") and line.endswith(b"\n") for line in lines):
            return f"lines of nobody's: {err}", rc
        return None, rc

    def test_any(self):
        rng = random.Random(SEED)
        cases = [Case(rng) for _ in range(CASES)]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            results = list(pool.map(self.check, cases))
        wrong = [f"{case.words}: {text}" for case, (text, _) in zip(cases, results) if text]
        self.assertEqual(wrong, [])
        # Each kind of end is met, or the lines are not as random as they should be.
        ends = [rc for _, rc in results]
        for rc, least in ((0, 50), (1, 5), (2, 50), (3, 30)):
            self.assertGreaterEqual(ends.count(rc), least, f"exit status {rc}")


if __name__ == "__main__":
    unittest.main()
