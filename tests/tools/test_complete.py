"""Completion in bash, zsh and fish: every command and every option of --help and of the manual completes."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import MUSTER, ToolTest

SOURCE = os.environ.get("MUSTER_SOURCE_DIR", ".")
SCRIPTS = os.path.join(SOURCE, "tools/muster/complete")
BENCHMARKS = ("limits", "store", "init", "kernels", "prof")
INTERNAL = ("--agent", "--man-table", "--worker", "__complete")
ENV = {**os.environ, "PATH": os.path.dirname(MUSTER) + ":" + os.environ["PATH"], "TERM": "dumb", "LC_ALL": "C.UTF-8"}
# The variables that bash sets before it calls the function; bash divides the line at spaces, = and :.
BASH = r"""
source "$1"
line=$2
COMP_LINE=$line COMP_POINT=${#line}
mapfile -t COMP_WORDS < <(grep -oE '[^ =:]+|[=:]' <<<"$line")
[[ $line == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_muster
printf '%s\n' "${COMPREPLY[@]}"
"""


def bash(line):
    """The candidates for the last word of a line."""
    script = os.path.join(SCRIPTS, "muster.bash")
    command = ["bash", "--norc", "-c", BASH, "bash", script, line]
    out = subprocess.run(command, env=ENV, cwd=SCRIPTS, capture_output=True, text=True, timeout=60, check=True).stdout
    return out.split()


def typed(shell, setup, line, expected, home):
    """Types a line and a tab into an interactive shell. True if the expected text appears within the time limit."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(shell[0], shell, {**ENV, "PS1": "$ ", "HOME": home})
    try:
        os.write(terminal, (setup + "; echo rea''dy\n").encode())
        seen, sent, end = "", False, time.monotonic() + 30
        while time.monotonic() < end and not (sent and expected in seen):
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 4096).decode(errors="replace")
            if not sent and "ready" in seen:
                os.write(terminal, (line + "\t").encode())
                seen, sent = "", True
        return expected in seen
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


class Complete(ToolTest):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.home = directory.name

    def documented(self, *words):
        """The options that --help of a command lists, long and short."""
        rc, out, err = self.muster(*words, "--help")
        self.assertEqual((rc, err), (0, b""), words)
        found = re.findall(r"(?m)^  (?:(-\w), |    )(--[\w-]+)", out.decode())
        self.assertTrue(found, words)
        return {option for pair in found for option in pair if option}

    def test_every_command_and_option(self):
        rc, out, _ = self.muster("--help")
        self.assertEqual(rc, 0)
        commands = re.findall(r"(?m)^  (\w+) +\w", out.decode().split("\nexamples")[0])
        self.assertEqual(set(bash("muster ")), {*commands, "--help", "--version"})
        actions = re.findall(r"(?m)^  (\w+) +", self.muster("store", "--help")[1].decode().split("\nexamples")[0])
        self.assertEqual(set(bash("muster store ")), {*actions, "--help"})
        self.assertLessEqual({"all", "all_reduce", "barrier", *BENCHMARKS}, set(bash("muster bench ")))
        tables = [(c,) for c in commands if c not in ("bench", "store")]
        tables += [("bench", "all"), *(("bench", b) for b in BENCHMARKS), ("store", "serve"), ("store", "get")]
        for words in tables:
            with self.subTest(words=words):
                options = self.documented(*words)
                self.assertEqual(set(bash(f"muster {' '.join(words)} -")), options)
                self.assertFalse(options & set(INTERNAL))

    def test_help(self):
        """Every help text fits a terminal, says what the command does, and has an example."""
        commands = [(), ("run",), ("info",), ("tune",), ("report",), ("store",), ("store", "get"), ("store", "serve"), ("bench",)]
        for words in (*commands, ("bench", "all"), *(("bench", b) for b in BENCHMARKS)):
            text = self.muster(*words, "--help")[1].decode()
            self.assertTrue(text.startswith(f"usage: muster {' '.join(w for w in words if w != 'all')}".rstrip()), words)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 100, (words, line))
                self.assertEqual(line, line.rstrip())
            self.assertRegex(text, rf"\nexamples:\n(.*\n)*  (MUSTER_\w+=\w+ )?muster .*{words[0] if words else 'run'}", words)
            for name in INTERNAL:
                self.assertNotIn(name, text)

    def test_every_option_of_the_manual(self):
        bench = set.union(*(self.documented("bench", name) for name in ("all", *BENCHMARKS)))
        for page in ("run", "info", "tune", "report", "bench"):
            with open(os.path.join(SOURCE, f"man/muster-{page}.1"), encoding="utf-8") as file:
                text = file.read()
            heads = " ".join(re.findall(r"(?m)^\.It.* Fl .*$", text))
            options = {"--" + name for name in re.findall(r" Fl -([\w-]+)", heads)}
            self.assertGreater(len(options), 3)
            known = bench if page == "bench" else self.documented(page)
            long = {option for option in known if option.startswith("--")}
            self.assertEqual(options | {"--help"}, long, page)
            for name in INTERNAL:
                self.assertNotIn(name.replace("--", "Fl -"), text)

    def test_values(self):
        self.assertEqual(bash("muster run --bind "), ["cores", "numa", "none"])
        self.assertEqual(bash("muster run --bind=n"), ["numa", "none"])
        self.assertEqual(bash("muster run --rdzv_backend=s"), ["static"])
        self.assertEqual(bash("muster run --bind="), ["cores", "numa", "none"])
        self.assertEqual(bash("muster run -np "), ["cpu", "gpu", "auto"])
        self.assertEqual(bash("muster bench all_reduce --backend native,glo"), ["native,gloo"])
        self.assertEqual(bash("muster bench all_reduce --backend mpi:op"), ["openmpi"])  # bash has the part before the colon
        self.assertEqual(bash("muster bench --bytes 4 all_red"), ["all_reduce"])
        self.assertEqual(bash("muster info --plan broad"), ["broadcast"])
        self.assertEqual(bash("muster report --json muster.b"), ["muster.bash"])
        self.assertIn("muster.fish", bash("muster run -n 2 cat muster."))
        self.assertIn("seq", bash("muster run -n 2 seq"))
        self.assertEqual(bash("muster run --ag"), [])
        self.assertEqual(bash("muster xyzzy --"), [])

    def test_bash_at_a_terminal(self):
        setup = f"source {SCRIPTS}/muster.bash"
        self.assertTrue(typed(["bash", "--norc", "-i"], setup, "muster run --bind=nu", "muster run --bind=numa", self.home))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_at_a_terminal(self):
        setup = f"unsetopt zle_bracketed_paste; fpath=({SCRIPTS} $fpath); autoload -U compinit; compinit -u -D"
        shell = ["zsh", "-f", "-i"]
        self.assertTrue(typed(shell, setup, "muster run --verb", "ose", self.home))
        self.assertTrue(typed(shell, setup, "muster bench --backend native,openm", "pi", self.home))
        self.assertTrue(typed(shell, f"cd {SCRIPTS}/..; {setup}", "muster report --json=complete/muster.b", "ash", self.home))
        self.assertTrue(typed(shell, f"cd {SCRIPTS}/..; {setup}", "muster run --log-dir=compl", "ete/", self.home))

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        script = os.path.join(SCRIPTS, "muster.fish")
        for line, expected in (
            ("muster run --verb", "--verbose"),
            ("muster run --bind=nu", "--bind=numa"),
            ("muster sto", "store"),
            ("muster report --json complete/muster.b", "complete/muster.bash"),
            ("muster report --json=complete/muster.b", "--json=complete/muster.bash"),
            ("muster run --log-dir=compl", "--log-dir=complete/"),
        ):
            command = ["fish", "--no-config", "-c", f"cd {SCRIPTS}/..; source {script}; complete -C '{line}'"]
            out = subprocess.run(command, env={**ENV, "HOME": self.home}, capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertEqual([candidate.split("\t")[0] for candidate in out.splitlines()], [expected])


if __name__ == "__main__":
    unittest.main()
