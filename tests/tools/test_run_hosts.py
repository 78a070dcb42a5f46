"""muster run --hosts and --hostfile: what is refused, and how launchers on other hosts are started."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
import unittest

from sshd import SshTest
from harness import ToolTest, default_signals, is_alive, lines_of, wait_until

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
        self.assertEqual(self.refused("--hosts", ""), "--hosts: it names no host")
        self.assertIn("'a:x' has no number of ranks", self.refused("--hosts", "a:x"))
        self.assertIn("is not a host name", self.refused("--hosts", "-oProxyCommand=touch /tmp/x"))

    def test_files(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "hosts.txt")
            self.assertEqual(self.refused("--hostfile", path), f"{path}: cannot open it: No such file or directory")
            self.assertEqual(self.refused("--hostfile", directory), f"{directory}: cannot read it: Is a directory")
            for text, message in (
                ("", f"{path}: it names no host"),
                ("a\n\nb slots=x\n", f"{path}:3: 'slots=x' has no number of ranks from 1 to 16384"),
                ("a slots=4 max_slots=2\n", f"{path}:1: 4 ranks on a are more than max_slots=2"),
                ("a\0b\n", f"{path}:1: the line has a zero byte; this is not a text file"),
                ("a" * 3000 + "\n", f"{path}:1: the line is longer than 1023 bytes"),
            ):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.assertEqual(self.refused("--hostfile", path), message)

    def test_contradictions(self):
        self.assertIn("remove one of them", self.refused("--hosts", "a", "--hostfile", "b"))
        for options in (("--standalone",), ("--nnodes", "2"), ("--node-rank", "0"), ("--rdzv-endpoint", "a:1")):
            self.assertIn(f"{options[0]} and --hosts both name the nodes of the job", self.refused("--hosts", "a", *options))
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


class FailedStart(ToolTest):
    """The ranks of this machine cannot all be started; the other host is this machine too, reached without ssh."""

    def test_processes_that_leave_their_group_hold_the_output(self):
        """Inherited files use up the limit on open files that the launcher has checked."""
        n = 100
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(150)]
        for fd in files:
            self.addCleanup(os.close, fd)

        def limit():
            default_signals()
            resource.setrlimit(resource.RLIMIT_NOFILE, (3 * n + 80, 3 * n + 80))

        with tempfile.TemporaryDirectory() as directory:
            ssh = os.path.join(directory, "login")
            with open(ssh, "w", encoding="utf-8") as file:
                file.write('#!/bin/sh\nexec sh -c "$2"\n')
            os.chmod(ssh, 0o755)
            rc, _, err = self.muster(
                "run", "--hosts", f"localhost:{n},192.0.2.1:1", "--ssh", ssh, *SshTest.travels(), "sh", "-c", "setsid sleep 1000 & wait",
                env={"MUSTER_ADVERTISE_ADDR": "127.0.0.1"}, pass_fds=files, preexec_fn=limit,
            )  # fmt: skip
        for pid in self.marked():
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(rc, 2, err)
        self.assertRegex(err.decode(), r"\Amuster run: cannot start rank \d+: Too many open files;")


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
        self.assertIn(b"muster run: the launcher on host 127.0.0.2 exited with code 0\n", err)
        out = out.decode()
        words = re.findall(r"^word (.*(?:\n\*)?)$", out, re.M)
        port = next(word for word in words if word.startswith("--master-port="))
        run_id = next(word for word in words if word.startswith("--rdzv-id="))
        self.assertEqual(
            words,
            [
                "run", "--nnodes=1", "--node-rank=0", "--master-addr=127.0.0.1", port, run_id, "--nproc-per-node=3",
                "--agent=0", "--agent-secret", "--max-restarts=3", "--shutdown-timeout=1.5",
                *(f"--env={name}" for name in self.travels()[1::2]), "--env=STAND_IN", "--env=SECRET", "--env=X=a b", "--", "/bin/echo", "--", "-n", "it's\n*", "",
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
        self.assertEqual(said, "muster run: the launcher on host 127.0.0.2 exited with code 7")

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
        self.assertRegex(said, "cannot start on host 127.0.0.2: .*Permission denied .*a login without prompts")

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
        # A stand-in that sleeps does not know that it is alone: only real agents do. A process that is killed may
        # have started another one after the list was read, so the list is read until it is empty.
        end = time.monotonic() + self.grace
        while (left := self.marked()) and time.monotonic() < end:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        super().tearDown()


if __name__ == "__main__":
    unittest.main()
