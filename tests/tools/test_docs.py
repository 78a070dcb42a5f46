"""The documents agree with the code: functions and options with the headers, named files and functions with the tree."""

import functools
import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", pathlib.Path(__file__).resolve().parent.parent.parent))
TABLES = ("api.md", "messages.md", "buffers.md", "threads.md", "errors.md", "from-torch.md", "from-mpi.md", "from-nccl.md", "launch.md",
          "profiling.md", "meshes.md", "pipelines.md", "recovery.md")
HEADERS = sorted(path.name for path in (SOURCE / "include/muster").glob("*.h"))
PROTOTYPE = re.compile(r"^([a-z][\w *]*?)\b(mst_\w+)\(([^;{]*?)\)(?: MST_PRINTF_LIKE\(.*\))?;", re.M)
SYNOPSIS = re.compile(r'^\.Ft (.*)\n\.F[no] (mst_\w+)(.*)\n((?:\.Fa .*\n)*)', re.M)
OPTION = re.compile(r"MST_OPTION\([^;]*?\b(\w+)(?:\)\(.*)?\);")


def header(name):
    return (SOURCE / "include/muster" / name).read_text()


def same(text):
    """A piece of C without the differences that do not matter: comments and white space."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r" ?([*(),]) ?", r"\1", " ".join(text.split()))


def prototypes(name):
    """Returns result and parameters of each function of a header."""
    text = re.sub(r"(?m)^ *#(?:.*\\\n)*.*$", "", re.sub(r"/\*.*?\*/", "", header(name), flags=re.S))
    return {function: (same(result), same(parameters)) for result, function, parameters in PROTOTYPE.findall(text)}


def functions(name):
    return [function.removesuffix("_with") for function in prototypes(name)]


@functools.cache
def option_structs():
    """Returns the options, in order, of each struct of options."""
    text = "".join(map(header, HEADERS))
    fields = re.findall(r"#define (mst_\w+)_fields +(?:\\\n)?((?:.*\\\n)*.*)", text)
    return {name: OPTION.findall(body) for name, body in fields}


def options_of_calls():
    """Returns the number of positional arguments and the options, in order, of each macro of the headers."""
    text, fields = "".join(map(header, HEADERS)), option_structs()
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
        for name in HEADERS:
            for function in functions(name):
                self.assertTrue(re.search(rf"(?m)^(\||- ).*`{function}\(", text), f"docs/api.md has no line for {function} ({name})")

    def test_every_status_is_explained(self):
        page, table = (SOURCE / "man/mst_error.3").read_text(), (SOURCE / "docs/errors.md").read_text()
        statuses = re.findall(r"X\((\d+), (\w+), (\w+),", header("status.h"))
        self.assertGreater(len(statuses), 20)
        for number, status, scope in statuses:
            self.assertIn(f".It Dv MST_{status} Pq {scope.lower()}\n", page)
            self.assertRegex(table, rf"(?m)^\| `MST_{status}` \({number}\) \| {scope.lower()} \| .+ \| .+ \|$")

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


class Pages(unittest.TestCase):
    """The manual pages of section 3 and the headers have the same functions, arguments and options."""

    @classmethod
    def setUpClass(cls):
        cls.pages = {path.name: path.read_text() for path in sorted((SOURCE / "man").glob("*.3"))}
        cls.headers = "".join(map(header, HEADERS))
        cls.declared = {function: (name, *rest) for name in HEADERS for function, rest in prototypes(name).items()}
        cls.names = {page: re.findall(r"^\.Nm (\w+)", text.split("\n.Nd ")[0], re.M) for page, text in cls.pages.items()}

    def synopses(self, page):
        """Returns (function, header, result, parameters) of each synopsis of a page."""
        text = self.pages[page].split("\n.Sh SYNOPSIS\n")[1].split("\n.Sh ")[0] + "\n"
        for match in SYNOPSIS.finditer(text):
            include = re.findall(r"^\.In muster/(\w+\.h)", text[: match.start()], re.M)[-1]
            words = re.findall(r'"([^"]+)"|([^\s"]+)', match[3] + " " + match[4].replace(".Fa ", ""))
            yield match[2], include, same(match[1].strip('"')), [same(quoted or plain) for quoted, plain in words]

    def expected(self, function):
        """Returns header, result and parameters of a function or of the macro over it."""
        target = re.search(rf"^#define {function} (mst_\w+)$", self.headers, re.M)
        function = target[1] if target else function
        name, result, parameters = self.declared.get(function) or self.declared[function + "_with"]
        if function in self.declared:
            return name, result, parameters
        parameters, _, options = parameters.rpartition(",") if "," in parameters else ("", "", parameters)
        known = set(option_structs()[re.match(r"const (\w+)", options)[1]]) - {"positional", "size", "site"}
        return name, result, ",".join(filter(None, [parameters, "OPTIONS" if known else ""]))

    def test_each_function_has_one_page(self):
        named = [name for names in self.names.values() for name in names]
        self.assertEqual(len(named), len(set(named)), "a name is in two pages")
        public = {name.removesuffix("_with") for name in self.declared}
        self.assertGreater(len(public), 160)
        self.assertEqual(public - set(named), set(), "no page has these in its NAME")
        for page, names in self.names.items():
            for name in names:
                self.assertRegex(self.headers, rf"\b{name}\b", page)

    def test_synopses_are_those_of_the_headers(self):
        seen = set()
        for page, names in self.names.items():
            for function, include, result, parameters in self.synopses(page):
                self.assertIn(function, names, page)
                if parameters and re.fullmatch(r"\.(option = value|work = &work) \.\.\.", parameters[-1]):
                    parameters[-1] = "OPTIONS"
                name, *prototype = self.expected(function)
                self.assertEqual([result, ",".join(parameters)], prototype, f"{page}: {function}")
                self.assertIn(include, (name, "muster.h"), f"{page}: {function}")
                seen.add(function)
        self.assertEqual({name.removesuffix("_with") for name in self.declared} - seen, set(), "no page has these in its SYNOPSIS")

    def test_pages_explain_all_options(self):
        for function, (_, _, parameters) in self.declared.items():
            options = option_structs().get(m[1], []) if (m := re.search(r"const (\w+)\*\w+$", parameters)) else []
            page = next(page for page, names in self.names.items() if function.removesuffix("_with") in names)
            text = self.pages["mst_call.3" if m and m[1] == "mst_call" else page]
            for option in set(options) - {"positional", "size", "site"}:
                self.assertRegex(text, rf"(?m)^\.(It )?[VF]a (.* )?\.{option}\b", f"{page}: {function}")

    def test_nothing_is_made_up(self):
        for page, text in self.pages.items():
            prose = re.sub(r"(?m)^\.(Dt|Xr|Pa) .*\n", "", text)
            for word in set(re.findall(r"\b(?:mst|MST)_\w+", prose)):
                self.assertTrue(re.search(rf"\b(MST_)?{word.removeprefix('MST_')}\b", self.headers), f"{page}: {word}")

    def test_the_overview_has_all_pages(self):
        text = (SOURCE / "man/libmuster.7").read_text()
        for page in self.pages:
            self.assertRegex(text, rf"(?m)^\.It Xr {page.removesuffix('.3')} 3$")


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
        opaque = [dtype for dtype in dtypes if dtype.startswith("bits")]
        self.assertEqual(sorted([*measured, "bool", *opaque]), sorted(dtypes))  # sums of these are no benchmark

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
        folders = ("src", "tools", "backends", "bindings/torch/csrc")
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
