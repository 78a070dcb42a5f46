"""The static checks of scripts/ report what they are for: each gets a small tree with one fault, and the same tree without it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", pathlib.Path(__file__).resolve().parent.parent.parent))
CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
LAYERS = """
| layer | module | may also use | job |
|---|---|---|---|
| 2 | `top/` | | calls |
| 2 | `top/pure/` | | computes |
| 1 | `low/` | | is called |
| 0 | `left/` | `right/` | uses its neighbour |
| 0 | `right/` | | does not |

| step | file | function | what it does |
|---|---|---|---|
| 1 | `src/top/top.c` | `top` | calls low |
| 2 | `src/low/low.c` | `low` | returns |
| 3a | `src/left/left.c` | `left` | calls right |
| 3b | `src/right/right.c` | `right` | returns |
| 4b | `src/top/pure/pure.c` | `pure` | returns |
"""
FILES = {
    "docs/architecture.md": LAYERS,
    "src/top/top.h": "int top(int x);\n",
    "src/top/top.c": '#include "low/deep/deep.h"\n#include "low/low.h"\n#include "top.h"\n'
    "int top(int x) {\n    return low(x) + deep(x);\n}\n",
    "src/top/pure/pure.h": "int pure(int x);\n",
    "src/top/pure/pure.c": '#include "pure.h"\nint pure(int x) {\n    return x;\n}\n',
    "src/low/low.h": "int low(int x);\n",
    "src/low/low.c": '#include "low/low.h"\nint low(int x) {\n    return x;\n}\n',
    "src/low/deep/deep.h": "int deep(int x);\n",
    "src/low/deep/deep.c": '#include "low/low.h"\n#include "low/deep/deep.h"\nint deep(int x) {\n    return low(x);\n}\n',
    "src/left/left.c": '#include "right/right.h"\nint left(int x);\nint left(int x) {\n    return right(x);\n}\n',
    "src/right/right.h": "int right(int x);\n",
    "src/right/right.c": '#include "right/right.h"\nint right(int x) {\n    return x;\n}\n',
}


class Checks(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def build(self):
        """Compiles the tree as CMake does."""
        if not CC:
            self.skipTest("no C compiler")
        for path in (self.root / "src").rglob("*.c"):
            name = self.root / "build/CMakeFiles/muster_objects.dir" / f"{path.relative_to(self.root)}.o"
            name.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([CC, "-c", f"-I{self.root}/src", "-o", name, path], check=True)

    def check(self, script):
        """Runs a script on the tree. Returns its faults and its output."""
        command = [sys.executable, "-B", SOURCE / "scripts" / script, "--root", self.root]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1 if done.stderr else 0, done.stderr)
        return done.stderr.splitlines(), done.stdout


class Layers(Checks):
    def faults(self):
        self.build()
        return self.check("check_layers.py")[0]

    def test_a_clean_tree_passes(self):
        self.assertEqual(self.faults(), [])

    def test_an_upward_include_is_reported(self):
        include = '#include "low/low.h"\n#include "top/top.h"\n'
        self.write("src/low/deep/deep.c", include + "int deep(int x);\nint deep(int x) { return low(x); }\n")
        self.assertEqual(self.faults(), ["src/low/deep/deep.c:2: low/ (layer 1) includes top/top.h of top/ (layer 2)"])

    def test_an_upward_call_is_reported(self):
        self.write("src/low/deep/deep.c", "int top(int x);\nint deep(int x);\nint deep(int x) { return top(x); }\n")
        self.assertEqual(self.faults(), ["src/low/deep/deep.c: low/ (layer 1) calls top of top/ (layer 2), src/top/top.c"])

    def test_a_row_of_a_sub_folder_counts(self):
        self.write("src/top/top.c", '#include "pure/pure.h"\n#include "top.h"\nint top(int x) { return pure(x); }\n')
        self.assertEqual(
            self.faults(),
            [
                "src/top/top.c:1: top/ (layer 2) includes pure/pure.h of top/pure/ (layer 2)",
                "src/top/top.c: top/ (layer 2) calls pure of top/pure/ (layer 2), src/top/pure/pure.c",
            ],
        )

    def test_exceptions_hold_one_way(self):
        self.write("src/right/right.c", "int left(int x);\nint right(int x);\nint right(int x) { return left(x); }\n")
        self.assertEqual(self.faults(), ["src/right/right.c: right/ (layer 0) calls left of left/ (layer 0), src/left/left.c"])

    def test_without_a_build_calls_are_skipped(self):
        self.write("src/low/deep/deep.c", "int top(int x);\nint deep(int x);\nint deep(int x) { return top(x); }\n")
        faults, said = self.check("check_layers.py")
        self.assertEqual(faults, [])
        self.assertRegex(said, "^skipped: calls of 6 sources without an object file, such as src/")

    def test_tables_and_folders_agree(self):
        self.write("src/new/new.c", "int unused;\n")
        self.write("docs/architecture.md", LAYERS.replace("`right/` | | does", "`wrong/` | | does"))
        faults = self.faults()
        self.assertIn("docs/architecture.md: src/wrong/ does not exist", faults)
        self.assertIn("src/new/new.c: its folder is not in the layer table of docs/architecture.md", faults)

    def test_private_headers_are_not_for_examples(self):
        self.write("examples/a.c", '#include "low/low.h"\n')
        self.assertEqual(self.faults(), ['examples/a.c:1: examples/ includes "low/low.h", which is not public'])


class Docs(Checks):
    def test_a_clean_tree_passes(self):
        self.assertEqual(self.check("check_docs.py")[0], [])

    def test_steps_that_are_gone_are_reported(self):
        self.write("src/low/low.c", "int low(int x);\nint other(int x) { return low(x); }\n")
        self.write("src/top/pure/other.c", (self.root / "src/top/pure/pure.c").read_text())
        (self.root / "src/top/pure/pure.c").unlink()
        self.assertEqual(
            self.check("check_docs.py")[0],
            [
                "docs/architecture.md: step 2: src/low/low.c does not define low",
                "docs/architecture.md: step 4b: src/top/pure/pure.c does not exist",
                "docs/architecture.md: `src/top/pure/pure.c` does not exist",
            ],
        )

    def test_named_tests_exist(self):
        self.write("tests/unit/test_a.c", "")
        self.write("tests/multi/test_a_b.py", "")
        presets = '{"testPresets": [{"filter": {"exclude": {"label": "^x$", "name": "test_(a(_b|_c)?|d)$|^unit/test_a$"}}}]}'
        self.write("CMakePresets.json", presets)
        self.write("tests/CMakeLists.txt", 'set(seconds_a 3)\nset(seconds_e 3)\nset(leak_tests "^unit/test_(a|f)$")\n')
        self.assertEqual(
            self.check("check_docs.py")[0],
            [
                "CMakePresets.json: no test matches test_a_c$",
                "CMakePresets.json: no test matches test_d$",
                "tests/CMakeLists.txt: no test matches ^unit/test_f$",
                "tests/CMakeLists.txt: no test matches /(test_)?e$",
            ],
        )

    def test_names_and_links_lead_somewhere(self):
        self.write("CONTRIBUTING.md", "See `low/low.h`, `low/gone.h` and [layers](docs/architecture.md), [more](docs/more.md).\n")
        self.assertEqual(
            self.check("check_docs.py")[0],
            ["CONTRIBUTING.md: `low/gone.h` does not exist", "CONTRIBUTING.md: the link to docs/more.md leads nowhere"],
        )

    def test_examples_exist(self):
        self.write("examples/01_a.c", "/* 01_a.c, unlike 02_b.c */\n")
        self.write("docs/one.md", "build/bin/examples/01_a and `03_c.c`\n")
        self.assertEqual(
            self.check("check_docs.py")[0],
            ["docs/one.md: there is no example 03_c", "examples/01_a.c: there is no example 02_b"],
        )

    def test_anchors_and_manual_pages_exist(self):
        self.write("man/mst_a.3", ".Sh NAME\n.Nm mst_a ,\n.Nm mst_b\n.Nd two\n.Sh SEE ALSO\n.Xr mst_b 3 ,\n.Xr mst_c 3 ,\n.Xr printf 3\n")
        self.write("docs/one.md", "# A `b` (c)\n## Twice\n## Twice\n```\n# none [x](gone)\n```\n`[x](gone)` [x](https://x.org/#y)\n")
        good = "[1](one.md#a-b-c) [2](one.md#twice-1) [3](#here) mst_b(3) `man mst_a` `man 3 mst_b` printf(3)\n"
        bad = "[1](one.md#none) [2](#a) mst_a(1) `man mst_c`\n"
        self.write("docs/two.md", "# Here\n" + good + bad)
        self.assertEqual(
            self.check("check_docs.py")[0],
            [
                "docs/two.md: the link to one.md#none: there is no such heading",
                "docs/two.md: the link to #a: there is no such heading",
                "docs/two.md: there is no manual page mst_a(1)",
                "docs/two.md: there is no manual page mst_c()",
                "mst_a.3: there is no manual page mst_c(3)",
            ],
        )


class Style(Checks):
    def test_a_clean_tree_passes(self):
        self.write("src/low/six.c", "static int six(int a, int b, int c, int d, int e, int (*f)(int, int)) {\n    return 0;\n}\n")
        self.assertEqual(self.check("check_style.py")[0], [])

    def test_faults_are_reported(self):
        self.write("tests/long.c", "/* " + "x" * 105 + " */\n/* " + "é" * 104 + " */\n")
        self.write("tools/words.py", "# a warden\n")
        comment = "/* f(1, 2, 3, 4, 5, 6, 7) { */\n"
        self.write("src/low/wide.c", comment + "static int\nseven(int a, int b, int c, int d,\n      int e, int f, int g) {\n}\n")
        self.assertEqual(
            self.check("check_style.py")[0],
            [
                "src/low/wide.c:3: seven has 7 parameters, at most 6: use a struct",
                "tests/long.c:1: 111 columns, at most 110",
                "tools/words.py:1: 'warden' was replaced by a term of the field",
            ],
        )


if __name__ == "__main__":
    unittest.main()
