#!/usr/bin/env python3
"""check_style.py [--root DIR] - habits of the code that no compiler checks.

 - No line of C or C++ is longer than 110 columns.
 - No word of the vocabulary that was replaced is back in src/, tools/ or include/.
 - No function of src/, tools/ or backends/ has more than six parameters; public functions (mst_) may.
"""

import argparse
import pathlib
import re
import sys

from tree import project_files

COLUMNS, PARAMETERS = 110, 6
SOURCES = (".c", ".h", ".cpp", ".hpp")
OLD_WORDS = re.compile(r"\b(?:slate|warden|house|mailbook|strays|timekeeper)\b", re.I)
# Comments, strings, characters and preprocessor lines: replaced by blanks, so that positions stay.
NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
NAME = re.compile(r"\b([A-Za-z_]\w*)[ \t\n]*\(")
BODY = re.compile(r"\s*(?:(?:const|noexcept|override|final)\b\s*)*\{")
NO_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "defined"}


def long_lines(text):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line.expandtabs()) > COLUMNS:
            yield number, f"{len(line.expandtabs())} columns, at most {COLUMNS}"


def old_words(text):
    for number, line in enumerate(text.splitlines(), 1):
        for word in sorted(set(OLD_WORDS.findall(line))):
            yield number, f"'{word}' was replaced by a term of the field"


def parameters(text, start):
    """Counts the parameters of the list that begins at start. Returns the count and where the list ends, or None."""
    depth, angle, count, at = 1, 0, 1, start
    while at < len(text):
        c = text[at]
        depth += (c in "([{") - (c in ")]}")
        angle += (c == "<") - (c == ">" and angle > 0)
        if depth == 0:
            given = text[start:at].strip()
            return (0 if given in ("", "void") else count), at + 1
        if c == ";":
            return None
        if c == "," and depth == 1 and angle == 0:
            count += 1
        at += 1
    return None


def wide_functions(text):
    code = NO_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    for match in NAME.finditer(code):
        skip = match[1] in NO_FUNCTIONS or match[1].startswith("mst_")
        found = None if skip else parameters(code, match.end())
        if found and found[0] > PARAMETERS and BODY.match(code, found[1]):
            number = code.count("\n", 0, match.start()) + 1
            yield number, f"{match[1]} has {found[0]} parameters, at most {PARAMETERS}: use a struct"


def check(root):
    """Returns all faults, as lines."""
    faults = []
    for name in project_files(root):
        top = name.split("/")[0]
        source = name.endswith(SOURCES)
        rules = [long_lines] if source else []
        rules += [old_words] if top in ("src", "tools", "include") else []
        rules += [wide_functions] if source and top in ("src", "tools", "backends") else []
        if rules:
            text = (root / name).read_text(encoding="utf-8")
            faults += [f"{name}:{number}: {fault}" for rule in rules for number, fault in rule(text)]
    return faults


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    faults = check(options.parse_args().root.resolve())
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
