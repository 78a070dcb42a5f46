#!/usr/bin/env python3
"""check_layers.py [--root DIR] [--build DIR] - a module uses itself, modules on lower layers, and nothing else.

The table in docs/architecture.md gives each module of src/ its layer. A folder without a row belongs to the module of
the nearest folder above it that has one. The column "may also use" lists exceptions. Two things count as use: an
include, and a symbol that an object file of one module needs and another module defines (read with nm from BUILD; a
tree that is not built is checked for includes alone). Public headers and examples include public headers alone.
"""

import argparse
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

TABLE = "docs/architecture.md"
HEAD = re.compile(r"^\| *layer *\| *module *\| *may also use *\| *job *\|\n\|[-|: ]+\|\n((?:\|.*\n)+)", re.M)
ROW = re.compile(r"^\| *(\d+) *\| *`([\w/]+)/` *\|([^|]*)\|(.*)\|$", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


@dataclass
class Module:
    name: str
    layer: int
    also: set
    job: str


@dataclass
class Fault:
    where: str
    text: str


class Tree:
    """The modules of a source tree, by their folder below src/."""

    def __init__(self, root):
        self.root = root
        table = HEAD.search((root / TABLE).read_text())
        rows = ROW.findall(table[1]) if table else []
        self.modules = {
            name: Module(name, int(layer), set(re.findall(r"`([\w/]+)/`", also)), job.strip()) for layer, name, also, job in rows
        }
        self.bad_rows = len(table[1].splitlines()) - len(rows) if table else 0

    def module_of(self, path):
        """Returns the module of a path below src/: the row of the nearest folder, or None."""
        for folder in path.relative_to(self.root / "src").parents:
            if folder.as_posix() in self.modules:
                return self.modules[folder.as_posix()]
        return None

    def sources(self, directory):
        return sorted(p for p in (self.root / directory).rglob("*") if p.suffix in (".c", ".h", ".cpp", ".hpp"))

    def relative(self, path):
        return path.relative_to(self.root).as_posix()


def may_use(user, used):
    if user.name == used.name or used.layer < user.layer:
        return True
    return any(used.name == name or used.name.startswith(name + "/") for name in user.also)


def describe(module):
    return f"{module.name}/ (layer {module.layer})"


def includes(path):
    """Yields (line number, quote, name) of every include in a file."""
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1], match[2]


def check_table(tree):
    if tree.bad_rows:
        yield Fault(TABLE, f"{tree.bad_rows} rows of the layer table cannot be read")
    for module in tree.modules.values():
        for name in (module.name, *sorted(module.also)):
            if not (tree.root / "src" / name).is_dir():
                yield Fault(TABLE, f"src/{name}/ does not exist")


def check_includes(tree):
    src = tree.root / "src"
    for path in tree.sources("src"):
        user = tree.module_of(path)
        if user is None:
            yield Fault(tree.relative(path), f"its folder is not in the layer table of {TABLE}")
            continue
        for line, quote, name in includes(path):
            beside, below = path.parent / name, src / name
            target = beside if quote == '"' and beside.exists() else below
            where = f"{tree.relative(path)}:{line}"
            if not target.exists():
                if quote == '"':
                    yield Fault(where, f'"{name}" is not a file of src/')
                continue
            used = tree.module_of(target.resolve())
            if used and not may_use(user, used):
                yield Fault(where, f"{describe(user)} includes {name} of {describe(used)}")


def check_public_only(tree, directory):
    """Reports includes of private headers."""
    top = tree.root / directory
    for path in tree.sources(directory):
        for line, quote, name in includes(path):
            own = any((parent / name).exists() for parent in path.parents if parent.is_relative_to(top))
            inside = (tree.root / "src" / name).exists()
            if not own and (inside or quote == '"'):
                yield Fault(f"{tree.relative(path)}:{line}", f'{directory}/ includes "{name}", which is not public')


def read_symbols(tree, objects):
    """Returns {symbol: source that defines it} and [(source, symbol that it needs)]."""
    defined, needed = {}, []
    command = ["nm", "-A", "-P", *map(str, objects)]
    for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        name, _, rest = line.partition(": ")
        symbol, kind = rest.split()[:2]
        if kind in "Uwv":
            needed.append((objects[pathlib.Path(name)], symbol))
        elif kind.isupper():
            defined[symbol] = objects[pathlib.Path(name)]
    return defined, needed


def find_objects(tree, build):
    """Returns {object file: source} of the library's sources, and the sources without one."""
    objects, missing = {}, []
    for path in tree.sources("src"):
        if path.suffix == ".c":
            file = build / "CMakeFiles/muster_objects.dir" / f"{tree.relative(path)}.o"
            if file.exists():
                objects[file] = path
            else:
                missing.append(path)
    return objects, missing


def check_calls(tree, objects):
    defined, needed = read_symbols(tree, objects)
    for path, symbol in needed:
        target = defined.get(symbol)
        user, used = tree.module_of(path), tree.module_of(target) if target else None
        if user and used and not may_use(user, used):
            text = f"{describe(user)} calls {symbol} of {describe(used)}, {tree.relative(target)}"
            yield Fault(tree.relative(path), text)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options.add_argument("--build", type=pathlib.Path, help="build directory, ROOT/build by default")
    given = options.parse_args()
    tree = Tree(given.root.resolve())
    if not tree.modules:
        sys.exit(f"{TABLE}: no table with the columns layer, module, may also use, job")
    faults = [*check_table(tree), *check_includes(tree)]
    faults += [*check_public_only(tree, "include"), *check_public_only(tree, "examples")]
    objects, missing = find_objects(tree, (given.build or tree.root / "build").resolve())
    if objects:
        faults += check_calls(tree, objects)
    if missing:
        print(f"skipped: calls of {len(missing)} sources without an object file, such as {tree.relative(missing[0])}")
    for fault in faults:
        print(f"{fault.where}: {fault.text}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
