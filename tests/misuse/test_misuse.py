"""Deliberate misuses on one rank: each call with each kind of invalid argument, and handles that were freed."""

import re
import subprocess

from harness import RanksTest, main
from misuse_kit import MISUSE, words

LIMIT = 60.0  # seconds for one run; reached only when something is wrong

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
        """Runs all checks of a kind. Returns how many there are."""
        n = 0
        for (name,) in words(kind + "s"):
            for check, wrong in self.run_checks(kind, name).items():
                n += 1
                with self.subTest(check=check):
                    self.assertIsNone(wrong)
        return n

    def test_calls(self):
        self.assertGreater(self.judge("call"), 500)

    def test_handles(self):
        self.assertGreater(self.judge("handle"), 100)
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
