"""Large blocks: those that ranks of a host read from the other process (MUSTER_CMA), and non-temporal stores."""

import json
import pathlib
import subprocess
import unittest

from collective_kit import COLLECTIVE, LIMIT, CollectiveTest
from harness import MUSTER, SANITIZED, main

ALWAYS = {"MUSTER_CMA": "2"}
COPIES = "broadcast", "all_gather_into_tensor", "gather", "scatter", "all_to_all_single"
COUNT = 70001  # elements of a block, an odd number


class Cma(CollectiveTest):
    def check(self, n, *operations, count=COUNT, env=ALWAYS):
        for operation in operations:
            out = self.run_suite(n, "--count", count, "--dtype", "f32", "--only", operation, env=env)
            self.assertRegex(out, r"collective: ok: 6 cases")

    def test_copies(self):
        self.check(2, *COPIES, "all_gather", "all_to_all")

    def test_rounds(self):
        """Blocks of several rounds; each rank copies its own one meanwhile."""
        for cma in "2", "0":
            self.check(3, *COPIES, "all_gather", count=300007, env={"MUSTER_CMA": cma})

    def test_places(self):
        """Ranks in place publish through cells, and read the blocks of the others, which they replace."""
        for threads in "1", "3":
            self.run_suite(2, "--only", "places", env={**ALWAYS, "MUSTER_THREADS": threads})

    def test_oversubscribed(self):
        self.check(5, *COPIES)

    def test_threads(self):
        self.check(2, *COPIES, count=500003, env={**ALWAYS, "MUSTER_THREADS": 3})

    def test_with_others(self):
        """Operations that use cells and operations that do not follow each other."""
        self.run_suite(3, *self.quick(3), env=ALWAYS)

    def test_nt_stores(self):
        """From cells, and this rank's own block, which CMA does not copy; MUSTER_NT_STORES=2 applies to all sizes."""
        for cma in "0", "2":
            self.check(3, *COPIES, "all_to_all", env={"MUSTER_NT_STORES": "2", "MUSTER_CMA": cma})
        self.check(2, *COPIES, count=500003, env={"MUSTER_NT_STORES": "2", "MUSTER_CMA": "0", "MUSTER_THREADS": 3})

    @unittest.skipIf(SANITIZED, "about speed")
    def test_trials(self):
        """So many large calls that each method has its turn and one is chosen."""
        for operation, buffers in ("all_gather", "hot"), ("send_recv", "hot"), ("gather", "symmetric"), ("send_recv", "symmetric"):
            figures = self.path(operation + buffers)
            command = ["bench", operation, "--backend", "native", "--buffers", buffers, "--place", "out", "--bytes", "48M", "--rounds", 1]
            process = self.popen(MUSTER, *command, "--json", figures, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 0)
            self.assertEqual(json.loads(pathlib.Path(figures).read_text())["wrong"], 0)

    def test_setting(self):
        """2: as soon as all ranks have tried; 0: never."""
        for cma, used in (("2", True), ("0", False)):
            traces = self.path("traces" + cma)
            command = [COLLECTIVE, "--count", COUNT, "--dtype", "f32", "--only", "broadcast"]
            process = self.popen(MUSTER, "run", "-n", 3, "--trace", traces, *command, env={"MUSTER_CMA": cma}, stdin=subprocess.DEVNULL)
            process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 0)
            text = pathlib.Path(traces, "rank-1.trace.json").read_text()
            self.assertIn("broadcast", text)
            self.assertEqual('"shm, by CMA"' in text, used)


if __name__ == "__main__":
    main()
