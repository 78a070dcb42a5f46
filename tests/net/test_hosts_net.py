"""muster run --hosts between hosts that have networks of their own: namespaces with an sshd in each."""

import os
import re
import unittest

from harness import MUSTER, ToolTest
from sshd import Sshd, SshTest, require_ssh
from test_netns import NetnsTest


class Hosts(ToolTest):
    """The launcher is in a (10.77.0.1); b and c have an sshd."""

    @classmethod
    def setUpClass(cls):
        require_ssh()
        NetnsTest.setUpClass()
        cls.addClassCleanup(NetnsTest.tearDownClass)
        cls.spaces = NetnsTest.spaces
        cls.prefix = cls.spaces.inside("a")
        cls.sshd = Sshd([cls.spaces.inside(name) for name in "bc"])
        cls.addClassCleanup(cls.sshd.close)
        cls.sshd.await_listening()

    def run_on(self, hosts, *arguments, **options):
        words = ("run", "--ssh", self.sshd.command(), "--hosts", hosts, *SshTest.travels())
        return self.muster(*words, *arguments, **options)

    def test_where_they_meet(self):
        """The address on the way to the first of the others, and this machine's own ranks without ssh."""
        for hosts, order in (("10.77.0.1,10.77.0.2,10.77.0.3", "123"), ("10.77.0.3,10.77.0.2", "32")):
            rc, out, err = self.run_on(hosts, "sh", "-c", "echo $RANK $MASTER_ADDR $(hostname -I)")
            self.assertEqual((rc, err), (0, b""))
            for rank, host in enumerate(order):
                self.assertRegex(out.decode(), rf"\[{rank}\] {rank} 10.77.0.1 .*10.77.0.{host} ")

    def test_all_reduce(self):
        program = os.path.join(os.path.dirname(MUSTER), "examples", "05_data_parallel")
        rc, out, err = self.run_on("10.77.0.1:2,10.77.0.2:2,10.77.0.3", program)
        self.assertEqual((rc, err), (0, b""))
        models = re.findall(rb"^\[\d\] rank #(\d): my model: (.*)$", out, re.M)
        self.assertEqual(sorted(int(rank) for rank, _ in models), list(range(5)))
        self.assertEqual(len({model for _, model in models}), 1)

    def test_no_route(self):
        rc, _, err = self.run_on("10.77.0.2,10.99.0.1", "sleep", "1000")
        self.assertEqual(rc, 2, err)
        self.assertRegex(err.decode(), r"^muster run: cannot start on host 10.99.0.1: ssh: connect to host .* port .*\n$")


if __name__ == "__main__":
    unittest.main()
