"""summary.py RUN=JUNIT... -- BROKEN_STEP... - sums the results of test runs; the last line is the total.

A run may have two reports: the second one has the tests that failed in the first one and ran again. Lists skipped
tests with their reasons, tests that failed once and passed then, and failed tests. Exits with 1 after any failure.
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


def judge(case):
    """What became of a test ("passed", "skipped" or "failed"), and what to say about it."""
    output = case.findtext("system-out") or ""
    notrun = case.find("skipped")
    if notrun is not None and notrun.get("message", "").startswith("SKIP_"):
        return "skipped", reasons(output) or "no reason given"
    if notrun is not None:
        return "failed", notrun.get("message")
    if case.get("status") != "run":
        return "failed", None
    return "passed", reasons(output)


def main():
    split = sys.argv.index("--")
    results, once = {}, []
    for argument in sys.argv[1:split]:
        run, report = argument.split("=", 1)
        for case in ET.parse(report).iter("testcase"):
            name = f"{run}: {case.get('name')}"
            if name in results and results[name][0] == "failed" and judge(case)[0] != "failed":
                once.append(name)
            results[name] = judge(case)

    def lines_of(kind):
        return [f"{name}: {said}" if said else name for name, (result, said) in results.items() if result == kind]

    passed, skipped = lines_of("passed"), lines_of("skipped")
    failed = [f"{step} (step)" for step in sys.argv[split + 1 :]] + lines_of("failed")
    partly = [f"{name}: {said}" for name, (result, said) in results.items() if result == "passed" and said]
    for title, lines in (
        ("skipped", skipped),
        ("skipped in part", partly),
        ("failed once, passed when repeated", once),
        ("failed", failed),
    ):
        if lines:
            print(f"{title}:", *lines, sep="\n  ")
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
    sys.exit(1 if failed else 0)


main()
