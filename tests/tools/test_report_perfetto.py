"""Traces in Perfetto: it reads them without loss; each operation is a slice and each message a flow."""

import collections
import json
import os
import sys
import tempfile
import unittest

import perfetto
from harness import MUSTER, ToolTest

PROF = os.path.join(os.path.dirname(MUSTER), "tests", "prof")
RANKS, MESSAGES = 3, 5


class InPerfetto(ToolTest):
    def setUp(self):
        super().setUp()
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir, self.merged = (os.path.join(scratch.name, name) for name in ("out", "all.json"))

    def trace(self, *actions, status=0):
        """Runs ranks and returns their events."""
        rc, out, err = self.muster("run", "-n", RANKS, "--trace", self.dir, PROF, "init", *actions)
        self.assertEqual(rc, status, (out, err))
        rc, _, err = self.muster("report", self.dir, "--merge", self.merged)
        self.assertEqual(rc, 0, err)
        with open(self.merged, encoding="utf-8") as file:
            return json.load(file)

    def assert_read(self, p, events):
        """Works are on separate tracks without a process."""
        self.assertEqual(p.faults(), [])
        every = collections.Counter(event["name"] for event in events if event["ph"] in "Xbn")
        self.assertEqual(dict(p.query("select name, count(*) from slice group by 1")), every)
        calls = collections.Counter((event["pid"], event["name"]) for event in events if event["ph"] == "X")
        rows = p.query(
            """select pid, slice.name, count(*) from slice join thread_track on thread_track.id = track_id
               join thread using (utid) join process using (upid) group by 1, 2"""
        )
        self.assertEqual({(pid, name): n for pid, name, n in rows}, calls)

    def test_slices_and_arrows(self):
        events = self.trace("kinds", "works=3", f"pass={MESSAGES}", f"swap={MESSAGES}", "sums=200")
        with perfetto.Perfetto(self.merged) as p:
            self.assert_read(p, events)
            arrows = p.query(
                """select s.name, d.name, w.name, count(*), min(d.ts - s.ts) from flow join slice s on slice_out = s.id
                   join slice d on slice_in = d.id join slice w on w.id = d.parent_id group by 1, 2, 3 order by 1"""
            )
            self.assertEqual([row[:4] for row in arrows], [["isend", "arrived", "recv", RANKS * MESSAGES], ["send", "arrived", "irecv", RANKS * MESSAGES]])
            self.assertTrue(all(row[4] > 0 for row in arrows), arrows)
            names = [name for (name,) in p.query("select name from process where name like 'rank %' order by pid")]
            self.assertEqual([name.split(" (")[0] for name in names], [f"rank {r}" for r in range(RANKS)])

    def test_a_truncated_file(self):
        """The trace of a rank after SIGKILL."""
        self.trace("sums=3000", "die=1", "barrier", status=137)  # more than a ring holds, so that some are in the file
        path = os.path.join(self.dir, "rank-1.trace.json")
        with open(path, encoding="utf-8") as file:
            calls = file.read().count('"ph":"X"')
        self.assertGreater(calls, 0)
        with perfetto.Perfetto(path) as p:
            self.assertEqual(p.faults(), [])
            self.assertEqual(p.query("select name, count(*) from slice group by 1"), [["all_reduce", calls]])


if __name__ == "__main__":
    if perfetto.missing():
        print(perfetto.missing())
        sys.exit(77)
    unittest.main()
