"""muster report: figures against cases that were computed by hand, diagnoses, and malformed files."""

import base64
import json
import os
import random
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

import trace_make
from harness import ToolTest
from trace_make import Trace, flight

SANITIZED = re.search("-[at]san", os.environ.get("MUSTER_BUILD_DIR", ""))  # keeps what was freed


def table(part):
    return [dict(zip(part["columns"], row)) for row in part["rows"]]


def trimmed(values):
    """DeepSpeed's average."""
    values = sorted(values)
    cut = int(round(len(values) * 0.1))
    kept = values[cut:len(values) - cut]
    return sum(kept) / len(kept)


class ReportTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.dir = os.path.join(self.folder, "out")
        os.mkdir(self.dir)

    def report(self, *args):
        """Exit status, stdout and stderr as text."""
        rc, out, err = self.muster("report", self.dir, *args)
        return rc, out.decode(), err.decode()

    def figures(self, warnings=0):
        path = os.path.join(self.folder, "figures.json")
        rc, _, err = self.report("--json", path)
        self.assertEqual(rc, 0, err)
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if warnings is not None:
            self.assertEqual(len(found["warnings"]), warnings, found["warnings"])
        return found

    def put(self, name, data):
        with open(os.path.join(self.dir, name), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())


class Figures(ReportTest):
    def pair(self):
        """Two ranks; comments state each wait."""
        zero, one = Trace(0, 2, host="a"), Trace(1, 2, host="b")
        for trace in (zero, one):
            trace.group(0, "world", [0, 1])
        size = 1 << 20
        zero.op("all_reduce", 10, 50, 0, size=size)
        one.op("all_reduce", 30, 30, 0, size=size)  # 0 waits 20 for 1
        zero.op("all_reduce", 100, 10, 1, size=size)
        one.op("all_reduce", 90, 20, 1, size=size)  # 1 waits 10 for 0
        zero.op("broadcast", 200, 5, 2, size=64, site="data.c:7")
        one.op("broadcast", 300, 10, 2, size=64, site="data.c:7")  # rank 0 returns after 5
        zero.message("send", 400, 4, 0, peer=1, size=128, site="pipe.c:1")
        one.message("recv", 380, 40, 0, peer=0, size=128, site="pipe.c:2")  # 1 waits 20 for 0
        zero.work("reduce_scatter", 500, 100, 3, waited=7, size=4096)
        one.work("reduce_scatter", 595, 5, 3, waited=5, size=4096)  # of the last 7, in mst_wait, rank 0 waits 2
        one.about("muster_clock", ts=12.0, offset_ns=-1234, error_ns=900)
        for trace in (zero, one):
            trace.end(ts=600).write(self.dir)

    def test_head(self):
        self.pair()
        found = self.figures()
        self.assertEqual((found["size"], found["program"], found["hosts"]), (2, "train", ["a", "b"]))
        self.assertEqual((found["events"], found["dropped"], found["duration_us"], found["clock_error_us"]), (10, 0, 600, 0.9))
        shares = {rank["rank"]: rank["share"] for rank in found["ranks"]}
        self.assertAlmostEqual(shares[0], (50 + 10 + 5 + 4 + 7) / 600, 6)
        self.assertAlmostEqual(shares[1], (30 + 20 + 10 + 40 + 5) / 600, 6)
        self.assertEqual(found["pairs"], {"collectives": 4, "collectives_complete": 4, "messages": 1, "messages_complete": 1})
        self.assertIsNone(found["failure"])

    def test_who_waited_for_whom(self):
        self.pair()
        found = self.figures()
        waits = {(w["rank"], w["for"]): (w["us"], w["times"]) for w in table(found["waits"])}
        self.assertEqual(waits, {(0, 1): (20 + 5 + 2, 3), (1, 0): (10 + 20, 2)})
        self.assertEqual([(r["waiting_us"], r["waited_for_us"]) for r in found["ranks"]], [(27, 30), (30, 27)])
        for rank in found["ranks"]:
            self.assertEqual(rank["waiting_us"] + rank["transfer_us"], rank["communication_us"])

    def test_windows(self):
        self.pair()
        zero, one = self.figures()["windows"]["waited_for_us"]
        self.assertEqual(len(zero), 100)
        # for rank 1: 10 to 30, 200 to 205, and the last 2 before it came to the work at 595; windows of 6
        self.assertEqual(one[:6], [0, 2, 6, 6, 6, 0])
        self.assertEqual((one[33], one[34]), (4, 1))
        self.assertEqual((one[98], one[99]), (1, 1))
        self.assertAlmostEqual(sum(one), 27)
        # for rank 0: 90 to 100, and 380 to 400
        self.assertEqual(zero[15:17], [6, 4])
        self.assertEqual(zero[63:67], [4, 6, 6, 4])
        self.assertAlmostEqual(sum(zero), 30)

    def test_table(self):
        self.pair()
        found = self.figures()
        rows = {(o["name"], o["bytes"]): o for o in found["operations"]}
        reduce = rows["all_reduce", 1 << 20]
        times = [50, 30, 10, 20]
        rates = [8 * (1 << 20) / (1000 * t) for t in times]
        self.assertEqual((reduce["count"], reduce["total_us"], reduce["avg_us"], reduce["size"]), (4, 110, 27.5, 2))
        self.assertAlmostEqual(reduce["tput_gbps"], sum(rates) / 4, 5)
        self.assertAlmostEqual(reduce["busbw_gbps"], sum(rates) / 4, 5)  # 2 (n - 1) / n is 1
        self.assertEqual((reduce["communication_us"], reduce["waiting_us"]), (110, 20 + 10))
        scatter = rows["reduce_scatter", 4096]
        self.assertAlmostEqual(scatter["busbw_gbps"], scatter["tput_gbps"] / 2, 5)
        cells = {(c["operation"], c["rank"]): c for c in table(found["cells"])}
        own = cells[found["operations"].index(reduce), 0]
        self.assertEqual((own["count"], own["total_us"], own["avg_us"]), (2, 60, 30))

    def test_sites(self):
        self.pair()
        found = self.figures()
        sites = {(found["sites"][c["site"]]["site"], c["rank"]): c for c in table(found["site_cells"])}
        self.assertEqual((sites["data.c:7", -1]["count"], sites["data.c:7", -1]["communication_us"], sites["data.c:7", -1]["waiting_us"]), (2, 15, 5))
        self.assertEqual((sites["pipe.c:2", 1]["communication_us"], sites["pipe.c:2", 1]["waiting_us"]), (40, 20))
        self.assertNotIn(("pipe.c:2", 0), sites)

    def test_averages_leave_out_a_tenth_and_groups_have_their_own_size(self):
        rng = random.Random(5)
        groups = {0: [0, 1], 1: [0, 1], 2: [2, 3], 3: [2, 3]}
        times = {}
        for rank in range(4):
            trace = Trace(rank, 4)
            trace.group(1, "pair", groups[rank], id=f"pair{rank // 2}")
            for seq in range(17):
                took = rng.randrange(1, 1000000) / 1000
                times.setdefault(rank // 2, {}).setdefault(rank, []).append(took)
                trace.op("grads", 1000 * seq, took, seq, group=1, size=6000, call="all_reduce")
                trace.op("all_gather", 1000 * seq + 999.5, 0.25, seq, group=0, size=8000)
            trace.end().write(self.dir)
        found = self.figures()
        names = [group["name"] for group in found["groups"]]
        self.assertEqual(sorted(names), ["pair", "pair", "world"])
        grads = next(o for o in found["operations"] if o["name"] == "grads")
        self.assertEqual((grads["call"], grads["size"], len(grads["groups"])), ("all_reduce", 2, 2))
        every = [t for pair in times.values() for rank in pair.values() for t in rank]
        self.assertAlmostEqual(grads["avg_us"], trimmed(every), 2)
        self.assertAlmostEqual(grads["tput_gbps"], trimmed([48 / t for t in every]), 5)
        self.assertAlmostEqual(grads["busbw_gbps"], grads["tput_gbps"], 5)
        gather = next(o for o in found["operations"] if o["name"] == "all_gather")
        self.assertAlmostEqual(gather["busbw_gbps"], gather["tput_gbps"] * 3 / 4, 5)
        at = found["operations"].index(grads)
        for cell in table(found["cells"]):
            if cell["operation"] != at:
                continue
            pair = None if cell["group"] < 0 else min(found["groups"][cell["group"]]["ranks"]) // 2
            mine = [t for p, ranks in times.items() for r, ts in ranks.items() for t in ts if pair in (None, p) and cell["rank"] in (-1, r)]
            self.assertEqual(cell["count"], len(mine))
            self.assertAlmostEqual(cell["total_us"], sum(mine), 2)
            self.assertAlmostEqual(cell["avg_us"], trimmed(mine), 2)

    def test_groups_with_the_same_ranks_are_kept_apart(self):
        for rank in range(2):
            trace = Trace(rank, 2)
            trace.group(1, "one", [0, 1])
            trace.group(2, "two", [0, 1])
            trace.op("barrier", 10 * rank, 20, 0, group=1)
            trace.op("barrier", 100 - 50 * rank, 100, 0, group=2)
            trace.end().write(self.dir)
        waits = {(w["rank"], w["for"]): w["us"] for w in table(self.figures()["waits"])}
        self.assertEqual(waits, {(0, 1): 10, (1, 0): 50})

    def test_collectives_that_a_rank_lacks_are_incomplete(self):
        for rank in range(3):
            trace = Trace(rank, 3)
            trace.op("barrier", 10 * rank, 30, 0)
            if rank < 2:
                trace.op("barrier", 100 + rank, 10, 1)
            trace.end().write(self.dir)
        found = self.figures()
        self.assertEqual((found["pairs"]["collectives"], found["pairs"]["collectives_complete"]), (2, 1))
        self.assertEqual(sum(w["us"] for w in table(found["waits"])), 20 + 10)

    def test_a_thousand_sizes_and_names_share_rows(self):
        trace = Trace(0, 1)
        for k in range(1000):
            trace.op("send", k, 0.5, k, size=1000 + k)
            trace.op(f"step {k}", k + 0.5, 0.25, k, size=8, call="all_reduce")
        trace.end().write(self.dir)
        found = self.figures()
        self.assertLess(len(found["operations"]), 500)
        self.assertEqual(sum(o["count"] for o in found["operations"]), 2000)
        sizes = [(o["bytes"], o["up_to"]) for o in found["operations"] if o["name"] == "send"]
        self.assertEqual(sizes, [(1024, True), (2048, True)])

    def failing(self):
        """Rank 1 dies after two calls. The third call of rank 0 fails after 400 us, and a work of 50 us, 30 of them in mst_wait."""
        zero, one = Trace(0, 2), Trace(1, 2)
        for trace in (zero, one):
            trace.group(0, "world", [0, 1])
            trace.op("all_reduce", 100, 10, 0, size=4096)
            trace.op("all_reduce", 200, 30, 1, size=4096)
        zero.op("all_reduce", 300, 400, 2, size=4096, status="MST_ERR_PEER")
        zero.work("broadcast", 800, 50, 3, waited=30, size=64, status="MST_ERR_PEER", site="late.c:1")
        zero.end(ts=1000).write(self.dir)
        one.write(self.dir, ended=False)

    def test_calls_that_failed_are_in_no_mean(self):
        self.failing()
        found = self.figures(warnings=None)
        rows = {o["name"]: o for o in found["operations"]}
        reduce, broadcast = rows["all_reduce"], rows["broadcast"]
        self.assertEqual((reduce["count"], reduce["failed"], reduce["total_us"], reduce["avg_us"]), (4, 1, 80, 20))
        self.assertAlmostEqual(reduce["tput_gbps"], sum(8 * 4096 / (1000 * t) for t in (10, 30)) / 2, 5)
        self.assertEqual((broadcast["count"], broadcast["failed"], broadcast["total_us"], broadcast["tput_gbps"]), (0, 1, 0, 0))
        cells = {(c["operation"], c["rank"]): (c["count"], c["failed"]) for c in table(found["cells"])}
        self.assertEqual(cells, {(0, 0): (2, 1), (0, 1): (2, 0), (1, 0): (0, 1)})
        sites = {(found["sites"][c["site"]]["site"], c["rank"]): (c["count"], c["failed"], c["communication_us"]) for c in table(found["site_cells"])}
        self.assertEqual(sites["train.c:33", -1], (4, 1, 80 + 400))
        self.assertEqual(sites["late.c:1", 0], (0, 1, 30))
        _, words, _ = self.report()
        self.assertIn("2 calls failed", words)
        self.assertRegex(words, r"all_reduce +4 KiB +2 +4 .*\n +1 failed calls\n")

    def test_calls_that_failed_are_waiting(self):
        self.failing()
        found = self.figures(warnings=None)
        zero, one = found["ranks"]
        self.assertEqual((zero["communication_us"], zero["waiting_us"]), (10 + 30 + 400 + 30, 400 + 30))
        self.assertEqual((one["communication_us"], one["waiting_us"], one["waited_for_us"]), (40, 0, 0))
        path = os.path.join(self.folder, "page.html")
        self.assertEqual(self.report("-o", path)[0], 0)
        with open(path, encoding="utf-8") as file:
            packed = re.search('id="overview-0-0">([^<]*)<', file.read()).group(1)
        planes = base64.b64decode(packed)
        bins = len(planes) // 3
        at = next(bin for bin in range(bins) if 500 < (bin + 0.5) * 900 / bins + 100 < 600)  # within the third call
        self.assertEqual((planes[at], planes[bins + at]), (255, 255))

    def test_no_rank_is_late_for_a_call_that_failed(self):
        """As in the profile, which does not match failed calls."""
        for rank in range(2):
            trace = Trace(rank, 2)
            trace.group(0, "world", [0, 1])
            trace.op("all_reduce", 100 + 50 * rank, 100, 0, size=4096, status="MST_ERR_TIMEOUT")
            trace.end(ts=1000).write(self.dir)
        found = self.figures(warnings=None)
        self.assertEqual([(r["waiting_us"], r["waited_for_us"]) for r in found["ranks"]], [(100, 0), (100, 0)])
        self.assertEqual(found["pairs"]["collectives"], 0)

    def test_the_machines_limit(self):
        for rank in range(2):
            trace = Trace(rank, 2)
            trace.op("all_reduce", 0, 10000, 0, size=1 << 20)
            trace.end().write(self.dir)
        self.assertNotIn("limit_us", self.figures()["operations"][0])
        rows = [("copy_GBps", 65536, 2, 10), ("add_GBps", 65536, 2, 5), ("line_us", 0, 2, 0.5)]
        self.put("limits.json", "".join(json.dumps(dict(zip(("limit", "bytes", "processes", "value"), row))) + "\n" for row in rows))
        # one cache line, (n - 1) S copied at 10 and added at 5 GB/s
        expected = 0.5 + (1 << 20) / 1e4 + (1 << 20) / 5e3
        self.assertAlmostEqual(self.figures()["operations"][0]["limit_us"], expected, 2)
        self.put("limits.json", "nonsense")
        self.assertIn("muster bench limits", self.figures(1)["warnings"][0])

    def test_generated_traces(self):
        trace_make.make(self.dir, 6, 800, hosts=2, seed=3)
        found = self.figures()
        begins, late, last = trace_make.PLANNED
        self.assertEqual(found["events"], 6 * 800)
        self.assertEqual((found["pairs"]["collectives"], found["pairs"]["collectives_complete"]), (400 + 200 + 200, 800))
        world = [k for k in range(800) if trace_make.STEP[k % 8] in ("all_reduce", "broadcast")]
        expected = sum(last[k] - late[r][k] for k in world for r in range(6))
        shared = 0
        for k in range(800):
            if trace_make.STEP[k % 8] in ("all_gather", "reduce_scatter"):
                for ranks in ((0, 1, 2), (3, 4, 5)):
                    arrived = max(late[r][k] for r in ranks)
                    for r in ranks:
                        took = last[k] - late[r][k] + 9000 + trace_make.SIZES[(k // 16) % 4] // 1024
                        spent = round(took / 3) if trace_make.STEP[k % 8] == "reduce_scatter" else took
                        shared += max(0, arrived - late[r][k] - (took - spent))  # the program is blocked at the end
        waits = sum(w["us"] for w in table(found["waits"]))
        self.assertAlmostEqual(waits, (expected + shared) / 1000, 0)


class Words(ReportTest):
    def test_the_terminal_has_a_summary(self):
        trace_make.make(self.dir, 4, 200)
        rc, out, err = self.report()
        self.assertEqual((rc, err), (0, ""))
        self.assertIn("train_gpt: 4 ranks on 1 host, 800 events in ", out)
        self.assertRegex(out, r"(?m)^ +0( +[\d.]+){8}$")
        self.assertRegex(out, r"(?m)^all_reduce +16 MiB +4 +\d+ ")
        self.assertLessEqual(max(map(len, out.splitlines())), 100)
        self.assertEqual(os.listdir(self.folder), ["out"])

    def test_no_escapes_reach_the_terminal(self):
        trace = Trace(0, 1, program="\x1b[31mred")
        trace.op("\x1b]0;title\x07", 0, 1, 0, size=4)
        trace.end().write(self.dir)
        rc, out, _ = self.report()
        self.assertEqual(rc, 0)
        self.assertNotIn("\x1b", out)


class Diagnoses(ReportTest):
    def diagnosis(self, kind, blamed):
        failure = self.figures(None)["failure"]
        self.assertEqual((failure["kind"], failure["blamed"]), (kind, blamed), failure["diagnosis"])
        rc, out, _ = self.report()
        self.assertEqual(rc, 0)
        self.assertEqual(out.splitlines()[0], failure["diagnosis"])
        return failure["diagnosis"]

    def test_a_rank_that_is_behind(self):
        for rank in range(4):
            done = [("broadcast", 15, "done", "data.c:9"), ("all_reduce", 16, "done", "train.c:31")]
            flight(self.dir, rank, 4, done + [("all_reduce", 17, "started", "train.c:33")] * (rank != 2), "MST_ERR_STALLED: nothing moved" if rank != 2 else "SIGUSR2")
        words = self.diagnosis("behind", [2])
        self.assertEqual(words, "Rank 2 is behind: it has not reached mst_all_reduce #17 of world, in which ranks 0, 1, 3 wait (train.c:33); its last operation was "
                                "mst_all_reduce #16 of world (4 ranks), 1024 f32, at train.c:31 (step), has returned; its recorder says: SIGUSR2.")

    def test_a_rank_that_others_wait_for_waits_for_another(self):
        stuck = [("all_reduce", 17, "started", "train.c:33")]
        flight(self.dir, 0, 4, stuck)
        flight(self.dir, 1, 4, stuck)
        flight(self.dir, 2, 4, [("all_reduce", 16, "done", "train.c:31"), {"name": "recv", "seq": 4, "state": "started", "site": "pipe.c:8", "peer": 3}])
        flight(self.dir, 3, 4, [("all_reduce", 16, "done", "train.c:31")])
        words = self.diagnosis("behind", [3])
        self.assertIn("in which ranks 0, 1 wait (train.c:33), and rank 2 waits because of it", words)
        flight(self.dir, 3, 4, [("all_reduce", 16, "done", "train.c:31"), ("all_reduce", 17, "started", "train.c:33")])
        self.assertIn("rank 2 in mst_recv #4 from rank 3", self.diagnosis("circle", [2, 3]))
        sent = {"name": "send", "seq": 4, "state": "done", "site": "pipe.c:9", "peer": 2}
        flight(self.dir, 3, 4, [sent, ("all_reduce", 17, "started", "train.c:33")])
        self.diagnosis("behind", [2])

    def test_a_member_that_called_nothing(self):
        """Its recorder lists the group."""
        group = {"group": 1, "name": "pair", "id": "p", "size": 2}
        call = {"name": "barrier", "seq": 1, "state": "started", "site": "a.c:1", "group": 1, "group_name": "pair", "group_id": "p", "group_size": 2}
        flight(self.dir, 0, 3, [call], groups=[group])
        flight(self.dir, 1, 3, [], groups=[group], now_us=1.0)
        flight(self.dir, 2, 3, [])
        self.assertIn("Rank 1 is behind: it has not reached mst_barrier #1 of group 'pair'", self.diagnosis("behind", [1]))
        flight(self.dir, 1, 3, [])
        self.assertIn("not all 2 ranks of group 'pair' are known", self.diagnosis("missing", []).lower())

    def test_both_directions_of_a_batch(self):
        """Both ranks have sent, and wait for messages with other tags."""
        batch = {"name": "batch_isend_irecv", "seq": 0, "site": "a.c:1"}
        for rank in range(2):
            done = {**batch, "state": "done", "peer": 1 - rank, "dir": "send", "tag": 5 + rank}
            flight(self.dir, rank, 2, [done, {**batch, "state": "started", "peer": 1 - rank, "dir": "recv", "tag": 6}])
        self.diagnosis("behind", [0])

    def test_a_missing_rank(self):
        for rank in (0, 1, 3):
            flight(self.dir, rank, 4, [("barrier", 3, "started", "a.c:1")])
        words = self.diagnosis("missing", [2])
        self.assertEqual(words, "Rank 2 has recorded nothing: it may not have reached mst_barrier #3 of world, in which ranks 0, 1, 3 wait (a.c:1).")

    def test_ranks_that_wait_for_each_other(self):
        for rank in range(2):
            flight(self.dir, rank, 2, [{"name": "recv", "seq": 0, "state": "started", "site": f"a.c:{rank}", "peer": 1 - rank}])
        words = self.diagnosis("circle", [0, 1])
        self.assertIn("rank 0 in mst_recv #0 from rank 1 of world (2 ranks), 1024 f32, at a.c:0 (step) for rank 1, and rank 1 in mst_recv", words)

    def test_different_calls(self):
        for rank in range(3):
            name = "broadcast" if rank == 2 else "all_reduce"
            flight(self.dir, rank, 3, [(name, 5, "started", f"{name}.c:1")])
        words = self.diagnosis("different", [0, 2])
        self.assertIn("rank 2 called mst_broadcast #5 of world (3 ranks), 1024 f32, at broadcast.c:1", words)

    def test_no_rank_is_behind(self):
        for rank in range(3):
            flight(self.dir, rank, 3, [("all_reduce", 5, "started", "a.c:1")])
        self.assertIn("all have reached mst_all_reduce #5 of world, in which ranks 0, 1, 2 wait", self.diagnosis("together", []))

    def test_no_rank_is_in_a_call(self):
        flight(self.dir, 0, 1, [("barrier", 5, "done", "a.c:1")])
        self.assertEqual("No rank waits for another.", self.diagnosis("none", []))

    def test_a_rank_that_others_name(self):
        """All ranks are in the same call; one died in it, and the others failed because of that."""
        call = {"name": "all_reduce", "seq": 17, "site": "train.c:33"}
        flight(self.dir, 2, 4, [{**call, "state": "started"}], reason="killed by SIGKILL")
        for rank in (0, 1, 3):
            flight(self.dir, rank, 4, [{**call, "state": "done", "failed": True}], reason="MST_ERR_PEER_LOST: gone", culprit=2)
        words = self.diagnosis("lost", [2])
        self.assertIn("Ranks 0, 1, 3 name rank 2 as the cause; it is in mst_all_reduce #17 of world (4 ranks), 1024 f32, at train.c:33 (step)", words)
        self.assertIn("killed by SIGKILL", words)
        os.remove(os.path.join(self.dir, "rank-2.flight.json"))
        self.assertIn("Rank 2 has recorded nothing, and ranks 0, 1, 3 name it as the cause", self.diagnosis("missing", [2]))
        flight(self.dir, 2, 4, [{**call, "seq": 16, "state": "done"}])
        self.assertIn("Rank 2 is behind", self.diagnosis("behind", [2]))

    def test_success_after_a_failure(self):
        flight(self.dir, 0, 1, [{"name": "recv", "seq": 0, "state": "done", "failed": True, "peer": -1}, ("barrier", 1, "done", "a.c:1")])
        self.diagnosis("none", [])

    def test_groups_that_look_alike(self):
        """Two groups of one name and size: no rank is blamed without ids, the right one with ids."""
        def pairs(more):
            for rank in range(4):
                ops = [{"name": "all_reduce", "seq": 10 * (rank // 2) + (rank != 3), "state": "done" if rank in (0, 3) else "started", "site": f"a.c:{rank}",
                        "group": 1, "group_name": "pair", "group_size": 2, **more(rank)}]
                flight(self.dir, rank, 4, ops)
        pairs(lambda rank: {})
        self.diagnosis("together", [])
        pairs(lambda rank: {"group_id": f"p{rank // 2}"})
        self.diagnosis("behind", [3])

    def test_hostile_recordings(self):
        flight(self.dir, 0, 2, [("barrier", 5, "started", "a.c:1")])
        self.put("rank-1.flight.json", '{"version":1,"rank":1,"size":2,"operations":[{"name":"barrier","seq":1e300}]}')
        self.put("rank-2.flight.json", '{"version":1,"rank":2,"size":70000,"operations":[]}')
        self.put("rank-3.flight.json", "[" * 100000)
        self.put("rank-4.flight.json", '{"version":1,"rank":0,"size":2,"operations":[]}')
        found = self.figures(None)
        self.assertEqual(len(found["warnings"]), 4, found["warnings"])
        self.assertEqual(found["failure"]["ranks"][0]["rank"], 0)


class Worlds(ReportTest):
    """Traces of several worlds in one directory: one of them is shown."""

    BEGAN = 1789000000000000000

    def world(self, k, numbers, calls):
        """Writes world k; its ranks' files have these numbers; rank r makes calls + r calls."""
        for rank, number in enumerate(numbers):
            trace = Trace(rank, len(numbers), unix_ns=self.BEGAN + k * 10**9)
            for seq in range(calls + rank):
                trace.op("barrier", 10 * seq, 5, seq)
            trace.end().write(self.dir, number=number)

    def counted(self, *args):
        """The world's size, its events and the warnings."""
        path = os.path.join(self.folder, "figures.json")
        rc, _, err = self.report("--json", path, *args)
        self.assertEqual(rc, 0, err)
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        return found["size"], found["events"], "\n".join(found["warnings"])

    def test_the_newest_is_shown(self):
        self.world(0, ["", ""], 10)
        self.world(2, ["", ".2", ".3"][1:] * 2, 30)  # rank 0 has .2, rank 1 has .3: an earlier job was larger there
        self.world(1, [".9"], 20)
        os.remove(os.path.join(self.dir, "rank-3.3.trace.json"))
        size, events, words = self.counted()
        self.assertEqual((size, events), (4, 30 + 31 + 32))
        self.assertIn("has traces of 3 worlds; this is number 3", words)
        self.assertRegex(words, r"--world selects another: 1 of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(2 traces\), 2 of .* \(1 traces\)")
        self.assertIn("1 of 4 ranks left no trace: 3", words)

    def test_another_is_selected(self):
        self.world(0, ["", ""], 10)
        self.world(1, [".2", ".2"], 20)
        flight(self.dir, 0, 2, [("barrier", 3, "started", "a.c:1")], "MST_ERR_STALLED")
        self.assertEqual(self.counted("--world", 1)[:2], (2, 21))
        self.assertEqual(self.counted("--world", 2)[:2], (2, 41))
        rc, out, _ = self.report("--world", 1)
        self.assertNotIn("rank 0", out.splitlines()[0].lower())  # the recording is not of that world
        for wrong in (3, 0):
            self.assertNotEqual(self.report("--world", wrong)[0], 0)
        self.assertIn("no world 3 in", self.report("--world", 3)[2])

    def test_one_world_has_no_warning(self):
        self.world(0, [".7", ""], 10)
        self.assertEqual(self.counted(), (2, 21, ""))

    def test_copies_and_other_files_are_left_out(self):
        self.world(0, ["", ""], 10)
        shutil.copy(os.path.join(self.dir, "rank-1.trace.json"), os.path.join(self.dir, "rank-1.4.trace.json"))
        self.put("rank-5.trace.json", "nonsense")
        size, events, words = self.counted()
        self.assertEqual((size, events), (2, 21))
        self.assertIn("rank-1.4.trace.json is left out: it is a second trace", words)
        self.assertIn("rank-5.trace.json is left out: it does not say to which world", words)

    def test_names(self):
        self.world(0, [""], 3)
        for name in ("rank-0.1", "rank-0.02", "rank-0.", "rank-0.x", "rank-0.99999999999999999999"):
            self.put(name + ".trace.json", "nonsense")
        self.assertEqual(self.counted(), (1, 3, ""))


class Merged(ReportTest):
    def merge(self, *args):
        """The messages and the events."""
        path = os.path.join(self.folder, "all.json")
        rc, out, err = self.report("--merge", path, *args)
        self.assertEqual((rc, out), (0, ""), err)
        with open(path, encoding="utf-8") as file:
            return err, json.load(file)

    def test_all_ranks_of_a_world(self):
        trace_make.make(self.dir, 3, 40)
        Trace(1, 3, unix_ns=1).end().write(self.dir, number=".2")
        said, events = self.merge()
        expected = []
        for rank in range(3):
            with open(os.path.join(self.dir, f"rank-{rank}.trace.json"), encoding="utf-8") as file:
                expected += json.load(file)
        self.assertEqual(events, expected)
        self.assertIn(f"{len(expected)} events of 3 ranks", said)
        self.assertEqual(len(self.merge("--world", 1)[1]), 2)

    def test_truncated_files(self):
        for rank in range(2):
            trace = Trace(rank, 2)
            for seq in range(5):
                trace.op("barrier", 10 * seq, 5, seq)
            self.put(f"rank-{rank}.trace.json", trace.text(ended=False)[:-30 * rank or None].replace("\n", "\n{nonsense},\n", rank))
        said, events = self.merge()
        self.assertEqual([event["pid"] for event in events], [0] * 6 + [1] * 5)
        self.assertIn("rank-1.trace.json ends within a line", said)
        self.assertIn("rank-1.trace.json has lines that cannot be read", said)
        self.assertNotIn("rank-0", said)

    def test_outputs_that_cannot_be_written(self):
        rc, _, err = self.report("--merge", os.path.join(self.folder, "all.json"))
        self.assertEqual(rc, 1)
        self.assertIn("has no rank-R.trace.json", err)
        trace_make.make(self.dir, 1, 10)
        for path in ("/dev/full", os.path.join(self.folder, "none", "all.json")):
            rc, _, err = self.report("--merge", path)
            self.assertEqual(rc, 1, path)
            self.assertIn(path, err)
        self.assertEqual(os.listdir(self.folder), ["out"])

    def test_files_that_would_replace_another(self):
        trace_make.make(self.dir, 2, 10)
        mine = os.path.join(self.dir, "rank-1.trace.json")
        with open(mine, "rb") as file:
            before = file.read()
        for option in ("--merge", "--json", "-o"):
            rc, _, err = self.report(option, os.path.join(self.dir, ".", "rank-1.trace.json"))
            self.assertEqual(rc, 2, err)
            self.assertIn("would overwrite an input file", err)
        with open(mine, "rb") as file:
            self.assertEqual(file.read(), before)
        same = os.path.join(self.folder, "same")
        for one, other in (("-o", "--json"), ("-o", "--merge"), ("--json", "--merge")):
            rc, _, err = self.report(one, same, other, os.path.join(self.folder, ".", "same"))
            self.assertEqual(rc, 2, err)
            self.assertIn("the same file", err)
        self.assertFalse(os.path.exists(same))
        self.assertEqual(self.report("-o", "/dev/null", "--json", "/dev/null")[0], 0)
        inside = os.path.join(self.dir, "page.html")
        self.assertEqual(self.report("-o", inside)[0], 0)
        self.assertTrue(os.path.getsize(inside) > 0)

    def test_standard_output(self):
        trace_make.make(self.dir, 2, 10)
        rc, out, err = self.report("--json", "-")
        self.assertEqual((rc, json.loads(out)["events"]), (0, 20), err)
        rc, out, err = self.report("--merge", "-")
        self.assertEqual((rc, len([event for event in json.loads(out) if event["ph"] == "X"]) > 10), (0, True), err)

    def test_beside_the_page(self):
        trace_make.make(self.dir, 2, 10)
        page, merged = (os.path.join(self.folder, name) for name in ("page.html", "all.json"))
        rc, out, _ = self.report("-o", page, "--merge", merged)
        self.assertEqual(rc, 0)
        self.assertIn("2 ranks", out)
        self.assertTrue(os.path.getsize(page) > 0 and os.path.getsize(merged) > 0)


class Large(ReportTest):
    """64 ranks with 2,000 events each; trace_make.py makes larger ones, of which docs/profiling.md has the figures."""

    RANKS, EVENTS = 64, 2000

    def measured(self, *args):
        """Processor time in seconds and memory in MiB of a report."""
        process = self.popen("report", self.dir, *args, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, process.stderr.read())
        return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024

    @unittest.skipIf(SANITIZED, "a sanitizer needs more memory than the limit")
    def test_too_little_memory(self):
        trace_make.make(self.dir, 2, 50000, hosts=1, processes=1)
        page = os.path.join(self.folder, "page.html")
        limit = 4 << 20
        limited = lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        rc, _, err = self.muster("report", self.dir, "-o", page, preexec_fn=limited)
        self.assertEqual((rc, err), (1, b"muster report: out of memory\n"))
        self.assertEqual(os.listdir(self.folder), ["out"])

    def test_time_and_memory(self):
        trace_make.make(self.dir, self.RANKS, self.EVENTS, hosts=8, processes=os.cpu_count())
        page, merged = (os.path.join(self.folder, name) for name in ("page.html", "all.json"))
        seconds, page_mib = self.measured("-o", page)
        self.assertLess(seconds, 10)
        seconds, merge_mib = self.measured("--merge", merged)
        self.assertLess(seconds, 10)
        if not SANITIZED:
            self.assertLess(page_mib, 64)  # a page needs all events in memory
            # Merging needs a few lines of 37 MB. A child's figure is at least that of this process when it forked.
            own_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            self.assertLess(merge_mib, max(32, own_mib + 4))
        with open(merged, encoding="utf-8") as file:
            lines = sum(1 for _ in file)
        each = 2 + 2 + self.EVENTS + self.EVENTS // 8 + 1  # descriptions, groups and clock, operations, the ends of works, the end
        self.assertEqual(lines, self.RANKS * each + 1)


class Hostile(ReportTest):
    def trace(self, rank=0, size=1, calls=5):
        trace = Trace(rank, size)
        for seq in range(calls):
            trace.op("all_reduce", 10 * seq, 5, seq, size=64)
        return trace.end()

    def fails(self, part, *args):
        rc, out, err = self.report(*args)
        self.assertEqual((rc, out), (1, ""))
        self.assertIn(part, err)

    def test_directories_without_traces(self):
        self.fails("has no rank-R.trace.json")
        self.put("rank-x.trace.json", "[")
        self.put("rank-01.trace.json", "[")
        self.fails("has no rank-R.trace.json")
        rc, _, err = self.muster("report", os.path.join(self.folder, "none"))
        self.assertEqual(rc, 1)
        self.assertIn("No such file or directory", err.decode())

    def test_mistakes(self):
        for words, part in (((), "name the directory"), (("a", "b"), "one directory"), (("a", "--pages"), "--pages")):
            rc, out, err = self.muster("report", *words)
            self.assertEqual((rc, out), (2, b""), words)
            self.assertIn(part, err.decode())

    def test_every_truncation_is_read_up_to_its_end(self):
        text = self.trace().text()
        for end in range(0, len(text), 7):
            self.put("rank-0.trace.json", text[:end])
            rc, _, err = self.report()
            self.assertIn(rc, (0, 1))
            self.assertIn("warning" if rc == 0 else "left out", err)
        self.put("rank-0.trace.json", text)
        self.assertEqual(self.figures()["events"], 5)

    def test_a_truncated_file_keeps_its_complete_lines(self):
        text = self.trace().text()
        self.put("rank-0.trace.json", text[:text.rindex('"seq":4')])
        found = self.figures(1)
        self.assertEqual(found["events"], 4)
        self.assertIn("has no end record", found["warnings"][0])

    def test_lines_of_another_kind(self):
        good = self.trace().text()
        for bad in ('{"ph":1}', '{"ph":"X","ts":"1"}', '{"ph":"X","ts":1e300,"dur":1,"name":"a","args":{"group":0,"seq":0}}', '{"ph":"X","ts":1,"dur":-1,"name":"a","args":{"group":0,"seq":0}}',
                    '{"ph":"X","ts":1,"dur":1,"name":"a","args":{"group":0,"seq":99999999999999999999}}', '{"ph":"X","ts":1,"dur":1,"name":null,"args":{"group":0,"seq":0}}', "\0\xff", "{" * 50,
                    '{"ph":"M","name":"muster_group","args":{"group":3,"size":3,"ranks":[1,2]}}', '{"ph":"M","name":"muster_group","args":{"group":3,"size":1,"ranks":[99999999]}}',
                    '{"ph":"M","name":"muster","args":{"version":1,"rank":0,"size":1}}', '{"ph":"e","id":"0.9","ts":1}', '{"ph":"b","id":"0.9","name":"a","args":{"group":0,"seq":0}}', "x" * 3000000):
            self.put("rank-0.trace.json", good.replace("\n", f"\n{bad},\n", 1).encode("latin-1"))
            found = self.figures(1)
            self.assertEqual(found["events"], 5, bad[:80])
            self.assertIn("that cannot be read", found["warnings"][0])

    def test_values_at_the_limits(self):
        trace = Trace(0, 1)
        trace.op("all_reduce", 8999999999999.0, 0, 2**53, size=2**53, queued=-1.0, waited=8999999999999.0)
        trace.op("send", -5.0, 0.0, 0, cat="message", peer=2**31 - 1, tag=-5)
        trace.end().write(self.dir)
        found = self.figures()
        self.assertEqual((found["events"], found["begin_us"]), (2, -5))
        rc, _, err = self.report("-o", os.path.join(self.folder, "page.html"))
        self.assertEqual((rc, err), (0, ""))

    def test_ranks_that_are_missing_doubled_or_of_another_world(self):
        self.trace(0, 4).write(self.dir)
        self.trace(1, 4).write(self.dir)
        self.trace(2, 8).write(self.dir)
        self.put("rank-3.trace.json", self.trace(1, 4).text())
        found = self.figures(3)
        words = "\n".join(found["warnings"])
        self.assertIn("belongs to a world of 8 ranks, the others to one of 4", words)
        self.assertIn("rank-3.trace.json is left out: it was written by rank 1", words)
        self.assertIn("2 of 4 ranks left no trace: 2, 3", words)
        self.assertEqual([rank["rank"] for rank in found["ranks"]], [0, 1])

    def test_dropped_events_are_reported(self):
        trace = Trace(0, 2)
        trace.op("barrier", 1, 1, 0)
        trace.end(dropped=77).write(self.dir)
        Trace(1, 2).end().write(self.dir)
        self.assertIn("rank 0 dropped 77 events", self.figures(1)["warnings"][0])

    def test_a_pipe_is_not_waited_for(self):
        os.mkfifo(os.path.join(self.dir, "rank-0.trace.json"))
        os.mkfifo(os.path.join(self.dir, "rank-0.flight.json"))
        self.fails("cannot be read")

    def test_many_groups_and_open_works_end_in_time(self):
        lines = [json.dumps({"ph": "M", "name": "muster", "args": {"version": 1, "rank": 0, "size": 1}})]
        lines += [json.dumps({"ph": "M", "name": "muster_group", "args": {"group": k, "name": "g", "size": 1, "ranks": [0]}}) for k in range(20000)]
        lines += [json.dumps({"ph": "b", "id": f"0.{k}", "ts": k, "name": f"n{k}", "args": {"group": k, "seq": k, "bytes": k, "site": f"s{k}"}}) for k in range(20000)]
        lines += [json.dumps({"ph": "e", "id": f"0.{k}", "ts": k + 1}) for k in range(20000)]
        self.put("rank-0.trace.json", "[" + ",\n".join(lines) + "\n]\n")
        self.assertEqual(self.figures(None)["events"], 20000)

    def test_markup_in_names_stays_text(self):
        evil = '</script><script>alert(1)</script><!--<b>&"'
        trace = Trace(0, 1, host=evil, program=evil)
        trace.op(evil, 0, 1, 0, size=4, call="all_reduce", site=evil, function=evil)
        trace.end().write(self.dir)
        flight(self.dir, 0, 1, [(evil, 0, "started", evil)], reason=evil)
        path = os.path.join(self.folder, "page.html")
        rc, _, err = self.report("-o", path)
        self.assertEqual((rc, err), (0, ""))
        with open(path, encoding="utf-8") as file:
            page = file.read()
        self.assertNotIn("alert(1)</script>", page)
        summary = re.search(r'id="summary">(.*?)</script>', page, re.S)[1]
        self.assertEqual(json.loads(summary)["program"], evil)
        self.assertEqual(json.loads(summary), self.figures(None))

    def test_a_page_that_cannot_be_written(self):
        self.trace().write(self.dir)
        for path in ("/nonexistent/page.html", "/dev/full", self.dir):
            for option in ("-o", "--json"):
                rc, _, err = self.report(option, path)
                self.assertEqual(rc, 1, path)
                self.assertIn(f"cannot write {path}", err)
        self.assertEqual(os.listdir(self.folder), ["out"])

    def test_a_page_replaces_another_as_a_whole(self):
        self.trace().write(self.dir)
        path = os.path.join(self.folder, "page.html")
        for _ in range(2):
            self.assertEqual(self.report("-o", path)[0], 0)
            self.assertEqual(sorted(os.listdir(self.folder)), ["out", "page.html"])
        with open(path, encoding="utf-8") as file:
            page = file.read()
        self.assertTrue(page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n"))
        self.assertNotRegex(page, r"https?://(?!www\.w3\.org)|src=|@import")


if __name__ == "__main__":
    unittest.main()
