"""Another local user can neither read, write nor disturb a job of root: every attempt fails, and every result is right.

The attacker is a process of another user. What it needs from the store it gets from the driver, as if it could reach
the store's port: these tests are about what a host must refuse even then.
"""

import contextlib
import os
import pathlib
import re
import stat
import subprocess
import sys
import textwrap
import unittest

from harness import DEADLINE, MUSTER, PROGRAMS, Process, RanksTest, main

OTHER = 65533
PYTHON = next((path for path in ("/usr/bin/python3", sys.executable) if os.path.exists(path)), None)
SUMS = PROGRAMS / "sums"
RANKS = 3
HOST_PAGE = "2a6d7573746572310100000000000000"  # the beginning of the page of src/bootstrap/topology.c

# Offers a memfd with all seals. Prints its descriptor and inode; then, for each line of input, whether it changed.
OFFER = """
    import ctypes, fcntl, os, sys
    ctypes.CDLL(None).prctl(4, {dumpable}, 0, 0, 0)
    fd = os.memfd_create("muster-region", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, {size})
    os.pwrite(fd, bytes.fromhex("{head}"), 0)
    fcntl.fcntl(fd, 1033, 7)  # F_ADD_SEALS: F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW
    before = os.pread(fd, {size}, 0)
    print(fd, os.fstat(fd).st_ino, flush=True)
    for line in sys.stdin:
        print("same" if os.pread(fd, {size}, 0) == before else "changed", flush=True)
"""

# Takes the name of the Unix socket beside a port.
SQUAT = """
    import socket, sys
    s = socket.socket(socket.AF_UNIX)
    s.bind("\\0muster-store 127.0.0.1 {port}")
    s.listen(100)
    print("listening", flush=True)
    n = 0
    s.settimeout(0.2)
    for line in sys.stdin:
        sent = 0
        try:
            while True:
                sent += len(s.accept()[0].recv(100))
        except TimeoutError:
            print(sent, flush=True)
"""

# Connects to the Unix socket of a store. The server closes the connection at once, without an answer.
CONNECT = """
    import socket
    for i in range(50):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout({limit})
        s.connect("\\0muster-store {address}")
        print(s.recv(100).decode(), end="")
"""

# Connects to the Unix socket of a store without an end.
FLOOD = """
    import socket, time
    print("begins", flush=True)
    end = time.monotonic() + {limit}
    while time.monotonic() < end:
        for i in range(100):
            s = socket.socket(socket.AF_UNIX)
            s.setblocking(False)
            try:
                s.connect("\\0muster-store {address}")
            except OSError:
                pass
            s.close()
"""

# Tries everything in /proc, ptrace, signals and priorities; prints what succeeded.
PROC = """
    import ctypes, os, signal
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 2 + [ctypes.c_void_p] * 2
    class vec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    def attempt(what, action):
        try:
            action()
            print(what)
        except OSError as error:
            if error.errno not in (1, 3, 13):
                print(what, error)
    def check(result):
        if result < 0:
            raise OSError(ctypes.get_errno(), "")
    here = vec(ctypes.cast(ctypes.create_string_buffer(8), ctypes.c_void_p), 8)
    for pid in {pids}:
        for name in ("mem", "environ", "maps", "auxv", "stack", "syscall", "io"):
            attempt(f"read {{name}} of {{pid}}", lambda: open(f"/proc/{{pid}}/{{name}}", "rb").read(1))
        attempt(f"write mem of {{pid}}", lambda: open(f"/proc/{{pid}}/mem", "r+b"))
        attempt(f"list fd of {{pid}}", lambda: os.listdir(f"/proc/{{pid}}/fd"))
        for fd in range(100):
            for mode in (os.O_RDONLY, os.O_RDWR):
                attempt(f"open fd {{fd}} of {{pid}}", lambda: os.close(os.open(f"/proc/{{pid}}/fd/{{fd}}", mode)))
            pidfd = os.pidfd_open(pid)
            attempt(f"pidfd_getfd {{fd}} of {{pid}}", lambda: check(libc.syscall(438, pidfd, fd, 0)))
            os.close(pidfd)
        attempt(f"process_vm_readv of {{pid}}", lambda: check(libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(vec({address}, 8)), 1, 0)))
        attempt(f"process_vm_writev of {{pid}}", lambda: check(libc.process_vm_writev(pid, ctypes.byref(here), 1, ctypes.byref(vec({address}, 8)), 1, 0)))
        attempt(f"ptrace of {{pid}}", lambda: check(libc.ptrace(16, pid, None, None)))
        attempt(f"signal to {{pid}}", lambda: os.kill(pid, signal.SIGSTOP))
        attempt(f"priority of {{pid}}", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
        attempt(f"processors of {{pid}}", lambda: os.sched_setaffinity(pid, {{0}}))
"""

# Tries to list, read and write below a directory; prints what succeeded.
FILES = """
    import os
    seen = 0
    for root in {roots}:
        for path in [root] + {paths}:
            seen += 1
            for name, action in (
                ("list", lambda: os.listdir(path)),
                ("read", lambda: open(path, "rb").read(1)),
                ("write", lambda: open(path, "ab")),
                ("create", lambda: open(path + "/new", "xb")),
                ("rename", lambda: os.rename(path, path + ".new")),
            ):
                try:
                    action()
                    print(name, path)
                except OSError as error:
                    if error.errno not in (1, 2, 13, 20, 21):
                        print(name, path, error)
    print("tried", seen)
"""


def tools_of(pid):
    """The processes of a job: its launcher and its ranks."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [int(child) for child in children if os.readlink(f"/proc/{child}/exe") == str(SUMS.resolve())]


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@unittest.skipIf(os.getuid() != 0, "needs root: it starts processes of another user")
class OtherUser(RanksTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.shared = self.path("shared")  # as /tmp
        os.mkdir(self.shared)
        os.chmod(self.shared, 0o1777)

    def attacker(self, code, **values):
        """Starts the code as another user."""
        code = textwrap.dedent(code).format(**values)
        return Process(self.popen(PYTHON, "-I", "-c", code, user=OTHER, group=OTHER, extra_groups=[], cwd="/"))

    def attack(self, code, **values):
        """Runs the code as another user to its end: its output."""
        status, out = self.attacker(code, **values).finish()
        self.assertEqual(status, 0, out)
        return out

    def as_other(self, action):
        """Calls a function in a process of another user, without its own directory of modules."""
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setgid(OTHER)
                os.setuid(OTHER)
                action()
                os._exit(0)
            except BaseException:  # the process must end here
                os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def job(self, *options, rounds=3, hold=False, env=None, n=RANKS):
        command = [MUSTER, "run", "-n", n, *options, SUMS, rounds, *(["hold"] if hold else [])]
        return Process(self.popen(*command, env=env, stderr=subprocess.STDOUT))

    def ready(self, job, n=RANKS):
        while n > 0:
            line = job.line()
            self.assertIsNotNone(line, "the job ended")
            n -= line.endswith("ready")

    def check_right(self, job, n=RANKS):
        status, out = job.finish()
        self.assertEqual((status, out.count("right")), (0, n), out)
        return out

    def ranks_at(self, url, n, env=None):
        """Ranks that meet at a store of another process."""
        host, port = url[6:].rsplit(":", 1)
        launch = {"MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": n, "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "job"}
        return [Process(self.popen(SUMS, 3, env={**launch, "RANK": rank, **(env or {})}, stderr=subprocess.STDOUT)) for rank in range(n)]

    def region(self):
        """The size of the shared region of RANKS ranks, and its first bytes."""
        job = self.job(hold=True)
        self.ready(job)
        rank = tools_of(job.pid)[1]
        lines = [line for line in pathlib.Path(f"/proc/{rank}/maps").read_text().splitlines() if "/memfd:muster-region" in line]
        begin = int(lines[0].split("-")[0], 16)
        end = int(re.match(r"\w+-(\w+)", lines[-1])[1], 16)
        with open(f"/proc/{rank}/mem", "rb", buffering=0) as memory:
            memory.seek(begin)
            head = memory.read(16)
        job.resume()
        self.check_right(job)
        return end - begin, head.hex()

    def test_offered_region(self):
        """A memfd of another user in place of the shared region: ranks neither map nor change it."""
        size, head = self.region()
        for dumpable in (1, 0):
            attacker = self.attacker(OFFER, size=size, head=head, dumpable=dumpable)
            fd, inode = attacker.line().split()
            store, port = self.serve()
            key = "muster/job.0/1/g/region/0"
            self.assertEqual(self.run_tool("store", "set", "--port", port, key, f"{attacker.pid} {fd} {inode}")[0], 0)
            ranks = self.ranks_at(f"tcp://127.0.0.1:{port}", RANKS)
            out = [self.check_right(rank, 1) for rank in ranks]
            self.assertIn("belongs to another user", "".join(out))
            attacker.resume()
            self.assertEqual(attacker.line(), "same")
            store.kill()

    def test_offered_host_segment(self):
        """A memfd of another user in place of the page by which ranks find that they share a host."""
        attacker = self.attacker(OFFER, size=512, head=HOST_PAGE, dumpable=0)
        fd, _ = attacker.line().split()
        store, port = self.serve()
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        key = f"muster/job.0/1/seg/{boot}.{os.stat('/proc/self/ns/pid').st_ino}.0/"
        self.assertEqual(self.run_tool("store", "set", "--port", port, key, f"{attacker.pid} {fd} 1")[0], 0)
        for rank in self.ranks_at(f"tcp://127.0.0.1:{port}", RANKS):
            self.check_right(rank, 1)
        attacker.resume()
        self.assertEqual(attacker.line(), "same")
        store.kill()

    def test_squatted_socket(self):
        """Another user has the name of the store's Unix socket: the server and its clients do without it."""
        port = self.free_port()
        attacker = self.attacker(SQUAT, port=port)
        self.assertEqual(attacker.line(), "listening")
        job = self.job("--master-port", port)
        self.check_right(job)
        attacker.resume()
        self.assertEqual(attacker.line(), "0")

    def test_running_job(self):
        """The Unix socket, /proc, traces and logs of a running job."""
        traces, logs = self.path("traces"), self.path("logs")
        job = self.job("--log-dir", logs, "--tee", "3", "--trace", traces, hold=True, rounds=50)
        self.ready(job)
        pids = tools_of(job.pid)
        self.assertEqual(len(pids), 1 + RANKS)
        environ = pathlib.Path(f"/proc/{pids[1]}/environ").read_bytes().split(b"\0")
        port = next(entry for entry in environ if entry.startswith(b"MASTER_PORT="))[12:].decode()
        sockets = re.findall(rf"@muster-store (\S+ {port})\n", pathlib.Path("/proc/net/unix").read_text())
        self.assertTrue(sockets)
        self.assertEqual(self.attack(CONNECT, address=sockets[0], limit=DEADLINE / 2), "")
        address = int(pathlib.Path(f"/proc/{pids[1]}/maps").read_text().split("-")[0], 16)
        self.assertEqual(self.attack(PROC, pids=pids, address=address), "")
        job.resume()
        self.check_right(job)
        paths = [str(path) for root in (traces, logs) for path in pathlib.Path(root).rglob("*")]
        self.assertTrue(any(path.endswith(".trace.json") for path in paths), paths)
        self.assertTrue(any(path.endswith("stdout.log") for path in paths), paths)
        self.assertEqual(self.attack(FILES, roots=[traces, logs], paths=paths), f"tried {2 * (1 + len(paths))}\n")
        for path in [traces, logs, *paths]:
            self.assertEqual(mode(path), 0o700 if os.path.isdir(path) else 0o600, path)

    def test_flooded_socket(self):
        """Another user connects to the Unix socket of the store all the time: members are served, there and over TCP."""
        _, port = self.serve()
        address = re.search(rf"@muster-store (\S+ {port})\n", pathlib.Path("/proc/net/unix").read_text())[1]
        attackers = [self.attacker(FLOOD, address=address, limit=2 * DEADLINE) for _ in range(3)]
        for attacker in attackers:
            self.assertEqual(attacker.line(), "begins")
        for env in ({}, {"MUSTER_STORE_LOCAL": 0}) * 2:
            status, _ = self.run_tool("store", "set", "--port", port, "--timeout", DEADLINE / 2, "key", "value", env=env)
            self.assertEqual(status, 0, env)
        for attacker in attackers:
            attacker.kill()

    def squat(self, make):
        """Another user makes a name in the shared directory."""
        path = os.path.join(self.shared, f"name{len(os.listdir(self.shared))}")
        self.as_other(lambda: make(path))
        return path

    def squats(self):
        """Directories and links that another user made."""
        own = self.path("own")
        with contextlib.suppress(FileExistsError):
            os.mkdir(own)
        yield self.squat(lambda path: (os.mkdir(path), os.chmod(path, 0o777))), "another user"
        yield self.squat(lambda path: os.symlink(own, path)), ("another user", "Permission denied", "Too many")

    def test_squatted_directories(self):
        """A directory or a link of another user in a directory such as /tmp, and a path through it: not used, and the message says why."""
        for option, environment in (("--trace", False), ("--log-dir", False), ("MUSTER_TRACE", True)):
            for path, _ in self.squats():
                for target in (path, os.path.join(path, "sub"), os.path.join(path, "sub", "sub")):
                    extra = ["--tee", "3"] if option == "--log-dir" else []
                    job = self.job(env={option: target}) if environment else self.job(option, target, *extra)
                    status, out = job.finish()
                    self.assertNotEqual(status, 0, (option, target, out))
                    self.assertIn("belongs to another user", out, (option, target))
                    self.assertEqual(os.listdir(path), [], (option, target))

    def test_squatted_output(self):
        """A FIFO, a link or a file of another user where a file is to be written: not used."""
        victim = self.path("victim")
        pathlib.Path(victim).write_text("kept")
        makers = (os.mkfifo, lambda path: os.symlink(victim, path), lambda path: pathlib.Path(path).touch())
        commands = (["store", "serve", "--port", 0, "--port-file"], ["tune", "--output"], ["bench", "store", "--csv"])
        for path in (*map(self.squat, makers), os.path.join(next(self.squats())[0], "new")):
            for command in commands:
                process = self.popen(MUSTER, *command, path, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
                status, out = Process(process).finish()
                self.assertNotEqual(status, 0)
                self.assertIn(f"cannot write {path}: it belongs to another user", out)
        self.assertEqual(pathlib.Path(victim).read_text(), "kept")

    def test_file_store(self):
        """Files, links and FIFOs of another user in place of a file store: not used. A running store: not reachable."""
        victim = self.path("victim")
        pathlib.Path(victim).write_bytes(b"")
        for make in (
            lambda path: pathlib.Path(path).touch(mode=0o666),
            lambda path: os.symlink(victim, path),
            os.mkfifo,
            os.mkdir,
        ):
            path = self.squat(make)
            if stat.S_ISREG(os.lstat(path).st_mode):
                os.chmod(path, 0o666)
            ranks = [Process(self.popen(SUMS, 1, env={"SUMS_METHOD": f"file://{path}?rank={r}&world_size=2"}, stderr=subprocess.STDOUT)) for r in range(2)]
            for rank in ranks:
                status, out = rank.finish()
                self.assertNotEqual(status, 0, out)
                self.assertRegex(out, "another user|symbolic link|regular file|Permission denied|Is a directory")
        self.assertEqual(pathlib.Path(victim).read_bytes(), b"")
        inside = os.path.join(self.squat(lambda path: (os.mkdir(path), os.chmod(path, 0o777))), "store")
        rank = Process(self.popen(SUMS, 1, env={"SUMS_METHOD": f"file://{inside}?rank=0&world_size=1"}, stderr=subprocess.STDOUT))
        self.assertIn("belongs to another user", rank.finish()[1])
        own = os.path.join(self.shared, "store")
        ranks = [Process(self.popen(SUMS, 3, "hold", env={"SUMS_METHOD": f"file://{own}?rank={r}&world_size=2"}, stderr=subprocess.STDOUT)) for r in range(2)]
        for rank in ranks:
            self.ready(rank, 1)
        self.assertEqual(self.attack(FILES, roots=[own, own + ".alive"], paths=[]), "tried 2\n")
        ranks[0].resume()
        for rank in ranks:
            self.check_right(rank, 1)

    def test_own_directories_of_root_are_used(self):
        """A directory of this user in the shared directory, and one of another user elsewhere."""
        own, other = os.path.join(self.shared, "own"), self.path("other")
        for path in (own, other):
            os.mkdir(path)
        os.chown(other, OTHER, OTHER)
        for path in (own, other):
            self.check_right(self.job("--trace", path))
            self.assertEqual(len([name for name in os.listdir(path) if name.endswith(".trace.json")]), RANKS)

    def test_squatted_flight_record(self):
        """The temporary name of a flight record is a link of another user: the link is not followed."""
        victim = self.path("victim")
        pathlib.Path(victim).write_text("kept")
        for protected in (False, True):
            os.chmod(self.shared, 0o1777 if protected else 0o777)
            job = self.job("--trace", self.shared, hold=True)
            self.ready(job)
            self.as_other(lambda: [os.symlink(victim, os.path.join(self.shared, f"rank-{r}.flight.json.{job.pid}")) for r in range(RANKS)])
            for pid in tools_of(job.pid)[1:]:
                with contextlib.suppress(ProcessLookupError):  # the launcher ends the others after the first
                    os.kill(pid, 9)
            status, _ = job.finish()
            self.assertNotEqual(status, 0)
            self.assertEqual(pathlib.Path(victim).read_text(), "kept")
            for name in os.listdir(self.shared):
                os.unlink(os.path.join(self.shared, name))


if __name__ == "__main__":
    main()
