"""One run, all outputs: the profile's table and JSON, the traces, and the text, JSON and page of muster report have the same times."""

import json
import os
import re
import shutil
import tempfile
import unittest

import browser
from harness import MUSTER, ToolTest

PROF = os.path.join(os.path.dirname(MUSTER), "tests", "prof")
RANKS = 4
# Late ranks in blocking calls, in works and in messages; small calls that follow each other.
ACTIONS = ("sums=200", "r1-wait=30", "sums=100", "works=5", "r2-wait=20", "works=2", "pass=5", "r3-wait=25", "swap=3", "kinds", "r0-wait=15", "barrier")
HOSTS = ("bash", "-c", 'MUSTER_FORCE_HOST=$((RANK % 2)) exec "$0" "$@"')
FIELDS = ("run", "communication", "waiting", "transfer", "waited_for")


def rank_lines(text):
    """The times in ms of each rank, from the table per rank."""
    number = r" +([\d.]+)"
    return {int(m[1]): [float(m[i]) for i in (2, 3, 5, 7, 9)] for m in re.finditer(r"(?m)^(?:\[0\] )? +(\d+)" + 8 * number + "$", text)}


def op_lines(text):
    """Of each operation and size of the profile's table: calls, communication, waiting and transfer."""
    found, name = {}, None
    for line in text.splitlines():
        line = line.removeprefix("[0] ")
        row = re.match(r"    ([\d.]+ [KM]?B) +(\d+)" + r" +([\d.]+)" * 7 + "$", line)
        if row:
            found[name, row[1]] = [int(row[2]), *(float(row[i]) for i in (6, 8, 9))]
        elif not line.startswith(" "):
            name = line
    return found


def events_of(folder, rank):
    with open(os.path.join(folder, f"rank-{rank}.trace.json"), encoding="utf-8") as file:
        return json.load(file)


def clock_error(folder):
    """The largest error of a clock, in ns; 1 s before the first replies."""
    return max(e["args"]["error_ns"] for rank in range(RANKS) for e in events_of(folder, rank) if e["name"] == "muster_clock")


def from_traces(folder):
    """The times in ms of each rank by the definition of docs/profiling.md, from the raw traces."""
    calls, members, runs = {}, {}, {}
    for rank in range(RANKS):
        events = events_of(folder, rank)
        groups = {e["args"]["group"]: e["args"] for e in events if e["name"] == "muster_group"}
        ends = {e["id"]: e["ts"] for e in events if e["ph"] == "e"}
        runs[rank] = 0
        for e in events:
            if e["ph"] not in "Xb" or e.get("cat") == "arrow":
                continue
            args, end = e["args"], ends[e["id"]] if e["ph"] == "b" else e["ts"] + e["dur"]
            group = groups[args["group"]]
            key = (group["id"], args["seq"])
            if e["cat"] == "message":
                key += (args["tag"], *((rank, args["peer"]) if args["dir"] == "send" else (args["peer"], rank)))
            members[key] = group["ranks"] if e["cat"] == "collective" else None
            comm = min(args["waited"], end - e["ts"]) if e["ph"] == "b" else e["dur"]
            calls.setdefault(key, {})[rank, args.get("dir")] = (e["ts"], end, comm)
            runs[rank] = max(runs[rank], end)
    times = {rank: dict.fromkeys(FIELDS, 0.0) | {"run": runs[rank] / 1000} for rank in range(RANKS)}
    for key, on in calls.items():
        if members[key] and {r for r, _ in on} == set(members[key]) or not members[key] and len(on) == 2:
            late, arrived = max(((r, begin) for (r, way), (begin, _, _) in on.items() if way != "recv"), key=lambda one: one[1])
        else:
            late, arrived = None, float("-inf")
        for (rank, way), (begin, end, comm) in on.items():
            waiting = 0.0 if way == "send" else max(0.0, min(comm, comm - (end - arrived)))
            times[rank]["communication"] += comm / 1000
            times[rank]["waiting"] += waiting / 1000
            times[rank]["transfer"] += (comm - waiting) / 1000
            if late is not None:
                times[late]["waited_for"] += waiting / 1000
    return {rank: [values[field] for field in FIELDS] for rank, values in times.items()}


class OneDefinition(ToolTest):
    def setUp(self):
        super().setUp()
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir, self.page, self.json = (os.path.join(scratch.name, name) for name in ("out", "page.html", "figures.json"))

    def assert_same(self, got, expected, what, rounding=0.0):
        """Within 1 % and 20 us: traces move a call that seems to begin before the previous one has ended."""
        self.assertEqual(set(got), set(expected), what)
        for rank, values in expected.items():
            for field, one, other in zip(FIELDS, got[rank], values, strict=True):
                self.assertLessEqual(abs(one - other), 0.02 + rounding + abs(other) / 100, f"{what}, rank {rank}: {field} is {one}, in the profile {other}")

    def test_all_outputs_agree(self):
        self.compare(self.run_ranks())

    def test_all_outputs_agree_between_hosts(self):
        """The ranks use the clock of rank 0. Its first replies may be slow, so up to five runs are tried."""
        for _ in range(5):
            shutil.rmtree(self.dir, ignore_errors=True)
            out = self.run_ranks(*HOSTS)
            if clock_error(self.dir) < 50_000:
                break
        self.compare(out)

    def run_ranks(self, *command):
        rc, out, err = self.muster("run", "-n", RANKS, "--prof", "--trace", self.dir, *command, PROF, "init", *ACTIONS, "json")
        self.assertEqual(rc, 0, err)
        return out.decode()

    def compare(self, out):
        lines = "\n".join(line.removeprefix("[0] ") for line in out.splitlines())
        profile, end = json.JSONDecoder().raw_decode(lines[lines.index('{"version"') :])
        table = lines[lines.index('{"version"') + end :]
        rc, report, err = self.muster("report", self.dir, "-o", self.page, "--json", self.json)
        self.assertEqual(rc, 0, err)
        with open(self.json, encoding="utf-8") as file:
            figures = json.load(file)
        with open(self.page, encoding="utf-8") as file:
            on_page = json.loads(re.search(r'id="summary">(.*?)</script>', file.read(), re.S)[1])

        expected = {t["rank"]: [t[f"{field}_ms"] for field in FIELDS] for t in profile["times"]}
        self.assert_sensible(expected)
        self.assert_same(rank_lines(table), expected, "table of the profile", rounding=0.01)
        self.assert_same(from_traces(self.dir), expected, "traces")
        fields = ("duration_us", "communication_us", "waiting_us", "transfer_us", "waited_for_us")
        self.assert_same({r["rank"]: [r[field] / 1000 for field in fields] for r in figures["ranks"]}, expected, "JSON of the report")
        self.assert_same(rank_lines(report.decode()), expected, "text of the report", rounding=0.01)
        self.assertEqual(on_page, figures)
        self.assert_operations(profile, table, figures)
        if browser.find():
            self.assert_page(expected)

    def assert_sensible(self, times):
        """The parts add up, the late ranks are those that slept, and no rank communicates longer than it runs."""
        for rank, (run, communication, waiting, transfer, waited_for) in times.items():
            self.assertAlmostEqual(waiting + transfer, communication, 5)
            self.assertLessEqual(communication, run)
            self.assertGreater(waiting, 10)
            self.assertGreater(waited_for, 10)
        self.assertAlmostEqual(sum(t[2] for t in times.values()), sum(t[4] for t in times.values()), 3)

    def assert_operations(self, profile, table, figures):
        """Each row of the profile, which is that of one rank, in its table and in the report."""
        lines = op_lines(table)
        cells = [dict(zip(figures["cells"]["columns"], row)) for row in figures["cells"]["rows"]]
        compared = 0
        for op in profile["operations"]:
            for row in op["rows"]:
                times = [row[f"{field}_ms"] for field in ("communication", "waiting", "transfer")]
                if op["group"] == "world" and op["rank"] == 0:
                    line = lines[op["op"], row["size"]]
                    self.assertEqual(line[0], row["count"])
                    for got, wanted in zip(line[1:], times, strict=True):
                        self.assertAlmostEqual(got, wanted, delta=0.006)
                found = [c for c in cells if self.is_row(figures, c, op, row)]
                self.assertEqual(len(found), 1, (op, row))
                self.assertEqual(found[0]["count"], row["count"])
                for field, wanted in zip(("communication_us", "waiting_us"), times):
                    self.assertLessEqual(abs(found[0][field] / 1000 - wanted), 0.02 + wanted / 100, (field, op, row))
                for field in ("tput", "busbw"):
                    wanted = row[f"{field}_avg_gbps"]
                    self.assertAlmostEqual(found[0][f"{field}_gbps"], wanted, delta=1e-5 + wanted / 20)
                compared += 1
        self.assertGreater(compared, 20)

    def is_row(self, figures, cell, op, row):
        operation = figures["operations"][cell["operation"]]
        return (operation["name"], operation["bytes"], operation["size"], cell["rank"]) == (op["op"], row["bytes"], op["group_size"], op["rank"])

    def assert_page(self, expected):
        """The table per rank, and the sums over the events of the timeline."""
        with browser.Browser() as b:
            b.open(self.page)
            rows = b.js("[...document.querySelectorAll('#rank-table tbody tr')].map((row) => ({...row.dataset}))")
            fields = ("run", "communication", "waiting", "transfer", "late")
            self.assert_same({int(r["rank"]): [float(r[field]) / 1000 for field in fields] for r in rows}, expected, "table of the page")
            sums = b.js(
                """lanes.map((lane) => { lane.load(); const sum = [lane.rank, 0, 0];
                   lane.rows.forEach((row, r) => { for (let k = 0; k < row.count; k++) for (let i = 0; i < row.block(k).n; i++) {
                     const event = eventAt(lane, r, k, i); sum[1] += event.comm; sum[2] += event.wait; } }); return sum; })"""
            )
            timeline = {rank: [expected[rank][0], comm / 1e6, waiting / 1e6, (comm - waiting) / 1e6, expected[rank][4]] for rank, comm, waiting in sums}
            self.assert_same(timeline, expected, "timeline of the page")
            self.assertEqual(b.faults(), [])

    def test_lines_of_the_demo_fit_a_terminal(self):
        """Every line of the table and of the report has at most 100 columns."""
        rc, out, err = self.muster("run", "-n", RANKS, "--prof", "--trace", self.dir, PROF, "init", *ACTIONS, "team=pipeline")
        self.assertEqual(rc, 0, err)
        rc, report, err = self.muster("report", self.dir)
        self.assertEqual(rc, 0, err)
        for line in (out + report).decode().splitlines():
            self.assertLessEqual(len(line), 100, line)


if __name__ == "__main__":
    unittest.main()
