"""Every communication call against a naive reference, with several sockets for each pair of ranks."""

from collective_kit import CollectiveTest
from harness import main


class Sockets(CollectiveTest):
    def test_three(self):
        self.run_hosts("aabb", env={"MUSTER_TCP_STREAMS": 3})

    def test_sixteen(self):
        self.run_hosts("ab", env={"MUSTER_TCP_STREAMS": 16})


if __name__ == "__main__":
    main()
