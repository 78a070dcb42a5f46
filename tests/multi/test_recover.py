"""The survivors of a death go on: agreement, smaller groups and worlds, and worlds that grow again."""

import contextlib
import signal
import socket
import threading

from harness import PROGRAMS, Rank, RanksTest, listening, main

RECOVER = PROGRAMS / "recover"
SOON = 1000  # milliseconds


def close_each(listener, answer):
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                if answer:
                    connection.sendall(answer)


class RecoverTest(RanksTest):
    hosts = {}  # the simulated host of each rank, by the size of the world
    hosted = False  # rank 0 hosts the store; else it outlives the ranks
    store = None

    def place(self):
        if self.hosted:
            return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port()}
        self.store, port = self.serve()
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}

    def start(self, env, number, actions):
        host = {"MUSTER_FORCE_HOST": self.host_of(number)} if self.hosts else {}
        return Rank(self.popen(RECOVER, *actions, env={**self.at, **env, **host}))

    def host_of(self, number):
        return self.hosts[number % len(self.hosts)]

    def world(self, *actions):
        """Starts a rank for each list of actions."""
        self.at = self.place()
        ranks = [self.start({"RANK": r, "WORLD_SIZE": len(actions)}, r, a) for r, a in enumerate(actions)]
        for rank in ranks:
            self.assert_ok(rank.step("init"))
        return ranks

    def joiner(self, number, *actions):
        return self.start({"MUSTER_JOIN": 1}, number, actions)

    def all_ok(self, ranks, *actions, within=SOON):
        for action in actions:
            for rank in ranks:
                step = rank.step(action)
                self.assert_ok(step)
                self.assert_within(step, within)

    def all_lose(self, ranks, action, culprit):
        for rank in ranks:
            step = rank.step(action)
            self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank {culprit}\b")
            self.assertEqual(step.culprit, culprit, step)

    def end(self, *ranks):
        self.assert_ends(*ranks)
        if self.store:
            self.store.kill()
        self.assert_nothing_left()


class RecoverHere(RecoverTest):
    def test_shrink_group(self):
        actions = ("sum", "hold", "sum", "shrink", "sum", "check", "big")
        ranks = self.world(*[actions] * 4)
        self.all_ok(ranks, "sum")
        ranks[2].kill()
        rest = ranks[:2] + ranks[3:]
        for rank in rest:
            rank.resume()
        self.all_lose(rest, "sum", 2)
        self.all_ok(rest, "shrink", "sum", "check", "big")
        self.end(*rest)

    def test_shrink_twice(self):
        actions = ("sum", "hold", "sum", "shrink", "sum", "hold", "sum", "shrink", "sum")
        ranks = self.world(*[actions] * 4)
        self.all_ok(ranks, "sum")
        for victim in 2, 0 if not self.hosted else 1:
            victim = ranks.pop(victim)
            victim.kill()
            for rank in ranks:
                rank.resume()
            for rank in ranks:
                self.assertEqual(rank.step("sum").status, "MST_ERR_PEER_LOST")
            self.all_ok(ranks, "shrink", "sum")
        self.end(*ranks)

    def test_waiting_ranks_come(self):
        """A rank waits for a message of another one, which shrinks the group instead."""
        waits, goes = ("sum", "recv:1", "shrink", "sum"), ("sum", "hold", "shrink", "sum")
        ranks = self.world(waits, goes, goes)
        self.all_ok(ranks, "sum")
        ranks[2].kill()
        ranks[1].resume()
        step = ranks[0].step("recv:1")
        self.assert_failed(step, "MST_ERR_PEER_LOST", "rank 1", "mst_shrink_group")
        self.all_ok(ranks[:2], "shrink", "sum")
        self.end(*ranks[:2])

    def test_ranks_of_other_groups_come(self):
        """A rank waits in a group without losses for a rank that shrinks another group."""
        for wait in "sum", "recv:1":
            with self.subTest(wait=wait), self.ended():
                waits = ("group:0,1", "big", wait, "all", "shrink", "big")
                goes = ("group:0,1", "big", "all", "hold", "shrink", "big")
                ranks = self.world(waits, goes, ("hold",))
                self.all_ok(ranks[:2], "big")
                ranks[2].kill()
                ranks[1].resume()
                step = ranks[0].step(wait)
                self.assert_failed(step, "MST_ERR_PEER_LOST", "rank 2 .*died", "rank 1 .*in mst_shrink_group")
                self.assertEqual(step.culprit, 2, step)
                self.assert_within(step, 2 * SOON)
                self.all_ok(ranks[:2], "shrink", "big", within=2 * SOON)
                self.end(*ranks[:2])

    def test_ranks_of_other_groups_come_without_a_death(self):
        """The same after a failure that no rank has died of, such as a connection that was reset."""
        for call in "shrink", "world":
            with self.subTest(call=call), self.ended():
                waits = ("group:0,1", "big", "sum", "all", call, "big")
                goes = ("group:0,1", "big", "all", "hold", call, "big")
                ranks = self.world(waits, goes, goes[2:])
                self.all_ok(ranks[:2], "big")
                for rank in ranks[1:]:
                    rank.resume()
                step = ranks[0].step("sum")
                self.assert_failed(step, "MST_ERR_PEER_LOST", "rank 1 .*in mst_shrink_")
                self.assertEqual(step.culprit, 1, step)
                self.assert_within(step, 2 * SOON)
                self.all_ok(ranks, call, "big", within=2 * SOON)
                self.end(*ranks)

    def test_death_during_shrink(self):
        actions = ("sum", "shrink", "sum")
        ranks = self.world(actions, actions, ("sum", "hold"), ("sum", "hold"))
        self.all_ok(ranks, "sum")
        ranks[2].kill()
        ranks[3].kill()
        self.all_ok(ranks[:2], "shrink", "sum")
        self.end(*ranks[:2])

    def test_agree(self):
        ranks = self.world(("agree:f=6", "sum"), ("agree:6=6", "sum"), ("agree:7=6", "sum"))
        for rank, flags in zip(ranks, "f67"):
            self.all_ok([rank], f"agree:{flags}=6", "sum")
        self.end(*ranks)

    def test_agree_after_a_death(self):
        """All ranks hear of the death, until all have acknowledged it."""
        actions = ("sum", "agree:3=3", "ack", "agree:5=5")
        ranks = self.world(actions, actions, ("sum", "hold"), actions)
        self.all_ok(ranks, "sum")
        ranks[2].kill()
        rest = ranks[:2] + ranks[3:]
        self.all_lose(rest, "agree:3=3", 2)
        self.all_ok(rest, "ack", "agree:5=5")
        self.end(*rest)

    def test_agree_after_two_deaths(self):
        """The first lost rank is named, not the one with the lower number."""
        ranks = self.world(*[("sum", "hold", "agree:3=3")] * 4)
        self.all_ok(ranks, "sum")
        ranks[3].kill()
        self.wait_for_key(f"tcp://127.0.0.1:{self.at['MASTER_PORT']}", "muster/job.0/1/events")
        ranks[1].kill()
        rest = ranks[0], ranks[2]
        for rank in rest:
            rank.resume()
        self.all_lose(rest, "agree:3=3", 3)
        self.end(*rest)

    def test_shrink_world(self):
        """Survivors are numbered anew; a group without the dead rank stays usable."""
        ranks = self.world(*[("group:0,3", "sum", "all", "sum", "hold", "sum", "world", f"who:{new}/3", "sum", "big")
                             if old in (0, 3) else ("sum", "hold", "sum", "world", f"who:{new}/3", "sum", "big")
                             for old, new in ((0, 0), (1, 1), (2, 9), (3, 2))])
        self.all_ok(ranks, "sum")
        self.all_ok((ranks[0], ranks[3]), "sum")
        ranks[2].kill()
        rest = ranks[:2] + ranks[3:]
        for rank in rest:
            rank.resume()
        self.all_lose(rest, "sum", 2)
        self.all_ok(rest, "world")
        for new, rank in enumerate(rest):
            self.all_ok([rank], f"who:{new}/3", "sum", "big")
        self.end(*rest)

    def test_groups_stay(self):
        member = ("group:0,1", "sum", "hold", "world", "check", "sum", "hold", "sum", "check")
        ranks = self.world(member, member, ("group:1,2", "hold"), ("hold", "world", "hold"))
        self.all_ok(ranks[:2], "sum")
        self.all_ok(ranks[2:3], "group:1,2")
        ranks[2].kill()
        rest = ranks[:2] + ranks[3:]
        for rank in rest:
            rank.resume()
        self.all_ok(rest, "world")
        self.all_ok(rest[:2], "check", "sum")
        rest[1].kill()
        rest[0].resume()
        self.all_lose(rest[:1], "sum", 1)
        self.all_lose(rest[:1], "check", 1)
        rest[2].resume()
        self.end(rest[0], rest[2])

    def test_grow(self):
        """A new process takes the number of a dead rank, another one the next number."""
        old = [("register:7", "sum", "hold", "sum", "grow:2", f"who:{r}/4", "share:7", "sum", "big") for r in range(3)]
        ranks = self.world(*old)
        self.all_ok(ranks, "register:7", "sum")
        victim = ranks.pop(1)
        victim.kill()
        for rank in ranks:
            rank.resume()
        self.all_lose(ranks, "sum", 1)
        new = [self.joiner(3 + i, "register:1", "share:7", "sum", "big") for i in range(2)]
        self.all_ok(new, "init", within=10 * SOON)
        self.all_ok(ranks, "grow:2", within=10 * SOON)
        for old, rank in zip((0, 2), ranks):
            self.all_ok([rank], f"who:{old}/4")
        self.all_ok(new, "register:1")
        self.all_ok(ranks + new, "share:7", "sum", "big")
        self.end(*ranks, *new)

    def test_first_rank_is_new(self):
        """Rank 0 dies: new ranks get the buffers from rank 1."""
        if self.hosted:
            self.skipTest("rank 0 hosts the store")
        ranks = self.world(*[("register:7", "hold", "grow:1", f"who:{r}/3", "share:7") for r in range(3)])
        self.all_ok(ranks, "register:7")
        ranks.pop(0).kill()
        new = self.joiner(0, "register:1", "who:0/3", "share:7")
        for rank in ranks:
            rank.resume()
        self.all_ok([new], "init", "who:0/3", "share:7", within=10 * SOON)
        self.all_ok(ranks, "share:7")
        self.end(*ranks, new)

    def test_mesh(self):
        actions = ("mesh:dp=2,tp=2", "checkmesh", "sum", "hold", "world", "checkmesh", "hold")
        ranks = self.world(*[actions] * 4)
        self.all_ok(ranks, "mesh:dp=2,tp=2", "checkmesh", "sum")
        ranks.pop(3).kill()
        for rank in ranks:
            rank.resume()
        self.all_ok(ranks, "world")
        for rank in ranks:
            step = rank.step("checkmesh")
            self.assert_failed(step, "MST_ERR_PEER_LOST")
            self.assertEqual(step.culprit, 3, step)
        for rank in ranks:
            rank.resume()
        self.end(*ranks)

    def test_grow_without_a_death(self):
        ranks = self.world(*[("sum", "grow:1", f"who:{r}/3", "sum") for r in range(2)])
        new = self.joiner(2, "who:2/3", "sum")
        self.all_ok([new], "init", "who:2/3", "sum", within=10 * SOON)
        for number, rank in enumerate(ranks):
            self.all_ok([rank], f"who:{number}/3", "sum")
        self.end(*ranks, new)

    def test_calls_on_the_world_end(self):
        """Rank 1 waits for rank 2, which makes no call yet: it must take part when rank 0 shrinks the world."""
        end = ("world", "sum")
        ranks = self.world(("sum", *end), ("sum", "recv:2", *end), ("sum", "hold", *end))
        self.all_ok(ranks, "sum")
        self.assert_failed(ranks[1].step("recv:2"), "MST_ERR_PEER_LOST", r"rank 0 \(.* called mst_shrink_world")
        ranks[2].resume()
        self.all_ok(ranks, *end, within=10 * SOON)
        self.end(*ranks)

    def test_calls_on_a_world_with_a_death_end(self):
        """The same when rank 0 calls mst_grow_world after a death."""
        end = ("grow:0", "sum")
        ranks = self.world(("sum", "hold", *end), ("sum", "recv:2", *end), ("sum", "hold", *end), ("sum", "hold"))
        self.all_ok(ranks, "sum")
        ranks.pop(3).kill()
        self.wait_for_key(f"tcp://127.0.0.1:{self.at['MASTER_PORT']}", "muster/job.0/1/events")
        ranks[0].resume()
        self.assert_failed(ranks[1].step("recv:2"), "MST_ERR_PEER_LOST", r"rank 3 \(.* died.*rank 0 \(.* called mst_grow_world")
        ranks[2].resume()
        self.all_ok(ranks, *end, within=10 * SOON)
        self.end(*ranks)

    def test_no_call_ends_without_a_death(self):
        """Rank 0 is in mst_grow_world; calls of the others on the old world complete before they take part."""
        end = ("grow:0", "sum")
        ranks = self.world(("sum", *end), ("sum", "recv:2", *end), ("sum", "hold", "send:1", *end))
        self.all_ok(ranks, "sum")
        url = f"tcp://127.0.0.1:{self.at['MASTER_PORT']}"
        self.wait_for_key(url, "muster/job.0/1/g/reform.0/in")
        self.assertEqual([key for key in self.keys(url) if "gave_up" in key], [])
        ranks[2].resume()
        self.all_ok([ranks[2]], "send:1")
        self.all_ok([ranks[1]], "recv:2", within=10 * SOON)
        self.all_ok(ranks, "grow:0", "sum", within=10 * SOON)
        self.end(*ranks)

    def test_joiner_dies(self):
        """A process that was killed while it waited is not admitted."""
        ranks = self.world(*[("sum", "hold", "grow:1", f"who:{r}/3", "sum") for r in range(2)])
        self.all_ok(ranks, "sum")
        first = self.joiner(2, "sum")
        second = self.joiner(2, "who:2/3", "sum")
        url = f"tcp://127.0.0.1:{self.at['MASTER_PORT']}"
        self.wait_for_key(url, "muster/job.0/joiners")
        first.kill()
        for rank in ranks:
            rank.resume()
        self.all_ok([second], "init", "who:2/3", "sum", within=10 * SOON)
        self.end(*ranks, second)

    def test_a_rank_that_counts_as_lost(self):
        """The others have ended when a rank returns that the store has reported as lost: it does not go on alone."""
        ranks = self.world(*[("sum", "hold", "sum", "world", "sum")] * 2, ("sum", "hold", "world", "shrink"))
        self.all_ok(ranks, "sum")
        port = self.at["MASTER_PORT"]
        events = next(key for key in self.keys(f"tcp://127.0.0.1:{port}") if key.endswith("/rank/2"))[: -len("rank/2")] + "events"
        status, _ = self.run_tool("store", "append", "--port", port, events, "D 2 silent\n")
        self.assertEqual(status, 0)
        for rank in ranks[:2]:
            rank.resume()
        self.all_lose(ranks[:2], "sum", 2)
        self.all_ok(ranks[:2], "world", "sum")
        self.assert_ends(*ranks[:2])
        ranks[2].resume()
        for action in ("world", "shrink"):
            if self.hosted:  # rank 0 has ended with the store
                self.assert_failed(ranks[2].step(action), "MST_ERR_STORE_LOST")
            else:
                self.assert_failed(ranks[2].step(action), "MST_ERR_PEER_LOST", "go on without this rank")
        self.end(ranks[2])

    def test_many_deaths(self):
        """Ranks die one after the other while the others go on."""
        ranks = self.world(*[("loop:3000",)] * 8)
        for victim in 5, 3, 1:
            ranks.pop(victim).kill()
        self.all_ok(ranks, "loop:3000", within=20 * SOON)
        self.end(*ranks)


class RecoverHosted(RecoverHere):
    """Without a launcher: rank 0 hosts the store."""

    hosted = True


class RecoverHosts(RecoverHere):
    hosts = ("a", "b")


class StoreHostDies(RecoverTest):
    """Without a launcher: rank 0 hosts the store, another rank has a copy of it, and rank 0 dies."""

    hosted = True

    def test_shrink(self):
        ranks = self.world(*[("sum", "hold", "sum", "world", f"who:{r - 1}/3", "sum", "big") for r in range(4)])
        self.all_ok(ranks, "sum")
        ranks[0].kill()
        for rank in ranks[1:]:
            rank.resume()
        self.all_lose(ranks[1:], "sum", 0)
        self.all_ok(ranks[1:], "world")
        for new, rank in enumerate(ranks[1:]):
            self.all_ok([rank], f"who:{new}/3", "sum", "big")
        self.end(*ranks[1:])

    def test_one_after_the_other(self):
        """Each standby gets a standby of its own."""
        ranks = self.world(*[("sum",) + ("hold", "sum", "world", "sum") * 3] * 5)
        self.all_ok(ranks, "sum")
        for _ in range(3):
            ranks.pop(0).kill()
            for rank in ranks:
                rank.resume()
            self.all_lose(ranks, "sum", 0)
            self.all_ok(ranks, "world", "sum")
        self.end(*ranks)

    def test_another_rank_dies_at_the_same_time(self):
        """The standby has not heard of rank 3. It waits for it for 2 s, but the others find that it has ended."""
        self.hosts = "abcd"
        ranks = self.world(*[["sum", "hold", "world", "sum"]] * 4)
        self.all_ok(ranks, "sum")
        for r in 0, 3:
            ranks[r].send(signal.SIGSTOP)  # they end before the others can do anything
        for r in 0, 3:
            ranks[r].process.kill()
        for rank in ranks[1:3]:
            rank.resume()
        self.all_ok(ranks[1:3], "world", "sum", within=500)

    def test_standby_dies_first(self):
        """Another rank becomes the standby when the world shrinks."""
        ranks = self.world(*[("sum",) + ("hold", "sum", "world", "sum") * 2] * 4)
        self.all_ok(ranks, "sum")
        for victim, old in (ranks[1], 1), (ranks[0], 0):
            ranks.remove(victim)
            victim.kill()
            for rank in ranks:
                rank.resume()
            self.all_lose(ranks, "sum", old)
            self.all_ok(ranks, "world", "sum")
        self.end(*ranks)

    def test_address_of_a_lost_standby(self):
        """Another program gets the port of a standby that has died. The store's clients do not take it for the store."""
        for answer in None, b"HTTP/1.1 400 Bad Request\r\n\r\n", "a store":
            with self.subTest(answer=answer), self.ended():
                ranks = self.world(*[("sum",) + ("hold", "sum", "shrink", "sum") * 2] * 4)
                self.all_ok(ranks, "sum")
                for victim, old in (ranks[1], 1), (ranks[0], 0):
                    ranks.remove(victim)
                    ports = listening(victim.pid)
                    victim.kill()
                    if old == 1:
                        self.take_over(ports, answer)
                    for rank in ranks:
                        rank.resume()
                    self.all_lose(ranks, "sum", old)
                    self.all_ok(ranks, "shrink", "sum")
                self.assert_ends(*ranks)

    def test_standbys_die_one_after_the_other(self):
        """Each is replaced when the group shrinks; the last one serves the store when rank 0 dies."""
        ranks = self.world(*[("sum",) + ("hold", "sum", "shrink", "sum") * 3] * 5)
        url = f"tcp://127.0.0.1:{self.at['MASTER_PORT']}"
        self.all_ok(ranks, "sum")
        for number, (victim, old) in enumerate([(ranks[1], 1), (ranks[2], 2), (ranks[0], 0)]):
            ranks.remove(victim)
            victim.kill()
            for rank in ranks:
                rank.resume()
            self.all_lose(ranks, "sum", old)
            self.all_ok(ranks, "shrink", "sum")
            if old > 0:
                self.assertIn(f"muster/job.0/1/standby/{number}", self.keys(url))
        self.end(*ranks)

    def test_first_rank_becomes_the_standby(self):
        """A new rank 0 on the host of the store replaces a standby of another host, which has died."""
        self.hosts = "abcb"
        again = ("hold", "sum", "shrink", "sum") * 2
        ranks = self.world(*[("sum", "hold", "sum", "grow:1", "sum", *again)] * 4)
        self.all_ok(ranks, "sum")
        ranks.pop(0).kill()
        new = self.joiner(1, "who:0/4", "sum", *again)
        for rank in ranks:
            rank.resume()
        self.all_lose(ranks, "sum", 0)
        self.all_ok(ranks, "grow:1", within=10 * SOON)
        self.all_ok([new], "init", "who:0/4", within=10 * SOON)
        ranks.insert(0, new)
        self.all_ok(ranks, "sum")
        for victim, old in (ranks[2], 2), (ranks[1], 1):
            ranks.remove(victim)
            victim.kill()
            for rank in ranks:
                rank.resume()
            self.all_lose(ranks, "sum", old)
            self.all_ok(ranks, "shrink", "sum")
        self.end(*ranks)

    def take_over(self, ports, answer):
        """Listens on the ports: as other stores, or as a program that closes every connection, perhaps after an answer."""
        self.assertTrue(ports)
        for port in ports:
            if answer == "a store":
                self.serve(port=port)
                continue
            listener = socket.create_server(("127.0.0.1", port))
            self.addCleanup(listener.close)
            threading.Thread(target=close_each, args=(listener, answer), daemon=True).start()

    def test_host_of_the_store_is_not_the_first_rank(self):
        """The standby is on another host. It serves the next world as rank 1, and gets a standby of its own."""
        self.hosts = "aabb"
        ranks = self.world(*[("sum",) + ("hold", "sum", "world", "sum") * 2] * 4)
        self.all_ok(ranks, "sum")
        for victim, old in (ranks[0], 0), (ranks[2], 1):
            ranks.remove(victim)
            victim.kill()
            for rank in ranks:
                rank.resume()
            self.all_lose(ranks, "sum", old)
            self.all_ok(ranks, "world", "sum")
        self.end(*ranks)

    def test_other_groups(self):
        """Groups without rank 0 go on, and new ones can be made."""
        actions = ("group:1,2", "sum", "hold", "sum", "big", "group:2,1", "big")
        ranks = self.world(("hold",), actions, actions)
        self.all_ok(ranks[1:], "group:1,2", "sum")
        ranks[0].kill()
        for rank in ranks[1:]:
            rank.resume()
        self.all_ok(ranks[1:], "sum", "big", "group:2,1", "big")
        self.end(*ranks[1:])

    def test_grow(self):
        ranks = self.world(*[("sum", "hold", "sum", "grow:1", "who:%d/3" % r, "sum") for r in range(3)])
        self.all_ok(ranks, "sum")
        ranks[0].kill()
        new = self.joiner(0, "who:0/3", "sum")
        for rank in ranks[1:]:
            rank.resume()
        self.all_lose(ranks[1:], "sum", 0)
        self.all_ok(ranks[1:], "grow:1", within=10 * SOON)
        self.all_ok([new], "init", within=10 * SOON)
        for number, rank in enumerate([new, *ranks[1:]]):
            self.all_ok([rank], f"who:{number}/3", "sum")
        self.end(*ranks[1:], new)


class StoreHostDiesOfSeveral(StoreHostDies):
    hosts = ("a", "b", "b")


if __name__ == "__main__":
    main(at_once=3)
