"""Hosts that lose their network, and store connections that are reset, in three network namespaces.

A host is cut off in two ways: its link goes down, or the bridge drops its packets, which it does not notice.
"""

import contextlib
import shutil
import subprocess
import time
import unittest

from harness import DEADLINE, MUSTER, SLOWER, main, wait_until
from test_netns import PORT, NetnsTest

TIMEOUT = 3  # seconds: MUSTER_TCP_TIMEOUT_S
SLACK = 1.5  # for reports and processes
LOST = "is lost: its host does not answer"


class OutageTest(NetnsTest):
    """Ranks 0 and 1 are on host a, which has the store, 2 and 3 on b, 4 and 5 on c."""

    layout = "aabbcc"

    def setUp(self):
        super().setUp()
        self.undo = []  # commands that restore the network

    def start(self, *actions, layout=layout, missing=0, **env):
        ranks = []
        size = len(layout) + missing
        for rank, space in enumerate(layout):
            prefix = [*self.spaces.inside(space), "unshare", "--uts", "sh", "-c", f'hostname host-{space}; exec "$@"', "sh"]
            extra = {"MUSTER_FORCE_HOST": space, "MUSTER_TCP_TIMEOUT_S": TIMEOUT, **env}
            ranks.append(self.tcp(rank, size, f"tcp://10.77.0.1:{PORT}", *actions, prefix=prefix, env=extra))
        return ranks

    def cut(self, space, how):
        """Cuts the host off, and returns when."""
        self.spaces.ip("hub", f"link set {space}0 {'down' if how == 'link' else 'nomaster'}")
        undo = "up" if how == "link" else "master bridge0"
        self.undo.append([*self.spaces.inside("hub"), "ip", "link", "set", f"{space}0", *undo.split()])
        return time.monotonic()

    def mend(self):
        while self.undo:
            subprocess.run(self.undo.pop(), check=True, timeout=DEADLINE)
        for space in "abc":
            wait_until(lambda: "state UP" in self.spaces.ip(space, "link show eth0"), "the link is up")

    def check_time(self, step, since, limit=TIMEOUT + SLACK):
        self.assertLess(step.at - since, limit * SLOWER, step)

    @contextlib.contextmanager
    def ranks(self, *actions, **options):
        """Starts ranks, which have passed a barrier; ends them, and restores the network."""
        with self.ended():
            ranks = self.start("init", "barrier", *actions, **options)
            try:
                for rank in ranks:
                    self.assert_ok(rank.step("barrier"))
                yield ranks
            finally:
                for rank in ranks:
                    rank.kill()
                self.mend()

    def each_way(self, victim, check, early):
        """Cuts a host off. The ranks of early are in a barrier by then; the others call it afterwards."""
        for how in ("link", "drop"):
            with self.subTest(how=how), self.ranks("hold", "~barrier", "hold") as ranks:
                for r in early:
                    ranks[r].resume()
                    ranks[r].begins("barrier")
                since = self.cut(victim, how)
                for r in set(range(len(ranks))) - set(early):
                    ranks[r].resume()
                for r, rank in enumerate(ranks):
                    check(r, rank.step("barrier"), since)


class Outages(OutageTest):
    def test_host_of_the_store(self):
        """The survivors name it, and one of them serves the store; its own ranks lose the others."""

        def check(rank, step, since):
            if rank < 2:
                self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank [2345] \(host host-[bc], pid \d+\) {LOST}")
            else:
                self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank 0 \(host host-a, pid \d+\) {LOST}")
                self.assertEqual(step.culprit, 0)
            self.check_time(step, since)

        self.each_way("a", check, early=(2, 3, 4))

    def test_another_host(self):
        """All survivors name the same rank of the host that is cut off; its own ranks lose the store."""
        named = {}

        def check(rank, step, since):
            if rank < 4:
                self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank [45] \(host host-c, pid \d+\) {LOST}")
                self.assertEqual(named.setdefault(since, step.culprit), step.culprit)
            else:
                self.assertIn(step.status, ("MST_ERR_STORE_LOST", "MST_ERR_PEER_LOST"), step)
                self.assertRegex(step.message, r"rank 0 \(host host-a, ")
            self.check_time(step, since)

        self.each_way("c", check, early=(0, 1, 2, 4))

    def test_while_all_wait(self):
        """The same if all ranks of the other hosts are in a call, and messages are in flight."""

        def check(rank, step, since):
            if rank < 4:
                self.assert_failed(step, "MST_ERR_PEER_LOST", r"rank [45] \(host host-c, ")
            else:
                self.assertIn(step.status, ("MST_ERR_STORE_LOST", "MST_ERR_PEER_LOST"), step)
                self.assertRegex(step.message, r"rank 0 \(host host-a, ")
            self.check_time(step, since)

        with self.ranks("~barriers=1000000", "hold") as ranks:
            since = self.cut("c", "drop")
            for r, rank in enumerate(ranks):
                check(r, rank.step("barriers"), since)

    def test_while_the_world_forms(self):
        """Ranks that wait for others to join lose the store."""
        with self.ended():
            ranks = self.start("init", layout="abc", missing=1)
            wait_until(lambda: all(self.has_joined(r) for r in range(3)), "three ranks have joined")
            try:
                since = self.cut("a", "drop")
                step = ranks[0].step("init")
                self.assert_failed(step, "MST_ERR_PEER_LOST", r"rank [12] \(host host-[bc], pid \d+\) was lost, .* does not answer")
                self.check_time(step, since)
                for rank in ranks[1:]:
                    step = rank.step("init")
                    self.assert_failed(step, "MST_ERR_STORE_LOST", f"10.77.0.1:{PORT}")
                    self.check_time(step, since, TIMEOUT + 2 * SLACK)
            finally:
                self.mend()

    def has_joined(self, rank):
        command = [*self.spaces.inside("a"), MUSTER, "store", "check", "--host", "10.77.0.1", "--port", str(PORT)]
        return subprocess.run([*command, f"muster/job.0/1/rank/{rank}"], capture_output=True, timeout=DEADLINE).returncode == 0

    def test_hosts_that_reach_the_store_but_not_each_other(self):
        with self.ranks("~barriers=1000000", "hold", layout="abc") as ranks:
            since = time.monotonic()
            for space in "bc":
                command = [*self.spaces.inside("hub"), "bridge", "link", "set", "dev", f"{space}0", "isolated", "on"]
                subprocess.run(command, check=True, timeout=DEADLINE)
                self.undo.append([*command[:-1], "off"])
            for rank in ranks:
                step = rank.step("barriers")
                self.assert_failed(step, "MST_ERR_PEER_LOST", r"rank [12] \(host host-[bc], ", "Connection timed out")
                self.check_time(step, since)

    def test_rank_that_computes_is_not_lost(self):
        """Its kernel answers for it, for longer than the timeout."""
        with self.ranks("hold", "barrier", "destroy", layout="abc") as ranks:
            ranks[0].resume()
            ranks[1].resume()
            time.sleep(TIMEOUT + 1)
            ranks[2].resume()
            for rank in ranks:
                self.assert_ok(rank.step("barrier"))
            self.assert_ends(*ranks)


@unittest.skipUnless(shutil.which("ss"), "needs ss")
class Resets(OutageTest):
    """Connections of the store are reset by `ss -K`."""

    def reset(self, space, direction, address="10.77.0.1"):
        """Resets the TCP connections of the store that one end has; returns how many."""
        command = [*self.spaces.inside(space), "ss", "-K", "-n", "-t", "-H", direction, f"{address}:{PORT}"]
        out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE).stdout
        return len(out.splitlines())

    def run_resets(self, *resets, busy):
        """Resets connections while the ranks compute, or while they use them."""
        calls = ["barriers=2000"] if busy else ["hold", "barrier"]
        with self.ranks(*calls, "topology", "destroy") as ranks:
            for space, direction in resets:
                self.assertGreater(self.reset(space, direction), 0)
            time.sleep(1.5)  # longer than the time in which a client must connect again
            if not busy:  # a rank that waits asks the store which ranks are lost
                for rank in ranks[:-1]:
                    rank.resume()
                time.sleep(1)
                ranks[-1].resume()
            for rank in ranks:
                self.assert_ok(rank.step(calls[-1].split("=")[0]))
            self.assert_ends(*ranks)

    def test_at_the_client(self):
        self.run_resets(("b", "dst"), ("c", "dst"), busy=False)

    def test_at_the_server(self):
        self.run_resets(("a", "src"), busy=False)

    def test_during_calls(self):
        self.run_resets(("a", "src"), ("b", "dst"), ("a", "src"), busy=True)


if __name__ == "__main__":
    main(at_once=3)
