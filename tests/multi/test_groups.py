"""Groups of ranks: many, overlapping, repeated, created in different orders."""

from collective_kit import CollectiveTest
from harness import PROGRAMS, Process, main

GROUPS = PROGRAMS / "groups"


class Groups(CollectiveTest):
    def run_groups(self, n, count):
        status, out = self.run_tool("run", "-n", n, GROUPS, count)
        self.assertEqual(status, 0, out)
        self.assert_nothing_left()

    def test_alone(self):
        self.run_groups(1, 100)

    def test_few_ranks(self):
        for n in (2, 3, 4, 5):
            with self.subTest(n=n):
                self.run_groups(n, 120)

    def test_many_groups(self):
        self.run_groups(8, 500)

    def run_calls(self, n, hosts=None):
        out = self.run_suite(n, "calls", hosts=hosts, program=GROUPS)
        self.assertEqual(out.count(f"groups: {n} ranks on {len(set(hosts or 'a'))} hosts"), n, out)

    def test_calls(self):
        for n in (1, 2, 5):
            with self.subTest(n=n):
                self.run_calls(n)

    def test_calls_between_hosts(self):
        for hosts in ("ab", "abab", "aabbb"):
            with self.subTest(hosts=hosts):
                self.run_calls(len(hosts), hosts)

    def test_calls_without_the_launcher(self):
        port = self.free_port()
        environment = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        ranks = [Process(self.popen(GROUPS, "calls", env={**environment, "RANK": str(r)})) for r in range(3)]
        for rank in ranks:
            status, out = rank.finish()
            self.assertEqual((status, out), (0, "groups: 3 ranks on 1 hosts\n"))
        alone, out = Process(self.popen(GROUPS, "calls")).finish()
        self.assertEqual((alone, out), (0, "groups: 1 ranks on 1 hosts\n"))
        self.assert_nothing_left()

    def test_over_a_file(self):
        url = f"file://{self.path('store')}"
        ranks = [self.tcp(r, 3, url, "init", *["group=0,1,2", "barriers=5"] * 5, "destroy") for r in range(3)]
        self.assert_ends(*ranks)

    def test_forked_child_is_not_a_rank(self):
        status, out = self.run_tool("run", "-n", 2, PROGRAMS / "forked")
        self.assertEqual((status, out.count("done")), (0, 2), out)

    def test_names_in_errors(self):
        url = f"tcp://127.0.0.1:{self.free_port()}"
        actions = ["group=0,1", "~barrier=200", "group=1", "~barrier", "group=", "barrier", "destroy"]
        rank = self.tcp(0, 2, url, "init", *actions)
        other = self.tcp(1, 2, url, "init", "barrier", "destroy")
        self.assert_failed(rank.step("barrier"), "MST_ERR_STALLED", "a group of 2 ranks", "missing: rank 1", "#1")
        self.assert_failed(rank.step("barrier"), "MST_ERR_NOT_MEMBER", "rank 0 is not in a group of 1 rank")
        self.assert_ok(rank.step("barrier"))
        self.assert_ends(rank, other)


if __name__ == "__main__":
    main()
