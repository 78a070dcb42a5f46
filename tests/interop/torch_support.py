"""Processes of test_torch.py, and the interpreters that have torch."""

import ctypes
import functools
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", HERE.parent.parent))
BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD_DIR", SOURCE / "build"))
TOOL = BUILD / "bin/muster"
STORE_CLIENT = BUILD / "bin/tests/store_client"
TORCH_CLIENT = HERE / "torch_client.py"
PORT_TAKEN = 98  # exit code of store_client and torch_client
PR_SET_PDEATHSIG = 1
PATIENCE = 180  # seconds that a process may take, on slow machines too: importing torch takes seconds
LAUNCH_VARIABLES = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


def environment():
    """The caller's, less what would tell muster or torch about some job."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in LAUNCH_VARIABLES and not name.startswith(("MUSTER_", "TORCHELASTIC_"))
    }
    return {**kept, "MUSTER_STORE_OPEN": "1", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


class PortTaken(AssertionError):
    """The port that a process was told to listen on is no longer free: try another."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end_with_driver():
    """For the case that somebody kills the test itself."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Child:
    """A process in a session of its own, ended with its test at the latest, with all that it started."""

    def __init__(self, case, *command):
        self.command = " ".join(map(str, command))
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
            env=environment(),
            start_new_session=True,
            preexec_fn=end_with_driver,
        )
        case.addCleanup(self.end)

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            file.close()

    def failure(self, what):
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace")
        kind = PortTaken if self.process.poll() == PORT_TAKEN else AssertionError
        return kind(f"{what}: {self.command}\n{said}")

    def line(self):
        """The next line of its output."""
        text, deadline = b"", time.monotonic() + PATIENCE
        while not text.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise self.failure("said nothing in time")
            byte = self.process.stdout.read(1)
            if not byte:
                raise self.failure(f"ended with {self.process.wait(PATIENCE)}")
            text += byte
        return text.decode().strip()

    def ask(self, *request):
        """Has a torch master call a method of its store."""
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        return json.loads(self.line())

    def finish(self):
        """Closes its stdin, waits until it ends well, and returns what it printed."""
        try:
            output, _ = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise self.failure("did not end in time") from None
        if self.process.returncode != 0:
            raise self.failure(f"ended with {self.process.returncode}")
        return output


def finish_all(children):
    for child in children:
        child.finish()


def serve(case):
    """Starts our server and returns its port."""
    server = Child(case, TOOL, "store", "serve", "--host", "127.0.0.1", "--port", "0")
    return server.line().rpartition(":")[2]


class Torch:
    """An interpreter that can import torch."""

    def __init__(self, python, facts):
        self.python = python
        self.version = facts["version"]
        self.methods = set(facts["methods"])
        self.numbers = tuple(int(part) for part in self.version.split(".")[:2])
        self.backends = ["on", "off"] if facts["libuv"] else ["default"]

    def start(self, case, job, *arguments):
        return Child(case, self.python, "-B", TORCH_CLIENT, job, *arguments)

    def run(self, case, job, *arguments):
        return self.start(case, job, *arguments).finish()

    def torchrun(self, case, port, workers):
        """Its own launcher, which uses the store at port to bring its workers together.

        Without redirects that of torch 1.13 does not work on Python 3.11.
        """
        logs = tempfile.TemporaryDirectory()
        case.addCleanup(logs.cleanup)
        return Child(
            case, self.python, "-B", "-m", "torch.distributed.run", "--nnodes", 1, "--nproc_per_node", workers,
            "--rdzv_backend", "c10d", "--rdzv_endpoint", f"127.0.0.1:{port}", "--rdzv_conf", "is_host=0",
            "--rdzv_id", "interop", "--redirects", 2, "--tee", 2, "--log_dir", logs.name, TORCH_CLIENT, "worker",
        )  # fmt: skip

    def extras(self, backend):
        """What its server knows beyond the common operations, in store_client's words."""
        queue = "queue_push" in self.methods and backend == "on"
        return ["queue"] * queue + ["list"] * ("list_keys" in self.methods)


def candidates():
    """Interpreters to try; MUSTER_TORCH_PYTHON may name several, with colons between them."""
    yield from filter(None, os.environ.get("MUSTER_TORCH_PYTHON", "").split(":"))
    yield "/usr/bin/python3"
    yield shutil.which("python3")
    yield str(SOURCE / ".venv-torch/bin/python3")


@functools.lru_cache(maxsize=None)
def find_torches():
    """One Torch for each version at hand, and why the other interpreters were not taken."""
    found, reasons = {}, []
    for python in dict.fromkeys(candidates()):
        if not python or not os.access(python, os.X_OK):
            reasons.append(f"{python}: no such program")
            continue
        about = [python, "-B", TORCH_CLIENT, "about"]
        done = subprocess.run(about, capture_output=True, text=True, env=environment(), timeout=PATIENCE)
        if done.returncode != 0:
            reasons.append(f"{python}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
            continue
        torch = Torch(python, json.loads(done.stdout))
        found.setdefault(torch.version, torch)
    return sorted(found.values(), key=lambda torch: torch.numbers), reasons
