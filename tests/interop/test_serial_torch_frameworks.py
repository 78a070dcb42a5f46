"""Programs that use PyTorch's frameworks and DeepSpeed compute the same with the backend "muster" as with gloo."""

import re

from torch_backends import TORCHES, BackendRanksTest, run

FRAMEWORKS = ("ddp", "ddp_bf16", "ddp_power_sgd", "fsdp2", "dtensor", "pipeline", "checkpoint")
DEEPSPEED = ("deepspeed_comm", "zero_1", "zero_2", "zero_3")
PIPELINES = ("blocking", "asynchronous", "more_iterations_than_stages", "pair_groups", "blocking_pair_groups")


class FrameworksTest(BackendRanksTest):
    def compare(self, torch, n, script, cases):
        """The results of all ranks are gloo's to the last digit, on one host and between simulated hosts. Writes which cases are skipped."""
        found = {}
        for backend, hosts in (("gloo", None), ("muster", None), ("muster", "abab"[:n])):
            with self.subTest(torch=torch.version, n=n, cases=cases, backend=backend, hosts=hosts):
                ranks = self.ranks(torch, n, script, *cases, hosts=hosts, backend=backend)
                results = [re.findall(r"^(\w+): ([0-9a-f]{16}|skipped: .*)$", out, re.M) for _, out in ranks]
                self.assertEqual([status for status, _ in ranks], [0] * n, ranks)
                self.assertEqual([name for name, _ in results[0]], list(cases), ranks)
                self.assertEqual(results, found.setdefault("gloo", results))
        for name, result in found.get("gloo", [[]])[0]:
            if result.startswith("skipped"):
                print(f"torch {torch.version}: {name}: {result}")

    def test_frameworks(self):
        """PyTorch's frameworks and DeepSpeed with two ranks: a + b is b + a."""
        for torch in TORCHES:
            for cases in (FRAMEWORKS, DEEPSPEED):
                self.compare(torch, 2, "frameworks.py", cases)

    def test_pipeline(self):
        """A pipeline in the order of FlexLLMGen, where nothing is reduced."""
        for torch in TORCHES:
            for n in (2, 3, 4):
                self.compare(torch, n, "flexllmgen.py", PIPELINES)


if __name__ == "__main__":
    run()
