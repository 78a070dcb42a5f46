"""The backend "muster" of torch.distributed, bindings/torch: values of every operation, failures, and launchers.

Built and run with every torch at hand that it supports. MUSTER_TORCH_PYTHON names interpreters to try beside the usual ones.
"""

import os
import re
import subprocess
import sys
import unittest

from harness import MUSTER, PROGRAMS, Process, RanksTest
from torch_support import BUILD, SOURCE, environment, find_torches

OLDEST = (2, 11)
BINDING = SOURCE / "bindings/torch"
PARTS = (
    "all_reduce", "averages", "reduce", "broadcast", "all_gather", "gather_and_scatter", "reduce_scatter", "all_to_all", "coalesced", "messages",
    "tags", "dropped", "sparse", "objects", "groups", "split", "memory", "works", "profiled", "parameters", "barriers",
)  # fmt: skip
MESSAGES = ("messages", "tags", "dropped")  # need another rank
FRAMEWORKS = ("ddp", "ddp_bf16", "ddp_power_sgd", "fsdp2", "dtensor", "pipeline", "checkpoint")
DEEPSPEED = ("deepspeed_comm", "zero_1", "zero_2", "zero_3")

FOUND, REASONS = find_torches()
TORCHES = [torch for torch in FOUND if torch.numbers >= OLDEST]
REASONS += [f"{torch.python}: its torch is {torch.version}" for torch in FOUND if torch.numbers < OLDEST]


def build(torch):
    """Builds the plug-in against this torch, and returns the folder of the package."""
    base = BUILD.resolve() / f"torch-{torch.version}"
    command = [torch.python, "setup.py", "-q", "build", "--build-base", base, "--build-lib", base / "lib"]
    env = {**environment(), "MUSTER_ARCHIVE": str(BUILD.resolve() / "lib/libmuster.a")}
    subprocess.run(list(map(str, command)), cwd=BINDING, env=env, check=True, stdout=subprocess.DEVNULL)
    return base / "lib"


class BackendTest(RanksTest):
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
        return [Process(process).finish() for process in processes]

    def values(self, torch, n, hosts=None, parts=PARTS):
        for status, out in self.ranks(torch, n, "values.py", *parts, hosts=hosts):
            self.assertEqual((status, re.findall(r"^(\w+): right$", out, re.M)), (0, list(parts)), out)

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

    def test_frameworks(self):
        """With two ranks the results of PyTorch's frameworks and DeepSpeed are gloo's to the last digit: a + b is b + a."""
        for torch in TORCHES:
            for cases in (FRAMEWORKS, DEEPSPEED):
                found = {}
                for backend, hosts in (("gloo", None), ("muster", None), ("muster", "ab")):
                    with self.subTest(torch=torch.version, cases=cases, backend=backend, hosts=hosts):
                        ranks = self.ranks(torch, 2, "frameworks.py", *cases, hosts=hosts, backend=backend)
                        results = [re.findall(r"^(\w+): ([0-9a-f]{16}|skipped: .*)$", out, re.M) for _, out in ranks]
                        self.assertEqual([status for status, _ in ranks], [0, 0], ranks)
                        self.assertEqual([name for name, _ in results[0]], list(cases), ranks)
                        self.assertEqual(results, found.setdefault("gloo", results))
                for name, result in found["gloo"][0]:
                    if result.startswith("skipped"):
                        print(f"torch {torch.version}: {name}: {result}")

    def test_c_and_python_ranks(self):
        for torch in TORCHES:
            for hosts in (None, "abab"):
                for in_c in ((1, 2), (2,), (1,)):
                    with self.subTest(torch=torch.version, hosts=hosts, in_c=in_c):
                        for status, out in self.ranks(torch, 4, "mixed.py", hosts=hosts, in_c=in_c):
                            self.assertEqual((status, out.splitlines()[-1:]), (0, ["right"]), out)

    def launched(self, torch, *command):
        for holder in self.reserved:
            holder.close()
        self.reserved.clear()
        env = {**environment(), "PYTHONPATH": str(self.packages[torch])}
        status, out = Process(self.popen(*command, env=env)).finish()
        self.assertEqual((status, out.count("right")), (0, 4), out)

    def test_launchers(self):
        """torchrun with C and Python ranks, and muster run with Python ranks."""
        for torch in TORCHES:
            python = f"exec {torch.python} -B {BINDING / 'tests/mixed.py'}"
            both = f"case $RANK in 1|2) exec {PROGRAMS / 'torch_rank'} ;; *) {python} ;; esac"
            torchrun = [torch.python, "-m", "torch.distributed.run", "--no-python", "--nproc_per_node", 4]
            with self.subTest(torch=torch.version):
                self.launched(torch, *torchrun, "--master_port", self.free_port(), "sh", "-c", both)
                self.launched(torch, MUSTER, "run", "-n", 4, "--open-store", "sh", "-c", python)

    def faults(self, torch, case, *patterns, within=10, hosts=None, victim=None):
        """Each rank but the victim raises what the patterns say within so many seconds."""
        for rank, (_, out) in enumerate(self.ranks(torch, 3, "faults.py", case, hosts=hosts)):
            if rank == victim:
                continue
            found = re.search(r"^DistBackendError ([\d.]+) (.*)$", out, re.M)
            self.assertTrue(found, (case, rank, out))
            self.assertLess(float(found[1]), within, (case, rank, out))
            for pattern in patterns:
                self.assertRegex(found[2], pattern, (case, rank))

    def test_faults(self):
        died = "Connection closed by peer", r"rank 1 \(host .*, pid \d+\)"
        for torch in TORCHES:
            for hosts in (None, "abc"):
                with self.subTest(torch=torch.version, hosts=hosts):
                    # Between hosts PyTorch's store does not tell who died, so a rank needs a connection to notice it.
                    for case in ("killed", "killed_during_a_work", "left_without_destroy", *(["killed_sender"] if not hosts else [])):
                        self.faults(torch, case, *died, hosts=hosts, victim=1)
                    self.faults(torch, "different_sizes", r"all_reduce of [456] f32.*all_reduce of [456] f32", "the calls differ", hosts=hosts)
                    self.faults(torch, "late_rank", "Timed out", "rank 1 ", hosts=hosts, victim=1)
                    phrases = "Ranks 1 failed to pass monitoredBarrier in 1000 ms|Rank 2 successfully reached monitoredBarrier, but received errors"
                    self.faults(torch, "monitored_barrier", phrases, "missing: rank 1 ", hosts=hosts, victim=1)
                    self.faults(torch, "wait_with_a_timeout", "Timed out waiting 300ms", hosts=hosts, victim=1)
                    self.faults(torch, "aborted", "abort", hosts=hosts)
                    self.faults(torch, "wrong_arguments", "right: 3", hosts=hosts)
                    self.faults(torch, "destroyed_during_a_call", "abort|destroyed|right|left", hosts=hosts)
                    self.faults(torch, "destroyed_with_pending_works", "destroyed before the operation was done", hosts=hosts)


if __name__ == "__main__":
    if not TORCHES:
        print(f"no torch {OLDEST[0]}.{OLDEST[1]} or newer:", *REASONS, sep="\n  ")
        sys.exit(77)
    from harness import main

    main()
