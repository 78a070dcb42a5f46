"""The backend "muster" of torch.distributed, bindings/torch, built for every torch at hand that it supports, and its ranks.

MUSTER_TORCH_PYTHON names interpreters to try beside the usual ones.
"""

import fcntl
import subprocess
import sys

from harness import PROGRAMS, Process, RanksTest
from torch_support import BUILD, PATIENCE, SOURCE, environment, find_torches

OLDEST = (2, 11)
BINDING = SOURCE / "bindings/torch"
FOUND, REASONS = find_torches()
TORCHES = [torch for torch in FOUND if torch.numbers >= OLDEST]
REASONS += [f"{torch.python}: its torch is {torch.version}" for torch in FOUND if torch.numbers < OLDEST]


def is_current(package, archive):
    """Is the built package newer than what it is built from?"""
    parts = [archive, BINDING / "setup.py", *BINDING.glob("csrc/*"), *BINDING.glob("muster_torch/*.py")]
    return any(made.stat().st_mtime > max(part.stat().st_mtime for part in parts) for made in package.glob("muster_torch/_C*.so"))


def build(torch):
    """Builds the plug-in against this torch, and returns the folder of the package. Tests that run at the same time share it."""
    base, archive = BUILD.resolve() / f"torch-{torch.version}", BUILD.resolve() / "lib/libmuster.a"
    base.mkdir(exist_ok=True)
    command = [torch.python, "setup.py", "-q", "build", "--build-base", base, "--build-lib", base / "lib"]
    with open(base / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current(base / "lib", archive):
            env = {**environment(), "MUSTER_ARCHIVE": str(archive)}
            subprocess.run(list(map(str, command)), cwd=BINDING, env=env, check=True, stdout=subprocess.DEVNULL)
    return base / "lib"


class BackendRanksTest(RanksTest):
    @classmethod
    def setUpClass(cls):
        cls.packages = {torch: build(torch) for torch in TORCHES}

    def ranks(self, torch, n, script, *arguments, hosts=None, in_c=(), backend="muster"):
        """Exit status and output of each rank. Those in in_c are C programs."""
        env = {
            **environment(), "BACKEND": backend, "WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.free_port()),
            "PYTHONPATH": str(self.packages[torch]),
        }  # fmt: skip
        env.pop("MUSTER_STORE_OPEN", None)
        self.reserved.pop().close()  # PyTorch's server does not listen beside the reservation
        python = [torch.python, "-B", BINDING / "tests" / script, *arguments]
        processes = [
            self.popen(
                *([PROGRAMS / "torch_rank"] if rank in in_c else python), stderr=subprocess.STDOUT,
                env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank), **({"MUSTER_FORCE_HOST": hosts[rank]} if hosts else {})},
            )
            for rank in range(n)
        ]  # fmt: skip
        return [Process(process).finish(PATIENCE) for process in processes]


def run():
    """Runs the tests of the main program, or skips them with the reasons why there is no torch."""
    if not TORCHES:
        print(f"skipped: no torch {OLDEST[0]}.{OLDEST[1]} or newer:", "; ".join(REASONS))
        sys.exit(77)
    from harness import main

    main()
