"""A C program under the real torchrun, which hosts the store in its agent."""

import subprocess
import unittest

from harness import PROGRAMS, RanksTest, main
from torch_support import PATIENCE, find_torches

DISCOVER = PROGRAMS / "discover"


class Torchrun(RanksTest):
    def run_under(self, torch):
        port = self.free_port()
        self.reserved.pop().close()
        command = [
            torch.python, "-m", "torch.distributed.run", "--nnodes", 1, "--nproc_per_node", 2, "--master_port", port,
            "--redirects", 2, "--tee", 2, "--log_dir", self.path("logs"), "--no_python",
        ]  # fmt: skip
        process = self.popen(*command, DISCOVER, "find", "init", "sum", "destroy", env={"MUSTER_STORE_OPEN": "1"},
                             stdin=subprocess.DEVNULL)  # fmt: skip
        out = process.communicate(timeout=PATIENCE)[0].decode(errors="replace")
        self.assertEqual(process.returncode, 0, out)
        for r in range(2):
            self.assertIn(f"find torchrun {r} 2 {r} 2 '127.0.0.1' {port} | RANK | WORLD_SIZE", out)
            self.assertIn(f"init {r} 2 1\n", out)
        self.assertEqual(out.count("sum 3\n"), 2, out)

    def test_each_version(self):
        torches, reasons = find_torches()
        if not torches:
            raise unittest.SkipTest("no torch: " + "; ".join(reasons))
        for torch in torches:
            with self.subTest(torch.version):
                self.run_under(torch)


if __name__ == "__main__":
    main()
