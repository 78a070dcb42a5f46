"""PyTorch's own tests of process groups, with the backend muster.

  suite.py [--backend gloo] [--ranks 3] [--json RESULT] [TEST…]

Runs torch/testing/_internal/distributed/distributed_test.py. Many of its tests name the backends they run with. Its text is changed in memory:
where it says gloo it says muster, so that muster runs every test that gloo runs. Needs expecttest.
"""

import argparse
import importlib.machinery
import json
import os
import sys
import tempfile
import time
import unittest

CHANGED = ("torch.testing._internal.common_distributed", "torch.testing._internal.distributed.distributed_test")
# Not a matter of the backend: PyTorch's C++ calls every backend that is not its own "custom".
KNOWN = {"test_ddp_logging_data_cpu": "DDP's log has 'custom' as the name of every plug-in"}
REFUSED = "monitored_barrier is only implemented for GLOO backend"  # what torch 2.11 says to every other backend


class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        text = self.get_data(self.path).decode()
        for name in ('"gloo"', "dist.Backend.GLOO"):
            text = text.replace(name, '"muster"')
        return self.source_to_code(text.encode(), self.path)


class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname not in CHANGED:
            return None
        spec = super().find_spec(fullname, path, target)
        spec.loader = Loader(fullname, spec.origin)
        return spec


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--backend", default="muster")
    parser.add_argument("--ranks", default="3")
    parser.add_argument("--json")
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = parse()
    os.environ.update(BACKEND=OPTIONS.backend, WORLD_SIZE=OPTIONS.ranks, TEMP_DIR=tempfile.mkdtemp())
if os.environ["BACKEND"] == "muster":
    sys.meta_path.insert(0, Finder)

import torch.multiprocessing  # noqa: E402
import torch.testing._internal.distributed.distributed_test as suite  # noqa: E402

if os.environ["BACKEND"] == "muster":
    import muster_torch  # noqa: F401


class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)  # importing torch takes seconds


def main():
    names = OPTIONS.tests or unittest.TestLoader().getTestCaseNames(Suite)
    results = {}
    for name in names:
        result, begin = unittest.TestResult(), time.monotonic()
        Suite(name).run(result)
        bad = result.failures + result.errors
        results[name] = "failed" if bad else "skipped" if result.skipped else "passed"
        if bad and OPTIONS.backend == "muster" and (name in KNOWN or all(REFUSED in text for _, text in bad)):
            results[name] = "known"
        if results[name] != "skipped":
            print(f"{results[name]:8}{time.monotonic() - begin:6.1f} s  {name}", flush=True)
        for _, text in bad:
            print(text[-3000:], file=sys.stderr, flush=True)
    counts = {kind: list(results.values()).count(kind) for kind in ("passed", "failed", "known", "skipped")}
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if OPTIONS.json:
        with open(OPTIONS.json, "w") as file:
            json.dump(results, file, indent=1)
    if counts["skipped"] == len(results):
        sys.exit("no test has run: with GPUs, torch skips all tests unless each rank has one; set CUDA_VISIBLE_DEVICES= to test on the CPU")
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
