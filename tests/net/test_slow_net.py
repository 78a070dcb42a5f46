"""A slow network between two hosts, made with the traffic shaper tbf."""

import shutil
import subprocess
import time
import unittest

from harness import DEADLINE, main
from test_netns import NetnsTest

RATE = 40  # kbit/s: a packet takes 0.3 s, longer than a rank waits before it asks the store


class SlowNetwork(NetnsTest):
    """Rank 1 is on host b, whose packets to rank 0 are slow. It leaves while its bytes are on their way."""

    def shape(self, how):
        command = [*self.spaces.inside("b"), "tc", "qdisc", *how.split()]
        return subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)

    def setUp(self):
        super().setUp()
        if not shutil.which("tc"):
            self.skipTest("needs tc")

    def leave(self, *actions):
        """Runs the actions with the slow network; returns the seconds that rank 0 took for the last of them."""
        ranks = self.world("ab", "init", "barrier", "messages=1", "broadcast=1", "hold", *actions,
                           env=lambda space: {"MUSTER_FORCE_HOST": space})
        for rank in ranks:
            self.assert_ok(rank.step("broadcast"))
        try:
            self.shape(f"add dev eth0 root tbf rate {RATE}kbit burst 2000 latency 60s")
        except subprocess.CalledProcessError as error:
            for rank in ranks:
                rank.kill()
            self.skipTest(f"the kernel has no tbf: {error.stderr}")
        try:
            begin = time.monotonic()
            for rank in ranks:
                rank.resume()
            for action in actions:
                self.assert_ok(ranks[0].step(action.split("=")[0]))
            self.assert_ends(*ranks)
            return time.monotonic() - begin
        finally:
            self.shape("del dev eth0 root")

    def check(self, action, kib):
        """kib: more than TCP sends at once."""
        seconds = self.leave(f"{action}={kib}", "destroy")
        self.assertGreater(seconds, kib * 8 / RATE / 2, "the network was not slow")

    def test_broadcast(self):
        self.check("broadcast", 48)

    def test_messages(self):
        self.check("messages", 24)

    def test_messages_from_any_rank(self):
        self.check("any", 24)


if __name__ == "__main__":
    main()
