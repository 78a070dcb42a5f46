"""The page of muster report in a browser: it shows the figures of the JSON, and mouse and keys work."""

import json
import os
import sys
import tempfile
import unittest

import browser
import trace_make
from harness import ToolTest
from trace_make import Trace, flight

RANKS, STEPS = 4, 40
STEP_US = 1000.0
EVIL = '</script><img src=x onerror="document.title=1"><b>&'


def make(folder):
    """Each step: an all_reduce for which rank 2 is 100 us late, a message from 0 to 1, a work on all; with a hostile name among them."""
    for rank in range(RANKS):
        trace = Trace(rank, RANKS, host=f"node{rank // 2}", program="train <b>bold</b>")
        trace.group(0, "world", list(range(RANKS)))
        for k in range(STEPS):
            start, late = STEP_US * k, 100.0 if rank == 2 else float(rank)
            trace.op("all_reduce", start + late, 200 - late, 2 * k, size=1 << (10 + k % 8), site="train.c:33")
            if rank == 0:
                trace.message("send", start + 350, 10, k, peer=1, size=4096, site="pipe.c:5")
            if rank == 1:
                trace.message("recv", start + 300, 80, k, peer=0, size=4096, site="pipe.c:9")
            trace.work(EVIL if k == 3 else "all_gather", start + 500, 300, 2 * k + 1, waited=50.0, size=1 << 16, call="all_gather", site=EVIL, device=12.5)
        trace.end(ts=STEP_US * STEPS).write(folder)


@unittest.skipUnless(browser.find(), "Chromium is not installed")
class Page(ToolTest):
    def setUp(self):
        super().setUp()
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.dir = os.path.join(self.scratch.name, "out")
        os.mkdir(self.dir)

    def open(self, **options):
        """The page of self.dir in a browser, and its figures."""
        page, figures = (os.path.join(self.scratch.name, name) for name in ("page.html", "figures.json"))
        rc, _, err = self.muster("report", self.dir, "-o", page, "--json", figures)
        self.assertEqual(rc, 0, err)
        with open(figures, encoding="utf-8") as file:
            self.figures = json.load(file)
        chromium = browser.Browser(**options)
        self.addCleanup(chromium.__exit__)
        chromium.open(page)
        self.b = chromium
        return chromium

    def finish(self):
        self.assertEqual(self.b.faults(), [])
        self.assertEqual(len(self.b.requests()), 1, self.b.requests())

    def lanes(self):
        return {k: float(v) for k, v in self.b.js("({...document.getElementById('lanes').dataset})").items() if k in ("begin", "end", "lane", "scroll", "labels")}

    def place(self, rank, us, works=False):
        """Where a time of a rank is on the screen."""
        self.b.js("document.getElementById('timeline').scrollIntoView()")
        self.b.settle()
        left, top, width = self.b.js("(() => { const r = document.getElementById('lanes-canvas').getBoundingClientRect(); return [r.left, r.top, r.width]; })()")
        at = self.lanes()
        x = left + at["labels"] + (us * 1000 - at["begin"]) / (at["end"] - at["begin"]) * (width - at["labels"])
        return x, top + 22 + rank * at["lane"] + at["lane"] * (0.75 if works else 0.25)

    def selected(self):
        return self.b.js("(() => { const d = document.getElementById('selected'); return d && !document.getElementById('details').hidden ? {...d.dataset} : null; })()")

    def rows(self, table):
        return self.b.js(f"[...document.querySelectorAll('#{table} tbody tr')].map((row) => [...row.cells].map((cell) => cell.dataset.value))")

    def test_figures_are_those_of_the_json(self):
        make(self.dir)
        b = self.open()
        self.assertEqual(b.js("JSON.parse(document.getElementById('summary').textContent)"), self.figures)
        self.assertEqual(b.js("document.getElementById('title').textContent"), "train <b>bold</b>")
        self.assertEqual(b.js("document.title"), "train <b>bold</b> \u00b7 muster report")
        self.assertEqual(float(b.js("document.getElementById('duration').dataset.us")), self.figures["duration_us"])
        shares = sorted(rank["share"] for rank in self.figures["ranks"])
        share = b.js("({...document.getElementById('share').dataset})")
        self.assertEqual((float(share["min"]), float(share["max"])), (shares[0], shares[-1]))
        self.assertAlmostEqual(float(share["median"]), (shares[1] + shares[2]) / 2)
        rows = {(row[0], int(row[1])): row for row in self.rows("op-table")}
        self.assertEqual(len(rows), len(self.figures["operations"]))
        for o in self.figures["operations"]:
            row = rows[o["name"], o["bytes"]]
            run = sum(rank["duration_us"] for rank in self.figures["ranks"])
            expected = [o["size"], o["count"], o["communication_us"] / RANKS, o["communication_us"] / run, o["waiting_us"] / RANKS]
            for got, wanted in zip(row[2:10], [*expected, o["avg_us"], o["tput_gbps"], o["busbw_gbps"]], strict=True):
                self.assertAlmostEqual(float(got), wanted)
        sites = self.rows("site-table")
        for column, field in ((4, "communication_us"), (6, "waiting_us")):
            self.assertAlmostEqual(sum(float(row[column]) for row in sites) * RANKS, sum(o[field] for o in self.figures["operations"]))
            self.assertAlmostEqual(sum(float(row[column]) for row in sites) * RANKS, sum(r[field] for r in self.figures["ranks"]))
        self.finish()

    def test_tables_sort_and_narrow(self):
        make(self.dir)
        b = self.open()
        totals = [float(row[4]) for row in self.rows("op-table")]
        self.assertEqual(totals, sorted(totals, reverse=True))
        b.js("document.querySelector('#op-table th:nth-child(2) button').click()")
        sizes = [int(row[1]) for row in self.rows("op-table")]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        b.js("document.querySelector('#op-table th:nth-child(2) button').click()")
        self.assertEqual([int(row[1]) for row in self.rows("op-table")], sorted(sizes))
        b.js("(() => { const s = document.getElementById('op-rank'); s.value = '1'; s.dispatchEvent(new Event('change')); })()")
        columns = self.figures["cells"]["columns"]
        cells = [dict(zip(columns, row)) for row in self.figures["cells"]["rows"]]
        expected = sorted((self.figures["operations"][c["operation"]]["name"], c["count"], c["communication_us"]) for c in cells if c["rank"] == 1)
        self.assertEqual(sorted((row[0], int(row[3]), float(row[4])) for row in self.rows("op-table")), expected)
        self.finish()

    def test_calls_that_failed(self):
        """They are drawn pale and counted in their own column."""
        for rank in range(2):
            trace = Trace(rank, 2)
            trace.group(0, "world", [0, 1])
            trace.op("all_reduce", 100, 200, 0, size=4096)
            if rank == 0:
                trace.op("all_reduce", 400, 500, 1, size=4096, status="MST_ERR_PEER_LOST")
            trace.end(ts=1000).write(self.dir)
        b = self.open()
        self.assertEqual(b.js("[...document.querySelectorAll('#op-table th')][4].textContent"), "Failed")
        self.assertEqual([row[3:6] for row in self.rows("op-table")], [["2", "1", "450"]])
        self.assertEqual([row[3:6] for row in self.rows("site-table")], [["2", "1", "450"]])
        shares = b.js("(() => { const row = lanes[0]; row.load(); const b = row.rows[0].block(0); return [waitingShare(b, 0), waitingShare(b, 1)]; })()")
        self.assertEqual(shares, [0, 1])
        b.click(*self.place(0, 600))
        details = b.js("document.getElementById('details').textContent")
        self.assertIn("MST_ERR_PEER_LOST", details)
        self.assertRegex(details, r"communication500 \S+, waiting 500 ")
        self.finish()

    def test_a_very_long_name(self):
        """It is cut, a tooltip shows all of it, and the columns stay visible."""
        trace, name = Trace(0, 1), "name" * 500
        trace.group(0, "world", [0])
        trace.op(name, 100, 200, 0, size=4096, call="all_reduce", site="x" * 300 + ".c:1", function="f" * 300)
        trace.end(ts=1000).write(self.dir)
        b = self.open()
        for table in ("op-table", "site-table"):
            right = b.js(f"Math.max(...[...document.querySelectorAll('#{table} tbody td')].map((cell) => cell.getBoundingClientRect().right))")
            self.assertLess(right, 1.5 * b.js("innerWidth"), table)
        self.assertEqual(b.js("document.querySelector('#op-table tbody td').title"), name + " (all_reduce)")
        self.finish()

    def test_widths(self):
        """At 1,400 and at 420 pixels nothing is wider than the window, and the drawings have its width."""
        make(self.dir)
        b = self.open()
        for width, height in ((1400, 1000), (420, 850)):
            with self.subTest(width=width):
                b.size(width, height)
                b.settle()
                self.assertLessEqual(b.js("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"), width)
                beyond = b.js("[...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth).map((e) => e.tagName + '#' + e.id)")
                self.assertEqual(beyond, [])
                for drawing in ("lanes-canvas", "stragglers-canvas", "bw-chart"):
                    self.assertGreater(b.js(f"document.getElementById('{drawing}').getBoundingClientRect().width"), 0.8 * width)
                self.assertGreaterEqual(b.js("Math.min(...[...document.querySelectorAll('#bw-chart text')].map((t) => t.getBoundingClientRect().height))"), 12)
        b.click(*self.place(1, 7150))
        self.assertIsNotNone(self.selected())
        self.assertLessEqual(b.js("document.documentElement.scrollWidth"), 420)
        self.finish()

    def test_address_selects_a_range(self):
        make(self.dir)
        b = self.open()
        b.js("location.hash = '#t=10,12.5'")
        b.settle()
        self.assertEqual((self.lanes()["begin"], self.lanes()["end"]), (10e6, 12.5e6))
        self.finish()

    def test_zooming_and_moving(self):
        make(self.dir)
        b = self.open()
        whole = self.lanes()
        self.assertEqual((whole["begin"], whole["end"]), (0, STEP_US * STEPS * 1000))
        x, y = self.place(1, 20000)
        for _ in range(4):
            b.wheel(x, y, -300)
        near = self.lanes()
        self.assertLess(near["end"] - near["begin"], (whole["end"] - whole["begin"]) / 10)
        self.assertLess(near["begin"], 20e6)
        self.assertGreater(near["end"], 20e6)
        b.drag(x, y, x - 200, y)
        moved = self.lanes()
        self.assertGreater(moved["begin"], near["begin"])
        self.assertAlmostEqual(moved["end"] - moved["begin"], near["end"] - near["begin"], -1)
        b.js("document.getElementById('zoom-in').click()")
        b.settle()
        self.assertAlmostEqual(self.lanes()["end"] - self.lanes()["begin"], (near["end"] - near["begin"]) / 2, -1)
        b.js("document.getElementById('lanes').focus()")
        before = self.lanes()
        b.key("ArrowRight")
        self.assertGreater(self.lanes()["begin"], before["begin"])
        b.key("-")
        self.assertGreater(self.lanes()["end"] - self.lanes()["begin"], before["end"] - before["begin"])
        b.key("0")
        self.assertEqual(self.lanes(), whole)
        b.drag(*self.place(0, 10000), *self.place(1, 12000), modifiers=8)
        chosen = self.lanes()
        self.assertAlmostEqual(chosen["begin"] / 1e6, 10, 0)
        self.assertAlmostEqual(chosen["end"] / 1e6, 12, 0)
        self.finish()

    def test_an_operation_is_selected_and_shown_on_all_ranks(self):
        make(self.dir)
        b = self.open()
        x, y = self.place(1, 7150)
        for _ in range(4):
            b.wheel(x, y, -300)
        b.click(*self.place(1, 7150))
        selected = self.selected()
        self.assertEqual({k: float(v) for k, v in selected.items()}, {"begin": 7001000, "took": 199000, "seq": 14, "rank": 1, "group": 0, "wait": 99000})
        partners = b.js("[...document.querySelectorAll('#partners tbody tr')].map((r) => [r.dataset.rank, r.dataset.begin, r.dataset.took, r.innerText.includes('began last')])")
        self.assertEqual(partners, [[str(r), str(7000000 + (100000 if r == 2 else 1000 * r)), str(200000 - (100000 if r == 2 else 1000 * r)), r == 2] for r in range(RANKS)])
        text = b.js("document.getElementById('selected').innerText")
        for part in ("train.c:33 in step", "world, 4 ranks", "SUM", "native", "region", "f32", "128 KiB"):
            self.assertIn(part, text)
        b.click(*self.place(1, 7340))
        self.assertEqual(b.js("document.getElementById('selected-name').textContent"), "recv")
        self.assertEqual((self.selected()["seq"], self.selected()["wait"]), ("7", "50000"))
        self.assertEqual(b.js("[...document.querySelectorAll('#partners tbody tr')].map((r) => r.dataset.rank)"), ["1", "0"])
        b.key("n")
        self.assertEqual((self.selected()["begin"], self.selected()["seq"]), ("8001000", "16"))
        b.key("p")
        self.assertEqual(self.selected()["begin"], "7300000")
        b.key("Escape")
        self.assertIsNone(self.selected())
        self.finish()

    def test_tooltips_and_markup_stays_text(self):
        make(self.dir)
        b = self.open()
        x, y = self.place(3, 3600, works=True)
        for _ in range(4):
            b.wheel(x, y, -300)
        b.mouse("mouseMoved", *self.place(3, 3600, works=True))
        b.settle()
        words = b.js("document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent")
        self.assertTrue(words.startswith(EVIL), words)
        self.assertIn("overlap 250", words)
        self.assertIn("on the device: 12.5 \u00b5s", words)
        self.assertEqual(b.js("document.images.length"), 0)
        self.finish()

    def test_maps_and_chart(self):
        make(self.dir)
        b = self.open()
        points = b.js("[...document.querySelectorAll('#bw-chart circle')].map((c) => ({...c.dataset}))")
        found = {(p["line"], int(p["bytes"])): float(p["gbps"]) for p in points}
        for o in self.figures["operations"]:
            if o["bytes"] and o["tput_gbps"]:
                self.assertAlmostEqual(found[f"{o['name']}, {o['size']} ranks", o["bytes"]], o["busbw_gbps"], 4)
        b.js("document.querySelector('#bw-kind [data-kind=algbw]').click()")
        points = b.js("[...document.querySelectorAll('#bw-chart circle')].map((c) => ({...c.dataset}))")
        self.assertEqual({round(float(p["gbps"]), 5) for p in points}, {round(o["tput_gbps"], 5) for o in self.figures["operations"] if o["bytes"]})
        self.assertIn("of that for rank 2", b.js("document.getElementById('waits-lead').textContent"))
        self.assertIn("rank 2 (node1)", b.js("document.getElementById('stragglers-lead').textContent"))
        b.js("document.getElementById('waits').scrollIntoView()")
        left, top, cell, edge, head = b.js("(() => { const r = document.getElementById('waits-canvas').getBoundingClientRect(); return [r.left, r.top, waits.cell, waits.left, waits.top]; })()")
        b.mouse("mouseMoved", left + edge + 2.5 * cell, top + head + 0.5 * cell)
        b.settle()
        waited = next(row for row in self.figures["waits"]["rows"] if row[:2] == [0, 2])
        self.assertEqual(b.js("document.getElementById('tip').textContent"), f"rank 0 waited {waited[2] / 1000:.2f} ms for rank 2, {waited[3]} times")
        self.finish()

    def test_dark_and_light(self):
        make(self.dir)
        b = self.open(dark=True)
        dark = b.js("getComputedStyle(document.body).backgroundColor")
        b.theme(False)
        b.settle()
        self.assertNotEqual(b.js("getComputedStyle(document.body).backgroundColor"), dark)
        self.finish()

    def test_zoomed_out_it_shows_density(self):
        trace_make.make(self.dir, 4, 20000)
        b = self.open()
        self.assertEqual(b.js("document.getElementById('lanes').dataset.exact"), "false")
        x, y = self.place(1, 600000)
        b.mouse("mouseMoved", x, y)
        b.settle()
        self.assertRegex(b.js("document.getElementById('tip').textContent"), r"rank 1, .*: [\d.]+ % busy, [\d.]+ % waiting, mostly ")
        for _ in range(12):
            b.wheel(x, y, -300)
        self.assertEqual(b.js("document.getElementById('lanes').dataset.exact"), "true")
        begins, late, _ = trace_make.PLANNED
        k = next(k for k in range(9600, 10400) if k % 8 == 1)
        b.js(f"setView({begins[k]} - 50000, {begins[k]} + 100000)")
        b.settle()
        b.click(*self.place(1, (begins[k] + late[1][k]) / 1000 + 1))
        self.assertEqual(int(self.selected()["begin"]), begins[k] + late[1][k])
        ranks = b.js("[...document.querySelectorAll('#partners tbody tr')].map((r) => Number(r.dataset.begin))")
        self.assertEqual(ranks, [begins[k] + late[r][k] for r in range(4)])
        self.finish()

    def test_recordings_alone_and_with_traces(self):
        for rank in range(2):
            flight(self.dir, rank, 3, [("all_reduce", 4 + rank, "started" if rank else "done", EVIL)], reason=EVIL)
        b = self.open()
        self.assertEqual(b.js("document.getElementById('diagnosis').textContent"), self.figures["failure"]["diagnosis"])
        self.assertTrue(b.js("document.getElementById('timeline').hidden"))
        self.assertEqual(b.js("[...document.querySelectorAll('#failure tr.blamed')].length"), len(self.figures["failure"]["blamed"]))
        self.finish()


if __name__ == "__main__":
    if not browser.find():
        print("Chromium is not installed")
        sys.exit(77)
    unittest.main()
