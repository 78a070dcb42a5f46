"""Which backend runs a group, and what a backend lacks: the sample backend from outside of the tree, and native itself."""

import subprocess

from collective_kit import CollectiveTest
from ranks import BUILD, PROGRAMS, TOOL, RanksTest, main

PATH = {"MUSTER_BACKEND_PATH": BUILD / "tests/backends"}
SAMPLE = {**PATH, "MUSTER_BACKEND": "shelf"}
MOVES = "barrier,broadcast,all_to_all,gather,scatter"
REDUCTIONS = "all_reduce,reduce,reduce_scatter"


class Choices(RanksTest):
    def run_ranks(self, n, *arguments, env=None):
        process = self.popen(TOOL, "run", "-n", n, PROGRAMS / "backends", *arguments, env={**PATH, **(env or {})}, stdin=subprocess.DEVNULL,
                             stderr=subprocess.STDOUT)
        out = process.communicate(timeout=60)[0].decode(errors="replace")
        self.assertEqual(process.returncode, 0, out)
        self.assert_nothing_left()
        return out

    def test_exchange(self):
        self.assertEqual(self.run_ranks(3, "exchange").count("] ok"), 3)

    def test_registered(self):
        self.assertEqual(self.run_ranks(2, "own").count("] ok"), 2)

    def test_after_a_failure(self):
        self.assertEqual(self.run_ranks(3, "again").count("] ok"), 3)

    def test_more_than_the_store_takes(self):
        self.assertEqual(self.run_ranks(2, "limit", env={"MUSTER_STORE_MAX_VALUE": "64K"}).count("] ok"), 2)

    def test_mistakes(self):
        self.assertEqual(self.run_ranks(2, "mistakes").count("] ok"), 2)

    def test_ranks_that_choose_differently(self):
        out = self.run_ranks(3, "differ")
        self.assertEqual(out.count("MST_ERR_MISMATCH"), 3, out)
        self.assertRegex(out, r"chose backend 'shelf2?', but rank \d .* chose 'shelf2?'")

    def test_a_rank_that_does_not_come(self):
        out = self.run_ranks(3, "absent")
        self.assertRegex(out, r"MST_ERR_STALLED .*2 of 3 ranks of the world came to open backend 'shelf' in time; missing: rank 1 ")


class Sample(CollectiveTest):
    """It has all_gather and messages; muster makes the rest of them."""

    def test_everything(self):
        out = self.run_suite(3, *self.quick(3), env=SAMPLE)
        for kind in (MOVES + "," + REDUCTIONS).split(","):
            self.assertEqual(out.count(f"'shelf' lacks {kind} of"), 3, f"one warning of {kind} for each rank")


class Compositions(CollectiveTest):
    """Every composition, on native: what is named is not used, wherever it is asked for."""

    def test_each(self):
        for forced in ("all_reduce,reduce", f"{REDUCTIONS},all_to_all", "all_gather,broadcast", MOVES,
                       f"{MOVES},{REDUCTIONS},all_gather"):
            with self.subTest(forced=forced):
                out = self.run_suite(3, *self.quick(3), env={"MUSTER_FORCE_FALLBACK": forced})
                self.assertIn(f"'native' lacks {forced.split(',')[-1]} of", out)

    def test_without_messages(self):
        out = self.run_suite(3, "--quick", "--only", "scatter", env={"MUSTER_FORCE_FALLBACK": "scatter,send"})
        self.assertIn("made of a broadcast of everything", out)

    def test_on_hosts(self):
        self.run_suite(3, *self.quick(3), hosts="aab", env={"MUSTER_FORCE_FALLBACK": "all_reduce,all_gather"})

    def test_no_such_kind(self):
        process = self.popen(PROGRAMS / "backends", "own", env={"MUSTER_FORCE_FALLBACK": "all_redcue"}, stderr=subprocess.STDOUT)
        out = process.communicate(timeout=60)[0].decode()
        self.assertEqual(process.returncode, 1, out)
        self.assertIn("MUSTER_FORCE_FALLBACK has 'all_redcue', which is no kind of operation", out)


if __name__ == "__main__":
    main()
