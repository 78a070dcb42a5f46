"""A message involves only its two ranks: the others may be late, gone or dead."""

from harness import PROGRAMS, Rank, RanksTest, main

PAIRS = PROGRAMS / "pairs"
RANKS = 4
SOON = 1000  # milliseconds


class PairsHere(RanksTest):
    layouts = (None,)  # the simulated host of each rank; None: all on this host

    def world(self, what, hosts):
        """The ranks of a world, over a store that outlives them."""
        store, port = self.serve()
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        ranks = []
        for r in range(RANKS):
            env = {"RANK": r, "WORLD_SIZE": RANKS, **place, **({"MUSTER_FORCE_HOST": hosts[r]} if hosts else {})}
            ranks.append(Rank(self.popen(PAIRS, what, env=env)))
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


class PairsOnHosts(PairsHere):
    layouts = ("abcd", "aabb", "abab", "abcc")


if __name__ == "__main__":
    main()
