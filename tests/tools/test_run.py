"""muster run: environment, output, failures, signals, and that nothing is left behind."""

import fcntl
import os
import pathlib
import pty
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import unittest

from harness import MUSTER, Gate, ToolTest, default_signals, is_alive, lines_of, wait_until, without_pidfd


def wait_a_moment():
    """Lets time pass between two looks at the same thing."""
    select.select([], [], [], 0.05)


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


class Environment(ToolTest):
    def variables(self, n, *options, **env):
        rc, out, err = self.muster("run", "-n", n, *options, "env", env=env)
        self.assertEqual((rc, err), (0, b""))
        ranks = [{} for _ in range(n)]
        for line in lines_of(out):
            match = re.fullmatch(r"\[ *(\d+)\] ([^=]*)=(.*)", line)
            if match:
                ranks[int(match[1])][match[2]] = match[3]
        return ranks

    def test_torchrun_variables(self):
        ranks = self.variables(3, RANK="9", TORCHELASTIC_ERROR_FILE="/x", MASTER_PORT="1", GROUP_RANK="5")
        for rank, env in enumerate(ranks):
            for name in ("RANK", "LOCAL_RANK", "ROLE_RANK"):
                self.assertEqual(env[name], str(rank))
            for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"):
                self.assertEqual(env[name], "3")
            self.assertEqual(env["GROUP_RANK"], "0")
            self.assertEqual(env["GROUP_WORLD_SIZE"], "1")
            self.assertEqual(env["ROLE_NAME"], "default")
            self.assertEqual(env["MASTER_ADDR"], "127.0.0.1")
            self.assertGreater(int(env["MASTER_PORT"]), 1)
            self.assertEqual(env["TORCHELASTIC_RESTART_COUNT"], "0")
            self.assertEqual(env["TORCHELASTIC_MAX_RESTARTS"], "0")
            self.assertRegex(env["TORCHELASTIC_RUN_ID"], r"\A[0-9a-f]{16}\Z")
            self.assertEqual(env["TORCHELASTIC_USE_AGENT_STORE"], "True")
            self.assertEqual(env["OMP_NUM_THREADS"], "1")
            self.assertNotIn("TORCHELASTIC_ERROR_FILE", env)
        self.assertEqual(len({env["TORCHELASTIC_RUN_ID"] for env in ranks}), 1)

    def test_each_variable_once(self):
        _, out, _ = self.muster("run", "env", env={"RANK": "9", "WORLD_SIZE": "9"})
        names = [line.split("=")[0] for line in lines_of(out)]
        self.assertEqual(names.count("[0] RANK"), 1)
        self.assertEqual(names.count("[0] WORLD_SIZE"), 1)

    def test_omp_num_threads(self):
        self.assertNotIn("OMP_NUM_THREADS", self.variables(1)[0])
        self.assertEqual(self.variables(2, OMP_NUM_THREADS="4")[1]["OMP_NUM_THREADS"], "4")

    def test_variables_for_the_ranks(self):
        ranks = self.variables(2, "--env", "A=1", "--env=B=x=y z", "--env", "A=2", "--env", "EMPTY=", "--env", "OWN",
                               "--env", "OMP_NUM_THREADS=3", A="old", OWN="mine")
        for env in ranks:
            self.assertEqual([env[name] for name in ("A", "B", "EMPTY", "OWN")], ["2", "x=y z", "", "mine"])
            self.assertEqual(env["OMP_NUM_THREADS"], "3")
        _, out, _ = self.muster("run", "--env", "A=1", "--env", "A=2", "env", env={"A": "0"})
        self.assertEqual([line for line in lines_of(out) if line.startswith("[0] A=")], ["[0] A=2"])

    def test_almost_empty_environment(self):
        mark = ("--env", "TEST_MARK")
        env = self.variables(2, "--no-env", *mark, "--env", "MORE=1", OTHER="x", OMP_NUM_THREADS="7", LC_ALL="C")[1]
        for name in ("PATH", "RANK", "MASTER_PORT", "TEST_MARK", "MORE", "LC_ALL"):
            self.assertIn(name, env)
        self.assertNotIn("OTHER", env)
        self.assertEqual(env["OMP_NUM_THREADS"], "1")

    def test_the_store_answers_where_the_variables_say(self):
        at = "--host $MASTER_ADDR --port $MASTER_PORT"
        script = f'"$0" store set {at} k$RANK v && "$0" store wait {at} k0 k1'
        rc, _, err = self.muster("run", "-n", 2, "sh", "-c", script, MUSTER)
        self.assertEqual((rc, err), (0, b""))

    def test_master_port(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "port")
            first = self.begin("store", "serve", "--port", "0", "--port-file", path)
            first.out()
            with open(path, encoding="utf-8") as file:
                port = int(file.read())
            rc, out, err = self.muster("run", "--master-port", port, "echo", "started")
            self.assertEqual((rc, out), (2, b""))
            self.assertIn(str(port), err.decode())
            self.assertEqual(len(lines_of(err)), 1)
            first.send(signal.SIGTERM)
            first.finish()
        self.assertEqual(self.variables(2, "--master-port", port)[1]["MASTER_PORT"], str(port))

    def test_limit_on_open_files(self):
        def low_limit():
            default_signals()
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))

        rc, out, err = self.muster("run", "-n", 32, "sh", "-c", "ulimit -n", preexec_fn=low_limit)
        self.assertEqual((rc, err), (0, b""))
        self.assertEqual({line.split("] ")[1] for line in lines_of(out)}, {"40"})

    def test_limit_too_low(self):
        def hard_limit():
            default_signals()
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

        rc, out, err = self.muster("run", "-n", 32, "echo", "started", preexec_fn=hard_limit)
        self.assertEqual((rc, out), (2, b""))
        self.assertRegex(err.decode(), r"\Amuster run: 32 ranks need \d+ open files.*\n\Z")

    def test_as_many_ranks_as_processors(self):
        first = min(os.sched_getaffinity(0))
        one = lambda: (default_signals(), os.sched_setaffinity(0, {first}))
        for word in ("cpu", "auto"):
            env = {"CUDA_VISIBLE_DEVICES": ""}
            rc, out, _ = self.muster("run", "-n", word, "sh", "-c", "echo $WORLD_SIZE", env=env)
            n = len(os.sched_getaffinity(0))
            width = len(str(n - 1))
            self.assertEqual((rc, sorted(lines_of(out))), (0, sorted(f"[{r:{width}}] {n}" for r in range(n))))
            rc, out, _ = self.muster("run", "-n", word, "sh", "-c", "echo $WORLD_SIZE", env=env, preexec_fn=one)
            self.assertEqual((rc, out), (0, b"[0] 1\n"))

    def test_standalone(self):
        self.assertEqual(self.muster("run", "--standalone", "-n", 2, "true"), (0, b"", b""))

    def test_descriptors_of_the_launcher_are_not_inherited(self):
        rc, out, _ = self.muster("run", "-n", 3, "sh", "-c", "ls /proc/$$/fd")
        self.assertEqual(rc, 0)
        for rank in range(3):
            fds = {line.split("] ")[1] for line in lines_of(out) if line.startswith(f"[{rank}]")}
            self.assertLessEqual(fds, {"0", "1", "2"})


class Output(ToolTest):
    def test_prefix_and_streams(self):
        rc, out, err = self.muster("run", "-n", 12, "sh", "-c", "echo out $RANK; echo err $RANK >&2")
        self.assertEqual(rc, 0)
        self.assertEqual(sorted(lines_of(out)), sorted(f"[{r:2}] out {r}" for r in range(12)))
        self.assertEqual(sorted(lines_of(err)), sorted(f"[{r:2}] err {r}" for r in range(12)))

    def test_last_line_without_newline(self):
        rc, out, _ = self.muster("run", "-n", 2, "printf", r"a\nb")
        self.assertEqual(rc, 0)
        self.assertEqual(sorted(lines_of(out)), ["[0] a", "[0] b", "[1] a", "[1] b"])
        self.assertTrue(out.endswith(b"\n"))

    def test_lines_are_whole_when_all_print_at_once(self):
        worker = (
            "import os\n"
            "r = os.environ['RANK']\n"
            "for i in range(2000):\n"
            "    line = f'<{r}:{i}:' + 'x' * (i * 37 % 900) + '>\\n'\n"
            "    data = line.encode()\n"
            "    half = len(data) // 2\n"
            "    fd = 1 + i % 2\n"
            "    os.write(fd, data[:half]); os.write(fd, data[half:])\n"
        )
        rc, out, _ = self.muster("run", "-n", 6, sys.executable, "-c", worker, stderr=subprocess.STDOUT)
        self.assertEqual(rc, 0)
        seen = {}
        for line in lines_of(out):
            match = re.fullmatch(r"\[(\d)\] <(\d):(\d+):(x*)>", line)
            self.assertIsNotNone(match, line[:200])
            self.assertEqual(match[1], match[2])
            self.assertEqual(len(match[4]), int(match[3]) * 37 % 900)
            seen.setdefault((match[1], int(match[3]) % 2), []).append(int(match[3]))
        for rank in "012345":
            for stream in (0, 1):
                self.assertEqual(seen[rank, stream], list(range(stream, 2000, 2)))

    def test_long_line_comes_in_pieces(self):
        worker = "import os; os.write(1, b'y' * 200000 + b'\\nend\\n')"
        rc, out, _ = self.muster("run", sys.executable, "-c", worker)
        self.assertEqual(rc, 0)
        lines = lines_of(out)
        self.assertTrue(all(line.startswith("[0] ") for line in lines))
        self.assertEqual([len(line) - 4 for line in lines], [65536, 65536, 65536, 200000 - 3 * 65536, 3])
        self.assertEqual("".join(line[4:] for line in lines[:-1]), "y" * 200000)

    def test_no_prefix_leaves_bytes_alone(self):
        data = bytes(range(256)) * 300
        rc, out, _ = self.muster("run", "--no-prefix", "cat", data=data)
        self.assertEqual((rc, out), (0, data))

    def test_bytes_that_are_no_text(self):
        rc, out, _ = self.muster("run", "printf", r"\377\000\n\n")
        self.assertEqual((rc, out), (0, b"[0] \xff\x00\n[0] \n"))

    def test_stdin_is_rank_0s(self):
        rc, out, _ = self.muster("run", "-n", 3, "sh", "-c", "echo got $(cat)", data=b"hello")
        self.assertEqual(rc, 0)
        self.assertEqual(sorted(lines_of(out)), ["[0] got hello", "[1] got", "[2] got"])

    def test_stdout_closed_by_the_worker(self):
        run = self.begin("run", "sh", "-c", "exec >&-; echo on >&2; read line; echo off >&2",
                         stdin=subprocess.PIPE)
        self.assertEqual(run.err(), "[0] on")
        run.process.stdin.write(b"\n")
        self.assertEqual(run.finish(), (0, "", "[0] off\n"))

    def test_closed_standard_descriptors(self):
        rc, out, _ = self.muster("run", "-n", 2, "sh", "-c", "cat; echo $RANK",
                                 preexec_fn=lambda: (default_signals(), os.close(0)))
        self.assertEqual((rc, sorted(lines_of(out))), (0, ["[0] 0", "[1] 1"]))

    def test_nobody_reads(self):
        run = self.begin("run", "-n", 2, "yes")
        self.assertRegex(run.out(), r"\[\d\] y")
        run.process.stdout.close()
        wait_until(lambda: run.process.poll() is not None, "the launcher ends")
        self.assertEqual(run.process.returncode, 128 + signal.SIGPIPE)

    def test_slow_reader_does_not_make_the_launcher_grow(self):
        run = self.begin("run", "-n", 2, "yes")
        self.assertRegex(run.out(), r"\[\d\] y")

        def ticks():
            with open(f"/proc/{run.pid}/stat", encoding="utf-8") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            return fields[0], fields[11], fields[12]

        # Once the pipes are full, everyone sleeps: the launcher uses no more time.
        wait_until(lambda: (a := ticks())[0] == "S" and not wait_a_moment() and ticks() == a, "it sleeps")
        with open(f"/proc/{run.pid}/statm", encoding="utf-8") as statm:
            resident = int(statm.read().split()[1]) * resource.getpagesize()
        self.assertLess(resident, 64 << 20)
        run.send(signal.SIGINT)  # the ranks end; what they wrote waits for its reader
        self.assertIn("interrupted", run.err())
        wait_until(lambda: run.send(signal.SIGINT) or run.process.poll() is not None, "a second one ends it")
        self.assertEqual(run.process.returncode, 130)

    def test_a_full_socket_that_does_not_block(self):
        """The launcher goes on reading: the rank writes more than a pipe and one read of the launcher hold."""
        reader, writer = socket.socketpair()
        with reader:
            writer.setblocking(False)
            writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            script = "yes $(printf %099d 0) | head -c 150000; echo written >&2"
            run = self.begin("run", "sh", "-c", script, stdout=writer)
            writer.close()
            self.assertEqual(run.err(), "[0] written")
            with reader.makefile("rb") as file:
                self.assertEqual(file.read(), b"[0] " + b"\n[0] ".join([b"0" * 99] * 1500) + b"\n")
        self.assertEqual(run.process.wait(60), 0)


class Failure(ToolTest):
    def test_exit_code_is_kept(self):
        for code in (1, 7, 127, 255):
            rc, _, err = self.muster("run", "-n", 2, "sh", "-c", f"exit {code}")
            self.assertEqual(rc, code)
            self.assertIn(f"  exit code  {code}\n", err.decode())

    def test_killed_worker(self):
        script = "echo pid $$ >&2; if [ $RANK = 2 ]; then kill -KILL $$; fi; sleep 1000"
        rc, _, err = self.muster("run", "-n", 4, "sh", "-c", script)
        text = err.decode()
        self.assertEqual(rc, 128 + signal.SIGKILL)
        pid = re.search(r"\[2\] pid (\d+)", text)[1]
        self.assertIn(f"  rank       2 (local rank 2)\n  pid        {pid}\n  signal     SIGKILL (Killed)\n", text)
        self.assertRegex(text, r"  time       \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}\n  host       \S+\n")

    def check_root_cause(self, **options):
        # The others fail too, with another code, because they are told to end.
        script = (
            "trap 'exit 9' TERM; echo ready; "
            "if [ $RANK = 3 ]; then read go <$0; echo why >&2; exit 5; fi; while :; do sleep 0.01; done"
        )
        with Gate() as gate:
            run = self.begin("run", "-n", 6, "sh", "-c", script, gate.path, **options)
            for _ in range(6):
                self.assertIn("ready", run.out())
            gate.open()
            rc, _, err = run.finish()
        self.assertEqual(rc, 5)
        self.assertIn("  rank       3 (local rank 3)\n", err)
        self.assertTrue(err.endswith("  last lines of its stderr:\n    | why\n"), err)

    def test_first_failure_is_the_root_cause(self):
        self.check_root_cause()

    def test_kernel_without_pidfd(self):
        self.check_root_cause(preexec_fn=without_pidfd)
        rc, out, _ = self.muster("run", "-n", 8, "echo", "hi", preexec_fn=without_pidfd)
        self.assertEqual((rc, len(lines_of(out))), (0, 8))

    def test_stderr_tail_is_bounded(self):
        rc, _, err = self.muster("run", "sh", "-c", "seq 1 5000 >&2; exit 1")
        self.assertEqual(rc, 1)
        tail = [line[6:] for line in err.decode().splitlines() if line.startswith("    | ")]
        self.assertEqual(tail, [str(i) for i in range(4981, 5001)])

    def test_stubborn_workers_are_killed(self):
        script = "trap '' TERM; echo ready; [ $RANK = 1 ] && read go <$0 && exit 4; while :; do sleep 0.01; done"
        with Gate() as gate:
            run = self.begin("run", "-n", 3, "--shutdown-timeout", "0.2", "sh", "-c", script, gate.path)
            for _ in range(3):
                self.assertIn("ready", run.out())
            gate.open()
            rc, _, err = run.finish()
        self.assertEqual(rc, 4)
        self.assertIn("killing 2 of 3 ranks, which still run after 0.2 s", err)

    def test_success_is_silent(self):
        self.assertEqual(self.muster("run", "-n", 4, "true"), (0, b"", b""))

    def test_not_a_program(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "text")
            with open(path, "w", encoding="utf-8") as file:
                file.write("no program\n")
            os.chmod(path, 0o755)
            rc, out, err = self.muster("run", "-n", 4, path)
        self.assertEqual((rc, out), (2, b""))
        self.assertEqual(len(lines_of(err)), 1)
        self.assertIn("neither a program", err.decode())


class Signals(ToolTest):
    def test_interrupt_is_passed_on(self):
        script = "trap 'echo bye; exit 0' INT; echo ready; while :; do sleep 0.01; done"
        run = self.begin("run", "-n", 3, "sh", "-c", script)
        for _ in range(3):
            self.assertRegex(run.out(), r"\[\d\] ready")
        run.send(signal.SIGINT)
        rc, out, err = run.finish()
        self.assertEqual(rc, 130)
        self.assertEqual(sorted(out.splitlines()), ["[0] bye", "[1] bye", "[2] bye"])
        self.assertNotIn("root cause", err)

    def test_second_interrupt_kills(self):
        script = "trap '' INT TERM; echo ready; while :; do sleep 0.01; done"
        run = self.begin("run", "-n", 2, "sh", "-c", script)
        run.out(), run.out()
        run.send(signal.SIGINT)
        self.assertIn("interrupted; waiting for 2 ranks", run.err())
        run.send(signal.SIGINT)
        rc, _, err = run.finish()
        self.assertEqual((rc, err), (130, "muster run: killing 2 ranks\n"))

    def test_termination_is_passed_on(self):
        for number, name in ((signal.SIGTERM, "TERM"), (signal.SIGHUP, "HUP")):
            script = f"trap 'echo bye; exit 3' {name}; echo ready; while :; do sleep 0.01; done"
            run = self.begin("run", "-n", 2, "sh", "-c", script)
            run.out(), run.out()
            run.send(number)
            rc, out, _ = run.finish()
            self.assertEqual(rc, 128 + number)
            self.assertEqual(sorted(out.splitlines()), ["[0] bye", "[1] bye"])

    def test_user_signals_are_passed_on(self):
        script = "trap 'echo one; exit 0' USR1; echo ready; while :; do sleep 0.01; done"
        run = self.begin("run", "-n", 2, "sh", "-c", script)
        run.out(), run.out()
        run.send(signal.SIGUSR1)
        self.assertEqual(run.finish()[0], 0)

    def test_hangup_that_was_ignored_stays_ignored(self):
        def nohup():
            default_signals()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        run = self.begin("run", "-n", 2, "cat", preexec_fn=nohup, stdin=subprocess.PIPE)
        run.process.stdin.write(b"a\n")
        self.assertEqual(run.out(), "[0] a")
        run.send(signal.SIGHUP)
        run.process.stdin.write(b"b\n")
        self.assertEqual(run.out(), "[0] b")
        run.process.stdin.close()
        run.process.stdin = None
        self.assertEqual(run.finish()[0], 0)

    def test_workers_have_the_signals_the_launcher_was_given(self):
        rc, out, _ = self.muster("run", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
        self.assertEqual((rc, len(lines_of(out))), (0, 2))
        for line in lines_of(out):
            # What this process itself was started with, and SIGXFSZ, which Python leaves ignored; nothing else.
            own = pathlib.Path("/proc/self/status").read_text().split(line.split()[1])[1].split()[0]
            self.assertEqual(int(line.split()[-1], 16) & ~(int(own, 16) | 1 << (signal.SIGXFSZ - 1)), 0, line)


class Terminal(ToolTest):
    """The launcher in the foreground of a terminal of its own."""

    def setUp(self):
        super().setUp()
        self.leader, self.follower = pty.openpty()

    def tearDown(self):
        os.close(self.leader)
        os.close(self.follower)
        super().tearDown()

    def on_terminal(self, *args):
        def take_terminal():
            default_signals()
            os.setsid()
            fcntl.ioctl(self.follower, termios.TIOCSCTTY, 0)

        return self.begin("run", *args, stdin=self.follower, preexec_fn=take_terminal)

    def test_rank_0_reads_the_terminal(self):
        run = self.on_terminal("-n", 2, "sh", "-c", "read line; echo got $line")
        os.write(self.leader, b"hello\n")
        rc, out, _ = run.finish()
        self.assertEqual((rc, sorted(out.splitlines())), (0, ["[0] got hello", "[1] got"]))

    def test_no_rank_opens_the_terminal(self):
        # It would be stopped there: it is not in the foreground.
        rc, out, _ = self.on_terminal("-n", 2, "sh", "-c", "(: </dev/tty) 2>/dev/null || echo closed").finish()
        self.assertEqual((rc, sorted(out.splitlines())), (0, ["[0] closed", "[1] closed"]))

    def test_ranks_share_a_session(self):
        # Linux shares processors out by session: ranks that yield to each other must be in one.
        rc, out, _ = self.on_terminal("-n", 2, "sh", "-c", "cut -d' ' -f5,6 /proc/$$/stat; echo $$").finish()
        words = [line.split()[1:] for line in sorted(out.splitlines())]
        groups = [int(w[0]) for w in words if len(w) == 2]
        sessions = {w[1] for w in words if len(w) == 2}
        pids = [int(w[0]) for w in words if len(w) == 1]
        self.assertEqual((rc, len(sessions), sorted(groups)), (0, 1, sorted(pids)))

    def test_interrupt_key(self):
        script = "trap 'echo bye; exit 0' INT; echo ready; while :; do sleep 0.01; done"
        run = self.on_terminal("-n", 2, "sh", "-c", script)
        run.out(), run.out()
        os.write(self.leader, b"\x03")
        rc, out, _ = run.finish()
        self.assertEqual((rc, sorted(out.splitlines())), (130, ["[0] bye", "[1] bye"]))

    def test_stop_key(self):
        run = self.on_terminal("sh", "-c", "echo $$; read line; echo $line")
        worker = int(run.out().split()[-1])
        os.write(self.leader, b"\x1a")
        wait_until(lambda: state_of(run.pid) == state_of(worker) == "T", "launcher and rank are stopped")
        run.send(signal.SIGCONT)
        wait_until(lambda: state_of(worker) != "T", "the rank goes on")
        os.write(self.leader, b"done\n")
        self.assertEqual(run.finish()[:2], (0, "[0] done\n"))


class Leftovers(ToolTest):
    def test_grandchild_that_holds_the_pipe(self):
        rc, out, _ = self.muster("run", "-n", 2, "sh", "-c", "sleep 1000 & echo $!")
        self.assertEqual(rc, 0)
        pids = [int(line.split()[-1]) for line in lines_of(out)]
        self.assertEqual(len(pids), 2)
        wait_until(lambda: not any(map(is_alive, pids)), "the grandchildren are gone")

    def test_grandchild_that_left_the_group(self):
        # Out of the launcher's reach, and it keeps the pipe open: the launcher must not wait for it.
        script = "setsid sh -c 'echo $$; : >there; exec sleep 1000' & while [ ! -e there ]; do sleep 0.01; done"
        with tempfile.TemporaryDirectory() as directory:
            rc, out, _ = self.muster("run", "--", "sh", "-c", f"cd {directory}; {script}")
        pids = [int(line.split()[-1]) for line in lines_of(out)]
        self.assertEqual((rc, len(pids)), (0, 1))
        self.assertTrue(is_alive(pids[0]))
        os.kill(pids[0], signal.SIGKILL)

    def kill_launcher(self, n, script, per_rank):
        run = self.begin("run", "-n", n, "sh", "-c", script)
        pids = [int(run.out().split()[-1]) for _ in range(n * per_rank)]
        self.assertTrue(all(map(is_alive, pids)))
        run.send(signal.SIGKILL)
        run.process.wait()
        wait_until(lambda: not any(map(is_alive, pids)), "workers of a killed launcher are gone")

    def test_killed_launcher(self):
        self.kill_launcher(4, "echo $$; exec sleep 1000", 1)

    def test_killed_launcher_and_grandchildren(self):
        self.kill_launcher(3, "trap '' HUP TERM; sleep 1000 & echo $!; echo $$; wait", 2)

    def test_killed_launcher_and_reaper(self):
        run = self.begin("run", "-n", 3, "sh", "-c", "echo $$; exec sleep 1000")
        pids = [int(run.out().split()[-1]) for _ in range(3)]
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="utf-8") as children:
            reapers = set(map(int, children.read().split())) - set(pids)
        self.assertEqual(len(reapers), 1)
        os.kill(reapers.pop(), signal.SIGKILL)
        run.send(signal.SIGKILL)
        run.process.wait()
        wait_until(lambda: not any(map(is_alive, pids)), "workers of a killed launcher are gone")

    def test_killed_while_starting(self):
        for _ in range(5):
            run = self.begin("run", "-n", 64, "sh", "-c", "echo; exec sleep 1000")
            run.out()
            run.send(signal.SIGKILL)
            run.process.wait()
            wait_until(lambda: not self.marked(), "nothing is left")

    def test_own_process_group(self):
        rc, out, _ = self.muster("run", "-n", 3, "sh", "-c", "echo $$ $(ps -o pgid= -p $$)")
        self.assertEqual(rc, 0)
        for line in lines_of(out):
            _, pid, group = line.split()
            self.assertEqual(pid, group)

    def test_many_runs(self):
        for code in (0, 3) * 10:
            rc, _, _ = self.muster("run", "-n", 5, "sh", "-c", f"sleep 1000 & exit {code}")
            self.assertEqual(rc, code)


class Size(ToolTest):
    def test_64_workers(self):
        rc, out, err = self.muster("run", "-n", 64, "sh", "-c", "echo $RANK of $WORLD_SIZE")
        self.assertEqual((rc, err), (0, b""))
        self.assertEqual(sorted(lines_of(out)), sorted(f"[{r:2}] {r} of 64" for r in range(64)))

    def test_failure_among_64(self):
        rc, _, err = self.muster("run", "-n", 64, "sh", "-c", "[ $RANK = 63 ] && exit 6; exec sleep 1000")
        self.assertEqual(rc, 6)
        self.assertIn("  rank       63 (local rank 63)\n", err.decode())


class Mistakes(ToolTest):
    def check(self, words, says, **options):
        rc, out, err = self.muster("run", *words, **options)
        self.assertEqual((rc, out), (2, b""), words)
        self.assertRegex(err.decode(), r"\Amuster run: [^\n]*\n\Z")
        self.assertIn(says, err.decode())

    def test_a_setting_that_is_wrong(self):
        """Which has nothing to do with the store that it is read for."""
        rc, out, err = self.muster("run", "-n", 1, "echo", env={"MUSTER_STAGE": "x"})
        self.assertEqual((rc, out), (2, b""))
        self.assertRegex(err, rb"\Amuster run: MUSTER_STAGE='x' is not a whole number from 0 to 1; correct or unset it; ")

    def test_numbers(self):
        for n in ("0", "-1", "99999999", "99999999999999999999", "2x", "", " ", "1.5"):
            self.check(["-n", n, "echo", "started"], f"not '{n}'")
        self.check(["-n", "gpus", "echo", "started"], "cpu, gpu or auto, not 'gpus'")
        hidden = {"CUDA_VISIBLE_DEVICES": "-1"}
        self.check(["-n", "gpu", "echo", "started"], "-n gpu finds no device: ", env=hidden)
        self.check(["-n"], "needs a value")
        self.check(["-np"], "needs a value")
        self.check(["-np", "x", "echo", "started"], "not 'x'")
        self.check(["--agen", "1", "echo", "started"], "unknown option '--agen'; try 'muster run --help'")
        self.check(["--master-port", "65536", "echo", "started"], "not '65536'")
        self.check(["--shutdown-timeout", "nan", "echo", "started"], "not 'nan'")
        self.check(["--shutdown-timeout", "-1", "echo", "started"], "not '-1'")

    def test_programs(self):
        self.check([], "a program is missing")
        self.check(["-n", "2"], "a program is missing")
        self.check(["--"], "a program is missing")
        self.check([""], "empty")
        self.check(["no-such-program-anywhere"], "cannot find 'no-such-program-anywhere' in PATH")
        self.check(["./no-such-program"], "no such file")
        self.check(["/"], "directory")
        self.check(["/dev/null"], "not a regular file")
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "tool")
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho started\n")
            self.check([path], "not executable")
            os.chmod(path, 0o755)
            self.check(["tool"], "did you mean './tool'?", cwd=directory)

    def test_options(self):
        self.check(["--shutdown-timout", "3", "echo"], "did you mean '--shutdown-timeout'?")
        self.check(["--nproc", "3", "echo"], "did you mean '--nproc-per-node'?")
        self.check(["--zzzzzz", "echo"], "unknown option '--zzzzzz'")
        self.check(["-z", "echo"], "unknown option '-z'")
        self.check(["--no-prefix=1", "echo"], "takes no value")
        self.check(["--" + "x" * 5000, "echo"], "unknown option")

    def test_variables(self):
        for word in ("", "=", "=x"):
            self.check([f"--env={word}", "echo", "started"], f"--env takes NAME=VALUE or NAME, not '{word}'")
        self.check(["--env", "RANK=3", "echo", "started"], "--env cannot set RANK")
        self.check(["--env", "A=1", "--env", "NOT_THERE_AT_ALL", "echo", "started"], "NOT_THERE_AT_ALL has no value")
        self.check(["--env"], "needs a value")

    def test_spellings(self):
        for words in (["-n3"], ["-n", "3"], ["--nproc-per-node=3"], ["--nproc_per_node", "3"], ["-n", "3", "--"]):
            rc, out, _ = self.muster("run", *words, "echo", "-n", "--help")
            self.assertEqual(rc, 0)
            self.assertEqual(sorted(out), sorted(b"[0] --help\n[1] --help\n[2] --help\n"))

    def test_commands(self):
        rc, out, err = self.muster("rnu")
        self.assertEqual((rc, out), (2, b""))
        self.assertEqual(err, b"muster: unknown command 'rnu'; did you mean 'run'?\n")
        self.assertEqual(self.muster("--bogus")[0], 2)
        self.assertEqual(self.muster()[0], 2)

    def test_help(self):
        rc, out, err = self.muster("run", "--help")
        self.assertEqual((rc, err), (0, b""))
        for word in (b"usage: muster run", b"-n, --nproc-per-node N", b"--shutdown-timeout SECONDS", b"--no-prefix"):
            self.assertIn(word, out)
        rc, out, err = self.muster("--help")
        self.assertEqual((rc, err), (0, b""))
        for word in (b"run", b"info", b"store", b"bench"):
            self.assertIn(word, out)
        self.assertRegex(self.muster("--version")[1].decode(), r"\Amuster \d+\.\d+\.\d+\n\Z")

    def test_help_to_nowhere_is_an_error(self):
        with open("/dev/full", "wb") as full:
            self.assertEqual(self.muster("--help", stdout=full)[0], 1)

    def test_output_to_a_full_disk_is_said(self):
        with open("/dev/full", "wb") as full:
            rc, _, err = self.muster("run", "-n", "2", "sh", "-c", "echo hello; sleep 20", stdout=full)
        self.assertEqual(rc, 1)
        self.assertIn(b"cannot write the ranks' output: No space left on device", err)

    def test_the_others_say_whom_they_lost(self):
        world = os.path.join(os.path.dirname(MUSTER), "tests", "world")
        script = 'if [ "$RANK" = 2 ]; then (sleep 0.3; kill -9 $$) & fi; exec "$0" "$@"'
        rc, out, err = self.muster("run", "-n", "4", "sh", "-c", script, world, "init", "barriers=1000000")
        self.assertEqual(rc, 137)
        for rank in (0, 1, 3):
            self.assertRegex(out + err, rb"(?m)^\[%d\].*rank 2" % rank)


if __name__ == "__main__":
    unittest.main()
