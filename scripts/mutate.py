#!/usr/bin/env python3
"""mutate.py - mutation testing: do the tests notice a changed operator?

  scripts/mutate.py [--count 200] [--seed 1] [--jobs 2] [--report mutants.json] FOLDER…

Changes one operator in a source file below the folders, at random, builds and runs the tests that execute its line,
until one fails, and fails again. A mutant that no test detects is a survivor: give it a test, or explain in
scripts/mutants.txt why it changes nothing. Each job has a copy of the source and a build of its own in --directory.
Mutants that do not compile are not counted. A report that exists is continued, as is the record of the lines that each
test executes (coverage.json in --directory): delete it after the source or the tests change.
"""

import argparse
import bisect
import concurrent.futures
import json
import os
import pathlib
import queue
import random
import re
import shutil
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
EXPLAINED = SOURCE / "scripts/mutants.txt"
GROUPS = (2, 8, 30)  # seconds: tests up to 2 s run first, then those up to 8 s, …
# What an operator becomes. The longer ones come first.
OPERATORS = {
    "==": "!=", "!=": "==", "<=": "<", ">=": ">", "&&": "||", "||": "&&", " < ": " <= ", " > ": " >= ",
    " + ": " - ", " - ": " + ", "++": "--", "true": "false", "false": "true", "(!": "(", "+=": "-=",
}
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|^[ \t]*#(?:\\\n|[^\n])*|_Static_assert[^;]*;|'
                   + "|".join(r"\b%s\b" % o if o.isalpha() else re.escape(o) for o in sorted(OPERATORS, key=len, reverse=True)),
                   re.S | re.M)


def sites(path):
    """The places of a file at which an operator can be changed: (offset, operator)."""
    text = path.read_text()
    return [(m.start(), m.group()) for m in TOKEN.finditer(text) if m.group() in OPERATORS]


def choose(folders, count, seed):
    """Mutants at random places, the same for the same seed and source."""
    every = [(str(path.relative_to(SOURCE)), *site) for folder in folders
             for path in sorted((SOURCE / folder).rglob("*.c")) for site in sites(path)]
    return random.Random(seed).sample(every, min(len(every), 3 * count))


def failed_tests(output):
    """The names in ctest's summary."""
    return " ".join(re.findall(r"^\s*\d+ - (\S+) \(", output, re.M))


class Tree:
    """A copy of the source with a build of its own."""

    def __init__(self, directory, options):
        self.at, self.options = directory, options
        self.build = directory / "build"

    def run(self, *command, limit, **environment):
        """The exit status of a command, and its output."""
        try:
            done = subprocess.run(command, cwd=self.at, capture_output=True, text=True, errors="replace", timeout=limit,
                                  env={**os.environ, "CCACHE_BASEDIR": str(self.at), "CCACHE_NOHASHDIR": "1", **environment})
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            return 1, "the limit"

    def prepare(self, flags=""):
        shutil.rmtree(self.at, ignore_errors=True)
        shutil.copytree(SOURCE, self.at, ignore=shutil.ignore_patterns("build*", ".git"), symlinks=True)
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        configured, _ = self.run("cmake", "-S", ".", "-B", "build", "-DMUSTER_BUILD_TESTS=ON", "-DCMAKE_BUILD_TYPE=Release",
                                 f"-DCMAKE_C_FLAGS={flags}", *launcher, limit=300)
        if configured or self.run("cmake", "--build", "build", "-j", str(os.cpu_count()), limit=1800)[0]:
            sys.exit(f"{self.at}: the source without a change does not build")

    def copy_to(self, directory):
        """Another tree with the same build: paths are replaced, and times kept, so that nothing is built again."""
        shutil.copytree(self.at, directory, symlinks=True)
        old, new = str(self.at).encode(), str(directory).encode()
        for path in (directory / "build").rglob("*"):
            if path.is_symlink() or not path.is_file() or path.suffix in (".o", ".a", ".so") or os.access(path, os.X_OK):
                continue
            data, times = path.read_bytes(), path.stat()
            if old in data:
                path.write_bytes(data.replace(old, new))
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return Tree(directory, self.options)

    def make(self):
        return self.run("cmake", "--build", "build", "-j", str(self.options.threads), limit=900)[0]

    def ctest(self, *arguments, **environment):
        return self.run("ctest", "--test-dir", "build", *arguments, "--timeout", "100", limit=self.options.limit, **environment)

    def test(self, tests):
        """Those of the tests that fail twice, empty if all pass. The quick ones run first; stops at the first one that fails."""
        begin = 0
        for end in (*GROUPS, float("inf")):
            some = [name for name, seconds in tests.items() if begin <= seconds < end]
            begin = end
            limit = int(min(6 * end + 10, 200))  # a driver that hangs must not take as long as it may otherwise
            status, output = self.ctest("-R", f"^({'|'.join(some)})$", "--repeat", "until-pass:2", "--stop-on-failure",
                                        "-j", str(self.options.threads), RANKS_TEST_LIMIT=str(limit)) if some else (0, "")
            if status:
                return failed_tests(output) or output[-200:]
        return ""

    def judge(self, mutant, tests):
        """'stillborn', 'detected' or 'survived', and the tests that detect it."""
        name, offset, operator = mutant
        path = self.at / name
        text = (SOURCE / name).read_text()
        path.write_text(text[:offset] + OPERATORS[operator] + text[offset + len(operator):])
        try:
            if self.make():
                return "stillborn", ""
            failed = self.test(tests)
            return "detected" if failed else "survived", failed
        finally:
            path.write_text(text)


def line_of(mutant):
    name, offset, _ = mutant
    return (SOURCE / name).read_text().count("\n", 0, offset) + 1


class Coverage:
    """The lines that each test executes, measured with gcov. What a process executes that is killed does not count."""

    def __init__(self, folders, options):
        path = options.directory / "coverage.json"
        if not path.exists():
            path.write_text(json.dumps(self.measure(Tree(options.directory / "coverage", options), folders, options)))
        self.tests = json.loads(path.read_text())

    def measure(self, tree, folders, options):
        tree.prepare("--coverage")
        _, listed = tree.ctest("-N", "-R", options.tests, "-E", options.exclude)
        names = re.findall(r"Test +#\d+: (\S+)", listed)
        with concurrent.futures.ThreadPoolExecutor(options.jobs * options.threads) as pool:
            measured = pool.map(lambda name: self.measure_test(tree, name, folders), names)
            return {name: found for name, found in zip(names, measured, strict=True) if found}

    def measure_test(self, tree, name, folders):
        """Its seconds, and the executed lines of each file; None if it fails without a change."""
        data, begin = tree.at / "gcda" / name, time.monotonic()
        status, _ = tree.ctest("-R", f"^{name}$", GCOV_PREFIX=str(data))
        if status:
            print(f"not used, because it fails without a change: {name}", flush=True)
            return None
        found = {"seconds": time.monotonic() - begin, "files": {}}
        for counts in data.rglob("*.gcda"):
            notes = pathlib.Path("/") / counts.relative_to(data).with_suffix(".gcno")
            if not any(f"/{folder.rstrip('/')}/" in str(counts) for folder in folders):
                continue
            counts.with_suffix(".gcno").symlink_to(notes)
            _, text = tree.run("gcov", "--json-format", "--stdout", str(counts), limit=60)
            for file in (file for line in text.splitlines() for file in json.loads(line)["files"]):
                path = os.path.relpath(tree.build / file["file"], tree.at)
                lines = found["files"].setdefault(path, {"known": [], "run": []})
                lines["known"] += [line["line_number"] for line in file["lines"]]
                lines["run"] += [line["line_number"] for line in file["lines"] if line["count"]]
        shutil.rmtree(data, ignore_errors=True)
        return found

    def of(self, mutant):
        """The tests that execute the line of a mutant, with their seconds. gcov may count an earlier line of its statement.

        All tests if the file has no line that can be executed.
        """
        tests, line = {}, line_of(mutant)
        if not any(mutant[0] in test["files"] for test in self.tests.values()):  # it has only data
            return {name: test["seconds"] for name, test in self.tests.items()}
        for name, test in self.tests.items():
            if lines := test["files"].get(mutant[0]):
                known = sorted(set(lines["known"]))
                at = known[max(0, bisect.bisect_right(known, line) - 1)]
                if at in lines["run"] or line in lines["run"]:
                    tests[name] = test["seconds"]
        return tests


def describe(mutant, result, tests, seconds):
    name, offset, operator = mutant
    text = (SOURCE / name).read_text()
    line = line_of(mutant)
    return {"file": name, "line": line, "offset": offset, "from": operator.strip(), "to": OPERATORS[operator].strip(),
            "text": text.splitlines()[line - 1].strip(), "result": result, "tests": tests, "seconds": round(seconds, 1)}


def explained():
    """The survivors with an explanation: "FILE: TEXT OF THE LINE: OPERATOR: why"."""
    return EXPLAINED.read_text().splitlines() if EXPLAINED.exists() else []


def report(rows, path):
    path.write_text(json.dumps(rows, indent=1) + "\n")
    counted = [row for row in rows if row["result"] != "stillborn"]
    detected = sum(row["result"] == "detected" for row in counted)
    return len(counted), detected


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--threads", type=int, default=2, help="of a build and of the tests of one mutant")
    parser.add_argument("--tests", default="^(unit|multi|misuse|chaos|net|tools)/", help="regular expression of tests to run")
    parser.add_argument("--exclude", default="test_(compile|large|plan_results|reduce|slow|status|report.*|docs|checks|hardening|tune|bench_ops)$", help="tests not to run")
    parser.add_argument("--limit", type=int, default=900, help="seconds for the tests of one mutant; longer counts as detected")
    parser.add_argument("--until", type=int, default=0, help="begin no mutant after that many seconds; 0: no limit")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/tmp/mutants"))
    parser.add_argument("--report", type=pathlib.Path, default=pathlib.Path("mutants.json"))
    options = parser.parse_args()
    begin = time.monotonic()
    rows = json.loads(options.report.read_text()) if options.report.exists() else []
    known = {(row["file"], row["offset"]) for row in rows}
    mutants = iter([m for m in choose(options.folders, options.count, options.seed) if m[:2] not in known])
    options.directory.mkdir(parents=True, exist_ok=True)
    coverage, trees = Coverage(options.folders, options), queue.Queue()
    first = Tree(options.directory / "0", options)
    first.prepare()
    for i in range(1, options.jobs):
        shutil.rmtree(options.directory / str(i), ignore_errors=True)
        trees.put(first.copy_to(options.directory / str(i)))
    trees.put(first)

    def take(mutant):
        tree, start = trees.get(), time.monotonic()
        try:
            return describe(mutant, *tree.judge(mutant, coverage.of(mutant)), time.monotonic() - start)
        finally:
            trees.put(tree)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = set()
        while True:
            late = options.until and time.monotonic() - begin > options.until
            counted, detected = report(rows, options.report)
            while len(running) < options.jobs and not late and counted + len(running) < options.count and (m := next(mutants, None)):
                running.add(pool.submit(take, m))
            if not running:
                break
            done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                rows.append(row := future.result())
                print(f"{row['result']:9} {row['file']}:{row['line']}: {row['from']} -> {row['to']} ({row['seconds']} s): {row['text']}  {row['tests']}",
                      flush=True)
    print(f"{detected} of {counted} mutants detected ({100 * detected / max(1, counted):.0f} %)")
    for row in rows:
        why = [line for line in explained() if line.startswith(f"{row['file']}: {row['text']}: {row['from']}:")]
        if row["result"] == "survived":
            print(f"survived: {row['file']}:{row['line']}: {row['from']} -> {row['to']}: {row['text']}"
                  + (f"\n          explained: {why[0].rsplit(': ', 1)[1]}" if why else ""))


if __name__ == "__main__":
    main()
