"""muster run --hosts: whole jobs on several hosts, which a real sshd of the test's own plays."""

import array
import fcntl
import getpass
import os
import re
import signal
import sys
import tempfile
import termios
import time
import unittest

from sshd import SshTest
from harness import MUSTER, lines_of, wait_until


class Jobs(SshTest):
    """The real thing: muster on every host. That nothing is left anywhere is seen when each test ends."""

    def job(self, hosts, *arguments, **options):
        return self.muster(*self.words(hosts), *arguments, **options)

    def shell(self, hosts, script, *options, **more):
        return self.muster(*self.words(hosts, *options), "sh", "-c", script, **more)

    def test_all_reduce(self):
        for hosts, ranks in (("127.0.0.2:2,127.0.0.3", 3), ("127.0.0.2,127.0.0.3:2,127.0.0.4", 4)):
            rc, out, err = self.job(hosts, os.path.join(os.path.dirname(MUSTER), "examples", "05_data_parallel"))
            self.assertEqual((rc, err), (0, b""))
            models = re.findall(rb"^\[\d\] rank #(\d): my model: (.*)$", out, re.M)
            self.assertEqual(sorted(int(rank) for rank, _ in models), list(range(ranks)))
            self.assertEqual(len({model for _, model in models}), 1)

    def test_ranks_stand_in_the_order_of_the_hosts(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("# not in order\n127.0.0.3 slots=1\n127.0.0.2 slots=2\n127.0.0.3 slots=1\n")
            file.flush()
            rc, out, err = self.muster(
                "run", "--ssh", self.sshd.command(), "--ssh-local", "--hostfile", file.name, *self.travels(),
                "sh", "-c", "echo $RANK $LOCAL_RANK $GROUP_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE ${SSH_CONNECTION#* * }",
            )  # fmt: skip
        self.assertEqual((rc, err), (0, b""))
        port = self.sshd.port
        self.assertEqual(
            sorted(lines_of(out)),
            [f"[0] 0 0 0 4 2 127.0.0.3 {port}", f"[1] 1 1 0 4 2 127.0.0.3 {port}",
             f"[2] 2 0 1 4 2 127.0.0.2 {port}", f"[3] 3 1 1 4 2 127.0.0.2 {port}"],
        )  # fmt: skip

    def test_this_machine_among_others(self):
        """It needs no ssh for its own ranks, wherever in the list it stands."""
        user = getpass.getuser()
        for hosts, here in ((f"localhost,{user}@127.0.0.2", 0), (f"{user}@127.0.0.2,localhost", 1)):
            rc, out, err = self.muster(
                "run", "--ssh", self.sshd.command(), "--hosts", hosts, *self.travels(),
                "sh", "-c", "echo $RANK ${SSH_CONNECTION:-none}",
            )  # fmt: skip
            self.assertEqual((rc, err), (0, b""))
            self.assertIn(f"[{here}] {here} none", lines_of(out))
            self.assertEqual(len([line for line in lines_of(out) if "127.0.0.2" in line]), 1)

    def test_rank_that_fails(self):
        rc, _, err = self.shell("127.0.0.2,127.0.0.3", "[ $RANK = 1 ] && echo so it is >&2 && exit 7; sleep 100")
        err = err.decode()
        self.assertEqual(rc, 7, err)
        self.assertEqual(err.count("exited with code 7; ending the other ranks"), 1, err)
        self.assertEqual(err.count("muster run: the job failed; root cause:"), 1, err)
        for part in ("rank       1 (local rank 0)", "exit code  7", "[1] so it is"):
            self.assertIn(part, err)
        self.assertEqual(len([line for line in err.splitlines() if line.startswith("muster run")]), 2, err)

    def test_restarts(self):
        script = "echo $RANK $TORCHELASTIC_RESTART_COUNT; [ $RANK$TORCHELASTIC_RESTART_COUNT != 10 ] || exit 3; sleep 0.3"
        rc, out, err = self.shell("127.0.0.2,127.0.0.3", script, "--max-restarts", "1")
        self.assertEqual(rc, 0, err)
        lines = sorted(line for line in lines_of(out) if line != "[0] 0 0")  # rank 1 may fail before rank 0 has begun
        self.assertEqual(lines, ["[0] 0 1", "[1] 1 0", "[1] 1 1"])
        self.assertIn(b"starting all ranks again: restart 1 of 1", err)

    def test_no_such_program(self):
        rc, out, err = self.job("127.0.0.2,127.0.0.3", "/no/such/program")
        self.assertEqual((rc, out), (2, b""))
        self.assertIn(b"muster run: cannot run '/no/such/program': there is no such file\n", err)

    def test_input_goes_to_rank_0(self):
        rc, out, err = self.shell("127.0.0.2,127.0.0.3", "cat", data=b"one\ntwo")
        self.assertEqual((rc, err), (0, b""))
        self.assertEqual(lines_of(out), ["[0] one", "[0] two"])

    def test_lines_stay_whole(self):
        script = "i=0; while [ $i -lt 500 ]; do echo rank $RANK line $i; echo rank $RANK line $i >&2; i=$((i + 1)); done"
        rc, out, err = self.shell("127.0.0.2:2,127.0.0.3:2", script)
        self.assertEqual(rc, 0)
        expected = sorted(f"[{rank}] rank {rank} line {i}" for rank in range(4) for i in range(500))
        self.assertEqual(sorted(lines_of(out)), expected)
        self.assertEqual(sorted(lines_of(err)), expected)

    def test_long_lines_and_raw_bytes(self):
        rc, out, _ = self.job("127.0.0.2", sys.executable, "-c", "print('x' * 70000)")
        self.assertEqual((rc, [len(line) for line in lines_of(out)]), (0, [65540, 70000 - 65536 + 4]))
        rc, out, _ = self.muster(*self.words("127.0.0.2", "--no-prefix"), "printf", "a\\0b")
        self.assertEqual((rc, out), (0, b"a\0b"))

    def test_many_hosts(self):
        """More than are started at once."""
        hosts = ",".join(f"127.0.1.{i}" for i in range(1, 71))
        rc, out, err = self.shell(hosts, "echo $RANK")
        self.assertEqual(rc, 0, err)
        self.assertEqual(sorted(int(line.split()[-1]) for line in lines_of(out)), list(range(70)))

    def sleeping(self, script, *options):
        """A job on two hosts whose ranks have said that they are there."""
        job = self.begin(*self.words("127.0.0.2,127.0.0.3", *options), "sh", "-c", script)
        for _ in range(2):
            self.assertIn("there", job.out())
        return job

    def test_interrupted(self):
        job = self.sleeping("trap 'echo told; exit 5' INT; echo there; while :; do sleep 0.05; done")
        job.send(signal.SIGINT)
        rc, out, err = job.finish()
        self.assertEqual(rc, 130, err)
        self.assertEqual(sorted(out.splitlines()), ["[0] told", "[1] told"])
        self.assertIn("interrupted; waiting for the ranks to end (a second interrupt kills them)", err)

    def test_interrupted_twice(self):
        job = self.sleeping("trap 'echo told' INT; echo there; while :; do sleep 0.05; done")
        job.send(signal.SIGINT)
        for _ in range(2):
            self.assertIn("told", job.out())
        job.send(signal.SIGINT)
        self.assertEqual(job.finish()[0], 130)

    def test_terminated(self):
        job = self.sleeping("echo there; exec sleep 1000")
        job.send(signal.SIGTERM)
        self.assertEqual(job.finish()[0], 143)

    def test_killed(self):
        job = self.sleeping("echo there; sleep 1000 & exec sleep 1000")
        job.send(signal.SIGKILL)
        wait_until(lambda: not self.marked(), "everything has ended everywhere", 20)

    def test_launcher_over_there_killed(self):
        job = self.sleeping("echo there; exec sleep 1000")
        # The oldest is the launcher; another is its reaper, which has the same command line.
        agents = [pid for pid in self.marked() if {"run", "--node-rank=1"} <= set(self.command_of(pid))]
        os.kill(min(agents), signal.SIGKILL)
        rc, _, err = job.finish()
        self.assertEqual(rc, 1, err)
        self.assertIn("the connection to host 127.0.0.3 is lost", err)

    @staticmethod
    def command_of(pid):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as line:
                return line.read().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            return []

    def test_nobody_reads(self):
        job = self.begin(*self.words("127.0.0.2,127.0.0.3"), "yes")
        job.out()
        job.process.stdout.close()
        self.assertEqual(job.process.wait(60), 128 + signal.SIGPIPE)

    def test_interrupted_while_output_is_blocked(self):
        """The reader of the launcher's output neither reads nor closes it."""
        job = self.begin(*self.words("127.0.0.2,127.0.0.3", "--shutdown-timeout", "1"), "yes")
        wait_until(lambda: self.unread(job.process.stdout) >= 32768, "the pipe is almost full")
        wait_until(lambda: self.is_blocked(job.process.stdout), "nothing is written any more")
        job.send(signal.SIGINT)
        self.assertIn("a second interrupt kills them", job.err())
        job.send(signal.SIGINT)
        self.assertEqual(job.process.wait(20), 130)

    @staticmethod
    def unread(pipe):
        count = array.array("i", [0])
        fcntl.ioctl(pipe, termios.FIONREAD, count)
        return count[0]

    def is_blocked(self, pipe):
        before = self.unread(pipe)
        time.sleep(0.2)
        return self.unread(pipe) == before

    def test_host_that_cannot_be_reached(self):
        """The other, whose launcher may be there already, ends."""
        rc, _, err = self.job("127.0.0.2,no-such-host.invalid", "sleep", "1000")
        self.assertEqual(rc, 2, err)
        self.assertEqual(err.count(b"\n"), 1, err)
        self.assertIn(b"cannot start on host no-such-host.invalid: ssh: Could not resolve hostname", err)

    def test_logs(self):
        rc, _, err = self.shell("127.0.0.2,127.0.0.3", "echo $RANK", "--log-dir", self.directory)
        self.assertEqual((rc, err), (0, b""))
        found = []
        for directory, _, files in os.walk(self.directory):
            for name in files:
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    found.append(file.read())
        self.assertEqual(sorted(text for text in found if text), ["0\n", "1\n"])


if __name__ == "__main__":
    unittest.main()
