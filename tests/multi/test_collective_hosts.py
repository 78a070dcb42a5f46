"""Every communication call against a naive reference, over TCP, between simulated hosts."""

import subprocess

from collective_kit import COLLECTIVE, LIMIT, CollectiveTest
from harness import MUSTER, main


class SimulatedHosts(CollectiveTest):
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


class Settings(CollectiveTest):
    def test_different_settings_are_an_error(self):
        script = 'test $RANK = 2 && export MUSTER_ALGO=all_reduce:ring; MUSTER_FORCE_HOST=$RANK exec "$0" "$@"'
        command = [MUSTER, "run", "-n", 3, "sh", "-c", script, COLLECTIVE, "--quick"]
        process = self.popen(*command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        out, _ = process.communicate(timeout=LIMIT)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(out.decode(), r"rank \d would choose other algorithms than rank \d: its MUSTER_ALGO")
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
