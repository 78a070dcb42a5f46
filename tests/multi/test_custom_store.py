"""Worlds over a custom store (mst_store_open_custom): they form, name a dead rank, shrink and go on."""

import time

from harness import RanksTest, main


class CustomStoreTest(RanksTest):
    hosts = None

    def world(self, size, *actions, timeout=20000, url=None, start=None):
        url = url or f"tcp://127.0.0.1:{self.serve()[1]}"
        return [
            self.rank(
                f"custom={url}", f"rank={rank}", f"size={size}", f"timeout={timeout}", *actions,
                env={"MUSTER_FORCE_HOST": self.hosts[rank]} if self.hosts else {},
            )
            for rank in (start or range(size))
        ]

    def test_a_world_forms_and_ends(self):
        ranks = self.world(3, "init", "barriers=10", "destroy")
        for step in ("init", "barriers", "destroy"):
            for rank in ranks:
                self.assert_ok(rank.step(step))
        self.assert_ends(*ranks)

    def test_over_a_file(self):
        ranks = self.world(3, "init", "barriers=10", "destroy", url=f"file://{self.path('store')}")
        for step in ("init", "barriers", "destroy"):
            for rank in ranks:
                self.assert_ok(rank.step(step))
        self.assert_ends(*ranks)

    def test_a_rank_is_missing(self):
        rank = self.world(2, "~init", timeout=1000, start=[0])[0]
        self.assert_failed(rank.step("init"), "MST_ERR_MISSING_RANK", "1 of 2 ranks", "missing: rank 1")
        rank.finish()

    def test_survivors_of_a_dead_rank_go_on(self):
        ranks = self.world(3, "init", "barrier", "say=ready", "hold", "~barrier", "shrink", "barriers=5", "destroy")
        for rank in ranks:
            rank.step("ready")
        ranks[1].kill()
        begin = time.monotonic()
        for rank in (ranks[0], ranks[2]):
            rank.resume()
        for rank in (ranks[0], ranks[2]):
            step = rank.step("barrier")
            self.assert_failed(step, "MST_ERR_PEER_LOST", "rank 1")
            self.assertEqual(step.culprit, 1, step)
            self.assert_soon(step, begin)
        for step in ("shrink", "barriers", "destroy"):
            for rank in (ranks[0], ranks[2]):
                self.assert_ok(rank.step(step))
        self.assert_ends(ranks[0], ranks[2])

    def test_rank_0_leaves_last(self):
        """The store may end with its process, as PyTorch's does."""
        ranks = self.world(3, "init", "barrier", "say=ready", "hold", "destroy")
        for rank in ranks:
            rank.step("ready")
        ranks[0].resume()
        ranks[0].begins("destroy")
        time.sleep(0.5)
        begin = time.monotonic()
        for rank in ranks[1:]:
            rank.resume()
            self.assert_ok(rank.step("destroy"))
        step = ranks[0].step("destroy")
        self.assert_ok(step)
        self.assertGreater(step.at, begin)
        self.assertGreater(step.ms, 400)
        self.assert_ends(*ranks)

    def test_the_store_is_lost(self):
        """A world that has formed needs the store only for recovery."""
        store, port = self.serve()
        ranks = self.world(2, "init", "barrier", "say=ready", "hold", "barriers=5", "destroy", url=f"tcp://127.0.0.1:{port}")
        for rank in ranks:
            rank.step("ready")
        store.kill()
        for rank in ranks:
            rank.resume()
        for rank in ranks:
            self.assert_ok(rank.step("barriers"))
            self.assert_ok(rank.step("destroy"))
        self.assert_ends(*ranks)


class SimulatedHosts(CustomStoreTest):
    hosts = "aab"


if __name__ == "__main__":
    main()
