"""A rank dies, stops or does not call: the survivors agree on the first cause, and learn of it in time.

The culprit of an error is a rank that its message names. Ranks that only wait, or that end because of the first one,
are not blamed.
"""

import pathlib
import re
import signal

from harness import PROGRAMS, SLOWER, Rank, RanksTest, main, wait_until

BLAME = PROGRAMS / "blame"
RANKS = 4
SOON = 1000  # milliseconds, for assert_within
SHORT = 1500  # milliseconds: a timeout that ends
LOST = ("MST_ERR_PEER_LOST", "MST_ERR_STORE_LOST")


def state(rank):
    """The state of its process, as proc(5) has it."""
    return pathlib.Path(f"/proc/{rank.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


class BlameTest(RanksTest):
    hosted = True  # rank 0 hosts the store; else it outlives the ranks
    hosts = None  # of the world of each()
    settings = {}

    def world(self, hosts, *actions):
        """A rank for each list of actions; hosts: the simulated host of each, None: all on this host."""
        if self.hosted:
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port()}
        else:
            self.store, self.port = self.serve()
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        ranks = []
        for r, own in enumerate(actions):
            env = {"RANK": r, "WORLD_SIZE": len(actions), **place, **self.settings}
            if hosts:
                env["MUSTER_FORCE_HOST"] = hosts[r]
            ranks.append(Rank(self.popen(BLAME, *own.split(), env=env)))
        for rank in ranks:
            self.assert_ok(rank.step("init"))
        return ranks

    def each(self, layouts, body, *actions):
        for hosts in layouts:
            with self.subTest(hosts=hosts), self.ended():
                self.hosts = hosts
                ranks = self.world(hosts, *actions)
                body(ranks)
                for process in self.processes:
                    process.kill()
        self.assert_nothing_left()

    def blames(self, rank, action, culprit, statuses, within=SOON):
        step = rank.step(action)
        self.assertIn(step.status, statuses, step)
        self.assertEqual(step.culprit, culprit, step)
        self.assertIn(culprit, map(int, re.findall(r"rank (\d+) \(", step.message)), step)
        self.assert_within(step, within)
        return step


class Deaths(BlameTest):
    def test_rank_that_hosts_the_store_ends_after_another(self):
        """Rank 0 fails because rank 3 died, and ends with the store. The others do not communicate with rank 3."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[3].kill()
            ranks[0].resume()
            self.blames(ranks[0], "receive:3", 3, LOST)
            for rank in ranks[1:3]:
                self.blames(rank, "receive:0", 3, LOST)

        waits = "sum receive:0"
        self.each((None, "abcd", "aabb", "abba"), body, "sum hold receive:3 quit", waits, waits, "sum hold")

    def test_rank_that_hosts_the_store_ends_after_a_stall(self):
        """The same. An earlier failure that another rank caused does not hide the death."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            for r in 1, 2:
                self.blames(ranks[r], f"receive:{3 - r}", 3 - r, ("MST_ERR_STALLED",), SHORT)
            ranks[3].kill()
            ranks[0].resume()
            self.blames(ranks[0], "receive:3", 3, LOST)
            for rank in ranks[1:3]:
                self.blames(rank, "receive:0", 3, LOST)

        stalls = "sum timeout:200 receive:{} timeout:20000 receive:0"
        self.each((None, "abcd"), body, "sum hold receive:3 quit", stalls.format(2), stalls.format(1), "sum hold")

    def test_rank_that_hosts_the_store_ends_after_a_collective(self):
        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[3].kill()
            for rank in ranks[:3]:
                rank.resume()
            for rank in ranks[:3]:
                self.blames(rank, "barrier", 3, LOST)

        calls = "sum hold barrier quit"
        self.each((None, "abcd", "aabb"), body, calls, calls, calls, "sum hold")

    def test_rank_with_the_only_store_ends_after_a_collective(self):
        """Its call returns only when the others have learned the cause, because they cannot ask the store after that."""
        self.settings = {"MUSTER_STORE_STANDBY": 0}

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[3].kill()
            for rank in ranks[:3]:
                self.blames(rank, "broadcast:3", 3, LOST)

        calls = "sum broadcast:3 quit"
        self.each(("abcd", "aabb"), body, calls, calls, calls, "sum hold")

    def test_second_death(self):
        """Rank 1 misses rank 0, but rank 3 died before. Rank 2 reads that in the report of rank 1."""
        self.hosted = False

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            for number in (3, 0):
                ranks[number].kill()
            for rank in ranks[1:3]:
                rank.resume()
                self.blames(rank, "broadcast:0", 3, LOST)

        calls = "sum hold broadcast:0 hold"
        self.each(("abcd", "aabb", None), body, *[calls] * RANKS)

    def test_second_death_during_a_message(self):
        """Rank 0 sends to rank 1, which dies, and receives from rank 2, which dies later."""
        self.hosted = False

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[1].kill()
            self.blames(ranks[3], "receive:1", 1, LOST)
            ranks[2].kill()
            self.blames(ranks[0], "both:2", 1, LOST)

        self.each((None, "abcd"), body, "sum both:2", "sum hold", "sum hold", "sum receive:1 hold")

    def test_rank_that_ends_without_the_store(self):
        """Rank 0 dies with the store. Rank 1 ends because of that, and its host sees only this."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[0].kill()
            ranks[1].resume()
            self.blames(ranks[1], "barrier", 0, LOST)
            self.blames(ranks[2], "receive:1", 0, LOST)

        self.each(("abb", None), body, "sum hold", "sum hold barrier quit", "sum receive:1")

    def test_before_some_links_exist(self):
        """Rank 0 dies with the store. Rank 5 waits for a connection from rank 2, which cannot find it any more."""
        self.settings = {"MUSTER_ALGO": "all_reduce:doubling,scatter:direct"}

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[0].kill()
            for rank in ranks[1:]:
                rank.resume()
            for rank in ranks[1:]:
                self.blames(rank, "scatter:2", 0, LOST, 2 * SOON)

        self.each(("abcdefgh",), body, *["sum hold scatter:2 hold"] * 8)


class Consequences(BlameTest):
    """A rank that has ended because of another one is not blamed, whatever group and store the survivors use."""

    hosted = False
    LAYOUTS = (None, "abcd", "aabb")

    def test_end_after_a_death_in_another_group(self):
        """Rank 1 ends because rank 3 died. Rank 0 waits for it in a group without rank 3."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            for rank in ranks[:2]:
                self.assert_ok(rank.step("barrier"))
            ranks[3].kill()
            self.blames(ranks[1], "receive:3", 3, LOST)
            self.blames(ranks[0], "receive:1", 3, LOST)

        self.each(self.LAYOUTS, body, "sum group:101 barrier receive:1", "sum group:101 barrier world receive:3 quit", "sum hold", "sum hold")

    def test_end_after_a_callback(self):
        """The same. Only a callback of its work has told rank 1."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            for rank in ranks[:2]:
                self.assert_ok(rank.step("barrier"))
            ranks[3].kill()
            self.assertEqual(ranks[1].step("callback:3").status, "MST_ERR_PEER_LOST")
            self.blames(ranks[0], "receive:1", 3, LOST)

        self.each(self.LAYOUTS, body, "sum group:101 barrier receive:1", "sum group:101 barrier world callback:3 quit", "sum hold", "sum hold")

    def test_end_after_a_rejected_call(self):
        """Rank 1 leaves at once after its call was refused, which is why the others cannot make theirs."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("barrier"))
            for rank in ranks[::2]:
                step = self.blames(rank, "sum", 1, ("MST_ERR_MISMATCH",))
                self.assertIn("rejected mst_all_reduce", step.message)

        for self.hosted in (False, True):
            self.each(self.LAYOUTS[:2], body, "barrier sum", "barrier reject destroy", "barrier sum", "barrier sum")

    def test_end_after_a_stalled_message(self):
        """Rank 1 ends because rank 3 is stopped. The stall of a message does not end the group."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[3].send(signal.SIGSTOP)
            ranks[1].resume()
            self.blames(ranks[1], "receive:3", 3, ("MST_ERR_STALLED",), SHORT + SOON)
            self.blames(ranks[0], "receive:1", 3, LOST, SHORT + 2 * SOON)
            self.blames(ranks[2], "barrier", 3, LOST, SHORT + 2 * SOON)

        for self.hosted in (False, True):
            self.each(self.LAYOUTS, body, "sum receive:1 hold", f"sum hold timeout:{SHORT} receive:3 quit", "sum barrier", "sum hold")

    def test_end_after_one_of_several_messages(self):
        """The other messages of mst_wait_all succeed, but they began before the failure."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            self.blames(ranks[1], "among:3", 3, ("MST_ERR_STALLED",), SHORT + SOON)
            self.blames(ranks[0], "receive:1", 3, LOST, SHORT + 2 * SOON)

        self.each(self.LAYOUTS, body, "sum receive:1", f"sum timeout:{SHORT} among:3 quit", "sum hold", "sum hold")

    def test_shrinking_after_a_stalled_message(self):
        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[3].send(signal.SIGSTOP)
            ranks[1].resume()
            self.blames(ranks[1], "receive:3", 3, ("MST_ERR_STALLED",), SHORT + SOON)
            for r, action in (0, "receive:1"), (2, "barrier"):
                self.assertIn("mst_shrink_world", self.blames(ranks[r], action, 3, LOST, SHORT + 2 * SOON).message)

        calls = f"sum hold timeout:{SHORT} receive:3 timeout:20000 shrink"
        self.each(self.LAYOUTS, body, "sum receive:1 hold", calls, "sum barrier hold", "sum hold")

    def test_shrinking_during_an_agreement(self):
        """Rank 0 recovers from the death of rank 2, while rank 1 is in mst_agree: neither waits for the deadline."""
        for self.hosted in (False, True):

            def body(ranks):
                for rank in ranks:
                    self.assert_ok(rank.step("sum"))
                ranks[2].kill()
                self.blames(ranks[0], "receive:2", 2, LOST)
                step = self.blames(ranks[1], "agree", 2, LOST, 2 * SOON)
                self.assertIn("is in mst_shrink_world", step.message)
                for rank in ranks[:2]:
                    self.assert_ok(rank.step("shrink"))

            self.each((None, "abc"), body, "sum receive:2 shrink hold", "sum agree shrink hold", "sum hold")

    def test_success_after_a_stalled_message(self):
        """Rank 1 has gone on since then, so its death has nothing to do with the stall."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            self.blames(ranks[1], "receive:3", 3, ("MST_ERR_STALLED",), SHORT)
            self.assert_ok(ranks[1].step("send:2"))
            ranks[1].kill()
            self.blames(ranks[0], "receive:1", 1, LOST)

        self.each(self.LAYOUTS, body, "sum receive:1", "sum timeout:200 receive:3 send:2 hold", "sum receive:1 hold", "sum hold")

    def test_success_after_a_callback(self):
        """The same. Only callbacks have told rank 1 of both."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            self.assertEqual(ranks[1].step("callback:3").status, "MST_ERR_STALLED")
            ranks[2].resume()
            self.assert_ok(ranks[1].step("callback:2"))
            ranks[1].kill()
            self.blames(ranks[0], "receive:1", 1, LOST)

        self.each(self.LAYOUTS, body, "sum receive:1", "sum timeout:200 callback:3 timeout:9000 callback:2 hold", "sum hold send:1 hold", "sum hold")

    def test_end_of_the_store_after_a_death(self):
        """Ranks 0 and 1 end because rank 3 died, with the store and its standby. Rank 2 has not waited for any of them."""
        self.hosted = True

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("group:10123"))
                self.assert_ok(rank.step("sum"))
            ranks[3].kill()
            for rank in ranks[:2]:
                self.blames(rank, "barrier", 3, LOST)
                rank.process.wait(timeout=20)
            ranks[2].resume()
            self.blames(ranks[2], "barrier", 3, LOST)

        calls = "sum group:10123 sum {} barrier quit"
        self.each((None,), body, calls.format("world"), calls.format("world"), calls.format("hold"), "sum group:10123 sum hold")

    def test_end_of_the_store_during_an_agreement(self):
        """The same. The agreement needs the store."""
        self.hosted = True

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("group:10123"))
                self.assert_ok(rank.step("sum"))
            ranks[3].kill()
            for rank in ranks[:2]:
                self.blames(rank, "barrier", 3, LOST)
                rank.process.wait(timeout=20)
            ranks[2].resume()
            self.blames(ranks[2], "agree", 3, ("MST_ERR_STORE_LOST",))

        calls = "sum group:10123 sum world barrier quit"
        self.each((None,), body, calls, calls, "sum group:10123 sum hold agree", "sum group:10123 sum hold")

    def test_death_after_another_rank_has_left(self):
        """Rank 2 leaves after its last call, which rank 0 still waits for because rank 3 dies."""
        self.settings = {"MUSTER_ALGO": "reduce:oneshot"}

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("reduce:0"))
            for rank in ranks[1:3]:
                self.assert_ok(rank.step("reduce:0"))
            self.assert_ok(ranks[2].step("destroy"))
            ranks[3].kill()
            ranks[0].resume()
            self.blames(ranks[0], "reduce:0", 3, LOST)

        self.each((None, "abcd"), body, "reduce:0 hold reduce:0", "reduce:0 reduce:0 hold", "reduce:0 reduce:0 destroy hold", "reduce:0 hold")


class Leaves(BlameTest):
    hosted = False

    def test_messages_of_a_rank_that_left(self):
        """Each call tells that it has left the world, not only the first."""

        def body(ranks):
            self.assert_ok(ranks[1].step("destroy"))
            ranks[0].resume()
            for action in ("check", "receive:1", "receive:1"):
                step = self.blames(ranks[0], action, 1, ("MST_ERR_PEER_LOST",))
                self.assertIn("has left", step.message)

        self.each((None, "ab"), body, "sum hold check receive:1 receive:1", "sum destroy hold")

    def test_rank_that_left_before_the_store_was_lost(self):
        """It is not the cause: rank 2 cannot be reached without the store."""

        def body(ranks):
            self.assert_ok(ranks[0].step("receive:1"))
            self.assert_ends(ranks[1])
            self.store.kill()
            ranks[0].resume()
            self.assert_failed(ranks[0].step("receive:2"), "MST_ERR_STORE_LOST")

        self.each((None,), body, "receive:1 hold receive:2", "send:0", "hold")


class Stops(BlameTest):
    """A rank is stopped by SIGSTOP."""

    STALLED = ("MST_ERR_STALLED", "MST_ERR_PEER_LOST")

    def test_rank_that_hosts_the_store(self):
        """The deadline holds although the store does not answer, also for the end of the world."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("groups:8"))
            ranks[0].send(signal.SIGSTOP)
            for rank in ranks[1:]:
                rank.resume()
            for rank in ranks[1:]:
                step = self.blames(rank, "barrier", 0, self.STALLED, SHORT + SOON)
                self.assertLess(step.ms, SHORT + 500 * SLOWER)
            for rank in ranks[1:]:
                self.assertLess(rank.step("destroy").ms, 1500 * SLOWER)

        calls = f"sum groups:8 hold timeout:{SHORT} barrier destroy"
        self.each((None, "abcd", "aabb"), body, *[calls] * RANKS)

    def test_rank_that_hosts_the_store_of_a_new_group(self):
        """The first call on a group needs the store, also on a group without its host."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[0].send(signal.SIGSTOP)
            wait_until(lambda: state(ranks[0]) == "T", "rank 0 is stopped")
            for rank in ranks[1:]:
                rank.resume()
            for rank in ranks[1:]:
                self.blames(rank, "barrier", 0, ("MST_ERR_STALLED",), SHORT + SOON)

        calls = f"sum hold timeout:{SHORT} group:1123 barrier hold"
        self.each((None, "abcd", "aabb"), body, "sum hold", calls, calls, calls)

    def test_any_rank(self):
        """Rank 0 waits for the stopped rank in an earlier call than the others, which have run ahead."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("broadcast:0"))
            ranks[3].send(signal.SIGSTOP)
            for rank in ranks[:3]:
                rank.resume()
            self.blames(ranks[0], "reduce:0", 3, self.STALLED, SHORT + 2 * SOON)
            for rank in ranks[1:3]:
                self.blames(rank, "broadcast:0", 3, self.STALLED, SHORT + 2 * SOON)

        calls = f"reduce:0 broadcast:0 hold timeout:{SHORT} reduce:0 broadcast:0 hold"
        self.each((None, "abcd"), body, *[calls] * RANKS)

    def test_rank_that_waited(self):
        """A rank is stopped while it waits for a message."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("broadcast:0"))
            wait_until(lambda: state(ranks[3]) == "S", "rank 3 sleeps")
            ranks[3].send(signal.SIGSTOP)
            for rank in ranks[:3]:
                rank.resume()
            for rank in ranks[1:3]:
                self.blames(rank, "broadcast:0", 3, self.STALLED, SHORT + 2 * SOON)

        warm = "reduce:0 broadcast:0"
        calls = f"{warm} hold timeout:{SHORT} {warm} hold"
        self.each((None,), body, f"{warm} hold {warm}", calls, calls, f"{warm} receive:0")

    def test_end_of_the_world(self):
        """Rank 0 waits for a stopped rank before it ends the store, but not longer than the timeout."""
        self.settings = {"MUSTER_TIMEOUT_MS": SHORT}

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[1].send(signal.SIGSTOP)
            ranks[0].resume()
            step = ranks[0].step("destroy")
            self.assertGreaterEqual(step.ms, SHORT - 100)
            self.assert_within(step, SHORT + SOON)

        self.each((None,), body, "sum hold destroy", "sum hold")


class Waits(BlameTest):
    """A rank that does not call is named, not one that waits for it."""

    hosted = False

    def test_collective(self):
        """Rank 1 waits for rank 0, which waits for rank 2 in an earlier call."""

        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("broadcast:0"))
            for rank in ranks[:2]:
                rank.resume()
            self.blames(ranks[1], "broadcast:0", 2, ("MST_ERR_STALLED",), SHORT + SOON)

        warm = "reduce:0 broadcast:0 hold"
        first, second = f"{warm} reduce:0", f"{warm} timeout:{SHORT} reduce:0 broadcast:0"
        self.each((None, "abc"), body, first, second, warm)

    def test_other_group(self):
        """Rank 1 waits for rank 0, which waits for rank 2 in another group."""

        def body(ranks):
            self.blames(ranks[1], "barrier", 2, ("MST_ERR_STALLED",), SHORT + SOON)
            self.blames(ranks[3], "receive:0", 2, ("MST_ERR_STALLED", "MST_ERR_PEER_LOST"), SHORT + SOON)

        waits, group = f"timeout:{SHORT} barrier", "sum group:101 sum"
        self.each((None, "abcd"), body, f"{group} world receive:2", f"{group} {waits} hold", "sum hold",
                  f"sum timeout:{SHORT} receive:0 hold")

    def test_message(self):
        """Rank 1 waits for a message of rank 0, which waits for one of rank 2."""

        def body(ranks):
            self.blames(ranks[1], "receive:0", 2, ("MST_ERR_STALLED",), SHORT + SOON)

        self.each(("abc",), body, "sum receive:2", f"sum timeout:{SHORT} receive:0", "sum hold")

    def stalls(self, rank, action, *missing):
        """A receive from any rank fails because of these ranks, which its message names."""
        step = rank.step(action)
        self.assertEqual(step.status, "MST_ERR_STALLED", step)
        named = step.message.partition("not sent by ")[2].partition(";")[0]
        self.assertEqual(tuple(map(int, re.findall(r"rank (\d+) \(", named))), missing, step)
        self.assertEqual(step.culprit, missing[0] if len(missing) == 1 else -1, step)
        self.assert_within(step, SHORT + SOON)
        return step

    def await_waits(self, *ranks):
        """The ranks have waited for so long that others know it."""
        url = f"tcp://127.0.0.1:{self.port}"
        for number, rank in ranks:
            self.assert_ok(rank.step("sum"))
            wait_until(lambda rank=rank: state(rank) == "S", "a rank sleeps")
        if len(set(self.hosts or "")) > 1:
            reports = {f"/wait/{number}" for number, _ in ranks}
            wait_until(lambda: reports <= {key[key.rfind("/wait/"):] for key in self.keys(url)}, "ranks report their waits")

    def test_any_source(self):
        """Ranks 0 and 1 wait for any message, rank 2 for one of rank 0. Ranks 3 and 4 do not call."""

        def body(ranks):
            self.await_waits(*enumerate(ranks[1:3], 1))
            ranks[0].resume()
            self.stalls(ranks[0], "receive:-1", 3, 4)

        calls = f"sum hold timeout:{SHORT} receive:-1 hold", "sum receive:-1", "sum receive:0", "sum hold", "sum hold"
        self.each((None, "abcde", "aabba"), body, *calls)

    def test_any_source_of_ranks_that_left(self):
        """Rank 1 has left, rank 2 has died, which rank 0 has acknowledged, and rank 3 does not call."""

        def body(ranks):
            ranks[1].process.wait(timeout=20)
            ranks[2].kill()
            ranks[0].resume()
            self.blames(ranks[0], "receive:2", 2, LOST)
            self.assert_ok(ranks[0].step("acknowledge"))
            step = self.stalls(ranks[0], "receive:-1", 3)
            self.assertRegex(step.message, r"; rank 1 \(.*\) has left, rank 2 \(.*\) has died; ")

        calls = f"sum hold receive:2 acknowledge timeout:{SHORT} receive:-1 hold"
        self.each((None, "abcd", "aabb"), body, calls, "sum destroy", "sum hold", "sum hold")

    def test_any_source_of_a_rank_that_waits_elsewhere(self):
        """The only other rank of the group waits in another group, for rank 2."""

        def body(ranks):
            self.blames(ranks[0], "receive:-1", 2, ("MST_ERR_STALLED",), SHORT + SOON)

        group = "sum group:101 sum"
        self.each((None, "abc"), body, f"{group} timeout:{SHORT} receive:-1 hold", f"{group} world receive:2", "sum hold")

    def test_any_source_of_a_stopped_rank(self):
        def body(ranks):
            for rank in ranks:
                self.assert_ok(rank.step("sum"))
            ranks[3].send(signal.SIGSTOP)
            wait_until(lambda: state(ranks[3]) == "T", "rank 3 is stopped")
            ranks[0].resume()
            self.stalls(ranks[0], "receive:-1", 3)

        self.each((None, "aaba"), body, f"sum hold timeout:{SHORT} receive:-1 hold", "sum receive:3", "sum receive:3", "sum receive:0")

    def test_any_source_of_ranks_that_wait(self):
        """All ranks wait for a message, but none sends one."""

        def body(ranks):
            self.await_waits(*enumerate(ranks[1:], 1))
            ranks[0].resume()
            step = ranks[0].step("receive:-1")
            self.assertRegex(step.message, r"in time; these wait themselves: rank 1 \(.*\), rank 2 \(.*\); find out")

        self.each((None, "abc"), body, f"sum hold timeout:{SHORT} receive:-1 hold", "sum receive:-1", "sum receive:-1")

    def test_end_of_a_wait_for_any_source(self):
        def body(ranks):
            step = self.blames(ranks[0], "wait_any:700", 2, ("MST_ERR_TIMEOUT",), 2 * SOON)
            self.assertRegex(step.message, r"is not done yet; it waits for rank 2 \([^)]*\); wait again")

        self.each((None,), body, "sum wait_any:700 hold", "sum receive:0", "sum hold")

    def test_wait_that_is_over(self):
        """Rank 0 has waited for rank 2 for long, but does not any more."""

        def body(ranks):
            self.assert_ok(ranks[0].step("sum"))
            url = f"tcp://127.0.0.1:{self.port}"
            wait_until(lambda: any(key.endswith("/wait/0") for key in self.keys(url)), "rank 0 reports its wait")
            ranks[2].resume()
            self.assert_ok(ranks[0].step("receive:2"))
            ranks[1].resume()
            self.blames(ranks[1], "receive:0", 0, ("MST_ERR_STALLED",), SHORT + SOON)

        self.each(("abc",), body, "sum receive:2 hold", f"sum hold timeout:{SHORT} receive:0", "sum hold send:0 hold")

    def test_end_of_a_wait(self):
        """mst_wait gives up before the operation does, and names the rank for which that waits."""

        def body(ranks):
            for action in ("wait_message:300", "wait:300"):
                step = self.blames(ranks[0], action, 1, ("MST_ERR_TIMEOUT",), SOON)
                self.assertRegex(step.message, r"is not done yet; it waits for rank 1 \(")

        self.each((None, "ab"), body, "sum wait_message:300 wait:300", "sum hold")


if __name__ == "__main__":
    main(at_once=3)
