"""The backend "muster" of torch.distributed, bindings/torch: values of every operation, and launchers.

Built and run with every torch at hand that it supports. MUSTER_TORCH_PYTHON names interpreters to try beside the usual ones.
"""

import pathlib
import re
import shutil
import tempfile

from harness import MUSTER, PROGRAMS, Process
from torch_backends import BINDING, TORCHES, BackendRanksTest, run
from torch_support import BUILD, PATIENCE, environment

PARTS = (
    "all_reduce", "averages", "reduce", "broadcast", "all_gather", "gather_and_scatter", "reduce_scatter", "all_to_all", "coalesced", "lists", "merged",
    "messages", "lazy", "tags", "dropped", "sparse", "objects", "groups", "split", "memory", "works", "hooks", "profiled", "parameters", "barriers",
)  # fmt: skip
MESSAGES = ("messages", "tags", "dropped")  # need another rank


class BackendTest(BackendRanksTest):
    def values(self, torch, n, hosts=None, parts=PARTS):
        ends = self.ranks(torch, n, "values.py", *parts, hosts=hosts)
        wrong = [out for status, out in ends if status or re.findall(r"^(\w+): right$", out, re.M) != list(parts)]
        self.assertFalse(wrong, "\n--- another rank:\n".join(wrong))

    def test_values(self):
        for torch in TORCHES:
            for n in (1, 2, 3, 4):
                with self.subTest(torch=torch.version, n=n):
                    self.values(torch, n, parts=PARTS if n > 1 else [part for part in PARTS if part not in MESSAGES])

    def test_values_between_simulated_hosts(self):
        for torch in TORCHES:
            for hosts in ("ab", "aab"):
                with self.subTest(torch=torch.version, hosts=hosts):
                    self.values(torch, len(hosts), hosts)

    def test_c_and_python_ranks(self):
        for torch in TORCHES:
            for hosts in (None, "abab"):
                for in_c in ((1, 2), (2,), (1,)):
                    with self.subTest(torch=torch.version, hosts=hosts, in_c=in_c):
                        for status, out in self.ranks(torch, 4, "mixed.py", hosts=hosts, in_c=in_c):
                            self.assertEqual((status, out.splitlines()[-1:]), (0, ["right"]), out)

    def build_output(self, torch, *command, **env):
        """What a command writes in the folder of setup.py; the library is built."""
        env = {**environment(), "MUSTER_ARCHIVE": str(BUILD.resolve() / "lib/libmuster.a"), **env}
        status, out = Process(self.popen(torch.python, "-B", *command, cwd=BINDING, env=env)).finish(PATIENCE)
        self.assertEqual(status, 0, out)
        return out.splitlines()[-1]

    def test_build_without_torch(self):
        """pip builds in an environment of its own, without torch: setup.py finds the torch of the environment that pip installs into."""
        for torch in TORCHES:
            isolated = pathlib.Path(tempfile.mkdtemp())
            self.addCleanup(shutil.rmtree, isolated)
            packages = self.build_output(torch, "-c", "import os, setuptools; print(os.path.dirname(os.path.dirname(setuptools.__file__)))")
            for name in ("setuptools", "_distutils_hack", "pkg_resources"):
                (isolated / name).symlink_to(pathlib.Path(packages) / name)
            (isolated / "sitecustomize.py").write_text("import sys; sys.path = [path for path in sys.path if '-packages' not in path]\n")
            env = {"PYTHONPATH": str(isolated), "PYTHONNOUSERSITE": "1"}
            with self.subTest(torch=torch.version):
                shown = "import importlib.util; print(importlib.util.find_spec('torch'))"
                self.assertEqual(self.build_output(torch, "-c", shown, **env), "None")
                self.assertEqual(self.build_output(torch, "setup.py", "--version", **env), "0.2.0")

    def test_build_folder(self):
        """Each torch has its own: pip would install what is there, although it was built for another one."""
        shown = "import setuptools; from distutils.core import run_setup; build = run_setup('setup.py', stop_after='commandline').get_command_obj('build'); "
        shown += "build.ensure_finalized(); print(build.build_lib)"
        for torch in TORCHES:
            with self.subTest(torch=torch.version):
                self.assertIn(torch.version, self.build_output(torch, "-c", shown))

    def launched(self, torch, *command):
        for holder in self.reserved:
            holder.close()
        self.reserved.clear()
        env = {**environment(), "PYTHONPATH": str(self.packages[torch])}
        status, out = Process(self.popen(*command, env=env)).finish(PATIENCE)
        self.assertEqual((status, out.count("right")), (0, 4), out)

    def test_imports(self):
        """The entry point of an installed package: torch and muster_torch may be imported in any order, or torch alone."""
        for torch in TORCHES:
            info = self.packages[torch] / "muster_torch-0.2.0.dist-info"
            info.mkdir(exist_ok=True)
            self.addCleanup(shutil.rmtree, info)
            group = "torch.distributed.backends" if torch.numbers >= (2, 15) else "torch.backends"
            (info / "entry_points.txt").write_text(f"[{group}]\nmuster = muster_torch:register\n")
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: muster_torch\nVersion: 0.2.0\n")
            env = {**environment(), "PYTHONPATH": str(self.packages[torch])}
            shown = "import torch.distributed as dist; print(dist.Backend.MUSTER)"
            for first in ("import muster_torch", "import torch, muster_torch", "import muster_torch.bench", "import torch"):
                if first == "import torch" and torch.numbers >= (2, 15):
                    continue  # loads the entry point with the first process group
                with self.subTest(torch=torch.version, first=first):
                    status, out = Process(self.popen(torch.python, "-B", "-c", f"{first}; {shown}", env=env)).finish(PATIENCE)
                    self.assertEqual((status, out), (0, "muster\n"))

    def test_launchers(self):
        """torchrun and muster run, with C and Python ranks."""
        for torch in TORCHES:
            python = f"exec {torch.python} -B {BINDING / 'tests/mixed.py'}"
            both = f"case $RANK in 0|1) exec {PROGRAMS / 'torch_rank'} ;; *) {python} ;; esac"
            torchrun = [torch.python, "-m", "torch.distributed.run", "--no-python", "--nproc_per_node", 4]
            with self.subTest(torch=torch.version):
                self.launched(torch, *torchrun, "--master_port", self.free_port(), "sh", "-c", both)
                for program in (python, both):
                    self.launched(torch, MUSTER, "run", "-n", 4, "--open-store", "sh", "-c", program)


if __name__ == "__main__":
    run()
