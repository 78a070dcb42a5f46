"""Deliberate misuses by two to four ranks: calls that do not match, and calls that are rejected on one rank.

Required on every layout: each rank gets MST_ERR_MISMATCH in time, with the rank that made the odd call and its call. If
the call of a rank is rejected, the errors of the other ranks also have its place in the source and the reason. With
MISUSE_REPORT=FILE the driver writes all that it observed to a file.
"""

import concurrent.futures
import os

from harness import RanksTest, main
from misuse_kit import Layout, Run, cases


def launched(hosts, *modes, check=False):
    return [Layout(f"{hosts}-{mode}{'-check' * check}", hosts, False, mode, check) for mode in modes]


def plain(hosts, *modes):
    return [Layout(f"{hosts}-plain-{mode}", hosts, True, mode, False) for mode in modes]


LAYOUTS = [
    *launched("aa", "blocking"),
    *launched("aaa", "blocking", "work", "cold", "first", "last"),
    *launched("aaa", "blocking", check=True),
    *plain("aaa", "blocking"),
    *launched("ab", "blocking"),
    *launched("abc", "blocking", "work", "cold", "first", "last"),
    *launched("abc", "blocking", check=True),
    *plain("abc", "blocking", "work"),
    *launched("aabb", "blocking", "cold", "last"),
]
WORLDS = 6  # at a time


class Ranks(RanksTest):
    grace = 10

    def write_report(self, runs):
        """Writes what was observed to the file MISUSE_REPORT: layout, case, and what is wrong."""
        if "MISUSE_REPORT" in os.environ:
            with open(os.environ["MISUSE_REPORT"], "w", encoding="utf-8") as report:
                for layout, verdicts in runs.items():
                    report.writelines(f"{layout.name}\t{case}\t{why or 'ok'}\n" for case, why in verdicts.items())

    def test_layouts(self):
        known = cases()
        with concurrent.futures.ThreadPoolExecutor(WORLDS) as pool:
            runs = dict(zip(LAYOUTS, pool.map(lambda layout: Run(self, layout).run(known), LAYOUTS), strict=True))
        self.write_report(runs)
        for layout, verdicts in runs.items():
            for case, why in verdicts.items():
                with self.subTest(layout=layout.name, case=case):
                    self.assertIsNone(why)
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
