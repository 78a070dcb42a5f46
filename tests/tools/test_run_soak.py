"""muster run, a hundred times in a row: well, badly and killed, on one node and on two; nothing is left behind and nothing grows."""

import os
import re
import signal
import socket
import tempfile
import unittest

from harness import ToolTest, wait_until

RUNS = 100
GENERATIONS = 60
FORERUN = 15  # generations after which the launcher has all that it will ever need
KIB_MOST = 1024  # that it may grow none the less
FILES_MOST = 8  # more at one time than at another: a rank may run before its launcher has let go of its ends of the pipes
SANITIZED = re.search("-[at]san", os.environ.get("MUSTER_BUILD_DIR", ""))  # keeps what was freed
HANG = "echo up; exec sleep 1000"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def is_listening(port):
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name, encoding="ascii") as table:
            for line in list(table)[1:]:
                words = line.split()
                if words[3] == "0A" and int(words[1].rsplit(":", 1)[1], 16) == port:
                    return True
    return False


def ours_in_memory():
    return {name for name in os.listdir("/dev/shm") if "muster" in name}


class Soak(ToolTest):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.port = free_port()
        self.memory = ours_in_memory()

    def start(self, *words, script):
        return self.begin("run", *words, "sh", "-c", script, env={"TMPDIR": self.directory.name})

    def node(self, rank, *words, script):
        return self.start("--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--node-rank", rank, *words,
                          script=script)

    def two(self, scripts, *words, first=0):
        """Two nodes, started in either order; returns them in that of their ranks."""
        nodes = {}
        for rank in (first, 1 - first):
            nodes[rank] = self.node(rank, *words, script=scripts[rank])
        return nodes[0], nodes[1]

    def alone(self, script, wanted):
        rc, _, err = self.start("-n", 2, "--master-port", self.port, script=script).finish()
        self.assertEqual(rc, wanted, err)

    def together(self, scripts, wanted, first=0):
        for node in self.two(scripts, first=first):
            rc, _, err = node.finish()
            self.assertEqual(rc, wanted, err)

    def good(self):
        self.alone("exit 0", 0)

    def failing(self):
        self.alone("exit 3", 3)

    def killed_rank(self):
        self.alone("kill -9 $$", 128 + signal.SIGKILL)

    def killed_launcher(self):
        run = self.start("-n", 2, "--master-port", self.port, script=HANG)
        run.out(), run.out()
        run.send(signal.SIGKILL)
        self.assertEqual(run.finish()[0], -signal.SIGKILL)

    def two_good(self):
        self.together(("exit 0", "exit 0"), 0)

    def two_good_the_other_way_round(self):
        self.together(("exit 0", "exit 0"), 0, first=1)

    def two_failing(self):
        self.together(("exit 4", "exit 4"), 4)

    def two_and_one_is_killed(self, victim):
        nodes = self.two((HANG, HANG), first=victim)
        for node in nodes:
            node.out()
        nodes[victim].send(signal.SIGKILL)
        self.assertEqual(nodes[victim].finish()[0], -signal.SIGKILL)
        rc, _, err = nodes[1 - victim].finish()
        self.assertEqual(rc, 1, err)
        self.assertRegex(err, "the coordinator of the job was lost" if victim == 0 else "was lost")

    def two_and_the_head_is_killed(self):
        self.two_and_one_is_killed(0)

    def two_and_the_member_is_killed(self):
        self.two_and_one_is_killed(1)

    def check_nothing_is_left(self, what):
        wait_until(lambda: not self.marked(), f"no process is left after {what}", 10)
        self.assertFalse(is_listening(self.port), what)
        self.assertEqual(os.listdir(self.directory.name), [], what)

    def test_many_runs(self):
        scenes = [self.good, self.failing, self.two_good, self.killed_rank, self.killed_launcher,
                  self.two_good_the_other_way_round, self.good, self.two_failing, self.two_and_the_head_is_killed,
                  self.two_and_the_member_is_killed]
        for i in range(RUNS):
            scene = scenes[i % len(scenes)]
            scene()
            self.check_nothing_is_left(f"run {i}, {scene.__name__}")
        self.assertEqual(ours_in_memory() - self.memory, set())

    def check_growth(self, run):
        """The ranks print how many files their launcher has, and how much memory."""
        rc, out, err = run.finish()
        self.assertEqual(rc, 5, err[-2000:])
        seen = [tuple(map(int, found)) for found in re.findall(r"^\[\d\] (\d+) (\d+) (\d+)$", out, re.M)]
        self.assertEqual({pid for pid, _, _ in seen}, {run.pid})
        self.assertGreater(len(seen), GENERATIONS // 2)  # another rank's failure may come before a line
        files = [n for _, n, _ in seen[FORERUN:]]
        self.assertLessEqual(max(files), min(files) + FILES_MOST, files)
        memory = [kib for _, _, kib in seen[FORERUN:]]
        if not SANITIZED:
            self.assertLessEqual(max(memory), memory[0] + KIB_MOST, memory)

    def test_many_generations(self):
        script = "set -- /proc/$PPID/fd/*; echo $PPID $# $(sed -n 's/VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$PPID/status); exit 5"
        self.check_growth(self.start("--max-restarts", GENERATIONS, script=script))
        for node in self.two((script, script), "--max-restarts", GENERATIONS):
            self.check_growth(node)
        self.check_nothing_is_left("many generations")


if __name__ == "__main__":
    unittest.main()
