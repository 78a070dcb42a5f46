"""A rank that waits for long says in one line what it waits for: MUSTER_SLOW_S."""

import re
import subprocess

from harness import BUILD, PROGRAMS, Rank, RanksTest, main

SLOW = PROGRAMS / "slow"
RANKS = 3
LATE = 1
GLOO = BUILD / "lib/muster/mst_backend_gloo.so"

# What each call writes after the name of the call; of messages only rank 0 waits.
ALL = "mst_all_reduce of 17 f32 (SUM)"
CALLS = {
    "all_reduce": ALL,
    "barrier": "mst_barrier",
    "monitored": "mst_monitored_barrier",
    "work": ALL,
    "queued": ALL,
    "set_backend": "mst_set_backend",
    "wait_all": "mst_irecv of 17 f32 with tag 7",
    "receive": "mst_recv of 17 f32 with tag 5",
    "any": "mst_recv of 17 f32 with tag 5",
    "transmit": "mst_send of 4194304 f32 with tag 0",
}
MESSAGES = ("wait_all", "receive", "any", "transmit", "unawaited")


class SlowHere(RanksTest):
    hosts = None  # the simulated host of each rank; None: all on this host
    seconds = 1
    backend = {}
    opens = False  # the call opens the backend, and its line does not say more than the name of the call

    def world(self, *calls, seconds=None, late_start=()):
        store, port = self.serve()
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        self.slow = self.seconds if seconds is None else seconds
        env = {"WORLD_SIZE": RANKS, "MUSTER_SLOW_S": self.slow, **place, **self.backend}

        def start(r):
            host = {"MUSTER_FORCE_HOST": self.hosts[r]} if self.hosts else {}
            return Rank(self.popen(SLOW, *calls, env={**env, "RANK": r, **host}, stderr=subprocess.PIPE))

        ranks = [None if r in late_start else start(r) for r in range(RANKS)]
        if late_start:
            return store, ranks, start
        self.ready(ranks)
        return store, ranks

    def ready(self, ranks):
        for rank in ranks:
            self.assert_ok(rank.step("init"))

    def assert_line(self, rank, number, call, whom):
        line = rank.read_line(rank.process.stderr)
        group = "" if call.startswith("mst_init") else " on the world"
        head = rf"\[muster\] rank {number} group warn: {call}{group}"
        found = re.fullmatch(rf"{head} has waited (\d+) s for {whom}; it fails in (\d+) s", line or "")
        self.assertTrue(found, f"{line}, expected {head} … {whom}")
        self.assertGreaterEqual(int(found[1]), self.slow)
        self.assertLessEqual(abs(int(found[1]) + int(found[2]) - 50), 1)  # the deadline of slow.c

    def late(self, ranks):
        return rf"rank {LATE} \(host .*, pid {ranks[LATE].pid}\)"

    def check(self, ranks, call):
        for number, rank in enumerate(ranks):
            if number == LATE or (call in MESSAGES and number != 0) or call == "unawaited":
                continue
            other = rf"(?:, rank {LATE + 1} \(.*\))?" if call == "any" else ""  # it may send, unless it waits already
            whom = self.late(ranks) + other
            name, _, what = CALLS[call].partition(" ")
            what = f"(?: {re.escape(what)})?" if self.opens else " " * bool(what) + re.escape(what)
            self.assert_line(rank, number, rf"{name}{what} at \S*slow\.c:\d+", whom)

    def end(self, store, ranks):
        """No rank has written another line."""
        for rank in ranks:
            status = rank.process.wait(60)
            err = rank.pending[rank.process.stderr] + rank.process.stderr.read()
            self.assertEqual((status, err), (0, b""))
        store.kill()
        self.assert_nothing_left()

    def run_calls(self, *calls):
        store, ranks = self.world(*calls)
        for call in calls:
            self.check(ranks, call)
            self.opens = False
            ranks[LATE].resume()
            for rank in ranks:
                self.assert_ok(rank.step(call))
        self.end(store, ranks)

    def test_collectives(self):
        self.run_calls("all_reduce", "barrier", "monitored", "work", "queued")

    def test_messages(self):
        self.run_calls("receive", "any", "transmit", "wait_all")

    def test_receive_first(self):
        self.run_calls("any", "receive")

    def pause(self, store, seconds):
        with self.assertRaises(subprocess.TimeoutExpired):
            store.process.wait(seconds)

    def test_none(self):
        """No line if the setting is 0, and none of a short wait."""
        for seconds, pause in (0, 1.5), (5, 0.5):
            with self.subTest(seconds=seconds), self.ended():
                store, ranks = self.world("all_reduce", "receive", "work", seconds=seconds)
                for call in ("all_reduce", "receive", "work"):
                    self.pause(store, pause)
                    ranks[LATE].resume()
                    for rank in ranks:
                        self.assert_ok(rank.step(call))
                self.end(store, ranks)


class SlowOnHosts(SlowHere):
    """Wait reports in the store name the rank that is late, which ranks have to write before."""

    hosts = "abb"
    seconds = 2


class SlowOnManyHosts(SlowOnHosts):
    hosts = "abc"
    test_none = None


class SlowBackend(SlowOnHosts):
    """The first call also opens the backend."""

    hosts = None
    backend = {"MUSTER_BACKEND": "gloo", "MUSTER_BACKEND_PATH": GLOO.parent}

    def setUp(self):
        super().setUp()
        if not GLOO.exists():
            self.skipTest("the backend gloo was not built")
        self.opens = True

    def test_messages(self):
        self.run_calls("all_reduce", "receive", "any", "transmit", "wait_all")

    test_receive_first = test_none = None


class SlowOnce(SlowHere):
    def test_collectives(self):
        self.run_calls("set_backend")

    test_messages = test_receive_first = test_none = None

    def test_unawaited(self):
        store, ranks = self.world("unawaited")
        self.pause(store, 2)
        ranks[0].resume()
        ranks[LATE].resume()
        for rank in ranks:
            self.assert_ok(rank.step("unawaited"))
        self.end(store, ranks)

    def test_init(self):
        store, ranks, start = self.world(late_start=(LATE,))
        for number in (0, 2):
            self.assert_line(ranks[number], number, r"mst_init at \S*slow\.c:\d+", f"rank {LATE}")
        ranks[LATE] = start(LATE)
        self.ready(ranks)
        self.end(store, ranks)

    def test_init_without_store(self):
        """Rank 0, which hosts the store, is late."""
        port = self.free_port()
        self.slow = 1
        env = {"WORLD_SIZE": 2, "MUSTER_SLOW_S": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        one = Rank(self.popen(SLOW, env={**env, "RANK": 1}, stderr=subprocess.PIPE))
        self.assert_line(one, 1, r"mst_init at \S*slow\.c:\d+", rf"rank 0, which hosts the store at 127\.0\.0\.1:{port}")
        zero = Rank(self.popen(SLOW, env={**env, "RANK": 0}, stderr=subprocess.PIPE))
        self.ready((zero, one))
        for rank in (zero, one):
            self.assertEqual((rank.process.wait(60), rank.process.stderr.read()), (0, b""))


if __name__ == "__main__":
    main(at_once=4)
