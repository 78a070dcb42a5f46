"""Deliberate misuses by two to four ranks: calls that do not match, and calls that are rejected on one rank.

Required on every layout: each rank gets MST_ERR_MISMATCH in time, with the rank that made the odd call and its call. If
the call of a rank is rejected, the errors of the other ranks also have its place in the source and the reason.
expected.py lists what does not hold yet. Those cells are not run, except with MISUSE_ALL=1: then every result must be as
the table says, which takes minutes and a machine without other load. With MISUSE_REPORT=FILE the driver writes all that
it observed to a file.
"""

import concurrent.futures
import os
import sys

from expected import EXPECTED_TO_FAIL, HOLDS, LATE_CELL, TEXT, VARIES, expected_of
from harness import RanksTest, main
from misuse_kit import ALL, LATE, Layout, Run, cases


def launched(hosts, *modes):
    return [Layout(f"{hosts}-{mode}", hosts, False, mode) for mode in modes]


def plain(hosts, *modes):
    return [Layout(f"{hosts}-plain-{mode}", hosts, True, mode) for mode in modes]


# The layouts of each column of the table in expected.py.
COLUMNS = {
    "aa": launched("aa", "blocking"),
    "aaa": [*launched("aaa", "blocking", "work", "cold", "first", "last"), *plain("aaa", "blocking")],
    "ab": launched("ab", "blocking"),
    "abc": [*launched("abc", "blocking", "work", "first", "last"), *plain("abc", "blocking", "work")],
    "abc_cold": launched("abc", "cold"),
    "aabb": launched("aabb", "blocking", "last"),
    "aabb_cold": launched("aabb", "cold"),
}
PARTS = 3 if ALL else 1  # worlds for each layout
WORLDS = 12 if ALL else 6  # at a time; ranks that wait in vain sleep


class Ranks(RanksTest):
    grace = 10

    def judge(self, case, column, verdicts):
        """Compares the verdicts of a case on the layouts of a column with the table."""
        expected = expected_of(case.name, column)
        wrong = {name: why for name, why in verdicts.items() if why is not None and why != LATE}
        late = [name for name, why in verdicts.items() if why == LATE]
        told = "".join(f"\n{name}: {why}" for name, why in wrong.items()) + "".join(f"\n{name}: late" for name in late)
        if (expected == HOLDS and (wrong or late)) or (expected == LATE_CELL and wrong):
            self.fail(told)
        if expected not in (HOLDS, VARIES) and not (wrong or late):
            self.fail(f"it holds now: change '{expected}' in expected.py to '{HOLDS}'")
        if expected not in (HOLDS, VARIES, LATE_CELL, TEXT) and not wrong:
            self.fail(f"it is not as bad as '{expected}' now, correct expected.py:{told}")

    def setUp(self):
        super().setUp()
        self.cases = cases()

    def cases_of(self, column):
        return [case for case in self.cases if ALL or expected_of(case.name, column) == HOLDS]

    def write_report(self, runs):
        """Writes what was observed to the file MISUSE_REPORT: layout, case, and what is wrong."""
        if "MISUSE_REPORT" in os.environ:
            with open(os.environ["MISUSE_REPORT"], "w", encoding="utf-8") as report:
                for layout, verdicts in runs.items():
                    report.writelines(f"{layout.name}\t{case}\t{why or 'ok'}\n" for case, why in verdicts.items())

    def run_layouts(self):
        """The verdicts of each layout by the name of the case."""
        chosen = {layout: self.cases_of(column) for column, members in COLUMNS.items() for layout in members}
        parts = [(layout, chosen[layout][part::PARTS]) for layout in chosen for part in range(PARTS)]
        runs = {layout: {} for layout in chosen}
        with concurrent.futures.ThreadPoolExecutor(WORLDS) as pool:
            for (layout, _), verdicts in zip(parts, pool.map(lambda part: Run(self, part[0]).run(part[1]), parts), strict=True):
                runs[layout].update(verdicts)
        return runs

    def test_layouts(self):
        runs = self.run_layouts()
        self.write_report(runs)
        judged = 0
        for column, members in COLUMNS.items():
            for case in self.cases_of(column):
                judged += 1
                with self.subTest(layout=column, case=case.name):
                    self.judge(case, column, {layout.name: runs[layout][case.name] for layout in members})
        skipped = len(self.cases) * len(COLUMNS) - judged
        print(f"{judged} cells judged; {skipped} skipped as known open defects, MISUSE_ALL=1 runs them", file=sys.stderr)
        self.assertGreater(judged, 200)
        self.assert_nothing_left()

    def test_table(self):
        """The table of expected failures has no other cases, and none whose cells require nothing."""
        self.assertLessEqual(set(EXPECTED_TO_FAIL), {case.name for case in self.cases})
        for case, cells in EXPECTED_TO_FAIL.items():
            self.assertGreater(set(cells.values()) | {HOLDS, VARIES}, {HOLDS, VARIES}, case)


if __name__ == "__main__":
    main()
