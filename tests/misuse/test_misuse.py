"""Deliberate misuses on one rank: each call with each kind of invalid argument, and handles that were freed.

A check that the library does not meet yet is in EXPECTED_TO_FAIL. One that it meets must not be there.
Cases of undefined behaviour run with MISUSE_ALL=1 alone.
"""

import re
import subprocess
import sys

from harness import RanksTest, main
from misuse_kit import ALL, MISUSE, words

LIMIT = 60.0  # seconds for one run; reached only when something is wrong

OTHER_NAME = "the error names the call that implements it"
FACTOR = "a .factor that is not used is ignored"
# Regular expressions for the names of checks, and reasons.
EXPECTED_TO_FAIL = {
    r"mst_\w+ factor of SUM": FACTOR,
    r"mst_(allgather|reduce_scatter)_fn .*": OTHER_NAME,
    r"mst_\w+_coalesced (dtype .*|count .*|op .*|BAND .*|PREMUL.*|too (many|few) .*)": OTHER_NAME,
    r"mst_\w+_coalesced size of the options 3": "the options are copied before their size is checked",
}
# Stores are pointers, not handles. So a freed store is used after free, and any result is possible.
UNDEFINED = {"freed_store"}


def expected_reason(check):
    return next((reason for pattern, reason in EXPECTED_TO_FAIL.items() if re.fullmatch(pattern, check)), None)


class OneRank(RanksTest):
    def run_checks(self, kind, name):
        """Runs the program: the name of each check, and what is wrong with its result or None."""
        process = self.popen(MISUSE, kind, name, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        out = process.communicate(timeout=LIMIT)[0].decode(errors="replace")
        checks = {}
        for line in out.splitlines():
            fields = line.split("\t")
            if len(fields) != 6:
                continue
            what, wanted, pattern, status, _, message = fields
            good = status in wanted.split("|") and (status == "MST_OK" or re.search(pattern, message))
            what = what if kind == "call" else f"{name}: {what}"
            checks[what] = None if good else f"{status}, required is {wanted} with '{pattern}': {message}"
        checks[f"{name}: exit status"] = None if process.returncode == 0 else f"{process.returncode}: {out[-500:]}"
        return checks

    def judge(self, kind):
        """Runs all checks of a kind. Fails for those that do not hold and are not expected to fail, and vice versa."""
        n = 0
        for (name,) in words(kind + "s"):
            if name in UNDEFINED and not ALL:
                print(f"{name} skipped as a known open defect, MISUSE_ALL=1 runs it", file=sys.stderr)
                continue
            for check, wrong in self.run_checks(kind, name).items():
                reason = expected_reason(check)
                n += 1
                with self.subTest(check=check):
                    if reason and not wrong:
                        self.fail(f"it holds now, remove it from EXPECTED_TO_FAIL: {reason}")
                    if wrong and not reason:
                        self.fail(wrong)
        return n

    def test_calls(self):
        self.assertGreater(self.judge("call"), 500)

    def test_handles(self):
        self.assertGreater(self.judge("handle"), 100)
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
