"""Deliberate misuses by two to four ranks: calls that do not match, and calls that are rejected on one rank.

Required on every layout: each rank gets MST_ERR_MISMATCH within a second, with the rank that made the odd call and its
call. If the call of a rank is rejected, the errors of the other ranks also have its place in the source and the reason.
expected.py lists what does not hold yet. With MISUSE_REPORT=FILE the driver writes all that it observed to a file.
"""

import concurrent.futures
import os

from expected import EXPECTED_TO_FAIL, HOLDS, LATE_CELL, TEXT, VARIES, expected_of
from harness import SANITIZED, RanksTest, main
from misuse_kit import LATE, Layout, Run, cases


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
PARTS = 3  # worlds for each layout
WORLDS = 12  # at a time; ranks that wait in vain sleep


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

    def cases_of(self, layout):
        """With sanitizers, only the cases that do not fail, because waiting for a failure takes long."""
        column = next(name for name, members in COLUMNS.items() if layout in members)
        return [case for case in cases() if not SANITIZED or expected_of(case.name, column) == HOLDS]

    def write_report(self, runs):
        """Writes what was observed to the file MISUSE_REPORT: layout, case, and what is wrong."""
        if "MISUSE_REPORT" in os.environ:
            with open(os.environ["MISUSE_REPORT"], "w", encoding="utf-8") as report:
                for layout, verdicts in runs.items():
                    report.writelines(f"{layout.name}\t{case}\t{why or 'ok'}\n" for case, why in verdicts.items())

    def test_layouts(self):
        layouts = [layout for column in COLUMNS.values() for layout in column]
        parts = [(layout, self.cases_of(layout)[part::PARTS]) for layout in layouts for part in range(PARTS)]
        runs = {layout: {} for layout in layouts}
        with concurrent.futures.ThreadPoolExecutor(WORLDS) as pool:
            for (layout, _), verdicts in zip(parts, pool.map(lambda part: Run(self, part[0]).run(part[1]), parts), strict=True):
                runs[layout].update(verdicts)
        self.write_report(runs)
        for column, members in COLUMNS.items():
            for case in self.cases_of(members[0]):
                with self.subTest(layout=column, case=case.name):
                    self.judge(case, column, {layout.name: runs[layout][case.name] for layout in members})
        self.assert_nothing_left()

    def test_table(self):
        """The table of expected failures has no other cases, and none whose cells require nothing."""
        self.assertLessEqual(set(EXPECTED_TO_FAIL), {case.name for case in cases()})
        for case, cells in EXPECTED_TO_FAIL.items():
            self.assertGreater(set(cells.values()) | {HOLDS, VARIES}, {HOLDS, VARIES}, case)


if __name__ == "__main__":
    main()
