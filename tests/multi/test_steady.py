"""In the steady state calls allocate nothing and take no lock of another group, on one host and between hosts."""

from collective_kit import CollectiveTest
from harness import PROGRAMS, main

STEADY = PROGRAMS / "steady"


class Steady(CollectiveTest):
    def test_one_host(self):
        self.assertIn("steady: ok: 2 ranks on 1 hosts", self.run_suite(2, 200, program=STEADY))

    def test_two_hosts(self):
        self.assertIn("steady: ok: 2 ranks on 2 hosts", self.run_suite(2, 60, hosts="ab", program=STEADY))

    def test_several_sockets(self):
        out = self.run_suite(2, 60, hosts="ab", program=STEADY, env={"MUSTER_TCP_STREAMS": 3})
        self.assertIn("steady: ok: 2 ranks on 2 hosts", out)


if __name__ == "__main__":
    main()
