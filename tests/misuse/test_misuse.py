"""Deliberate misuses on one rank: each call with each kind of invalid argument, and handles that were freed.

A check that the library does not meet yet is in EXPECTED_TO_FAIL. One that it meets must not be there.
"""

import re
import subprocess

from harness import RanksTest, main
from misuse_kit import MISUSE, words

LIMIT = 60.0  # seconds for one run; reached only when something is wrong

OTHER_NAME = "the error names the call that implements it"
FACTOR = "a .factor that is not used is ignored"
# Regular expressions for the names of checks, and reasons.
EXPECTED_TO_FAIL = {
    r"mst_\w+ factor of SUM": FACTOR,
    r"mst_allgather_fn .*": OTHER_NAME,
    r"mst_reduce_scatter_fn .*": OTHER_NAME,
    r"mst_all_reduce_coalesced unused \.in": "it is accepted and becomes the input of every tensor",
    r"mst_\w+_coalesced (unused .*|dtype .*|count .*|op .*|BAND .*|PREMUL.*|timeout.*|too many .*)": OTHER_NAME,
    r"mst_\w+_coalesced size of the options 3": "the options are copied before their size is checked",
    r"mst_all_gather_bytes unused \.counts": OTHER_NAME,
    r"mst_alloc unused \.work": "mst_alloc ignores .work",
    r"freed_store: exit status": "stores are pointers, not handles: a freed store is used after free",
}
# Checks whose result is not defined as long as the entry above is there.
UNDEFINED = r"freed_store: mst_store_.*"


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
            for check, wrong in self.run_checks(kind, name).items():
                reason = expected_reason(check)
                n += 1
                with self.subTest(check=check):
                    if reason and not wrong:
                        self.fail(f"it holds now, remove it from EXPECTED_TO_FAIL: {reason}")
                    if wrong and not reason and not re.fullmatch(UNDEFINED, check):
                        self.fail(wrong)
        return n

    def test_calls(self):
        self.assertGreater(self.judge("call"), 500)

    def test_handles(self):
        self.assertGreater(self.judge("handle"), 100)
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
