"""muster info --plan: which algorithm, why, and the steps of a rank."""

import re
import unittest

from harness import ToolTest


class InfoPlan(ToolTest):
    def plan(self, *options):
        rc, out, err = self.muster("info", "--plan", *options)
        self.assertEqual((rc, err), (0, b""), options)
        return out.decode()

    def refused(self, part, *options):
        rc, out, err = self.muster("info", "--plan", *options)
        self.assertEqual((rc, out), (2, b""), options)
        self.assertIn(part, err.decode())

    def test_candidates_and_choice(self):
        out = self.plan("all_reduce", "--ranks", "12", "--bytes", "1M", "--hosts", "3")
        self.assertIn("all_reduce of 1 MiB (262144 x f32) among 12 ranks on 3 hosts", out)
        marked = re.findall(r"^\* (\w+) ", out, re.M)
        self.assertEqual(marked, re.findall(r"^chosen: (\w+) \(cheapest\)", out, re.M))
        for name in ("ring", "halving", "doubling", "direct", "hierarchical"):
            self.assertRegex(out, rf"(?m)^[ *] {name} ")

    def test_steps_and_what_they_wait_for(self):
        out = self.plan("all_reduce", "--ranks", "2", "--bytes", "64", "--algo", "all_reduce:direct", "--rank", "1")
        self.assertIn("chosen: direct (asked for)", out)
        self.assertIn("reduce  out[8..16) from 2 sources", out)
        self.assertRegex(out, r"(?m)^ +\d+  send +out\[8\.\.16\) to 0 +after \d+$")

    def test_what_cannot_be_done_is_said(self):
        out = self.plan("reduce_scatter", "--ranks", "6", "--algo", "reduce_scatter:halving")
        self.assertIn("needs a power of two of ranks", out)
        self.assertIn("what was asked for cannot do this", out)
        out = self.plan("reduce", "--ranks", "6", "--deterministic")
        self.assertIn("does not add up in rank order", out)

    def test_one_rank(self):
        self.assertIn("rank 0: 1 step,", self.plan("all_gather", "--ranks", "1"))

    def test_mistakes(self):
        self.refused("unknown collective 'allreduce'", "allreduce")
        self.refused("unknown dtype 'f31'", "all_reduce", "--dtype", "f31")
        self.refused("--plan has no JSON output", "all_reduce", "--json")
        self.refused("'1Q' is not a size", "all_reduce", "--bytes", "1Q")
        self.refused("the last rank is 3", "all_reduce", "--rank", "4")
        self.refused("cannot fill", "all_reduce", "--hosts", "5")
        self.refused("it has ring, halving", "all_reduce", "--algo", "all_reduce:circle")


if __name__ == "__main__":
    unittest.main()
