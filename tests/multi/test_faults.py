"""Communication that cannot succeed: ranks make different calls, die in the middle of a call, or never call.

All ranks fail soon, the message names the rank that caused it, and no rank hangs.
"""

import os
import signal

from harness import DEADLINE, PROGRAMS, SANITIZED, SLOWER, Rank, RanksTest, main

FAULTS = PROGRAMS / "faults"
SOON = 1.0 * SLOWER  # seconds within which survivors must detect a death
WAIT = 400  # milliseconds that ranks wait for one that does not call
HERE = r"faults\.c:\d+"


class FaultsTest(RanksTest):
    hosts = None  # the simulated host of each rank; None: all on this host
    settings = {}  # additional environment

    def world(self, n, *arguments):
        """n ranks over a store that outlives them; returns after their first common call."""
        store, port = self.serve()
        return store, self.ranks(n, port, {"TORCHELASTIC_USE_AGENT_STORE": "True"}, *arguments)

    def ranks(self, n, port, place, *arguments):
        """n ranks that join at this port; returns after their first common call."""
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **place}
        ranks = []
        for r in range(n):
            env = {"RANK": r, "WORLD_SIZE": n, **place, **self.settings}
            if self.hosts:
                env["MUSTER_FORCE_HOST"] = self.hosts[r]
            ranks.append(Rank(self.popen(FAULTS, *arguments, env=env)))
        for rank in ranks:
            step = rank.step("init")
            if step.status == "MST_ERR_UNSUPPORTED":
                self.skipTest(step.message)
            self.assert_ok(step)
        return ranks

    def end(self, store, ranks):
        for rank in ranks:
            rank.process.communicate(timeout=DEADLINE)
        store.kill()


class Differences(FaultsTest):
    """All ranks make calls, but different ones."""

    def differ(self, what, *parts, work=False):
        store, ranks = self.world(3, "differ", what, *(["work"] if work else []))
        steps = [rank.step("differ") for rank in ranks]
        for step in steps:
            self.assert_failed(step, "MST_ERR_MISMATCH", *parts, r"rank 1\b", HERE)
            self.assert_within(step, 5000)
        self.end(store, ranks)

    def both_ways(self, what, *parts):
        for work in (False, True):
            with self.subTest(what=what, work=work), self.ended():
                self.differ(what, *parts, work=work)
        self.assert_nothing_left()

    def test_operation(self):
        self.both_ways("operation", "all_reduce", "broadcast")

    def test_barrier(self):
        self.both_ways("barrier", "all_reduce", "barrier")

    def test_dtype(self):
        self.both_ways("dtype", "f32", "i32")

    def test_op(self):
        self.both_ways("op", "SUM", "MAX")

    def test_count(self):
        self.both_ways("count", r"\b8\b", r"\b9\b")

    def test_large_count(self):
        self.both_ways("large_count", r"\b300000\b", r"\b300001\b")

    def test_root(self):
        self.both_ways("root", "broadcast")

    def test_counts(self):
        self.both_ways("counts", "all_gather")

    def test_order(self):
        self.differ("order", "all_reduce", "all_gather_into_tensor")

    def test_splits(self):
        """Rank 1 expects more from rank 0 than it sends: both fail; whether others fail depends on the algorithm."""
        store, ranks = self.world(3, "differ", "splits")
        steps = [rank.step("differ") for rank in ranks]
        self.assertIn("MST_ERR_MISMATCH", [step.status for step in steps])
        for step in steps[:2]:
            self.assert_failed(step, "MST_ERR_MISMATCH", "all_to_all_single", "splits")
        self.end(store, ranks)

    def test_message(self):
        """Nine elements sent, eight received: the receiver's error has both numbers, and nothing hangs."""
        store, ranks = self.world(2, "differ", "message")
        step = ranks[0].step("differ")
        self.assertIn(step.status, ("MST_ERR_MISMATCH", "MST_ERR_INVALID", "MST_ERR_LIMIT"), step)
        for part in (r"\b(9|36)\b", r"\b(8|32)\b", r"rank 1\b"):
            self.assertRegex(step.message, part)
        ranks[1].step("differ")
        self.end(store, ranks)


class Deaths(FaultsTest):
    """SIGKILL of one rank in the middle of a loop. With sanitizers there are fewer victims, because start-up is slow."""

    victims = (1,) if SANITIZED else (0, 1)

    def die(self, operation):
        for victim in self.victims:
            with self.subTest(operation=operation, victim=victim), self.ended():
                store, ranks = self.world(3, "loop", operation)
                for rank in ranks:
                    rank.begins("loop")
                died = ranks[victim].kill()
                for rank in (r for n, r in enumerate(ranks) if n != victim):
                    step = rank.step("loop")
                    pid = ranks[victim].pid
                    self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank {victim} \(host .*, pid {pid}\) died")
                    self.assertEqual(step.culprit, victim)
                    self.assert_soon(step, died, SOON)
                self.end(store, ranks)
        self.assert_nothing_left()


class DeathsHere(Deaths):
    def test_within_a_second(self):
        """The promise holds on an idle machine, so one of several attempts must succeed."""
        longest = []
        for _ in range(5):
            store, ranks = self.world(4, "loop", "all_reduce")
            for rank in ranks:
                rank.begins("loop")
            died = ranks[2].kill()
            longest.append(max(rank.step("loop").at - died for rank in ranks if rank is not ranks[2]))
            self.end(store, ranks)
        self.assertLess(min(longest), 1.0, longest)
        self.assert_nothing_left()


class DeathsOnHosts(Deaths):
    """Ranks 0 and 1 share a host; rank 2 has its own."""

    hosts = "aab"
    victims = (0, 2) if SANITIZED else (0, 1, 2)


class DeathsByCma(Deaths):
    """The others read the memory of the process that dies."""

    victims = (0, 2)
    settings = {"MUSTER_CMA": 2}


class DeathsOverSockets(Deaths):
    """Several sockets between two ranks fail as one."""

    hosts = "aab"
    victims = (0, 2)
    settings = {"MUSTER_TCP_STREAMS": 3}


class IdleRank0(FaultsTest):
    """Rank 0 dies, and the store with it; ranks of other hosts have no connection with it that could break."""

    def test_messages(self):
        for self.hosts in ("abc", "abb"):
            with self.subTest(hosts=self.hosts), self.ended():
                ranks = self.ranks(3, self.free_port(), {}, "idle_rank0", "recv")
                died = ranks[0].kill()
                for rank in ranks[1:]:
                    step = rank.step("idle_rank0")
                    self.assert_failed(step, "MST_ERR_PEER_LOST", r"rank 0\b")
                    self.assertEqual(step.culprit, 0)
                    self.assertLess(step.at - died, SOON)
                    rank.process.communicate(timeout=DEADLINE)
        self.assert_nothing_left()


class Stops(FaultsTest):
    """A rank that stops in the middle of a call is named, also if it called in time."""

    def test_all_to_all(self):
        for _ in range(4):
            with self.ended():
                store, ranks = self.world(3, "loop", "all_to_all_single", 2 * WAIT)
                for rank in ranks:
                    rank.begins("loop")
                os.kill(ranks[2].pid, signal.SIGSTOP)
                steps = [rank.step("loop") for rank in ranks[:2]]
                for step in steps:
                    self.assert_failed(step, "MST_ERR_STALLED")
                self.assertTrue(any("rank 2 " in step.message for step in steps), steps)
                ranks[2].kill()
                self.end(store, ranks[:2])
        self.assert_nothing_left()


class Disconnects(FaultsTest):
    """Connections break while all processes are alive: all ranks fail, also those without a connection to that rank."""

    hosts = "abcd"

    def disconnect(self, operation, *algorithms):
        for algorithm in algorithms:
            with self.subTest(operation=operation, algorithm=algorithm), self.ended():
                family = operation.removesuffix("_into_tensor")
                self.settings = {"MUSTER_ALGO": f"{family}:{algorithm}"} if algorithm else {}
                store, ranks = self.world(4, "disconnect", operation)
                for number, rank in enumerate(ranks):
                    step = rank.step("disconnect")
                    self.assert_failed(step, "MST_ERR_PEER_LOST")
                    self.assertNotIn(step.culprit, (-1, number))
                    self.assert_within(step, 5000)
                self.end(store, ranks)
        self.assert_nothing_left()

    def test_all_reduce(self):
        self.disconnect("all_reduce", "ring", "doubling", "direct")

    def test_messages(self):
        self.disconnect("ring", "")

    def test_all_gather(self):
        self.disconnect("all_gather_into_tensor", "ring", "bruck")


class NoDescriptors(FaultsTest):
    """A receive that cannot open its link fails long before its timeout, and can be called again."""

    def test_descriptors(self):
        store, ranks = self.world(2, "no_descriptors", 10000)
        step = ranks[1].step("no_descriptors")
        self.assert_failed(step, "MST_ERR_SYSTEM", r"cannot reach rank 0\b", "Too many open files", "limits")
        self.assert_within(step, 5000)
        self.assert_ok(ranks[1].step("again"))
        self.assert_ok(ranks[0].step("no_descriptors"))
        self.end(store, ranks)
        self.assert_nothing_left()


class TimedOut(FaultsTest):
    """After a timeout the program may reuse its tensor, also if other ranks access it in place."""

    def give_up(self, operation):
        store, ranks = self.world(2, "give_up", operation, WAIT)
        self.assert_failed(ranks[0].step("give_up"), "MST_ERR_STALLED", r"rank 1\b")
        step = ranks[1].step("give_up")
        self.assert_failed(step, "MST_ERR_PEER_LOST", r"rank 0 .* gave up this group")
        self.assertEqual(step.culprit, 0)
        self.end(store, ranks)
        self.assert_nothing_left()

    def test_broadcast(self):
        self.give_up("broadcast")

    def test_all_reduce(self):
        self.give_up("all_reduce")

    def test_send(self):
        self.give_up("send")

    def test_first_send(self):
        """The others fail in a receive and in a collective before their own timeout."""
        store, ranks = self.world(2, "give_up_first", WAIT)
        self.assert_failed(ranks[0].step("give_up"), "MST_ERR_STALLED", r"rank 1\b")
        step = ranks[1].step("give_up")
        self.assert_failed(step, "MST_ERR_STALLED", r"rank 0 .* gave up a message .* in mst_recv\b")
        self.assertEqual(step.culprit, 0)
        for rank in ranks:
            step = rank.step("after")
            self.assert_failed(step, "MST_ERR_STALLED")
            self.assert_within(step, 5000)
        self.end(store, ranks)
        self.assert_nothing_left()


class TimedOutByCma(TimedOut):
    """The same with ordinary memory, which the other ranks read by CMA."""

    settings = {"MUSTER_CMA": 2}
    test_all_reduce = test_first_send = None


class Absences(FaultsTest):
    """A rank does not call: the timeout works, and the message names the rank."""

    wait = WAIT

    def be_absent(self, operation, *parts, n=3):
        with self.subTest(operation=operation), self.ended():
            store, ranks = self.world(n, "absent", operation, self.wait)
            for rank in ranks[:1] if operation == "recv" else ranks[:2]:
                step = rank.step("absent")
                self.assertIn(step.status, ("MST_ERR_STALLED", "MST_ERR_TIMEOUT"), step)
                for part in (r"rank 2\b", *parts):
                    self.assertRegex(step.message, part)
                self.assertEqual(step.culprit, 2)
                self.assertGreaterEqual(step.ms, self.wait - 50)
                self.assert_within(step, self.wait + 2000)
            self.end(store, ranks)
        self.assert_nothing_left()

    def test_all_missing_ranks_are_named(self):
        self.be_absent("monitored_barrier_all", r"rank 3\b", n=4)


class AbsencesOnHosts(Absences):
    """Rank 1 waits for rank 0, which waits for rank 2: both messages name rank 2."""

    hosts = "abc"

    def test_behind_another(self):
        for algorithm in ("ring", "halving"):
            self.settings = {"MUSTER_ALGO": f"all_reduce:{algorithm}"}
            self.be_absent("all_reduce")

    def test_all_missing_ranks_are_named(self):
        pass  # tested on one host


class DifferencesOnHosts(FaultsTest):
    """Plans that exchange no message still detect the difference."""

    hosts = "abc"

    def test_root(self):
        store, ranks = self.world(3, "differ", "root")
        steps = [rank.step("differ") for rank in ranks]
        self.assertIn("MST_ERR_MISMATCH", [step.status for step in steps], steps)
        for step in steps:
            self.assert_within(step, 5000)
        self.end(store, ranks)
        self.assert_nothing_left()


class Leaving(FaultsTest):
    """A rank destroys a group that others use: their errors name the rank, and the world still works."""

    def leave(self):
        store, ranks = self.world(3, "leave", "group")
        for rank in ranks[:2]:
            step = rank.step("leave")
            self.assert_failed(step, "MST_ERR_PEER_LOST", r"rank 2\b")
            self.assertEqual(step.culprit, 2)
            self.assert_within(step, 5000)
        self.assert_ok(ranks[2].step("leave"))
        for rank in ranks:
            self.assert_ok(rank.step("after"))
        self.end(store, ranks)
        self.assert_nothing_left()

    def test_here(self):
        self.leave()

    def test_on_hosts(self):
        self.hosts = "aab"
        self.leave()


class Late(FaultsTest):
    """A barrier with .work still counts after a timeout, so that late ranks find the correct state."""

    def come_late(self):
        store, ranks = self.world(3, "late", 200)
        for _ in range(2):
            self.assert_failed(ranks[0].step("stall"), "MST_ERR_STALLED", r"missing: .*rank \d")
        for rank in ranks[1:]:
            rank.resume()
        for rank in ranks:
            self.assert_ok(rank.step("late"))
        self.end(store, ranks)
        self.assert_nothing_left()

    def test_here(self):
        self.come_late()

    def test_on_hosts(self):
        for self.hosts in ("aab", "aba", "abc"):
            with self.subTest(hosts=self.hosts), self.ended():
                self.come_late()


def add_tests():
    """Adds a test for each operation, so that each runs and fails separately."""
    loops = (
        "barrier all_reduce inference_all_reduce broadcast reduce all_gather_into_tensor reduce_scatter_tensor gather "
        "scatter all_to_all_single empty_splits ring waited polled coalesced bytes alloc"
    )
    waits = (
        "barrier monitored_barrier all_reduce inference_all_reduce all_gather_into_tensor reduce_scatter_tensor "
        "all_to_all_single waited coalesced bytes recv"
    )
    for name in loops.split():
        setattr(DeathsHere, f"test_{name}", lambda self, name=name: self.die(name))
    between = "all_reduce broadcast gather all_to_all_single empty_splits ring waited polled bytes"
    for name in between.split():
        setattr(DeathsOnHosts, f"test_{name}", lambda self, name=name: self.die(name))
    for name in ("all_reduce", "all_to_all_single", "ring"):
        setattr(DeathsOverSockets, f"test_{name}", lambda self, name=name: self.die(name))
    for name in ("broadcast", "all_gather_into_tensor", "all_to_all_single"):
        setattr(DeathsByCma, f"test_{name}", lambda self, name=name: self.die(name))
    for name in waits.split():
        setattr(Absences, f"test_{name}", lambda self, name=name: self.be_absent(name))


add_tests()

if __name__ == "__main__":
    main()
