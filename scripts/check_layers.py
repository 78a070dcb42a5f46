"""check_layers.py - the law of the house: a file includes only its own room or a room on a lower floor.

The floors come from the table in docs/architecture.md, whose third column may name rooms of the same floor
that a room includes all the same. Public headers and examples include public headers alone.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| *(\d+) *\| *`(\w+)/` *\|([^|]*)\|", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def read_house():
    """Returns {room: floor} and {room: rooms beside it that it may include}."""
    floors, beside = {}, {}
    for floor, room, also in ROW.findall((ROOT / "docs/architecture.md").read_text()):
        floors[room] = int(floor)
        beside[room] = set(re.findall(r"`(\w+)/`", also))
    return floors, beside


def includes(path):
    """Yields (line number, quote, name) of every include in a file."""
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1], match[2]


def sources(directory):
    return sorted(p for p in (ROOT / directory).rglob("*") if p.suffix in (".c", ".h", ".cpp", ".hpp"))


def check_rooms(floors, beside):
    for path in sources("src"):
        here = path.relative_to(ROOT / "src").parts[0]
        if here not in floors:
            yield path, 1, f"room {here}/ is not in the table of docs/architecture.md"
            continue
        for line, quote, name in includes(path):
            if name.startswith("muster/"):
                continue
            if quote == '"' and (path.parent / name).exists():
                continue
            there = name.split("/")[0]
            if there not in floors:
                if quote == '"':
                    yield path, line, f'"{name}" is in no room'
            elif there != here and floors[there] >= floors[here] and there not in beside[here]:
                yield path, line, f"{here}/ (floor {floors[here]}) includes {there}/ (floor {floors[there]})"


def check_public_only(directory):
    for path in sources(directory):
        for line, quote, name in includes(path):
            own = any((parent / name).exists() for parent in path.parents if parent.is_relative_to(ROOT / directory))
            inside = (ROOT / "src" / name).exists()
            if not own and (inside or quote == '"'):
                yield path, line, f'{directory}/ includes "{name}", which is not public'


def main():
    floors, beside = read_house()
    if not floors:
        sys.exit("docs/architecture.md: no table of floors found")
    faults = [*check_rooms(floors, beside), *check_public_only("include"), *check_public_only("examples")]
    for path, line, text in faults:
        print(f"{path.relative_to(ROOT)}:{line}: {text}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
