"""The code blocks of a document, and a shell that follows them.

    ```LANGUAGE NAME   the content of the reader's file NAME
    ```sh              commands; each must succeed
    ```console         "$ command" lines, each followed by its output

Other blocks are not followed. Output is compared line by line. Ranks print concurrently, so lines that begin with
"[R] " are compared rank by rank. "…" stands for any text in a line. A line that is only "…", or "[R] …", stands for
any lines without a rank, or of that rank.
"""

import collections
import difflib
import os
import re
import select
import shlex
import signal
import time

FENCE = re.compile(r"^```(\w*)(?: +(\S+))?\n(.*?)^```$|^#+ ([^\n]+)$", re.M | re.S)
# The sections of README.md that have blocks, in the order in which a reader needs them: the program at its top needs
# an installation.
README_ORDER = ("Start", "Install", "Hello", "CMake")
RANK = re.compile(r"\[(\d+)\] ")
END = "--end-of-command--"

Block = collections.namedtuple("Block", "path line heading language name text")
Example = collections.namedtuple("Example", "command output")


def read_blocks(path):
    """Returns the blocks of a Markdown file, each with the heading above it."""
    text, heading, blocks = path.read_text(encoding="utf-8"), "", []
    for match in FENCE.finditer(text):
        if match[4]:
            heading = match[4]
        else:
            line = text.count("\n", 0, match.start()) + 1
            blocks.append(Block(path, line, heading, match[1], match[2], match[3]))
    return blocks


def read_documents(root):
    """Returns the blocks of README.md, in the order in which a reader needs them, and of docs/tutorial.md."""
    readme = sorted(read_blocks(root / "README.md"), key=lambda block: README_ORDER.index(block.heading))
    return readme, read_blocks(root / "docs/tutorial.md")


def place(block):
    return f"{block.path.name}:{block.line}"


def read_examples(text):
    """Splits a console block into commands and their outputs."""
    examples = []
    for line in text.splitlines():
        if line.startswith("$ "):
            examples.append(Example(line[2:], []))
        elif examples[-1].command.endswith("\\") and not examples[-1].output:
            examples[-1] = Example(examples[-1].command + "\n" + line, [])
        else:
            examples[-1].output.append(line)
    return examples


def by_rank(lines):
    """Returns the lines in the order of ranks; those of a rank, and those without one, keep their order."""
    return sorted(lines, key=lambda line: int(match[1]) if (match := RANK.match(line)) else -1)


def matches(expected, actual):
    """Whether the actual output is the one that the document shows."""
    ranks = {line[: match.end()] if (match := RANK.match(line)) else "" for line in (*expected, *actual)}
    for rank in ranks:
        of_rank = [[line[len(rank) :] for line in lines if line.startswith(rank) and (rank or not RANK.match(line))]
                   for lines in (expected, actual)]  # fmt: skip
        parts = [r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in of_rank[0]]
        if not re.fullmatch("".join(parts), "".join(line + "\n" for line in of_rank[1])):
            return False
    return True


class Shell:
    """A bash whose standard input and output are pipes. State stays between commands, as for a reader."""

    def __init__(self, process, substitutes=None, deadline=60):
        self.process, self.deadline = process, deadline
        self.substitutes = substitutes or {}  # regular expression: text
        self.wrong = []  # (block, example, output) of each output that differs from the document

    def run(self, command):
        """Runs a command. Returns its exit status and the lines of its output and errors."""
        for pattern, text in self.substitutes.items():
            command = re.sub(pattern, text, command)
        script = f"{{ {command}\n}} </dev/null\nprintf '\\n%s %d\\n' {END} $?\n"
        self.process.stdin.write(script.encode())
        self.process.stdin.flush()
        data, end = b"", time.monotonic() + self.deadline
        while not (match := re.search(rf"\n{END} (\d+)\n$", data.decode(errors="replace"))):
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"no end of '{command}'; so far:\n{data.decode(errors='replace')}")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise AssertionError(f"the shell ended in '{command}':\n{data.decode(errors='replace')}")
            data += more
        text = data.decode(errors="replace")[: match.start()]
        return int(match[1]), [line.rstrip() for line in text.splitlines()]

    def follow(self, block):
        """Carries out a block. Raises AssertionError if a command fails; keeps outputs that differ in self.wrong."""
        if block.name:
            examples = [Example(f"mkdir -p $(dirname {block.name}); printf %s {shlex.quote(block.text)} >{block.name}", None)]
        elif block.language == "sh":
            lines = block.text.replace("\\\n", "").splitlines()
            examples = [Example(line, None) for line in lines if line.strip()]
        elif block.language == "console":
            examples = read_examples(block.text)
        else:
            return
        for example in examples:
            status, output = self.run(example.command)
            if status != 0:
                raise AssertionError(f"{place(block)}: '{example.command}' failed with {status}:\n" + "\n".join(output))
            if example.output is not None and not matches(example.output, output):
                self.wrong.append((block, example, by_rank(output)))

    def differences(self):
        """Describes the outputs that differ from the documents."""
        text = ""
        for block, example, output in self.wrong:
            diff = difflib.unified_diff(example.output, output, "shown", "printed", lineterm="", n=1)
            text += "\n".join([f"{place(block)}: {example.command}", *diff, ""])
        return text

    def update(self):
        """Writes the outputs into the documents, except those of which they show a part."""
        for block, example, output in self.wrong:
            if "…" not in "".join(example.output):
                shown, printed = ["\n".join([f"$ {example.command}", *lines, ""]) for lines in (example.output, output)]
                text = block.path.read_text(encoding="utf-8")
                block.path.write_text(text.replace(shown, printed, 1), encoding="utf-8")

    def close(self):
        """Ends the shell and its children; all are in a process group of their own."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
