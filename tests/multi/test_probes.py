"""Receives with any tag, probes and send_recv: in every layout, by several threads, and with ranks that fail."""

from collective_kit import LIMIT, CollectiveTest
from harness import PROGRAMS, SANITIZED, Rank, RanksTest, main

PROBES = PROGRAMS / "probes"
ROUNDS = 20 if SANITIZED else 100
PATIENT = 60000  # milliseconds; reached only when something is wrong
SOON = 3000


class Calls(CollectiveTest):
    def probe(self, n, *arguments, **settings):
        out = self.run_suite(n, *arguments, program=PROBES, **settings)
        self.assertEqual(out.count("done\n"), n, out)

    def test_one_host(self):
        for n in (2, 3) if SANITIZED else (1, 2, 3, 5):
            self.probe(n, "calls")

    def test_hosts(self):
        for hosts in ("ab", "aabb") if SANITIZED else ("ab", "abc", "aabb", "abab"):
            self.probe(len(hosts), "calls", hosts=hosts)

    def test_several_sockets(self):
        self.probe(2, "calls", hosts="ab", env={"MUSTER_TCP_STREAMS": 3})

    def test_composed(self):
        """Collectives are composed of messages."""
        for n, hosts in ((3, None), (2, "ab")):
            self.probe(n, "calls", hosts=hosts, env={"MUSTER_FORCE_FALLBACK": "all_to_all,gather,scatter,broadcast"})

    def test_profiled(self):
        self.probe(2, "calls", env={"MUSTER_PROF": 1})

    def test_threads(self):
        self.probe(2, "threads", 4, ROUNDS)
        self.probe(3, "threads", 2, ROUNDS)
        self.probe(4, "threads", 2, ROUNDS, hosts="aabb")

    def test_without_launcher(self):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port(), "WORLD_SIZE": 3}
        ranks = [self.popen(PROBES, "calls", env={"RANK": r, **place}) for r in range(3)]
        for rank in ranks:
            out, _ = rank.communicate(timeout=LIMIT)
            self.assertEqual((rank.returncode, out), (0, b"done\n"))
        self.assert_nothing_left()


class Failures(RanksTest):
    """Rank 0 waits in a call that rank 1 never answers."""

    layouts = (None, "ab")  # the simulated host of each rank; None: all on this host
    settings = {}

    def world(self, how, ms, hosts):
        store, port = self.serve()
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        ranks = []
        for r in range(2):
            env = {"RANK": r, "WORLD_SIZE": 2, **place, **self.settings}
            env.update({"MUSTER_FORCE_HOST": hosts[r]} if hosts else {})
            ranks.append(Rank(self.popen(PROBES, "fail", how, ms, env=env)))
        for rank in ranks:
            self.assert_ok(rank.step("first"))
        return store, ranks

    def each(self, hows, ms, check):
        for hosts in self.layouts:
            for how in hows:
                with self.subTest(how=how, hosts=hosts), self.ended():
                    store, ranks = self.world(how, ms, hosts)
                    check(how, ranks)
                    for rank in ranks:
                        rank.kill()
                    store.kill()
        self.assert_nothing_left()

    def test_killed_sender(self):
        def check(how, ranks):
            ranks[1].kill()
            step = ranks[0].step(how)
            self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank 1 \(.*pid {ranks[1].pid}\) died")
            self.assertEqual(step.culprit, 1)
            self.assert_within(step, SOON)

        self.each(("probe", "any", "iprobe", "send_recv"), PATIENT, check)

    def test_deadline(self):
        def check(how, ranks):
            step = ranks[0].step(how)
            tag = {"probe": "from rank 1 .* with tag 5", "any": "from any rank with any tag"}.get(how, "with tag 0")
            self.assert_failed(step, "MST_ERR_STALLED", tag)
            self.assert_within(step, SOON)

        self.each(("probe", "any", "send_recv"), 300, check)

    def test_cancel(self):
        def check(how, ranks):
            step = ranks[0].step(how)
            self.assert_failed(step, "MST_ERR_CANCELLED", "mst_probe: cancelled by the caller")
            self.assert_within(step, SOON)

        self.each(("cancel",), PATIENT, check)


if __name__ == "__main__":
    main()
