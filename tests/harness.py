"""What the Python test drivers share: processes with deadlines, free ports, and checks that nothing is left.

Every process that a test starts has a mark in its environment, and its children inherit it. When the test ends, it
kills the processes that it started and fails if another process with its mark is alive.

CTest sets PYTHONPATH. By hand: PYTHONPATH=tests:tests/multi:tests/tools python3 tests/multi/test_death.py
"""

import collections
import contextlib
import ctypes
import io
import os
import pathlib
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

TESTS = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", TESTS.parent))
BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD_DIR", SOURCE / "build")).resolve()
MUSTER = BUILD / "bin/muster"
PROGRAMS = BUILD / "bin/tests"
WORLD = PROGRAMS / "world"
SANITIZED = b"san_init" in (BUILD / "lib/libmuster.so").read_bytes()
ALL = bool(os.environ.get("MUSTER_TEST_ALL"))  # also the cases that take long and seldom find something else
DEADLINE = 60.0  # seconds; reached only when something is wrong
SLOWER = 5 if SANITIZED else 3  # time limits are multiplied by this: sanitizers are slow, and tests run in parallel
SOON = 2.0 * SLOWER  # seconds within which a rank must learn that another one died
MARK = "TEST_MARK"
SKIPPED = 77
LIMIT = int(os.environ.get("RANKS_TEST_LIMIT", "590"))  # seconds for a whole driver, less than CTest's limit

LAUNCH = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"}

started, directories = [], []  # removed by give_up when the driver itself hangs or gets SIGTERM

Step = collections.namedtuple("Step", "action status ms culprit message at")
RankInfo = collections.namedtuple("RankInfo", "rank host local_rank local_size pid name address")


def wait_until(condition, what, deadline=DEADLINE):
    """Polls until condition() returns something true, and returns that."""
    end = time.monotonic() + deadline
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline} s: {what}")
        select.select([], [], [], 0.005)


def is_alive(pid):
    """Whether the process exists and is not a zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def listeners():
    """The port and the inode of each TCP socket that listens in this network namespace."""
    for table in filter(os.path.exists, ("/proc/net/tcp", "/proc/net/tcp6")):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                yield int(fields[1].rsplit(":", 1)[1], 16), fields[9]


def has_local_store(port):
    """Whether the store at the port has its Unix socket."""
    names = [line.split() for line in pathlib.Path("/proc/net/unix").read_text().splitlines()]
    return any("@muster-store" in name and name[-1] == str(port) for name in names)


def listens(port):
    """Whether a process listens on the port in this network namespace."""
    return any(port == other for other, _ in listeners()) or has_local_store(port)


def open_files(pid):
    """What the descriptors of a process refer to, without those that it closes meanwhile."""
    names = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(entry))
    return names


def listening(pid):
    """The TCP ports on which a process listens."""
    files = set(open_files(pid))
    return sorted({port for port, inode in listeners() if f"socket:[{inode}]" in files})


def segments(pid, kind="muster"):
    """How many of muster's shared segments the process has open or mapped."""
    try:
        fds = open_files(pid)
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(kind in fd for fd in fds if fd.startswith("/memfd:")) + maps.count("/memfd:" + kind)


def lines_of(data):
    return data.decode().splitlines()


def default_signals():
    """Resets signals: the launcher would inherit those that this process ignores."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def without_pidfd():
    """Makes pidfd_open fail as on a kernel that lacks it."""
    default_signals()
    instructions = [
        (0x20, 0, 0, 0),  # load the number of the system call
        (0x15, 0, 1, 434),  # pidfd_open, on every architecture
        (0x06, 0, 0, 0x00050000 | 38),  # ENOSYS
        (0x06, 0, 0, 0x7FFF0000),  # allow
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in instructions))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        os._exit(SKIPPED)


class Gate:
    """A FIFO: a worker blocks in reading a line from self.path until the test calls open()."""

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.directory.name, "gate")
        os.mkfifo(self.path)
        return self

    def open(self):
        with open(self.path, "w", encoding="utf-8") as gate:
            gate.write("go\n")

    def __exit__(self, *_):
        self.directory.cleanup()


class Process:
    """A process whose output is read line by line with a deadline."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        self.pending = {process.stdout: b"", process.stderr: b""}

    def read_line(self, stream):
        """The next line of the stream without its newline; None at its end."""
        end = time.monotonic() + DEADLINE
        while b"\n" not in self.pending[stream]:
            if not select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"no line in {DEADLINE} s; got {self.pending[stream]!r}")
            data = os.read(stream.fileno(), 65536)
            if not data:
                return None
            self.pending[stream] += data
        line, _, self.pending[stream] = self.pending[stream].partition(b"\n")
        return line.decode(errors="replace")

    def line(self):
        """The next line of standard output; None at its end."""
        return self.read_line(self.process.stdout)

    def kill(self):
        """Kills it with SIGKILL and returns when."""
        at = time.monotonic()
        self.process.kill()
        self.process.wait(DEADLINE)
        return at

    def send(self, number):
        self.process.send_signal(number)

    def resume(self):
        """Ends its "hold": a rank that holds waits for a line of standard input."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def finish(self, deadline=DEADLINE):
        """Waits for the end: exit status and the rest of its output."""
        out, _ = self.process.communicate(timeout=deadline)
        return self.process.returncode, (self.pending[self.process.stdout] + out).decode(errors="replace")


class ToolProcess(Process):
    """A run of the muster tool with both of its streams piped."""

    def text(self, stream):
        line = self.read_line(stream)
        if line is None:
            raise AssertionError(f"the output ended; got {self.pending[stream]!r}")
        return line

    def out(self):
        return self.text(self.process.stdout)

    def err(self):
        return self.text(self.process.stderr)

    def finish(self):
        """Waits for the end: exit status, the rest of stdout, the rest of stderr."""
        out, err = self.process.communicate(timeout=DEADLINE)
        out = self.pending[self.process.stdout] + out
        err = self.pending[self.process.stderr] + err
        return self.process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


class Rank(Process):
    """A run of tests/multi/world.c."""

    def __init__(self, process):
        super().__init__(process)
        self.rank_infos = []
        self.me = None

    def step(self, action):
        """Waits for the result of the action; skips earlier actions, which must have succeeded."""
        while True:
            line = self.line()
            if line is None:
                raise AssertionError(f"the rank ended (exit status {self.process.wait()}) before '{action}' ended")
            fields = line.split("\t", 4)
            if fields[0] == "at":
                self.rank_infos.append(RankInfo(*map(int, line.split("\t")[1:6]), *line.split("\t")[6:]))
            elif fields[0] == "me":
                self.me = tuple(map(int, line.split("\t")[1:]))
            elif fields[1] != "BEGIN":
                step = Step(fields[0], fields[1], int(fields[2]), int(fields[3]), fields[4], time.monotonic())
                if step.action == action:
                    return step
                if step.status != "MST_OK":
                    raise AssertionError(f"before '{action}': {step}")

    def begins(self, action):
        """Waits until the rank is about to begin the action."""
        while True:
            line = self.line()
            if line is None or not line.startswith(f"{action}\tBEGIN"):
                if line is None or "\tMST_ERR" in line:
                    raise AssertionError(f"before '{action}': {line}")
                continue
            return


class ProcessTest(unittest.TestCase):
    """A test that ends every process it started."""

    maxDiff = None
    # Seconds that descendants of the killed processes have to end: LeakSanitizer looks for leaks in one.
    grace = 2 if SANITIZED else 0

    def setUp(self):
        self.mark = uuid.uuid4().hex
        self.processes = []

    def environment(self, extra=None):
        """This process's environment without the variables that describe a job, plus the mark and extra."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in LAUNCH and not name.startswith(("MUSTER_", "TORCHELASTIC_"))
        }
        return {**kept, MARK: self.mark, **{name: str(value) for name, value in (extra or {}).items()}}

    def spawn(self, *command, env=None, **options):
        process = subprocess.Popen([str(part) for part in command], env=self.environment(env), **options)
        self.processes.append(process)
        started.append(process)
        return process

    def marked(self):
        """The living processes that this test started, and their descendants."""
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
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
        end = time.monotonic() + self.grace
        while (left := self.marked()) and time.monotonic() < end:
            select.select([], [], [], 0.005)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if left:
            self.fail(f"processes left behind: {left}")


class ToolTest(ProcessTest):
    """A test of the muster tool."""

    grace = 10
    prefix = ()  # of the command: leads into a network namespace, for example

    def popen(self, *args, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("preexec_fn", default_signals)
        return self.spawn(*self.prefix, MUSTER, *args, **options)

    def begin(self, *args, **options):
        return ToolProcess(self.popen(*args, bufsize=0, **options))

    def muster(self, *args, data=None, **options):
        """Runs the tool to its end: exit status, stdout and stderr as bytes."""
        if data is not None:
            options["stdin"] = subprocess.PIPE
        process = self.popen(*args, **options)
        out, err = process.communicate(data, timeout=DEADLINE)
        return process.returncode, out, err


class RanksTest(ProcessTest):
    """A test of ranks, which meet at a store or a file; the test's directory and ports are removed at its end."""

    def setUp(self):
        super().setUp()
        self.reserved = []
        self.ports = []
        self.directory = tempfile.mkdtemp(prefix="muster-ranks-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        directories.append(self.directory)
        self.shared_memory = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()

    # Start processes

    def popen(self, *command, **options):
        options.setdefault("stdin", subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("cwd", "/")
        return self.spawn(*command, bufsize=0, **options)

    def rank(self, *actions, prefix=(), env=None, **options):
        """Starts one rank of tests/multi/world.c that carries out the actions."""
        return Rank(self.popen(*prefix, WORLD, *actions, env=env, **options))

    def tcp(self, rank, size, url, *actions, timeout=None, **options):
        """Starts a rank that joins the others at the url."""
        limit = [f"timeout={timeout}"] if timeout else []
        return self.rank(f"method={url}?rank={rank}&world_size={size}", *limit, *actions, **options)

    def run_tool(self, *args, env=None):
        """Runs the tool to its end: exit status and standard output."""
        return Process(self.popen(MUSTER, *args, env=env, stdin=subprocess.DEVNULL)).finish()

    def serve(self, host="127.0.0.1", port=0):
        """Starts `muster store serve`: the process and its port."""
        path = os.path.join(self.directory, f"port{len(self.processes)}")
        store = Process(
            self.popen(MUSTER, "store", "serve", "--host", host, "--port", port, "--port-file", path, stdin=subprocess.DEVNULL)
        )
        wait_until(lambda: os.path.exists(path) and pathlib.Path(path).read_text().strip(), "the store serves")
        port = int(pathlib.Path(path).read_text())
        self.ports.append(port)
        return store, port

    def free_port(self, host="127.0.0.1"):
        """A port on which only listeners with SO_REUSEADDR, such as muster's, can be opened."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        holder = socket.socket(family, socket.SOCK_STREAM)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, 0))
        self.addCleanup(holder.close)
        self.reserved.append(holder)
        self.ports.append(holder.getsockname()[1])
        return self.ports[-1]

    def path(self, name):
        return os.path.join(self.directory, name)

    # Read what ranks have written to their store

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
        """Waits until these ranks, each on its own host, have arrived at their first barrier of the world."""
        for rank in ranks:
            self.wait_for_key(url, f"muster/{run}/{world}/endpoint/{rank}")

    # Check results

    def assert_ok(self, step):
        self.assertEqual(step.status, "MST_OK", step)

    def assert_failed(self, step, status, *parts):
        self.assertEqual(step.status, status, step)
        for part in parts:
            self.assertRegex(step.message, part)

    def assert_soon(self, step, since, limit=SOON):
        self.assertLess(step.at - since, limit, step)

    def assert_within(self, step, ms):
        """The step took at most this long, with an allowance for slow builds."""
        self.assertLess(step.ms, ms * SLOWER, step)

    def assert_ends(self, *ranks, status=0):
        for rank in ranks:
            code, out = rank.finish()
            self.assertEqual(code, status, out)

    def assert_nothing_left(self, *kept_files):
        """No process of the test, no port, no shared memory, and no file but those named."""
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
        """Kills the processes and removes the files of a subtest that fails, so that the next one starts clean."""
        try:
            yield
        except BaseException:
            self.kill_all()
            for name in os.listdir(self.directory):
                os.unlink(self.path(name))
            raise


class ParallelRunner:
    """Runs tests in several processes at once: for drivers whose tests mostly wait."""

    def __init__(self, at_once):
        self.at_once = at_once
        self.workers = []
        self.skipped = []
        self.testsRun = 0
        self.failed = False

    def wasSuccessful(self):
        return not self.failed

    @staticmethod
    def work(tests, queue, results):
        """Takes numbers of tests from a pipe and writes how they ended, one line each."""
        while number := os.read(queue, 1):
            text = io.StringIO()
            result = unittest.TextTestRunner(stream=text).run(unittest.TestSuite([tests[number[0]]]))
            ok = result.wasSuccessful()
            skipped = [test for test, _ in result.skipped if isinstance(test, unittest.TestCase)]
            if not ok:
                print(text.getvalue(), file=sys.stderr, flush=True)
            all_skipped = bool(result.skipped) and len(skipped) == result.testsRun  # perhaps by the class
            os.write(results, b"%d %d %d\n" % (number[0], ok, all_skipped))

    def start(self, tests):
        """Starts the processes; returns the stream of their results."""
        sys.stdout.flush()
        sys.stderr.flush()
        queue, feed = os.pipe()
        source, results = os.pipe()
        os.write(feed, bytes(range(len(tests))))
        os.close(feed)
        for _ in range(min(self.at_once, len(tests))):
            pid = os.fork()
            if pid == 0:
                os.close(source)
                signal.alarm(LIMIT)
                self.workers.clear()
                self.work(tests, queue, results)
                os._exit(0)
            self.workers.append(pid)
        os.close(queue)
        os.close(results)
        return os.fdopen(source, encoding="utf-8")

    def run(self, suite):
        begin = time.monotonic()
        tests = list(tests_of(suite))
        with self.start(tests) as results:
            for line in results:
                number, ok, skipped = map(int, line.split())
                self.testsRun += 1
                self.failed |= not ok
                if skipped:
                    self.skipped.append((tests[number], ""))
        while self.workers:
            self.failed |= os.waitpid(self.workers.pop(), 0)[1] != 0
        self.failed |= self.testsRun != len(tests)
        print(f"Ran {self.testsRun} of {len(tests)} tests in {time.monotonic() - begin:.1f} s, {self.at_once} at once:",
              "FAILED" if self.failed else "OK", file=sys.stderr)  # fmt: skip
        return self


def tests_of(suite):
    """The tests of a suite and of the suites in it."""
    for part in suite:
        if isinstance(part, unittest.TestCase):
            yield part
        else:
            yield from tests_of(part)


def give_up(number, _):
    for process in started:
        if process.poll() is None:
            process.kill()
    for worker in runner.workers if runner else ():
        os.kill(worker, signal.SIGTERM)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
    print("got SIGTERM" if number == signal.SIGTERM else f"the driver took more than {LIMIT} s", file=sys.stderr)
    os._exit(1)


runner = None  # of tests in several processes


def main(at_once=1):
    """Runs the tests of the calling driver, that many at once; it counts as skipped if all of its tests are."""
    global runner
    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGTERM, give_up)
    signal.alarm(LIMIT)
    runner = ParallelRunner(at_once) if at_once > 1 else None
    result = unittest.main(exit=False, testRunner=runner).result
    tests = [test for test, _ in result.skipped if isinstance(test, unittest.TestCase)]  # without skipped classes
    if result.wasSuccessful() and result.skipped and len(tests) == result.testsRun:
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
