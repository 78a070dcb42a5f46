"""summary.py RUN=JUNIT... -- BROKEN_STEP... - sums the results of test runs; the last line is the total.

Lists skipped tests with their reasons, and failed tests. Exits with 1 after any failure.
"""

import re
import sys
import xml.etree.ElementTree as ET

# How tests print the reason of a skip: unittest (a case, or a whole module), cmocka, or a separate line.
REASONS = [
    re.compile(r"^(?:.* \.\.\. )?skipped ['\"](.*)['\"]$", re.M),
    re.compile(r"SkipTest: (.*)"),
    re.compile(r"^\[  SKIPPED \] (?!\d+ test)(.*)$", re.M),
    re.compile(r"^[sS]kip(?:ped|ping)?: *(.*)$", re.M),
    re.compile(r"^OK \((skipped=\d+)\)$", re.M),
]


def reasons(output):
    for pattern in REASONS:
        found = list(dict.fromkeys(pattern.findall(output)))
        if found:
            return "; ".join(found)
    return None


def main():
    split = sys.argv.index("--")
    broken = sys.argv[split + 1 :]
    passed, skipped, failed = 0, [], [f"{step} (step)" for step in broken]
    partly = []
    for argument in sys.argv[1:split]:
        run, report = argument.split("=", 1)
        for case in ET.parse(report).iter("testcase"):
            name = f"{run}: {case.get('name')}"
            output = case.findtext("system-out") or ""
            notrun = case.find("skipped")
            if notrun is not None and notrun.get("message", "").startswith("SKIP_"):
                skipped.append(f"{name}: {reasons(output) or 'no reason given'}")
            elif notrun is not None:
                failed.append(f"{name}: {notrun.get('message')}")
            elif case.get("status") != "run":
                failed.append(name)
            else:
                passed += 1
                if reasons(output):
                    partly.append(f"{name}: {reasons(output)}")
    for title, lines in (("skipped", skipped), ("skipped in part", partly), ("failed", failed)):
        if lines:
            print(f"{title}:", *lines, sep="\n  ")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    sys.exit(1 if failed else 0)


main()
