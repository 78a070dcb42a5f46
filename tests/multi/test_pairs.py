"""A message involves only its two ranks: the others may be late, gone or dead."""

from harness import PROGRAMS, Rank, RanksTest, main

PAIRS = PROGRAMS / "pairs"
RANKS = 4
SOON = 1000  # milliseconds


class PairsHere(RanksTest):
    layouts = (None,)  # the simulated host of each rank; None: all on this host
    hosted = False  # rank 0 hosts the store; else it outlives the ranks

    def lose_store(self, call):
        """Rank 1 dies, then rank 0 with the store, before a later call looks for them."""
        self.hosted = True

        def body(ranks, _):
            for rank in ranks:
                self.ok(rank, "sum")
            for rank in ranks[1], ranks[0]:
                rank.kill()
            for rank in ranks[2:]:
                rank.resume()
            for step in [rank.step(call) for rank in ranks[2:]]:
                self.assertIn(step.status, ("MST_ERR_PEER_LOST", "MST_ERR_STORE_LOST"), step)
                self.assertIn(step.culprit, (0, 1), step)
                self.assertRegex(step.message, rf"rank {step.culprit}\b.* died")
                self.assert_within(step, 3 * SOON)

        self.every(body, *[("sum", "hold", call)] * RANKS)

    def test_any_source_without_store(self):
        """The store cannot report the death of a rank, but the kernel does so on the same host."""
        if self.layouts != (None,):
            self.skipTest("on one host")
        self.hosted = True

        def body(ranks, _):
            for rank in ranks:
                self.ok(rank, "sum")
            for number in (0, 1):
                ranks[number].kill()
                step = ranks[2].step(f"any:{number}")
                self.assertEqual(step.culprit, number, step)
                self.assertIn(step.status, ("MST_ERR_PEER_LOST", "MST_ERR_STORE_LOST"), step)
                self.assert_within(step, 3 * SOON)
                self.ok(ranks[2], f"ack:{number + 1}")
            ranks[3].resume()
            self.ok(ranks[3], "send:2")
            self.assert_ok(ranks[2].step("any:3"))

        idle, waits = ("sum", "hold", "send:2", "hold"), ("sum", "any:0", "ack:1", "any:1", "ack:2", "any:3")
        self.every(body, idle, idle, waits, idle)

    def test_reduce_without_store(self):
        self.lose_store("reduce:2")

    def test_gather_without_store(self):
        self.lose_store("gather:2")

    def test_sum_without_store(self):
        self.lose_store("sum")

    def world(self, what, hosts):
        """The ranks of a world. what: the arguments of all ranks, or of each."""
        if self.hosted:
            store, place = None, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port()}
        else:
            store, port = self.serve()
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        ranks = []
        for r in range(RANKS):
            env = {"RANK": r, "WORLD_SIZE": RANKS, **place, **({"MUSTER_FORCE_HOST": hosts[r]} if hosts else {})}
            args = (what,) if isinstance(what, str) else ("do", *what[r])
            ranks.append(Rank(self.popen(PAIRS, *args, env=env)))
        for rank in ranks:
            self.assert_ok(rank.step("init"))
        return store, ranks

    def exchange(self, ranks):
        for rank in ranks[:2]:
            rank.resume()
        for rank in ranks[:2]:
            for action in ("blocking", "at_once"):
                step = rank.step(action)
                self.assert_ok(step)
                self.assert_within(step, SOON)

    def each(self, what, before, after):
        for hosts in self.layouts:
            with self.subTest(hosts=hosts), self.ended():
                store, ranks = self.world(what, hosts)
                before(ranks)
                self.exchange(ranks)
                after(ranks)
                store.kill()
        self.assert_nothing_left()

    def sum(self, ranks):
        """The late ranks find the correct state."""
        for rank in ranks:
            rank.resume()
        for rank in ranks:
            self.assert_ok(rank.step("sum"))
        self.assert_ends(*ranks)

    def stop(self, ranks):
        for rank in ranks:
            rank.kill()

    def test_late(self):
        self.each("idle", lambda ranks: None, self.sum)

    def test_late_after_messages(self):
        def before(ranks):
            for rank in ranks[2:]:
                self.assert_ok(rank.step("first"))

        self.each("first", before, self.sum)

    def test_dead(self):
        self.each("idle", lambda ranks: ranks[2].kill(), self.stop)

    def test_gone(self):
        def before(ranks):
            for rank in ranks[2:]:
                rank.resume()
            self.assert_ends(*ranks[2:])

        self.each("leave", before, self.stop)


    def every(self, body, *actions):
        """Calls body for the ranks of each layout, which carry out the actions."""
        for hosts in self.layouts:
            with self.subTest(hosts=hosts), self.ended():
                store, ranks = self.world(actions, hosts)
                body(ranks, store)
                for rank in ranks:
                    rank.kill()
                if store:
                    store.kill()
        self.assert_nothing_left()

    def ok(self, rank, action, within=SOON):
        step = rank.step(action)
        self.assert_ok(step)
        self.assert_within(step, within)

    def fails(self, rank, action, status, *parts):
        step = rank.step(action)
        self.assert_failed(step, status, *parts)
        self.assert_within(step, 3 * SOON)

    def talk(self, ranks):
        """Ranks 0 and 1 exchange messages."""
        for rank in ranks[:2]:
            rank.resume()
        for number, rank in enumerate(ranks[:2]):
            self.ok(rank, f"exchange:{1 - number}")
            self.ok(rank, f"at_once:{1 - number}")

    BOTH = (("exchange:1", "at_once:1"), ("exchange:0", "at_once:0"))

    def test_maker_dies(self):
        """The rank that has made the shared region dies before others have opened it."""

        def body(ranks, _):
            self.ok(ranks[2], "post:3")
            ranks[2].kill()
            self.talk(ranks)

        first, second = self.BOTH
        self.every(body, ("hold", *first), ("hold", *second), ("post:3", "hold"), ("hold",))

    def inherit(self, end):
        """Rank 0 has opened the region that rank 2 has made, and rank 1 opens it after the end of rank 2."""

        def body(ranks, _):
            self.ok(ranks[2], "post:3")
            ranks[0].resume()
            self.ok(ranks[0], "post:3")
            end(ranks[2])
            self.talk(ranks)

        first, second = self.BOTH
        self.every(body, ("hold", "post:3", "hold", *first), ("hold", *second), ("post:3", "hold"), ("hold",))

    def test_maker_dies_later(self):
        self.inherit(lambda maker: maker.kill())

    def test_maker_leaves(self):
        def leave(maker):
            maker.resume()
            self.assert_ends(maker)

        self.inherit(leave)

    def test_message_to_dead_rank(self):
        """A failed message to or from a dead rank does not affect the others; collectives of the group fail."""
        failed = ("send_big:2", "receive:2", "send_big:2")

        def body(ranks, _):
            for rank, actions in (ranks[0], known), (ranks[2], other):
                for action in actions:
                    self.ok(rank, action)
            ranks[2].kill()
            ranks[0].resume()
            for action in failed:
                self.fails(ranks[0], action, "MST_ERR_PEER_LOST", "rank 2 .* died")
            self.talk(ranks)
            for rank in ranks[:2]:
                self.fails(rank, "sum", "MST_ERR_PEER_LOST", "rank 2 .* died")

        first, second = self.BOTH
        for known, other in ((), ()), (("exchange:2",), ("exchange:0",)):
            zero = (*known, "hold", *failed, "hold", *first, "sum")
            self.every(body, zero, ("hold", *second, "sum"), (*other, "hold"), ("hold",))

    def test_any_source(self):
        """A death ends a receive from any source; after it was acknowledged the others can still send."""

        def body(ranks, _):
            zero, one, two, three = ranks
            two.kill()
            self.fails(zero, "any:2", "MST_ERR_PEER_LOST", "rank 2 .* died")
            zero.resume()
            self.ok(zero, "ack:1")
            three.resume()
            self.assert_ends(three)  # leaves, which ends no receive
            one.resume()
            self.ok(one, "send:0")
            self.assert_ok(zero.step("any:1"))
            one.kill()
            self.fails(zero, "any:0", "MST_ERR_PEER_LOST", "rank 1 .* died")
            self.ok(zero, "ack:2")
            self.fails(zero, "any:3", "MST_ERR_PEER_LOST", "rank . ")

        actions = ("any:2", "hold", "ack:1", "any:1", "any:0", "ack:2", "any:3")
        self.every(body, actions, ("hold", "send:0", "hold"), ("hold",), ("hold",))

    def test_second_death(self):
        """The error names the rank of the message, not one whose death an earlier call has reported."""

        def body(ranks, _):
            for number in (2, 3):
                ranks[number].kill()
                ranks[0].resume()
                for action in (f"send_big:{number}", f"receive:{number}"):
                    self.fails(ranks[0], action, "MST_ERR_PEER_LOST", f"rank {number} .* died")
            self.fails(ranks[0], "send:2", "MST_ERR_PEER_LOST", "rank 2 .* died")

        calls = ("hold", "send_big:2", "receive:2", "hold", "send_big:3", "receive:3", "send:2")
        self.every(body, calls, ("hold",), ("hold",), ("hold",))

    def test_half_sent(self):
        """Rank 2 dies while rank 0 sends to it: the links between ranks 0 and 1 stay usable."""

        def body(ranks, _):
            self.ok(ranks[2], "exchange:0")
            self.ok(ranks[0], "exchange:2")
            ranks[2].kill()
            self.fails(ranks[0], "send_big:2", "MST_ERR_PEER_LOST", "rank 2 .* died")
            self.talk(ranks)

        first, second = self.BOTH
        zero = ("exchange:1", "exchange:2", "send_big:2", "hold", *first)
        self.every(body, zero, ("exchange:0", "hold", *second), ("exchange:0", "hold"), ("hold",))

    def test_store_lost(self):
        """A receive whose rank cannot find this one any more fails; ranks that know each other go on."""

        def body(ranks, store):
            for number, rank in enumerate(ranks[:2]):
                self.ok(rank, f"exchange:{1 - number}")
            store.kill()
            ranks[0].resume()
            self.fails(ranks[0], "receive:2", "MST_ERR_STORE_LOST", "the store of this world at .* is lost")
            ranks[1].resume()
            self.ok(ranks[1], "send:0")
            self.ok(ranks[0], "receive:1")

        zero = ("exchange:1", "hold", "receive:2", "receive:1")
        self.every(body, zero, ("exchange:0", "hold", "send:0"), ("hold",), ("hold",))


class PairsOnHosts(PairsHere):
    layouts = ("abcd", "aabb", "abab", "abcc", "aaab")

    def test_second_death_after_a_monitored_barrier(self):
        """The same as test_second_death; a barrier through the store has reported the first death."""

        def body(ranks, _):
            ranks[2].kill()
            self.fails(ranks[0], "monitored", "MST_ERR_PEER_LOST", "rank 2 .* died")
            ranks[3].kill()
            self.fails(ranks[0], "receive:3", "MST_ERR_PEER_LOST", "rank 3 .* died")

        self.every(body, ("monitored", "receive:3"), ("hold",), ("hold",), ("hold",))


if __name__ == "__main__":
    main()
