"""Several threads of each rank use one group: messages at the same time, and collectives in turn."""

from collective_kit import LIMIT, CollectiveTest
from harness import PROGRAMS, SANITIZED, main

SHARED_GROUP = PROGRAMS / "shared_group"
ROUNDS = 8 if SANITIZED else 24


class SharedGroup(CollectiveTest):
    hosts = None  # the simulated host of each rank

    def share(self, ranks, how, threads=4):
        out = self.run_suite(ranks, how, threads, ROUNDS, program=SHARED_GROUP, hosts=self.hosts and self.hosts[:ranks])
        self.assertEqual(out.count("done\n"), ranks, out)

    def test_messages(self):
        self.share(2, "messages", 8)
        self.share(3, "messages")

    def test_messages_and_collectives(self):
        self.share(2, "mixed", 8)
        self.share(4, "mixed", 2)

    def test_a_group_for_each_thread(self):
        self.share(2, "groups")
        self.share(3, "groups")

    def test_two_collectives_at_the_same_time(self):
        """The second one is rejected with both call sites, and the group stays usable."""
        for ranks in (2, 3):
            self.share(ranks, "conflict")


class SharedGroupOfHosts(SharedGroup):
    hosts = "abab"


class WithoutLauncher(CollectiveTest):
    def test_mixed(self):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port(), "WORLD_SIZE": 2}
        ranks = [self.popen(SHARED_GROUP, "mixed", 4, ROUNDS, env={"RANK": r, **place}) for r in range(2)]
        for rank in ranks:
            out, _ = rank.communicate(timeout=LIMIT)
            self.assertEqual((rank.returncode, out), (0, b"done\n"))
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
