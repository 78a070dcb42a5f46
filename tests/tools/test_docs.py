"""The documents agree with the code: functions and options with the headers, named files and functions with the tree."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", pathlib.Path(__file__).resolve().parent.parent.parent))
TABLES = ("api.md", "from-torch.md", "from-mpi.md", "from-nccl.md", "launch.md", "profiling.md", "meshes.md", "pipelines.md")
PAGES = {"mesh.h": "mst_mesh.3", "pipeline.h": "mst_pipeline.3"}


def header(name):
    return (SOURCE / "include/muster" / name).read_text()


def functions(name):
    declared = re.findall(r"^[a-z][\w *]*\b(mst_\w+)\(", header(name), re.M)
    return [function.removesuffix("_with") for function in declared]


def options_of_calls():
    """Returns the number of positional arguments and the options, in order, of each macro of the headers."""
    text = "".join(path.read_text() for path in sorted((SOURCE / "include/muster").glob("*.h")))
    fields = {}
    for name, body in re.findall(r"#define (mst_\w+)_fields +(?:\\\n)?((?:.*\\\n)*.*)", text):
        fields[name] = re.findall(r"MST_OPTION\([^;]*?\b(\w+)(?:\)\(.*)?\);", body)
    macros = re.findall(r"#define (mst_\w+)\([^)]*\)\s+(?:\\\n\s*)?MST_CALL_(?:PEER_)?(\d)\(\w+, (\w+),", text)
    return {name: (int(count), fields[options]) for name, count, options in macros}


def arguments(text, start):
    """Returns the arguments of the call whose list begins at start."""
    depth, found = 0, [""]
    for c in text[start:]:
        if c == ")" and depth == 0:
            break
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            found.append("")
        else:
            found[-1] += c
    return [argument for argument in map(str.strip, found) if argument]


class Docs(unittest.TestCase):
    def test_calls_are_valid(self):
        """The calls in the documents have the positional arguments and options of the headers, in the order that C++ requires."""
        calls, seen = options_of_calls(), set()
        self.assertGreater(len(calls), 50)
        pages = [SOURCE / "README.md", *(SOURCE / "docs").glob("*.md"), *(SOURCE / "man").glob("*.3")]
        for page in pages:
            text = re.sub(r'"[^"\n]*"', '""', page.read_text())
            for match in re.finditer(r"\b(mst_\w+)\(", text):
                if match[1] not in calls:
                    continue
                count, options = calls[match[1]]
                given = arguments(text, match.end())
                named = [re.match(r"\.(\w+)", argument)[1] for argument in given if argument.startswith(".")]
                place = f"{page.name}: {match[1]}({', '.join(given)})"
                self.assertEqual([o for o in options if o in named], named, place)
                if "\u2026" not in given:
                    self.assertEqual(len(given) - len(named), count, place)
                seen.add(match[1])
        self.assertGreater(len(seen), 40)

    def test_every_function_has_its_line(self):
        text = (SOURCE / "docs/api.md").read_text()
        for name in ("comm.h", "group.h", "mesh.h", "pipeline.h", "bucket.h", "backend.h", "prof.h", "discover.h", "store.h"):
            declared = functions(name)
            self.assertGreater(len(declared), 3)
            for function in declared:
                self.assertRegex(text, rf"\b{function}\b", name)

    def test_pages_are_whole(self):
        """Each function of a header has its synopsis, each option and field its words, each status its line."""
        for name, page in PAGES.items():
            text = (SOURCE / "man" / page).read_text()
            for function in functions(name):
                self.assertRegex(text, rf"(?m)^\.Nm {function}\b", page)
                self.assertRegex(text, rf"(?m)^\.F[no] {function}\b", page)
            for option in re.findall(r"MST_OPTION\([^;]*?\b(\w+)(?:\)\(.*)?\);", header(name)):
                if option not in ("size", "site"):
                    self.assertRegex(text, rf"(?m)^\.(It )?Va (.* )?\.{option}\b", page)
            prose = re.sub(r"(?m)^\.(Dt|Xr) .*\n", "", text)
            for word in set(re.findall(r"\b(?:mst|MST)_\w+", prose)):
                self.assertTrue(re.search(rf"\b(MST_)?{word.removeprefix('MST_')}\b", self.headers()), f"{page}: {word}")
        page = (SOURCE / "man/mst_error.3").read_text()
        for status in re.findall(r"X\(\d+, (\w+),", header("status.h")):
            self.assertIn(f".It Dv MST_{status} Pq", page)

    def headers(self):
        return "".join(header(path.name) for path in (SOURCE / "include/muster").glob("*.h"))

    def test_nothing_is_made_up(self):
        headers = self.headers()
        for name in TABLES:
            text = (SOURCE / "docs" / name).read_text()
            for word in set(re.findall(r"\bmst_\w+", text)):
                self.assertRegex(headers, rf"\b{word}\b", name)
            for word in set(re.findall(r"\bMST_(\w+)", text)):
                self.assertRegex(headers, rf"\b(MST_)?{word}\b", name)
            for option in set(re.findall(r"`\.([a-z]\w*)\b", text)):
                self.assertRegex(headers, rf"\b{option}\b", name)


class Tree(unittest.TestCase):
    def run_script(self, *command):
        done = subprocess.run([sys.executable, "-B", *command], cwd=SOURCE / "scripts", capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_named_files_and_functions_exist(self):
        self.run_script("check_docs.py")

    def test_the_picture_is_up_to_date(self):
        self.run_script("architecture_svg.py", "--check")


class Additions(unittest.TestCase):
    """Each of these fails if one of the files that docs/how-to-add.md lists is forgotten."""

    def read(self, name):
        return (SOURCE / name).read_text()

    def test_algorithms(self):
        rows = re.findall(r'X\((\w+), "(\w+)", \w+, ', self.read("src/coll/algorithms/planners.h"))
        self.assertGreater(len(rows), 30)
        documented, operations = set(), []
        for line in self.read("docs/algorithms.md").splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) > 5 and re.fullmatch(r"(`\w+`(, )?)+", cells[2]):
                operations = cells[1].split(", ") if cells[1] else operations
                documented |= {(operation, name) for operation in operations for name in re.findall(r"\w+", cells[2])}
        self.assertEqual(documented, {(kind.lower(), name) for kind, name in rows})

    def test_collectives(self):
        rows = re.findall(r'X\((\w+), (\w+), \w+, "mst_(\w+)"\)', self.read("src/base/kind.h"))
        self.assertGreater(len(rows), 14)
        families = {family for _, family, _ in rows}
        self.assertEqual(families, set(re.findall(r'X\(\d+, (\w+), "\w+"\)', header("backend.h"))))
        planned = set(re.findall(r'X\(([A-Z_]+), "', self.read("src/coll/algorithms/planners.h")))
        self.assertEqual(planned, families - {"SEND", "RECV"})
        tested = "".join(path.read_text() for path in (SOURCE / "tests/multi/collective").glob("*.c"))
        for _, _, name in rows:
            self.assertRegex(tested, rf"\bmst_{name}(_with)?\(", name)

    def test_dtypes_and_operations(self):
        dtypes = re.findall(r'X\(\d+, \w+, \d+, "(\w+)"\)', header("dtype.h"))
        operations = re.findall(r'X\(\d+, \w+, "(\w+)"\)', header("dtype.h"))
        self.assertIn(f"{len(dtypes)} dtypes, {len(operations)} operations", self.read("docs/features.md"))
        measured = re.findall(r'\{"(\w+)", \d+, \d+, \d+, ', self.read("bench/peers/loop_data.h"))
        self.assertEqual(sorted([*measured, "bool"]), sorted(dtypes))  # sums of bool are no benchmark

    def test_backends(self):
        names = [path.parent.name for path in (SOURCE / "backends").glob("*/CMakeLists.txt")]
        self.assertGreaterEqual(len(names), 3)
        text = self.read("docs/backends.md")
        for name in names:
            self.assertRegex(text, rf"(?m)^## {name}$")
            self.assertRegex(text, rf"(?m)^\| operation \|.* {name} \|")
            self.assertTrue((SOURCE / f"tests/interop/test_backend_{name}.py").exists(), name)

    def test_stores(self):
        kinds = re.findall(r"^mst_status msi_store_open_(\w+)\(", self.read("src/store/store.h"), re.M)
        self.assertGreaterEqual(len(kinds), 4)
        tested = re.search(r"kinds\[\] = \{.*?\};", self.read("tests/conform/store_kit.h"), re.S)[0]
        for kind in kinds:
            self.assertIn(f'{{"{kind}', tested)
            self.assertRegex(self.read("include/muster/store.h"), rf"\b{kind}\b")
            self.assertRegex(self.read("man/mst_store.3"), rf"\b{kind}\b")

    def test_sub_commands(self):
        table = re.search(r"commands\[\] = \{.*?\n\};", self.read("tools/muster/main.c"), re.S)[0]
        names = re.findall(r'\{"(\w+)", cmd_(\w+),', table)
        self.assertGreater(len(names), 5)
        overview, features = self.read("man/muster.1"), self.read("docs/features.md")
        for name, function in names:
            self.assertEqual(name, function)
            self.assertIn(f".Nm muster {name}", self.read(f"man/muster-{name}.1"))
            self.assertIn(f".Xr muster-{name} 1", overview)
            self.assertIn(f"| `muster {name}` |", features)

    def test_launchers(self):
        rows = re.findall(r'\.name = "(\w+)",\s*\.title = "([^"]+)"', self.read("src/bootstrap/launchers.c"))
        self.assertGreater(len(rows), 12)
        recorded = "".join(path.read_text() for path in (SOURCE / "tests/multi/launchers").glob("*.env"))
        table = re.search(r"(?m)^\| launcher \|(.*\n)+?\n", self.read("docs/launch.md"))[0]
        started = ("mpich",)  # tests/interop/test_mpirun.py starts it
        for name, title in rows:
            if name not in started:
                self.assertRegex(recorded, rf"(?m)^# expect {name} ")
            self.assertIn(title.split()[0], table)

    def test_settings(self):
        rows = re.findall(r'X\((\w+), "(MUSTER_\w+)",', self.read("src/base/settings.h"))
        self.assertGreater(len(rows), 30)
        folders = ("src", "tools", "backends")
        files = [path for folder in folders for path in (SOURCE / folder).rglob("*.[ch]*") if path.name != "settings.h"]
        code = "".join(path.read_text() for path in files)
        for field, name in rows:
            self.assertTrue(re.search(rf'[.>]{field}\b|"{name}"', code), f"{name} is not used")


class Operations(unittest.TestCase):
    def test_the_table_of_backends_is_the_tools(self):
        """Where all modules are there; nccl as far as can be told without a GPU."""
        tool = pathlib.Path(os.environ.get("MUSTER_BUILD_DIR", SOURCE / "build")) / "bin/muster"
        path = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_NCCL")}
        table = subprocess.run([tool, "info", "--operations"], env=path, stdout=subprocess.PIPE, text=True, check=True).stdout
        if "| native | mpi | gloo | nccl |" not in table:
            self.skipTest("not all modules were built")
        text = (SOURCE / "docs/backends.md").read_text()
        between = re.search(r"<!-- operations -->\n(.*?)<!-- end of operations -->", text, re.S)[1]
        self.assertEqual(between, table, "run: muster info --operations")


if __name__ == "__main__":
    unittest.main()
