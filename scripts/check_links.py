#!/usr/bin/env python3
"""check_links.py ROOT MAN - finds dead links in the documents of a folder.

ROOT is the source tree, or the folder with the installed documents. MAN is the folder with the manual pages: man/, or share/man of an
installation. Each relative link and each #anchor of a Markdown file, and each reference to a manual page of muster (mst_send(3), `man
mst_send`, .Xr mst_send 3) must lead to something.
"""

import pathlib
import re
import sys

from tree import project_files

FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?([^)>\s]+)|(?:href|src)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")
HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)? *$", re.M)
ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
OURS = r"((?:mst_|MST_|muster|libmuster)[\w-]*)"
NAMED_PAGE = re.compile(rf"\b{OURS}\((\d)\)|`man (?:(\d) )?{OURS}`")
CROSS_REFERENCE = re.compile(rf"^\.Xr {OURS} (\d)", re.M)
NAMES = re.compile(r"^\.Sh NAME\n(.*?)^\.Nd ", re.M | re.S)


def page_names(man):
    """Returns (name, section) of all pages: of their files, and in man/ of their NAME sections too."""
    found = set()
    for path in man.rglob("*"):
        match = re.fullmatch(r"(.+)\.([137])(?:\.in)?", path.name)
        if match and path.is_file():
            names = NAMES.search(path.read_text()) if path.parent == man else None
            found |= {(name, match[2]) for name in [match[1], *re.findall(r"^\.Nm (\w+)", names[1] if names else "", re.M)]}
    return found


def anchors(text):
    """Returns the anchors that GitHub gives to the headings of a document."""
    found = set(ANCHOR.findall(text))
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", ""))
        slug, n = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"), 0
        while (name := f"{slug}-{n}" if n else slug) in found:
            n += 1
        found.add(name)
    return found


def check_document(path, known):
    """Yields the faults of one Markdown file."""
    text = path.read_text()
    prose = FENCE.sub("", text)
    for match in LINK.finditer(CODE.sub("", prose)):
        link = match[1] or match[2]
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if ELSEWHERE.match(link):
            continue
        if not target.exists():
            yield f"the link to {link} leads nowhere"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            yield f"the link to {link}: there is no such heading"
    for name, section, other_section, other in NAMED_PAGE.findall(prose):
        section = section or other_section
        if not any(page == (name or other) and section in ("", s) for page, s in known):
            yield f"there is no manual page {name or other}({section})"


def check_page(path, known):
    for reference in CROSS_REFERENCE.findall(path.read_text()):
        if reference not in known:
            yield f"there is no manual page {reference[0]}({reference[1]})"


def check(root, man, names=None):
    """Returns all faults, as lines; names: the files below root."""
    faults, known = [], page_names(man)
    for name in names if names is not None else project_files(root):
        if name.endswith(".md"):
            faults += [f"{name}: {fault}" for fault in check_document(root / name, known)]
    for path in sorted(man.rglob("*")):
        if path.is_file() and re.search(r"\.[137](\.in)?$", path.name):
            faults += [f"{path.name}: {fault}" for fault in check_page(path, known)]
    return faults


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    faults = check(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
