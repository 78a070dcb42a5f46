"""Programs that use PyTorch's frameworks and DeepSpeed compute the same with the backend "muster" as with gloo."""

import re

from torch_backends import TORCHES, BackendRanksTest, run

FRAMEWORKS = ("ddp", "ddp_bf16", "ddp_power_sgd", "fsdp2", "dtensor", "pipeline", "checkpoint")
DEEPSPEED = ("deepspeed_comm", "zero_1", "zero_2", "zero_3")


class FrameworksTest(BackendRanksTest):
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
                for name, result in found.get("gloo", [[]])[0]:
                    if result.startswith("skipped"):
                        print(f"torch {torch.version}: {name}: {result}")


if __name__ == "__main__":
    run()
