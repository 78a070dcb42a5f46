"""The backend "muster" of torch.distributed between hosts with networks of their own."""

import re
import subprocess

from harness import SLOWER, Process
from test_netns import PORT, NetnsTest
from torch_backends import BINDING, TORCHES, build, run
from torch_support import PATIENCE, environment

VALUES = ("all_reduce", "broadcast", "reduce_scatter", "all_to_all", "coalesced", "messages", "tags", "groups", "objects", "barriers")
PIPELINES = ("blocking", "pair_groups")
DIES_AFTER = 0.5  # seconds; faults.py


class TorchNet(NetnsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.packages = {torch: build(torch) for torch in TORCHES}

    def ranks(self, torch, spaces, script, *arguments, backend="muster"):
        """Exit status and output of each rank, one for each letter, in the namespace of that name, which counts as a host."""
        env = {
            **environment(), "BACKEND": backend, "WORLD_SIZE": len(spaces), "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": PORT,
            "GLOO_SOCKET_IFNAME": "eth0", "PYTHONPATH": self.packages[torch],
        }  # fmt: skip
        env.pop("MUSTER_STORE_OPEN")
        command = [torch.python, "-B", BINDING / "tests" / script, *arguments]
        processes = [
            self.popen(
                *self.spaces.inside(space), *command, stderr=subprocess.STDOUT,
                env={**env, "RANK": rank, "LOCAL_RANK": spaces[:rank].count(space), "MUSTER_FORCE_HOST": space},
            )
            for rank, space in enumerate(spaces)
        ]  # fmt: skip
        return [Process(process).finish(PATIENCE) for process in processes]

    def test_values(self):
        for torch in TORCHES:
            for spaces in ("ab", "aab"):
                with self.subTest(torch=torch.version, spaces=spaces):
                    for status, out in self.ranks(torch, spaces, "values.py", *VALUES):
                        self.assertEqual((status, re.findall(r"^(\w+): right$", out, re.M)), (0, list(VALUES)), out)

    def test_frameworks(self):
        """Results are gloo's to the last digit."""
        for torch in TORCHES:
            for spaces, script, cases in (("ab", "frameworks.py", ("ddp", "fsdp2")), ("abab", "flexllmgen.py", PIPELINES)):
                found = {}
                for backend in ("gloo", "muster"):
                    ranks = self.ranks(torch, spaces, script, *cases, backend=backend)
                    results = [re.findall(r"^(\w+): ([0-9a-f]{16})$", out, re.M) for _, out in ranks]
                    self.assertEqual([(status, len(result)) for (status, _), result in zip(ranks, results)], [(0, 2)] * len(spaces), ranks)
                    self.assertEqual(results, found.setdefault("gloo", results), (torch.version, cases))

    def failures(self, torch, case, victim=None):
        """The seconds until the exception, and its text, of each rank but the victim."""
        for rank, (_, out) in enumerate(self.ranks(torch, "aab", "faults.py", case)):
            if rank != victim:
                found = re.search(r"^DistBackendError ([\d.]+) (.*)$", out, re.M)
                self.assertTrue(found, (case, rank, out))
                yield float(found[1]), found[2]

    def test_killed_rank(self):
        for torch in TORCHES:
            for case in ("killed", "killed_during_a_work"):
                for seconds, text in self.failures(torch, case, victim=1):
                    self.assertRegex(text, r"Connection closed by peer: .*rank 1 \(host .*, pid \d+\)")
                    self.assertLess(seconds, DIES_AFTER + 1.0 * SLOWER, (torch.version, case, text))

    def test_different_sizes(self):
        for torch in TORCHES:
            for _, text in self.failures(torch, "different_sizes"):
                self.assertRegex(text, "all_reduce of [456] f32.*all_reduce of [456] f32")


if __name__ == "__main__":
    run()
