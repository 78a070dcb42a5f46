#!/usr/bin/env python3
"""check_docs.py [--root DIR] - what the documents say of the tree is true.

 - Each file in the table of steps of docs/architecture.md defines the function of its row.
 - Each file or folder that a document for developers names in backticks exists.
 - Each numbered example that a document or an example names exists.
 - Each link of a document, and each reference to a manual page, leads somewhere (check_links.py).
 - Each test that CMakePresets.json or tests/CMakeLists.txt names exists.
"""

import argparse
import json
import pathlib
import re
import sys
from dataclasses import dataclass

import check_links
from tree import project_files

STEPS = "docs/architecture.md"
NAMED_FILES = ("docs/architecture.md", "docs/how-to-add.md", "docs/algorithms.md", "CONTRIBUTING.md")
TABLE = re.compile(r"^\| *step *\| *file *\| *function *\|.*\n\|[-|: ]+\|\n((?:\|.*\n)+)", re.M)
ROW = re.compile(r"^\| *(\d+[a-z]?) *\| *`([^`]+)` *\| *`(\w+)` *\|")
# A path with a folder of the tree, or a bare name that ends as sources do; NAME, * and … stand for any name.
PATH = re.compile(
    r"`((?:[\w.-]+/)*[\w.-]+\.(?:c|h|cpp|inc|py|sh|cmake|txt|md|map)"
    r"|(?:src|tests|tools|docs|examples|scripts|backends)/(?:[\w.-]+/)*)`"
)
EXAMPLE = re.compile(r"\bexamples/(\d\d_\w+)|\b(\d\d_\w+)\.c\b")


@dataclass
class Step:
    label: str
    file: str
    function: str


def read_steps(root):
    """Returns the rows of the table of steps; an unreadable row is None."""
    table = TABLE.search((root / STEPS).read_text())
    rows = [ROW.match(line) for line in table[1].splitlines()] if table else []
    return [Step(*row.groups()) if row else None for row in rows]


def defines(text, function):
    """Whether C source defines a function: its name at file level, arguments, then a body."""
    for match in re.finditer(rf"^[A-Za-z_][^;{{}}#\n]*\b{function}\(", text, re.M):
        depth, at = 1, match.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        if text[at:].lstrip().startswith("{"):
            return True
    return False


def check_steps(root):
    steps = read_steps(root)
    if len(steps) < 5:
        yield f"{STEPS}: no table with the columns step, file, function"
    for step in steps:
        if step is None:
            yield f"{STEPS}: a row of the table of steps cannot be read"
        elif not (root / step.file).is_file():
            yield f"{STEPS}: step {step.label}: {step.file} does not exist"
        elif not defines((root / step.file).read_text(), step.function):
            yield f"{STEPS}: step {step.label}: {step.file} does not define {step.function}"


def check_names(root, names):
    """Reports backticked paths that no file of the tree ends with."""
    for document in NAMED_FILES:
        if not (root / document).exists():
            continue
        for path in sorted(set(PATH.findall((root / document).read_text()))):
            if re.search(r"NAME|MODULE|NN_", path):
                continue
            if path.endswith("/"):
                known = (root / path).is_dir()
            else:
                known = any(name == path or name.endswith("/" + path) for name in names) or (root / path).is_dir()
            if not known:
                yield f"{document}: `{path}` does not exist"


def check_examples(root, names):
    known = {pathlib.PurePath(name).stem for name in names if name.startswith("examples/")}
    for name in names:
        if name != "CHANGELOG.md" and (name.endswith(".md") or name.startswith("examples/")):
            for example in sorted({a or b for a, b in EXAMPLE.findall((root / name).read_text())} - known):
                yield f"{name}: there is no example {example}"


def expand(pattern):
    """Returns the alternatives of a regular expression of groups, | and ?, such as a(b|c)? -> a, ab, ac."""

    def read_alternatives(at):
        found, branch = [], [""]
        while at < len(pattern) and pattern[at] != ")":
            if pattern[at] == "|":
                found, branch, at = found + branch, [""], at + 1
                continue
            if pattern[at] == "(":
                inner, at = read_alternatives(at + 1)
            else:
                inner = [pattern[at]]
            at += 1
            if pattern[at : at + 1] == "?":
                inner, at = ["", *inner], at + 1
            branch = [text + more for text in branch for more in inner]
        return found + branch, at

    return read_alternatives(0)[0]


def named_tests(root):
    """Yields (file, regular expression for one test) of the lists that the build has."""
    presets, lists = root / "CMakePresets.json", root / "tests/CMakeLists.txt"
    for preset in json.loads(presets.read_text())["testPresets"] if presets.exists() else []:
        for rule in preset.get("filter", {}).values():
            yield from (("CMakePresets.json", name) for name in expand(rule.get("name", "")))
    text = lists.read_text() if lists.exists() else ""
    for pattern in re.findall(r'set\(leak_tests "(\^.*)"\)', text):
        yield from (("tests/CMakeLists.txt", name) for name in expand(pattern))
    for name in re.findall(r"set\(seconds_(\w+) \d+\)", text):
        yield "tests/CMakeLists.txt", f"/(test_)?{name}$"


def check_tests(root, names):
    tests = [m[1] for name in names if (m := re.fullmatch(r"tests/(\w+/\w+)\.(?:c|cpp|py)", name))]
    for file, pattern in named_tests(root):
        if not any(re.search(pattern, test) for test in tests):
            yield f"{file}: no test matches {pattern}"


def check(root):
    """Returns all faults, as lines."""
    names = project_files(root)
    faults = [*check_steps(root), *check_names(root, names), *check_examples(root, names)]
    return [*faults, *check_links.check(root, root / "man", names), *check_tests(root, names)]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    faults = check(options.parse_args().root.resolve())
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
