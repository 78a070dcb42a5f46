"""Every communication call against a naive reference, over TCP, between simulated hosts."""

import subprocess
import unittest

from collective_kit import COLLECTIVE, LIMIT, CollectiveTest
from harness import ALL, MUSTER, main


class SimulatedHosts(CollectiveTest):
    def test_two_hosts_of_one(self):
        self.run_hosts("ab")

    @unittest.skipUnless(ALL, "test_collective_sockets has this layout; set MUSTER_TEST_ALL=1 for one with a socket for each pair")
    def test_two_hosts_of_two(self):
        self.run_hosts("aabb")

    @unittest.skipUnless(ALL, "between the layouts of the tests beside it: set MUSTER_TEST_ALL=1")
    def test_three_hosts_in_turn(self):
        self.run_hosts("abcabc")

    def test_uneven_hosts(self):
        self.run_hosts("aaabc")

    def test_four_hosts(self):
        self.run_hosts("abcdabcd")


class Settings(CollectiveTest):
    def test_different_settings_are_an_error(self):
        script = 'test $RANK = 2 && export MUSTER_ALGO=all_reduce:ring; MUSTER_FORCE_HOST=$RANK exec "$0" "$@"'
        command = [MUSTER, "run", "-n", 3, "sh", "-c", script, COLLECTIVE, "--quick"]
        process = self.popen(*command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        out, _ = process.communicate(timeout=LIMIT)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(out.decode(), r"rank \d would select other algorithms than rank \d: its MUSTER_ALGO")
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
