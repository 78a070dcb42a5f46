"""A training with the backend "muster" goes on after torchrun or muster run has restarted its ranks."""

import os
import re
import subprocess

from harness import MUSTER, Process
from torch_backends import BINDING, TORCHES, BackendRanksTest, run
from torch_support import PATIENCE, environment


class ElasticTest(BackendRanksTest):
    def launched(self, torch, launcher, *victim, backend="muster"):
        """The output of two ranks. With a victim it kills itself in the first attempt."""
        folder = self.path("-".join(["training", backend, os.path.basename(str(launcher[0])), *map(str, victim)]))
        os.mkdir(folder)
        env = {**environment(), "PYTHONPATH": str(self.packages[torch]), "BACKEND": backend}
        script = [BINDING / "tests/elastic.py", folder, *victim]
        status, out = Process(self.popen(*launcher, *script, stderr=subprocess.STDOUT, env=env)).finish(PATIENCE)
        self.assertEqual(status, 0, out)
        return out

    def restarts(self, torch, launcher):
        """The weights are those of a training that nothing interrupts; the rank that survives learns who died."""
        ended = r"attempt (\d): steps (\d) to 8: ([0-9a-f]{16})$"
        wanted = re.findall(ended, self.launched(torch, launcher, backend="gloo"), re.M)
        self.assertEqual([words[:2] for words in wanted], [("0", "0")] * 2)
        self.assertEqual(wanted, re.findall(ended, self.launched(torch, launcher), re.M))
        for victim in (0, 1):
            out = self.launched(torch, launcher, victim)
            self.assertEqual(re.findall(ended, out, re.M), [("1", "5", words[2]) for words in wanted], out)
            died = rf"attempt 0: DistBackendError: \[muster\] .*: Connection closed by peer: .*: rank {victim} \(host .*, pid \d+\)"
            self.assertRegex(out, died)

    def test_restarts(self):
        for torch in TORCHES:
            # The agent looks after its ranks every two seconds, so they see the failure themselves.
            torchrun = [torch.python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 2]
            for launcher in (
                [*torchrun, "--max-restarts", 1, "--monitor-interval", 2],
                [MUSTER, "run", "-n", 2, "--open-store", "--max-restarts", 1, torch.python],
            ):
                with self.subTest(torch=torch.version, launcher=launcher[0]):
                    self.restarts(torch, launcher)


if __name__ == "__main__":
    run()
