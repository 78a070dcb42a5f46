"""The tables of docs/ say what the headers have: every function is there, and nothing else."""

import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", pathlib.Path(__file__).resolve().parent.parent.parent))
TABLES = ("api.md", "from-torch.md", "from-mpi.md", "from-nccl.md", "launch.md", "profiling.md", "meshes.md")


def header(name):
    return (SOURCE / "include/muster" / name).read_text()


class Docs(unittest.TestCase):
    def test_every_function_has_its_line(self):
        text = (SOURCE / "docs/api.md").read_text()
        for name in ("comm.h", "group.h", "mesh.h", "backend.h", "prof.h", "discover.h", "store.h"):
            declared = re.findall(r"^[a-z][\w *]*\b(mst_\w+)\(", header(name), re.M)
            self.assertGreater(len(declared), 4)
            for function in declared:
                self.assertRegex(text, rf"\b{function.removesuffix('_with')}\b", name)

    def test_nothing_is_made_up(self):
        headers = "".join(header(path.name) for path in (SOURCE / "include/muster").glob("*.h"))
        for name in TABLES:
            text = (SOURCE / "docs" / name).read_text()
            for word in set(re.findall(r"\bmst_\w+", text)):
                self.assertRegex(headers, rf"\b{word}\b", name)
            for word in set(re.findall(r"\bMST_(\w+)", text)):
                self.assertRegex(headers, rf"\b(MST_)?{word}\b", name)
            for option in set(re.findall(r"`\.([a-z]\w*)\b", text)):
                self.assertRegex(headers, rf"\b{option}\b", name)


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
