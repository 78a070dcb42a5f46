"""Our meshes are torch's: torch_mesh.py under every version of torch at hand that has what is compared.

MUSTER_TORCH_PYTHON names interpreters to try beside the usual ones. All shapes of up to MUSTER_MESH_RANKS ranks are compared, 10 where it is
not set; 64 take some minutes.
"""

import json
import os
import subprocess
import sys
import unittest

from torch_support import BUILD, HERE, environment, find_torches

ANSWERS = BUILD / "bin/tests/mesh_answers"
OLDEST = (2, 6)  # has flattening, and says what each group is for
MOST = int(os.environ.get("MUSTER_MESH_RANKS", "10"))

FOUND, REASONS = find_torches()
TORCHES = [torch for torch in FOUND if torch.numbers >= OLDEST]
REASONS += [f"{torch.python}: its torch is {torch.version}" for torch in FOUND if torch.numbers < OLDEST]


class Mesh(unittest.TestCase):
    def compare(self, torch, *options):
        command = [torch.python, "-B", HERE / "torch_mesh.py", ANSWERS, *options]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment())
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        counts = json.loads(done.stdout)
        print(f"torch_mesh: {counts}", file=sys.stderr)
        for what in ("shapes", "coordinates", "groups", "local ranks", "slices", "flattened groups"):
            self.assertGreater(counts[what], 0, what)

    def test_each_version(self):
        for torch in TORCHES:
            with self.subTest(torch=torch.version):
                self.compare(torch, "--most", MOST, "--ranks", 3)
                self.compare(torch, "--most", min(MOST, 8), "--ranks", 3, "--order", "mixed")
                self.compare(torch, "--most", min(MOST, 16), "--ranks", 3, "--order", "odd")


if __name__ == "__main__":
    if not TORCHES:
        print(f"no torch {OLDEST[0]}.{OLDEST[1]} or newer:", *REASONS, sep="\n  ")
        sys.exit(77)
    unittest.main()
