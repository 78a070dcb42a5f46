"""muster bench coll: the shape of its tables and of its CSV file, muster alone and tiny; never how fast anything is."""

import csv
import os
import re
import tempfile
import unittest

from tool import ToolTest

QUICK = ("--rounds", 1, "--seconds", 0.002, "--min", 4, "--max", 64, "--step", 16)
TITLES = (
    "all_reduce",
    "all_gather_into_tensor",
    "reduce_scatter_tensor",
    "broadcast",
    "all_to_all_single",
    "send_recv",
    "barrier",
)


def tables_of(out):
    """{(title, ranks, buffers): rows}, each row a list of words."""
    tables, rows = {}, None
    for line in out.decode().splitlines():
        head = re.fullmatch(r"(\w+), (\d+) ranks, (hot|rotating) buffers", line)
        if head:
            rows = tables.setdefault((head[1], int(head[2]), head[3]), [])
        elif not line:
            rows = None
        elif rows is not None:
            rows.append(line.split())
    return tables


class BenchColl(ToolTest):
    def coll(self, *options, env=None):
        # Leaks are for other tests: many ranks end here, and the search goes through all memory that a rank shares.
        asan = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        return self.muster("bench", "coll", *QUICK, *options, env={"ASAN_OPTIONS": asan, **(env or {})})

    def test_every_operation_has_its_table(self):
        rc, out, err = self.coll("-p", "muster")
        self.assertEqual((rc, err), (0, b""))
        self.assertRegex(out, rb"\Acollectives on .* \d+ cores, .*\nmuster \d+\.\d+\.\d+; f32, one host\n")
        tables = tables_of(out)
        self.assertEqual([title for title, *_ in tables], list(TITLES))
        for (title, ranks, buffers), (head, *rows) in tables.items():
            self.assertEqual((ranks, buffers, head[:2]), (2, "hot", ["bytes", "muster"]))
            least = {"all_reduce": "4", "broadcast": "4", "send_recv": "4"}.get(title, "8")
            expected = ["0"] if title == "barrier" else [least, "64"]
            self.assertEqual([row[0] for row in rows], expected, title)
            for row in rows:
                self.assertGreater(float(row[1]), 0, title)

    def test_buffers_ranks_alloc_and_csv(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "figures.csv")
            rc, out, err = self.coll(
                "-p", "muster", "-n", "2,3", "-b", "both", "-o", "all_to_all,broadcast", "--alloc", "--bandwidth", "--csv", path
            )
            self.assertEqual((rc, err), (0, b""))
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        tables = tables_of(out)
        self.assertEqual(len(tables), 2 * 2 * 2)
        self.assertIn("alloc", tables["broadcast", 3, "rotating"][0])
        self.assertEqual(len(rows), 2 * 2 * 2 * 2 * 2)
        self.assertEqual({row["who"] for row in rows}, {"muster", "muster-alloc"})
        self.assertEqual({row["bytes"] for row in rows if row["op"] == "all_to_all_single" and row["ranks"] == "3"}, {"12", "60"})
        for row in rows:
            self.assertEqual((row["link"], row["rounds"]), ("host", "1"))
            self.assertLessEqual(float(row["min_us"]), float(row["median_us"]))

    def test_a_peer_that_is_not_here_is_left_out(self):
        with tempfile.TemporaryDirectory() as empty:
            rc, out, err = self.coll("-p", "muster,openmpi", "-o", "barrier", env={"PATH": empty})
        self.assertEqual((rc, err), (0, b""))
        self.assertRegex(out, rb"(?m)^Open MPI is skipped: cannot find 'mpirun' in PATH")
        self.assertEqual(len(tables_of(out)["barrier", 2, "hot"][1]), 3)

    def test_over_tcp_it_is_measured_or_said_to_be_unsupported(self):
        rc, out, err = self.coll("-p", "muster", "-o", "all_reduce", "--tcp")
        self.assertEqual((rc, err), (0, b""))
        self.assertIn(b"TCP alone", out)
        figure = tables_of(out)["all_reduce", 2, "hot"][1][1]
        self.assertEqual(figure == "-", b"muster does not support it" in out)

    def test_mistakes_are_refused(self):
        mistakes = (
            (("--frob",), b"unknown option '--frob'"),
            (("--buffers", "cold"), b"--buffers takes hot, rotating or both, not 'cold'"),
            (("--max", "2"), b"--max takes bytes"),
            (("--min", "1K"), b"--min 1K is more than --max 64"),
            (("--ops", "sum"), b"not 'sum'"),
            (("--ranks", "1"), b"not '1'"),
            (("--peers", "nobody"), b"not 'nobody'"),
            (("--seconds", "0"), b"more than 0"),
            (("word",), b"'word' is not expected"),
        )
        for options, message in mistakes:
            rc, out, err = self.coll(*options)
            self.assertEqual((rc, out), (2, b""), options)
            self.assertIn(message, err)
            self.assertEqual(err.count(b"\n"), 1)


if __name__ == "__main__":
    unittest.main()
