"""Every communication call against a naive reference, over tcp: ranks that are told to sit on different hosts."""

from collective_kit import CollectiveTest
from ranks import main


class PretendedHosts(CollectiveTest):
    def test_two_hosts_of_one(self):
        self.run_hosts("ab")

    def test_two_hosts_of_two(self):
        self.run_hosts("aabb")

    def test_three_hosts_in_turn(self):
        self.run_hosts("abcabc")

    def test_uneven_hosts(self):
        self.run_hosts("aaabc")

    def test_four_hosts(self):
        self.run_hosts("abcdabcd")


if __name__ == "__main__":
    main()
