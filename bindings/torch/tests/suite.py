"""PyTorch's own tests of process groups, with the backend muster.

  suite.py [--backend gloo] [--ranks 3] [--json RESULT] [TEST…]

Runs torch/testing/_internal/distributed/distributed_test.py, with the name of the backend added to its lists in memory. Needs expecttest.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import unittest


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--backend", default="muster")
    parser.add_argument("--ranks", default="3")
    parser.add_argument("--json")
    return parser.parse_args()


if __name__ == "__main__":  # the ranks import this file again, with this environment
    OPTIONS = parse()
    os.environ.update(BACKEND=OPTIONS.backend, WORLD_SIZE=OPTIONS.ranks, TEMP_DIR=tempfile.mkdtemp())

import torch.testing._internal.distributed.distributed_test as suite  # noqa: E402
from torch.testing._internal.common_distributed import DistTestCases  # noqa: E402

if os.environ["BACKEND"] == "muster":
    import muster_torch  # noqa: F401

    for feature in ("ddp", "subgroup", "plugin"):
        DistTestCases.backend_feature[feature].add("muster")


class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()


def main():
    names = OPTIONS.tests or unittest.TestLoader().getTestCaseNames(Suite)
    results = {}
    for name in names:
        result, begin = unittest.TestResult(), time.monotonic()
        Suite(name).run(result)
        bad = result.failures + result.errors
        results[name] = "failed" if bad else "skipped" if result.skipped else "passed"
        if results[name] != "skipped":
            print(f"{results[name]:8}{time.monotonic() - begin:6.1f} s  {name}", flush=True)
        for _, text in bad:
            print(text[-3000:], file=sys.stderr, flush=True)
    counts = {kind: list(results.values()).count(kind) for kind in ("passed", "failed", "skipped")}
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    if OPTIONS.json:
        with open(OPTIONS.json, "w") as file:
            json.dump(results, file, indent=1)
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
