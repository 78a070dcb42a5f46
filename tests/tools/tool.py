"""What the tests of the muster program share: starting it with a deadline and seeing that nothing is left.

Every process that a test starts carries a mark in its environment, which its children inherit; when the test
ends, no process with that mark may be left.
"""

import ctypes
import os
import select
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import uuid

MUSTER = os.path.abspath(os.path.join(os.environ.get("MUSTER_BUILD_DIR", "build"), "bin", "muster"))
DEADLINE = 60.0  # seconds; reached only when something is wrong
MARK = "TOOL_TEST_MARK"


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
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def default_signals():
    """A parent that ignores signals would make the launcher ignore them as well."""
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
        os._exit(77)


def lines_of(data):
    return data.decode().splitlines()


class Gate:
    """A place where a worker waits, by reading a line from self.path, until the test lets it go on."""

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


class Running:
    """A muster process under way; output is read line by line with a deadline."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        self.pending = {process.stdout: b"", process.stderr: b""}

    def line(self, stream):
        """The next line of stream without its newline."""
        end = time.monotonic() + DEADLINE
        while b"\n" not in self.pending[stream]:
            ready = select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]
            if not ready:
                raise AssertionError(f"no line in {DEADLINE} s; got {self.pending[stream]!r}")
            data = os.read(stream.fileno(), 65536)
            if not data:
                raise AssertionError(f"the output ended; got {self.pending[stream]!r}")
            self.pending[stream] += data
        line, _, self.pending[stream] = self.pending[stream].partition(b"\n")
        return line.decode()

    def out(self):
        return self.line(self.process.stdout)

    def err(self):
        return self.line(self.process.stderr)

    def send(self, number):
        self.process.send_signal(number)

    def finish(self):
        """Waits for the end: exit status, the rest of stdout, the rest of stderr."""
        out, err = self.process.communicate(timeout=DEADLINE)
        out = self.pending[self.process.stdout] + out
        err = self.pending[self.process.stderr] + err
        return self.process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


class ToolTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.mark = uuid.uuid4().hex
        self.processes = []

    def environment(self, extra=None):
        ours = ("OMP_NUM_THREADS", "RANK", "WORLD_SIZE")
        env = {k: v for k, v in os.environ.items() if k not in ours and not k.startswith("MUSTER_")}
        env[MARK] = self.mark
        env.update(extra or {})
        return env

    def popen(self, *args, env=None, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("preexec_fn", default_signals)
        process = subprocess.Popen([MUSTER, *map(str, args)], env=self.environment(env), **options)
        self.processes.append(process)
        return process

    def begin(self, *args, **options):
        return Running(self.popen(*args, bufsize=0, **options))

    def muster(self, *args, data=None, **options):
        """Runs to the end: exit status, stdout and stderr as bytes."""
        if data is not None:
            options["stdin"] = subprocess.PIPE
        process = self.popen(*args, **options)
        out, err = process.communicate(data, timeout=DEADLINE)
        return process.returncode, out, err

    def marked(self):
        needle = f"{MARK}={self.mark}".encode()
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as environ:
                    if needle in environ.read() and is_alive(name):
                        found.append(int(name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        try:
            wait_until(lambda: not self.marked(), "no process is left behind", 10)
        except AssertionError:
            left = self.marked()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            self.fail(f"processes left behind: {left}")
