"""A rank or a store that dies, stops or leaves, in every phase of a world: which ranks fail, how, and how soon."""

import os
import pathlib
import random
import signal
import time

from harness import SLOWER, RanksTest, main, wait_until

IN_VAIN = 1200  # milliseconds that a rank waits for one that died before it joined
RUN = "job.0"


class DeathTest(RanksTest):
    """A world over a store of rank 0 (tcp), of another process (env), or in a file.

    Each rank is on its own simulated host, so that barriers use connections.
    """

    kinds = ("tcp", "env", "file")

    def new_store(self, kind):
        """Creates a store: its url, and its process if it has one."""
        if kind == "file":
            return f"file://{self.path(f'meet{len(self.processes)}')}", None
        if kind == "tcp":
            return f"tcp://127.0.0.1:{self.free_port()}", None
        store, port = self.serve()
        return f"tcp://127.0.0.1:{port}", store

    def at(self, kind, url, rank, size, *actions, timeout=None):
        apart = {"MUSTER_FORCE_HOST": rank}
        if kind != "env":
            return self.tcp(rank, size, url, *actions, timeout=timeout, env=apart)
        host, port = url[6:].split(":")
        limit = [f"timeout={timeout}"] if timeout else []
        env = {
            "RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": host, "MASTER_PORT": port,
            "TORCHELASTIC_USE_AGENT_STORE": "True", **apart,
        }  # fmt: skip
        return self.rank(*limit, *actions, env=env)

    def each(self, case):
        """Runs the case with every kind of store and every victim: each rank, and the store if it is a process."""
        for kind in self.kinds:
            for victim in (0, 1, 2, *(["store"] if kind == "env" else [])):
                with self.subTest(kind=kind, victim=victim), self.ended():
                    case(kind, victim, kind == "tcp" and victim == 0 or victim == "store")
        self.assert_nothing_left()

    def each_kind(self, case):
        for kind in self.kinds:
            with self.subTest(kind=kind), self.ended():
                url, store = self.new_store(kind)
                case(kind, url)
                if store:
                    store.kill()
        self.assert_nothing_left()

    def kill(self, victim, ranks, store):
        return (store if victim == "store" else ranks[victim]).kill()

    def end(self, victim, ranks, store):
        """All survivors exit by themselves."""
        for r, rank in enumerate(ranks):
            code, out = rank.finish()
            if r != victim:
                self.assertEqual(code, 1, out)
        if store is not None and victim != "store":
            store.kill()

    def assert_reports(self, step, victim, ranks, url, store_lost):
        if store_lost:
            host = ranks[0].pid if victim == 0 else None
            self.assert_failed(step, "MST_ERR_STORE_LOST", rf"rank 0 \(.*pid {host}\)|{url[6:]}")
            return
        self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank {victim} \(host .*, pid {ranks[victim].pid}\) died")
        self.assertEqual(step.culprit, victim)


class Deaths(DeathTest):
    def test_before_connecting(self):
        def case(kind, victim, store_lost):
            url, store = self.new_store(kind)
            held = 2 if victim == "store" else victim  # otherwise the world might form before the store is gone
            ranks = [
                self.at(kind, url, r, 3, *(["hold"] if r == held else []), "init", timeout=IN_VAIN) for r in range(3)
            ]
            ranks[held].begins("hold")
            self.kill(victim, ranks, store)
            if victim == "store":
                ranks[held].resume()
            for r, rank in enumerate(ranks):
                if r == victim:
                    continue
                step = rank.step("init")
                if store_lost:  # the store may die before a rank has joined, or meanwhile
                    self.assertIn(step.status, ("MST_ERR_UNREACHABLE", "MST_ERR_STORE_LOST"))
                    self.assertIn(url[6:], step.message)
                else:
                    self.assert_failed(step, "MST_ERR_MISSING_RANK", rf"missing: rank {victim}\b")
                self.assert_within(step, IN_VAIN + 1000)
            self.end(victim, ranks, store)

        self.each(case)

    def test_while_others_are_awaited(self):
        def case(kind, victim, store_lost):
            url, store = self.new_store(kind)
            ranks = [self.at(kind, url, r, 4, "init") for r in range(3)]
            self.joined(url, 0, 1, 2)
            died = self.kill(victim, ranks, store)
            for r, rank in enumerate(ranks):
                if r != victim:
                    step = rank.step("init")
                    self.assert_reports(step, victim, ranks, url, store_lost)
                    self.assert_soon(step, died)
            if kind == "env" and not store_lost:  # a rank that comes late fails, too
                step = self.at(kind, url, 3, 4, "init").step("init")
                self.assert_reports(step, victim, ranks, url, store_lost)
                self.assert_within(step, 1000)
            self.end(victim, ranks, store)

        self.each(case)

    def test_between_registration_and_on_disconnect(self):
        """The store does not watch a rank yet that has just registered. The ranks of its host notice its death."""
        url, store = self.new_store("env")
        port = url.rsplit(":", 1)[1]
        waiting = self.at("env", url, 0, 3, "init")
        self.joined(url, 0)
        _, registration = self.run_tool("store", "get", "--port", port, f"muster/{RUN}/1/rank/0")
        died = self.spawn("true")
        died.wait()
        self.assertIn(f", pid {waiting.pid}", registration)
        registration = registration.strip().replace(f"pid {waiting.pid}", f"pid {died.pid}")
        self.run_tool("store", "set", "--port", port, f"muster/{RUN}/1/rank/1", registration)
        since = time.monotonic()
        step = waiting.step("init")
        self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank 1 \(host .*, pid {died.pid}\) died")
        self.assertEqual(step.culprit, 1)
        self.assert_soon(step, since)
        self.assert_ends(waiting, status=1)
        store.kill()
        self.assert_nothing_left()

    def test_in_the_first_barrier(self):
        """One survivor is in the barrier; the other calls it after the death is known."""

        def case(kind, victim, store_lost):
            store_lost = victim == "store"  # another rank serves the store that rank 0 has hosted
            url, store = self.new_store(kind)
            later = 2 if victim == 1 else 1
            ranks = [
                self.at(kind, url, r, 3, "init", *(["hold"] if r == later else []), "~barrier", "barriers=2")
                for r in range(3)
            ]
            self.in_barrier(url, *(r for r in range(3) if r != later))
            died = self.kill(victim, ranks, store)
            for r, rank in enumerate(ranks):
                if r not in (victim, later):
                    step = rank.step("barrier")
                    self.assert_reports(step, victim, ranks, url, store_lost)
                    self.assert_soon(step, died)
                    self.assert_reports(rank.step("barriers"), victim, ranks, url, store_lost)
            ranks[later].resume()
            # All ranks, including the victim, have called this barrier, so it may complete.
            step = ranks[later].step("barrier")
            if step.status != "MST_OK":
                self.assert_reports(step, victim, ranks, url, store_lost)
            self.assert_within(step, 1000)
            step = ranks[later].step("barriers")
            self.assert_reports(step, victim, ranks, url, store_lost)
            self.assert_within(step, 1000)
            self.end(victim, ranks, store)

        self.each(case)

    def test_between_barriers(self):
        """A barrier needs all ranks, but no store after the first barrier."""

        def case(kind, victim, store_lost):
            store_lost = victim == "store"  # another rank serves the store that rank 0 has hosted
            url, store = self.new_store(kind)
            ranks = [self.at(kind, url, r, 3, "init", "barrier", "hold", "~barrier", "barriers=1") for r in range(3)]
            for rank in ranks:
                self.assert_ok(rank.step("barrier"))
            died = self.kill(victim, ranks, store)
            for r, rank in enumerate(ranks):
                if r != victim:
                    rank.resume()
            for r, rank in enumerate(ranks):
                if victim == "store":
                    for step in (rank.step("barrier"), rank.step("barriers")):
                        self.assert_ok(step)
                elif r != victim:
                    step = rank.step("barrier")
                    self.assert_reports(step, victim, ranks, url, store_lost)
                    self.assert_soon(step, died)
                    step = rank.step("barriers")  # later calls also fail, at once
                    self.assert_reports(step, victim, ranks, url, store_lost)
                    self.assert_within(step, 1000)
                    self.assert_within(rank.step("destroy"), 1000)
            if victim == "store":
                self.assert_ends(*ranks)
            else:
                self.end(victim, ranks, store)

        self.each(case)

    def test_all_but_one(self):
        def case(kind, url):
            ranks = [self.at(kind, url, r, 4, "init", *([] if r else ["hold"]), "~barrier", "barriers=1") for r in range(4)]
            self.in_barrier(url, 1, 2, 3)
            for rank in ranks[1:]:
                rank.kill()
            ranks[0].resume()
            # All ranks have called the barrier before they died, so it may complete; the next one may not.
            step = ranks[0].step("barrier")
            if step.status != "MST_OK":
                self.assert_failed(step, "MST_ERR_PEER_LOST", r"rank [123] .* died")
            self.assert_within(step, 2000)
            step = ranks[0].step("barriers")
            self.assert_failed(step, "MST_ERR_PEER_LOST", r"rank [123] .* died")
            self.assert_within(step, 2000)
            self.assert_ends(ranks[0], status=1)

        self.each_kind(case)

    def test_at_any_moment(self):
        """A rank is killed at a random moment: no rank hangs, and each failure has a reason."""
        seed = int(os.environ.get("RANKS_TEST_SEED", time.time_ns() % 1000000))
        chance = random.Random(seed)
        for n in range(18):
            kind = self.kinds[n % 3]
            url, store = self.new_store(kind)
            victim = chance.randrange(3)
            with self.subTest(seed=seed, n=n, kind=kind, victim=victim):
                ranks = [self.at(kind, url, r, 3, "init", "barriers=20", "destroy", timeout=800) for r in range(3)]
                ranks[victim].begins("init")
                until = time.monotonic() + chance.random() * 0.02
                while time.monotonic() < until:
                    pass
                died = ranks[victim].kill()
                for r, rank in enumerate(ranks):
                    if r == victim:
                        continue
                    code, out = rank.finish()
                    self.assertIn(code, (0, 1), out)
                    if code:
                        self.assertRegex(
                            out, "MST_ERR_(PEER_LOST|STORE_LOST|MISSING_RANK|UNREACHABLE|STALLED|STALE)\t", out
                        )
                self.assertLess(time.monotonic() - died, 5 * SLOWER)
            if store:
                store.kill()


class Absent(DeathTest):
    """Ranks that are alive but do not take part, or leave."""

    def test_stopped_rank(self):
        def case(kind, url):
            actions = ["init", "barrier", "hold", "~barrier=600", "hold", "destroy"]
            ranks = [self.at(kind, url, r, 3, *actions) for r in range(3)]
            for rank in ranks:
                self.assert_ok(rank.step("barrier"))
            ranks[2].send(signal.SIGSTOP)
            for rank in ranks[:2]:
                rank.resume()
            for rank in ranks[:2]:
                step = rank.step("barrier")
                self.assert_failed(
                    step, "MST_ERR_STALLED", rf"missing: rank 2 \(host .*, pid {ranks[2].pid}\)", "2 of 3", "#2"
                )
                self.assertEqual(step.culprit, 2)
                self.assertGreaterEqual(step.ms, 600)
                self.assert_within(step, 1500)
            ranks[2].kill()
            for rank in ranks[:2]:
                rank.resume()
            self.assert_ends(*ranks[:2])

        self.each_kind(case)

    def test_late_rank_after_a_stall(self):
        """Barriers after a late rank work for all ranks."""

        def case(kind, url):
            hasty = self.at(kind, url, 0, 2, "init", "~barrier=200", "barriers=5", "destroy")
            late = self.at(kind, url, 1, 2, "init", "hold", "barrier", "barriers=5", "destroy")
            self.assert_failed(hasty.step("barrier"), "MST_ERR_STALLED", "missing: rank 1")
            late.resume()
            self.assert_ends(hasty, late)

        self.each_kind(case)

    def test_cancelled_barrier(self):
        def case(kind, url):
            other = self.at(kind, url, 1, 2, "init", "hold", "destroy")
            rank = self.at(kind, url, 0, 2, "init", "cancellable", "barrier")
            self.in_barrier(url, 0)
            rank.resume()
            step = rank.step("barrier")
            self.assert_failed(step, "MST_ERR_CANCELLED")
            other.resume()
            self.assert_ends(other)
            self.assert_ends(rank, status=1)

        self.each_kind(case)

    def test_stopped_store(self):
        """Timeouts work if the store does not answer, and a rank that timed out does not count as dead."""
        url, store = self.new_store("env")
        ranks = [
            self.at("env", url, r, 2, "init", "barrier", "hold", "~barrier=300", "hold", "barrier=5000", "destroy")
            for r in range(2)
        ]
        for rank in ranks:
            self.assert_ok(rank.step("barrier"))
        store.send(signal.SIGSTOP)
        ranks[1].resume()
        step = ranks[1].step("barrier")
        store.send(signal.SIGCONT)
        self.assertIn(step.status, ("MST_ERR_TIMEOUT", "MST_ERR_STALLED", "MST_ERR_STORE_LOST"), step)
        self.assert_within(step, 300 + 2 * 1000 + 2000)  # it asks twice for the missing ranks, for a second each
        if step.status == "MST_ERR_STORE_LOST":
            return  # it has left the store, and the others may report that
        ranks[0].resume()  # the other rank joins the barrier in which rank 1 timed out
        step = ranks[0].step("barrier")
        self.assertNotIn("died", step.message)
        self.assertIn(step.status, ("MST_OK", "MST_ERR_STALLED"), step)

    def test_leaving_rank(self):
        def case(kind, url):
            ranks = [self.at(kind, url, r, 3, "init", "~barrier", "barriers=1") for r in range(2)]
            ranks.append(self.at(kind, url, 2, 3, "init", "hold", "destroy"))
            self.in_barrier(url, 0, 1)
            left = time.monotonic()
            ranks[2].resume()
            for rank in ranks[:2]:
                step = rank.step("barrier")
                self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank 2 \(host .*, pid {ranks[2].pid}\) has left")
                self.assertEqual(step.culprit, 2)
                self.assert_soon(step, left)
                self.assert_failed(rank.step("barriers"), "MST_ERR_PEER_LOST", "rank 2 .* has left")
            self.assert_ends(ranks[2])
            for rank in ranks[:2]:
                rank.finish()

        self.each_kind(case)

    def test_rank_that_leaves_with_a_message_of_this_one(self):
        """Rank 0, which hosts the store and waits for rank 1, has not received the message: their connection ends, too."""
        url, _ = self.new_store("tcp")
        host = self.at("tcp", url, 0, 2, "init", "barrier", "barrier", "destroy")
        other = self.at("tcp", url, 1, 2, "init", "barrier", "messages=1", "barrier", "receive=0")
        self.assert_ok(other.step("messages"))
        step = other.step("receive")
        self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank 0 \(host .*, pid {host.pid}\) has left")
        self.assert_within(step, 2000)

    def test_leaving_host_waits_for_the_others(self):
        """The rank that hosts the store leaves first; the others can still leave without error."""
        url, _ = self.new_store("tcp")
        others = [self.tcp(r, 3, url, "init", "barrier", "hold", "destroy") for r in (1, 2)]
        host = self.tcp(0, 3, url, "init", "barrier", "destroy")
        for rank in others:
            self.assert_ok(rank.step("barrier"))
        host.begins("destroy")
        for rank in others:
            rank.resume()
        self.assert_ends(host, *others)
        self.assert_nothing_left()

    def test_group_without_the_dead_rank(self):
        def case(kind, url):
            ranks = [
                self.at(
                    kind, url, r, 3, "init", "group=0,1", "barriers=10", "hold", "barriers=10", "group=", "barrier"
                )
                for r in range(2)
            ]  # fmt: skip
            ranks.append(self.at(kind, url, 2, 3, "init", "hold"))
            ranks[2].begins("hold")
            for rank in ranks[:2]:
                self.assert_ok(rank.step("barriers"))
            ranks[2].kill()
            for rank in ranks[:2]:
                rank.resume()
            for rank in ranks[:2]:
                self.assert_ok(rank.step("barriers"))
                self.assert_failed(rank.step("barrier"), "MST_ERR_PEER_LOST", "rank 2 .* died")
            for rank in ranks[:2]:
                rank.finish()

        self.each_kind(case)

    def arrivals(self, url, rank):
        """The number of times that the rank has written its arrival at a barrier of a group."""
        return self.keys(url).count(f"/at/{rank}") if url.startswith("file") else 0

    def test_death_outside_of_a_group_does_not_disturb_its_barriers(self):
        """The death of a rank outside of the group interrupts a wait in it; each arrival still counts once."""

        def case(kind, url):
            first = self.at(kind, url, 0, 3, "init", "group=0,1", "monitored", "hold", "monitored", "destroy")
            second = self.at(
                kind, url, 1, 3, "init", "group=0,1", "hold", "monitored", "~monitored=500", "hold", "destroy",
            )  # fmt: skip
            outsider = self.at(kind, url, 2, 3, "init", "hold")
            outsider.begins("hold")
            group = wait_until(lambda: self.group_key(url), "rank 0 is in the barrier of the group")
            self.wait_for_key(url, f"{group}/at/0")
            outsider.kill()
            if kind == "file":  # rank 0 writes its arrival again when it continues to wait
                wait_until(lambda: self.arrivals(url, 0) >= 2, "rank 0 waits again")
            else:
                self.wait_for_key(url, f"muster/{RUN}/1/events")
            second.resume()
            self.assert_ok(second.step("monitored"))
            self.assert_ok(first.step("monitored"))
            # The second barrier: rank 0 holds, so rank 1 must not pass.
            self.assert_failed(second.step("monitored"), "MST_ERR_STALLED", "missing: rank 0")
            first.resume()
            second.resume()
            self.assert_ends(first, second)

        self.each_kind(case)

    def group_key(self, url):
        """The part of the keys that names the group, after one of its ranks has reached a barrier."""
        if url.startswith("file"):
            text = self.keys(url)
            at = text.find(f"muster/{RUN}/1/g")
            return text[at : text.index("/at/", at)] if at >= 0 and "/at/" in text else None
        found = [key for key in self.keys(url) if key.startswith(f"muster/{RUN}/1/g") and "/at/" in key]
        return found[0].rsplit("/at/", 1)[0] if found else None


class LeftOver(DeathTest):
    """What a job leaves behind if all of its processes are killed."""

    def test_whole_job_killed(self):
        def case(kind, url):
            ranks = [self.at(kind, url, r, 4, "init", "barrier") for r in range(3)]
            self.joined(url, 0, 1, 2)
            for rank in ranks:
                rank.kill()
            if kind == "file":  # stays, so that the next job detects it, unless the last rank noticed the first death
                for name in (url[7:], url[7:] + ".alive"):
                    pathlib.Path(name).unlink(missing_ok=True)

        self.each_kind(case)


if __name__ == "__main__":
    main(at_once=3)
