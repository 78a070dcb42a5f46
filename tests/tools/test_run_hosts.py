"""muster run --hosts and --hostfile: ranks on several hosts, which a real sshd of the test's own plays."""

import getpass
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from sshd import Sshd, require_ssh
from tool import MARK, MUSTER, ToolTest, is_alive, lines_of, wait_until

STAND_IN = """\
#!/bin/sh
# Takes the place of muster on another host: shows how it was called.
for word; do printf 'word %s\\n' "$word"; done
printf 'directory %s\\n' "$PWD"
printf 'variable %s %s\\n' "$MUSTER_LOG" "$SECRET"
printf 'to stderr\\n' >&2
case "$STAND_IN" in
read) cat ;;
sleep) sleep 1000 ;;
exit*) exit "${STAND_IN#exit}" ;;
esac
"""


class Mistakes(ToolTest):
    """What is refused before anything is started."""

    def refused(self, *arguments, env=None):
        rc, out, err = self.muster("run", *arguments, "true", env=env)
        self.assertEqual((rc, out), (2, b""), err)
        self.assertEqual(err.count(b"\n"), 1, err)
        self.assertTrue(err.startswith(b"muster run: "), err)
        return err.decode()[len("muster run: ") :].rstrip("\n")

    def test_lists(self):
        self.assertEqual(self.refused("--hosts", ""), "--hosts: there is no host in it")
        self.assertIn("'a:x' is not a number of ranks", self.refused("--hosts", "a:x"))
        self.assertIn("is not the name", self.refused("--hosts", "-oProxyCommand=touch /tmp/x"))

    def test_files(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "hosts.txt")
            self.assertEqual(self.refused("--hostfile", path), f"{path}: cannot open it: No such file or directory")
            self.assertEqual(self.refused("--hostfile", directory), f"{directory}: cannot read it: Is a directory")
            for text, message in (
                ("", f"{path}: there is no host in it"),
                ("a\n\nb slots=x\n", f"{path}:3: 'slots=x' is not a number of ranks, which is a whole number from 1 to 16384"),
                ("a slots=4 max_slots=2\n", f"{path}:1: 4 ranks on a are more than max_slots=2"),
                ("a\0b\n", f"{path}:1: there is a zero byte: this is not a text file"),
                ("a" * 3000 + "\n", f"{path}:1: the line is longer than 1023 bytes"),
            ):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.assertEqual(self.refused("--hostfile", path), message)

    def test_contradictions(self):
        self.assertIn("drop either", self.refused("--hosts", "a", "--hostfile", "b"))
        for options in (("--standalone",), ("--nnodes", "2"), ("--node-rank", "0"), ("--rdzv-endpoint", "a:1")):
            self.assertIn(f"{options[0]} says which nodes there are", self.refused("--hosts", "a", *options))
        self.assertIn("cannot be added up", self.refused("-n", "cpu", "--hosts", "a,a"))
        self.assertEqual(self.refused("--hosts", "a", "--ssh", " "), "--ssh is empty")

    def test_no_ssh(self):
        said = self.refused("--hosts", "far.example", env={"PATH": "/nowhere"})
        self.assertEqual(said, "other hosts are reached by ssh, and it is missing: cannot find 'ssh' in PATH")

    def test_a_command_that_is_not_there(self):
        said = self.refused("--hosts", "far.example", "--ssh", "/no/such/ssh -x")
        self.assertIn("cannot start on host far.example: ", said)
        self.assertIn("/no/such/ssh: not found", said)


class OneHost(ToolTest):
    """Names of this machine need no ssh."""

    def test_this_machine_by_several_names(self):
        rc, out, err = self.muster(
            "run", "--hosts", "localhost:2,127.0.0.1,127.0.0.9:1", "sh", "-c", "echo $WORLD_SIZE", env={"PATH": "/usr/bin:/bin"}
        )
        self.assertEqual((rc, err), (0, b""))
        self.assertEqual(sorted(lines_of(out)), [f"[{rank}] 4" for rank in range(4)])


class SshTest(ToolTest):
    @classmethod
    def setUpClass(cls):
        require_ssh()
        cls.sshd = Sshd()
        try:
            cls.sshd.await_listening()
        except BaseException:
            cls.sshd.close()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.sshd.close()

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def words(self, hosts, *options, ssh=None):
        """All hosts are reached through ssh, and what runs there carries the test's mark."""
        return (
            "run", "--ssh", ssh or self.sshd.command(), "--ssh-local", "--hosts", hosts, "--env", MARK, *options,
        )  # fmt: skip


class StandIn(SshTest):
    """How agents are started, with a program in their place that shows how it was called and ends, which is too early."""

    def setUp(self):
        super().setUp()
        self.stand_in = os.path.join(self.directory, "stand in")
        with open(self.stand_in, "w", encoding="utf-8") as file:
            file.write(STAND_IN)
        os.chmod(self.stand_in, 0o755)

    def stand(self, hosts, *options, **more):
        return self.words(hosts, "--remote-muster", self.stand_in, "--env", "STAND_IN", *options, **more)

    def environment(self, extra=None):
        return super().environment({"STAND_IN": "", **(extra or {})})

    def test_words(self):
        place = os.path.join(self.directory, "it's a \"place\" $HOME `id`\n;!")
        os.mkdir(place)
        env = {"SECRET": "a secret", "MUSTER_LOG": "off", "MUSTER_ADVERTISE_ADDR": "127.0.0.1"}
        options = ("--max-restarts", "3", "--env", "SECRET", "--env", "X=a b", "--shutdown-timeout", "1.5")
        rc, out, err = self.muster(
            *self.stand("127.0.0.2:3", *options), "--", "/bin/echo", "--", "-n", "it's\n*", "", env=env, cwd=place
        )
        self.assertEqual(rc, 1, err)
        self.assertIn(b"to stderr\n", err)
        self.assertIn(b"muster run: the launcher on host 127.0.0.2 ended with code 0\n", err)
        out = out.decode()
        words = re.findall(r"^word (.*(?:\n\*)?)$", out, re.M)
        port = next(word for word in words if word.startswith("--master-port="))
        run_id = next(word for word in words if word.startswith("--rdzv-id="))
        self.assertEqual(
            words,
            [
                "run", "--nnodes=1", "--node-rank=0", "--master-addr=127.0.0.1", port, run_id, "--nproc-per-node=3",
                "--agent=0", "--max-restarts=3", "--shutdown-timeout=1.5", f"--env={MARK}", "--env=STAND_IN",
                "--env=SECRET", "--env=X=a b", "--", "/bin/echo", "--", "-n", "it's\n*", "",
            ],
        )  # fmt: skip
        self.assertIn(f"directory {place}\n", out)
        self.assertIn("variable off a secret\n", out)

    def test_a_great_deal_of_input(self):
        data = b"".join(b"line %d\n" % i for i in range(20000))
        _, out, _ = self.muster(*self.stand("127.0.0.2"), "true", data=data, env={"STAND_IN": "read"})
        self.assertIn(data, out)

    def test_no_secret_on_a_command_line(self):
        env = {"SECRET": "tell-nobody", "STAND_IN": "sleep"}
        job = self.begin(*self.stand("127.0.0.2", "--env", "SECRET"), "true", env=env)
        while "variable" not in job.out():
            pass
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    self.assertNotIn(b"tell-nobody", line.read())
            except (FileNotFoundError, ProcessLookupError):
                pass
        job.send(signal.SIGKILL)

    def refused(self, *arguments, code=2, env=None):
        rc, _, err = self.muster(*arguments, "true", env=env)
        lines = [line for line in err.decode().splitlines() if line != "to stderr"]
        self.assertEqual((rc, len(lines)), (code, 1), err)
        return lines[0]

    def test_an_agent_that_fails(self):
        said = self.refused(*self.stand("127.0.0.2"), code=7, env={"STAND_IN": "exit7"})
        self.assertEqual(said, "muster run: the launcher on host 127.0.0.2 ended with code 7")

    def test_unreachable(self):
        """Nobody listens at that port."""
        ssh = re.sub(r"-p \d+", "-p 1", self.sshd.command())
        said = self.refused(*self.stand("127.0.0.2,127.0.0.3", ssh=ssh))
        self.assertRegex(
            said, r"^muster run: cannot start on host 127.0.0.[23]: ssh: connect to host 127.0.0.[23] port 1: Connection refused$"
        )

    def test_unknown_host_key(self):
        said = self.refused(*self.stand("127.0.0.2", ssh=self.sshd.command(known="none")))
        self.assertIn("cannot start on host 127.0.0.2: Host key verification failed.", said)

    def test_changed_host_key(self):
        with open(self.sshd.path("strange_key.pub"), encoding="utf-8") as key:
            strange = " ".join(key.read().split()[:2])
        with open(self.sshd.path("strange"), "w", encoding="utf-8") as known:
            known.write(f"* {strange}\n")
        said = self.refused(*self.stand("127.0.0.2", ssh=self.sshd.command(known="strange")))
        self.assertIn("Host key verification failed.", said)

    def test_key_that_is_not_accepted(self):
        said = self.refused(*self.stand("127.0.0.2", ssh=self.sshd.command(key="strange_key")))
        self.assertRegex(said, "cannot start on host 127.0.0.2: .*Permission denied .*without being asked anything")

    def test_no_muster_over_there(self):
        said = self.refused(*self.words("127.0.0.2", "--remote-muster", "/no/muster"))
        self.assertEqual(
            said,
            "muster run: cannot start on host 127.0.0.2: there is no program /no/muster; --remote-muster may name another",
        )

    def test_no_such_directory_over_there(self):
        place = os.path.join(self.directory, "here only")
        os.mkdir(place)
        # What is in ssh's place runs before the agent, and takes the directory away.
        ssh = f"sh -c 'rmdir \"{place}\"; exec \"$@\"' sh {self.sshd.command()} -T -o BatchMode=yes"
        rc, _, err = self.muster(*self.stand("127.0.0.2", ssh=ssh), "true", cwd=place)
        said = f"muster run: cannot start on host 127.0.0.2: cannot change to the directory {place}\n"
        self.assertEqual((rc, err.decode()), (2, said))

    def test_connection_lost(self):
        """The ssh of a host that serves is killed."""
        job = self.begin(*self.stand("127.0.0.2"), "true", env={"STAND_IN": "sleep"})
        while "variable" not in job.out():
            pass
        children = subprocess.run(["pgrep", "-P", str(job.pid), "-x", "ssh"], capture_output=True, text=True, timeout=60)
        os.kill(int(children.stdout), signal.SIGTERM)
        rc, _, err = job.finish()
        self.assertEqual(rc, 1)
        self.assertIn("muster run: the connection to host 127.0.0.2 is lost\n", err)

    def test_launcher_killed(self):
        """No ssh outlives the launcher."""
        job = self.begin(*self.stand("127.0.0.2"), "true", env={"STAND_IN": "sleep"})
        while "variable" not in job.out():
            pass
        children = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True, timeout=60)
        job.send(signal.SIGKILL)
        for pid in map(int, children.stdout.split()):
            wait_until(lambda: not is_alive(pid), "its processes have ended", 10)

    def tearDown(self):
        # A stand-in that sleeps does not know that it is alone: only real agents do.
        for pid in self.marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        super().tearDown()


class Jobs(SshTest):
    """The real thing: muster on every host. That nothing is left anywhere is seen when each test ends."""

    def job(self, hosts, *arguments, **options):
        return self.muster(*self.words(hosts), *arguments, **options)

    def shell(self, hosts, script, *options, **more):
        return self.muster(*self.words(hosts, *options), "sh", "-c", script, **more)

    def test_all_reduce(self):
        for hosts, ranks in (("127.0.0.2:2,127.0.0.3", 3), ("127.0.0.2,127.0.0.3:2,127.0.0.4", 4)):
            rc, out, err = self.job(hosts, os.path.join(os.path.dirname(MUSTER), "examples", "02_all_reduce"))
            self.assertEqual((rc, err), (0, b""))
            models = re.findall(rb"^\[\d\] rank #(\d): my model: (.*)$", out, re.M)
            self.assertEqual(sorted(int(rank) for rank, _ in models), list(range(ranks)))
            self.assertEqual(len({model for _, model in models}), 1)

    def test_ranks_stand_in_the_order_of_the_hosts(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("# not in order\n127.0.0.3 slots=1\n127.0.0.2 slots=2\n127.0.0.3 slots=1\n")
            file.flush()
            rc, out, err = self.muster(
                "run", "--ssh", self.sshd.command(), "--ssh-local", "--hostfile", file.name, "--env", MARK,
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
                "run", "--ssh", self.sshd.command(), "--hosts", hosts, "--env", MARK,
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
        self.assertEqual(sorted(lines_of(out)), ["[0] 0 0", "[0] 0 1", "[1] 1 0", "[1] 1 1"])
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
        self.assertIn("interrupted; waiting for the ranks to end (once more kills them)", err)

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
        # The oldest is the launcher; another is its warden, which has the same words.
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
