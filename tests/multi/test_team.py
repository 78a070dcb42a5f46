"""Large tensors that several threads of each rank copy and reduce (MUSTER_THREADS)."""

from collective_kit import CollectiveTest
from harness import SANITIZED, main

TEAM = {"MUSTER_THREADS": "3"}
COUNT = 140003  # an end within a round


class Team(CollectiveTest):
    def check(self, n, *operations, count=COUNT, hosts=None):
        for operation in operations:
            out = self.run_suite(n, "--count", count, "--dtype", "f32", "--only", operation, hosts=hosts, env=TEAM)
            self.assertRegex(out, r"collective: ok: 6 cases")

    def test_reductions(self):
        self.check(2, "all_reduce", "exscan", "reduce_scatter_tensor")
        if not SANITIZED:
            self.check(2, "reduce", "all_reduce with a user op")

    def test_copies(self):
        self.check(2, "broadcast", count=300007)  # more rounds than a rank has cells
        self.check(2, "all_gather_into_tensor", "gather", "scatter", "all_to_all_single")
        self.check(2, "send_recv", count=300007)  # messages that a team reads

    def test_three(self):
        self.check(3, "all_reduce", "all_gather", "all_to_all_single")

    def test_oversubscribed(self):
        self.check(5, "all_reduce")

    def test_hosts(self):
        self.check(3, "all_reduce", hosts="aab")


if __name__ == "__main__":
    main()
