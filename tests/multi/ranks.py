"""What the drivers of multi-process tests share: ranks with deadlines, free ports, and that nothing is left.

Every process that a test starts carries a mark in its environment, which its children inherit; when the test
ends, all of them are ended, and neither a process, a listening port nor a file may be left that the test did
not leave on purpose.
"""

import collections
import contextlib
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", HERE.parent.parent))
BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD_DIR", SOURCE / "build")).resolve()
TOOL = BUILD / "bin/muster"
SANITIZED = b"san_init" in (BUILD / "lib/libmuster.so").read_bytes()
PROGRAMS = BUILD / "bin/tests"
WORLD = PROGRAMS / "world"
DEADLINE = 60.0  # seconds; reached only when something is wrong
SLOWER = 5 if SANITIZED else 3  # times that what is promised may take longer in this build, with other tests beside it
SOON = 2.0 * SLOWER  # within so many seconds a death must be known
MARK = "RANKS_TEST_MARK"
SKIPPED = 77
LIMIT = int(os.environ.get("RANKS_TEST_LIMIT", "590"))  # seconds for a whole driver, less than CTest's

started, directories = [], []  # for the case that the driver itself is stuck or told to end

Step = collections.namedtuple("Step", "action status ms culprit message at")
Place = collections.namedtuple("Place", "rank host local_rank local_size pid name address")


def wait_until(condition, what, deadline=DEADLINE):
    """Looks again and again until condition() is true and returns what it gave."""
    end = time.monotonic() + deadline
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"still not so after {deadline} s: {what}")
        select.select([], [], [], 0.005)


def is_alive(pid):
    """Whether the process exists and is no zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def listens(port):
    """Whether anybody listens on the port in this network namespace."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(table):
            continue
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    names = [line.split() for line in pathlib.Path("/proc/net/unix").read_text().splitlines()]
    return any("@muster-store" in name and name[-1] == str(port) for name in names)


def segments(pid, kind="muster"):
    """How many of muster's shared segments the process has open or mapped."""
    try:
        fds = [os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(kind in fd for fd in fds if fd.startswith("/memfd:")) + maps.count("/memfd:" + kind)


def environment(extra=None):
    """The caller's, less what would tell muster about some job, plus extra."""
    launch = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in launch and not name.startswith(("MUSTER_", "TORCHELASTIC_"))
    }
    kept.update({name: str(value) for name, value in (extra or {}).items()})
    return kept


class Process:
    """A process whose output is read line by line with a deadline."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        self.pending = b""

    def line(self):
        """The next line of standard output without its newline; None at its end."""
        end = time.monotonic() + DEADLINE
        while b"\n" not in self.pending:
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"no line in {DEADLINE} s; got {self.pending!r}")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return None
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode(errors="replace")

    def kill(self):
        """Kills it as kill -9 does and returns when."""
        at = time.monotonic()
        self.process.kill()
        self.process.wait(DEADLINE)
        return at

    def send(self, number):
        self.process.send_signal(number)

    def go(self):
        """Lets it go on from where it holds."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def finish(self):
        """Waits for the end: exit status and the rest of its output."""
        out, _ = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, (self.pending + out).decode(errors="replace")


class Rank(Process):
    """A run of tests/multi/world.c."""

    def __init__(self, process):
        super().__init__(process)
        self.places = []
        self.me = None

    def step(self, action):
        """Waits until that action is over; steps before it are passed over if they went well."""
        while True:
            line = self.line()
            if line is None:
                raise AssertionError(f"the rank ended (exit status {self.process.wait()}) before '{action}' was over")
            fields = line.split("\t", 4)
            if fields[0] == "at":
                self.places.append(Place(*map(int, line.split("\t")[1:6]), *line.split("\t")[6:]))
            elif fields[0] == "me":
                self.me = tuple(map(int, line.split("\t")[1:]))
            elif fields[1] != "BEGIN":
                step = Step(fields[0], fields[1], int(fields[2]), int(fields[3]), fields[4], time.monotonic())
                if step.action == action:
                    return step
                if step.status != "MST_OK":
                    raise AssertionError(f"before '{action}': {step}")

    def begins(self, action):
        """Waits until it is about to begin that action."""
        while True:
            line = self.line()
            if line is None or not line.startswith(f"{action}\tBEGIN"):
                if line is None or "\tMST_ERR" in line:
                    raise AssertionError(f"before '{action}': {line}")
                continue
            return


class RanksTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.mark = uuid.uuid4().hex
        self.processes = []
        self.reserved = []
        self.ports = []
        self.directory = tempfile.mkdtemp(prefix="muster-ranks-")
        directories.append(self.directory)
        self.shared_memory = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()

    # Starting things

    def popen(self, *command, env=None, **options):
        options.setdefault("stdin", subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("cwd", "/")
        process = subprocess.Popen(
            [str(part) for part in command], env={**environment(env), MARK: self.mark}, bufsize=0, **options
        )
        self.processes.append(process)
        started.append(process)
        return process

    def rank(self, *actions, prefix=(), env=None, **options):
        """Starts one rank that carries out the actions."""
        return Rank(self.popen(*prefix, WORLD, *actions, env=env, **options))

    def tcp(self, rank, size, url, *actions, timeout=None, **options):
        """Starts a rank that meets the others at the url."""
        limit = [f"timeout={timeout}"] if timeout else []
        return self.rank(f"method={url}?rank={rank}&world_size={size}", *limit, *actions, **options)

    def run_tool(self, *args, env=None):
        """Runs the tool to its end: exit status and standard output."""
        return Process(self.popen(TOOL, *args, env=env, stdin=subprocess.DEVNULL)).finish()

    def serve(self, host="127.0.0.1"):
        """Starts a store of its own process: the process and its port."""
        path = os.path.join(self.directory, f"port{len(self.processes)}")
        store = Process(
            self.popen(TOOL, "store", "serve", "--host", host, "--port", 0, "--port-file", path, stdin=subprocess.DEVNULL)
        )
        wait_until(lambda: os.path.exists(path) and pathlib.Path(path).read_text().strip(), "the store serves")
        port = int(pathlib.Path(path).read_text())
        self.ports.append(port)
        return store, port

    def free_port(self, host="127.0.0.1"):
        """A port that stays free for whoever listens on it with SO_REUSEADDR, as muster does."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        holder = socket.socket(family, socket.SOCK_STREAM)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, 0))
        self.reserved.append(holder)
        self.ports.append(holder.getsockname()[1])
        return self.ports[-1]

    def path(self, name):
        return os.path.join(self.directory, name)

    # Looking at what ranks have written into their store

    def keys(self, url):
        """The keys in the store at tcp://host:port, or the bytes of the file at file:///path."""
        if url.startswith("file://"):
            try:
                return pathlib.Path(url[7:]).read_bytes().decode(errors="replace")
            except FileNotFoundError:
                return ""
        host, port = url[6:].rsplit(":", 1)
        status, out = self.run_tool("store", "list", "--host", host.strip("[]"), "--port", port)
        return out.splitlines() if status == 0 else []

    def wait_for_key(self, url, key):
        wait_until(lambda: key in self.keys(url), f"{key} in {url}")

    def joined(self, url, *ranks, run="job.0", world=1):
        """Waits until these ranks have joined the world that is forming."""
        for rank in ranks:
            self.wait_for_key(url, f"muster/{run}/{world}/rank/{rank}")

    def in_barrier(self, url, *ranks, run="job.0", world=1):
        """Waits until these ranks have arrived at their first barrier of the whole world, each on a host of its own."""
        for rank in ranks:
            self.wait_for_key(url, f"muster/{run}/{world}/door/{rank}")

    # Judging

    def assert_ok(self, step):
        self.assertEqual(step.status, "MST_OK", step)

    def assert_failed(self, step, status, *parts):
        self.assertEqual(step.status, status, step)
        for part in parts:
            self.assertRegex(step.message, part)

    def assert_soon(self, step, since, limit=SOON):
        self.assertLess(step.at - since, limit, step)

    def assert_within(self, step, ms):
        """The step took less, as far as can be told here."""
        self.assertLess(step.ms, ms * SLOWER, step)

    def assert_ends(self, *ranks, status=0):
        for rank in ranks:
            code, out = rank.finish()
            self.assertEqual(code, status, out)

    def marked(self):
        needle = f"{MARK}={self.mark}".encode()
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                if needle in pathlib.Path(f"/proc/{name}/environ").read_bytes() and is_alive(name):
                    found.append(int(name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def assert_nothing_left(self, *kept_files):
        """No process of the test, no port it used, no segment and no file but those."""
        for holder in self.reserved:
            holder.close()
        wait_until(lambda: not self.marked(), "no process is left", 10)
        wait_until(lambda: not any(map(listens, self.ports)), "no port is left", 10)
        left = {name for name in os.listdir(self.directory) if not name.startswith("port")}
        self.assertEqual(left, set(kept_files))
        if os.path.isdir("/dev/shm"):
            new = {name for name in set(os.listdir("/dev/shm")) - self.shared_memory if "muster" in name}
            self.assertEqual(new, set())

    @contextlib.contextmanager
    def ended(self):
        """Ends what a part of a test has started if that part fails, so that the next one starts afresh."""
        try:
            yield
        except BaseException:
            self.kill_all()
            for name in os.listdir(self.directory):
                os.unlink(self.path(name))
            raise

    def kill_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def tearDown(self):
        self.kill_all()
        for process in self.processes:
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    try:
                        stream.close()
                    except BrokenPipeError:
                        pass
        for holder in self.reserved:
            holder.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        left = self.marked()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        if left:
            self.fail(f"processes left behind: {left}")


def give_up(number, _):
    for process in started:
        if process.poll() is None:
            process.kill()
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
    print("told to end" if number == signal.SIGTERM else f"the driver took more than {LIMIT} s", file=sys.stderr)
    os._exit(1)


def main():
    """Runs the tests of the calling driver; only skipped tests make it a skipped driver."""
    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGTERM, give_up)
    signal.alarm(LIMIT)
    result = unittest.main(exit=False).result
    tests = [test for test, _ in result.skipped if isinstance(test, unittest.TestCase)]  # the rest are whole classes
    if result.wasSuccessful() and result.skipped and len(tests) == result.testsRun:
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
