"""Selection and exchange of backends, and composition of operations that a backend lacks."""

import os
import re
import signal
import subprocess
import time

from collective_kit import CollectiveTest
from harness import BUILD, MUSTER, PROGRAMS, SANITIZED, SLOWER, Rank, RanksTest, main

PATH = {"MUSTER_BACKEND_PATH": BUILD / "tests/backends"}
SAMPLE = {**PATH, "MUSTER_BACKEND": "minimal"}
MOVES = "barrier,broadcast,all_to_all,gather,scatter"
REDUCTIONS = "all_reduce,reduce,reduce_scatter"


class Choices(RanksTest):
    def run_ranks(self, n, *arguments, env=None):
        process = self.popen(MUSTER, "run", "-n", n, PROGRAMS / "backends", *arguments, env={**PATH, **(env or {})}, stdin=subprocess.DEVNULL,
                             stderr=subprocess.STDOUT)
        out = process.communicate(timeout=60)[0].decode(errors="replace")
        self.assertEqual(process.returncode, 0, out)
        self.assert_nothing_left()
        return out

    def test_exchange(self):
        self.assertEqual(self.run_ranks(3, "exchange").count("] ok"), 3)

    def test_registered(self):
        out = self.run_ranks(2, "own", env={"MUSTER_LOG": "backend=debug"})
        self.assertEqual(out.count("] ok"), 2)
        for line in ("warn: own: a warning", "info: own: an information", "debug: own: a detail"):
            self.assertIn(f" backend {line}\n", out)

    def test_after_a_failure(self):
        self.assertEqual(self.run_ranks(3, "again").count("] ok"), 3)

    def test_refused(self):
        self.assertEqual(self.run_ranks(3, "refused").count("] ok"), 3)

    def test_probes(self):
        self.assertEqual(self.run_ranks(3, "probes").count("] ok"), 3)

    def test_memories(self):
        self.assertEqual(self.run_ranks(2, "memories").count("] ok"), 2)

    def test_batches(self):
        self.assertEqual(self.run_ranks(1, "batches").count("] ok"), 1)

    def test_streams(self):
        store, port = self.serve()
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True", "WORLD_SIZE": 2}
        ranks = [Rank(self.popen(PROGRAMS / "backends", "streams", env={**PATH, **place, "RANK": r})) for r in range(2)]
        self.assertEqual([rank.line() for rank in ranks], ["ready"] * 2)
        os.kill(store.pid, signal.SIGSTOP)
        self.resume_all(ranks)
        waits = [rank.line() for rank in ranks]
        os.kill(store.pid, signal.SIGCONT)
        for line in waits:  # one may be caused by the machine
            self.assertLess(int(line.split()[1]), 2, f"calls waited for the store: {line}")
        self.resume_all(ranks)
        self.assertEqual([rank.line() for rank in ranks], ["ok"] * 2)
        for rank in ranks:
            rank.process.communicate(timeout=60)
        store.kill()

    def resume_all(self, ranks):
        for rank in ranks:
            rank.process.stdin.write(b"go on\n")
            rank.process.stdin.flush()

    def test_limit_of_the_store(self):
        self.assertEqual(self.run_ranks(2, "limit", env={"MUSTER_STORE_MAX_VALUE": "64K"}).count("] ok"), 2)

    def test_mistakes(self):
        self.assertEqual(self.run_ranks(2, "mistakes").count("] ok"), 2)

    def test_ranks_select_different_backends(self):
        out = self.run_ranks(3, "differ")
        self.assertEqual((out.count("MST_ERR_MISMATCH"), out.count("] ok")), (6, 3), out)
        self.assertRegex(out, r"chose backend 'minimal2?' for the world, but rank \d .* chose 'minimal2?'")
        self.assertRegex(out, r"chose backend '(native|minimal)' for the world, but rank \d .* chose '(native|minimal)'")
        self.assertEqual(len(re.findall(r"MST_ERR_UNSUPPORTED culprit 1 .* rank 1 .* gave up .* no backend 'nothing'", out)), 2)
        self.assertEqual(len(re.findall(r"\[1\] .* culprit 1 ", out)), 0, "no rank names itself")

    def test_groups_with_different_backends(self):
        for which in ("native", "minimal", "none"):
            with self.subTest(which=which):
                begin = time.monotonic()
                out = self.run_ranks(3, "apart", which)
                self.assertEqual((out.count("MST_ERR_MISMATCH"), out.count("] ok")), (3, 3), out)
                self.assertRegex(out, r"chose backend '\w+' for a group of 3 ranks, but rank \d .* chose '\w+'")
                self.assertLess(time.monotonic() - begin, 10 * SLOWER)

    def test_one_rank_exchanges_twice(self):
        for arguments in (("native",), ("minimal",), ("native", "group"), ("minimal", "group")):
            with self.subTest(arguments=arguments):
                begin = time.monotonic()
                out = self.run_ranks(3, "uneven", *arguments)
                self.assertEqual(out.count("MST_ERR_MISMATCH"), 3, out)
                self.assertRegex(out, r"rank 1 .* called mst_set_backend with 'native', but rank \d .* called mst_all_reduce")
                self.assertLess(time.monotonic() - begin, 10 * SLOWER)

    def test_one_rank_does_not_exchange(self):
        out = self.run_ranks(3, "late")
        self.assertEqual((out.count("MST_ERR_STALLED"), out.count("] ok")), (3, 3), out)
        self.assertRegex(out, r"2 of 3 ranks of the world reached mst_set_backend in time; missing: rank 1 ")

    def test_one_rank_does_not_open_the_backend(self):
        out = self.run_ranks(3, "absent")
        self.assertRegex(out, r"MST_ERR_STALLED .*2 of 3 ranks of the world reached the opening of backend 'minimal' in time; missing: rank 1 ")


class Example(CollectiveTest):
    """The backend has all_gather and messages; muster composes the rest."""

    def test_everything(self):
        out = self.run_suite(3, *self.quick(3), env=SAMPLE)
        for kind in (MOVES + "," + REDUCTIONS).split(","):
            self.assertEqual(out.count(f"'minimal' lacks {kind} of"), 3, f"one warning of {kind} for each rank")


class Compositions(CollectiveTest):
    """Every composition, over native with some operations disabled."""

    def test_each(self):
        for forced in ("all_reduce,reduce", f"{REDUCTIONS},all_to_all", "all_gather,broadcast", MOVES,
                       f"{MOVES},{REDUCTIONS},all_gather")[:: 2 if SANITIZED else 1]:
            with self.subTest(forced=forced):
                out = self.run_suite(3, *self.quick(3), env={"MUSTER_FORCE_FALLBACK": forced})
                self.assertIn(f"'native' lacks {forced.split(',')[-1]} of", out)

    def test_without_messages(self):
        out = self.run_suite(3, "--quick", "--only", "scatter", env={"MUSTER_FORCE_FALLBACK": "scatter,send"})
        self.assertIn("composed of a broadcast of everything", out)

    def test_on_hosts(self):
        self.run_suite(3, *self.quick(3), hosts="aab", env={"MUSTER_FORCE_FALLBACK": "all_reduce,all_gather"})

    def test_no_such_kind(self):
        process = self.popen(PROGRAMS / "backends", "own", env={"MUSTER_FORCE_FALLBACK": "all_redcue"}, stderr=subprocess.STDOUT)
        out = process.communicate(timeout=60)[0].decode()
        self.assertEqual(process.returncode, 1, out)
        self.assertIn("MUSTER_FORCE_FALLBACK has 'all_redcue', which is not a kind of operation", out)


if __name__ == "__main__":
    main()
