"""Follows README.md and docs/tutorial.md literally, with an installation of this build, and compares the outputs.

scripts/fresh_debian.py does the same in a new Debian, with the commands that build muster. Here the build is installed
instead of built again, and the demo and the tests are left out. node1 and node2 are this machine: ssh.sh plays ssh.

test_documents.py --update writes the outputs into the documents.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

from documented import Shell, matches, read_blocks, read_documents, read_examples
from harness import BUILD, SOURCE, RanksTest, main

README, TUTORIAL = SOURCE / "README.md", SOURCE / "docs/tutorial.md"
SUBSTITUTES = {
    r"git clone <url> muster": f"mkdir muster && cp -r {SOURCE}/examples muster",
    r"^cmake -S embedded .*": rf"\g<0> -DFETCHCONTENT_SOURCE_DIR_MUSTER={SOURCE}",
    r"^make install PREFIX=\S+$": f"cmake --install {BUILD} --prefix $HOME/.local >/dev/null",
    r"^make (demo|test)\b.*": ":",
    r"^cmake --build embedded.*": ":",  # compiles the whole library
}
UPDATE = False


class Documents(RanksTest):
    grace = 10

    def shell(self):
        """A shell of a reader whose home is the test's directory."""
        ssh = pathlib.Path(self.path("bin/ssh"))
        ssh.parent.mkdir()
        ssh.write_text((SOURCE / "tests/install/ssh.sh").read_text())
        ssh.chmod(0o755)
        process = self.spawn(
            "bash", cwd=self.directory, env={"HOME": self.directory, "PATH": f"{ssh.parent}:{os.environ['PATH']}"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        own_port = {r"--master-addr (\S+)": rf"--master-addr \1 --master-port {self.free_port()}"}
        return Shell(process, {**SUBSTITUTES, **own_port})

    def test_readme_and_tutorial(self):
        readme, tutorial = read_documents(SOURCE)
        shell = self.shell()
        self.addCleanup(shell.close)
        for block in readme:
            shell.follow(block)
        shell.run("cd ~/muster")
        for block in tutorial:
            shell.follow(block)
        if UPDATE:
            shell.update()
        self.assertEqual(shell.differences(), "", f"{sys.argv[0]} --update writes the outputs into the documents")

    def test_code_is_that_of_the_examples(self):
        """The README shows the first example; the tutorial shows parts of all of them."""
        example = (SOURCE / "examples/01_hello.c").read_text()
        shown = next(block.text for block in read_blocks(README) if block.language == "c")
        self.assertIn(self.squeeze(shown), self.squeeze(example))
        examples = {path.name: self.squeeze(path.read_text()) for path in (SOURCE / "examples").glob("0[1-7]_*.c")}
        used = set()
        for block in read_blocks(TUTORIAL):
            if block.language == "c":
                names = [name for name, text in examples.items() if all(
                    self.squeeze(part) in text for part in block.text.split("...\n"))]  # fmt: skip
                self.assertTrue(names, f"tutorial.md:{block.line}: no example has this code")
                used.add(names[0])
        self.assertEqual(used, set(examples))

    def test_cmake_options(self):
        """The README has a row for each option, with its default."""
        build = (SOURCE / "CMakeLists.txt").read_text()
        options = dict(re.findall(r'^option\((MUSTER_\w+) ".*" (\w+)\)', build, re.M))
        options.update(re.findall(r'^set\((MUSTER_\w+) "(\w*)" CACHE', build, re.M))
        rows = re.findall(r"^\| `(MUSTER_\w+)` \| *(\w*) *\|", README.read_text(), re.M)
        self.assertEqual(dict(rows), options)

    @staticmethod
    def squeeze(text):
        """Without comments and differences in white space."""
        return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.S)).strip()


class Comparison(unittest.TestCase):
    def test_ranks_in_any_order(self):
        shown = ["[0] a", "[0] b", "[1] c"]
        self.assertTrue(matches(shown, ["[1] c", "[0] a", "[0] b"]))
        self.assertFalse(matches(shown, ["[1] c", "[0] b", "[0] a"]))
        self.assertFalse(matches(shown, ["[0] a", "[0] b"]))
        self.assertFalse(matches(shown, [*shown, "[2] d"]))
        self.assertFalse(matches(shown, ["a warning", *shown]))

    def test_parts_that_vary(self):
        self.assertTrue(matches(["took … ms", "…", "end"], ["took 3 ms", "more", "and more", "end"]))
        self.assertFalse(matches(["took … ms", "end"], ["took 3 us", "end"]))
        self.assertFalse(matches(["…", "end"], ["more"]))

    def test_commands(self):
        block = "$ one \\\n  two\nout\n$ three\n"
        self.assertEqual(read_examples(block), [("one \\\n  two", ["out"]), ("three", [])])


if __name__ == "__main__":
    UPDATE = "--update" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--update"]
    main()
