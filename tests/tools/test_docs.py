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


class Docs(unittest.TestCase):
    def test_every_function_has_its_line(self):
        text = (SOURCE / "docs/api.md").read_text()
        for name in ("comm.h", "group.h", "mesh.h", "pipeline.h", "backend.h", "prof.h", "discover.h", "store.h"):
            declared = functions(name)
            self.assertGreater(len(declared), 4)
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
