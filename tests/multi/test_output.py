"""Printing by rank: exact bytes, on a pipe and on a terminal, and complete restoration."""

import fcntl
import os
import pty
import select
import subprocess
import termios
import time

from harness import DEADLINE, PROGRAMS, RanksTest, main, wait_until

OUTPUT = PROGRAMS / "output"


class OutputTest(RanksTest):
    def run_output(self, *actions, env=None, stdout=subprocess.PIPE, **options):
        """Runs the program to its end: standard output as bytes and standard error as lines."""
        process = self.popen(OUTPUT, *actions, env=env, stdout=stdout, stderr=subprocess.PIPE, **options)
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 0, err)
        return out, err.decode().splitlines()

    def launch(self, n, *actions):
        status, out = self.run_tool("run", "-n", n, OUTPUT, *actions)
        self.assertEqual(status, 0, out)
        return sorted(out.splitlines())


class OnAPipe(OutputTest):
    def test_without_a_world(self):
        out, err = self.run_output("one=a", "all=b", "printf=c", "one=d")
        self.assertEqual(out, b"a\nrank #0: b\nc\nd\n")
        self.assertEqual(err, ["2", "11", "2"])  # number of bytes written by each call

    def test_order_is_kept(self):
        """Text in stdio's buffer comes before text that bypasses it."""
        out, _ = self.run_output("part=a", "all=b", "part=c", "one=d", "write=e")
        self.assertEqual(out, b"arank #0: b\ncd\ne\n")

    def test_long_text(self):
        text = "x" * 100000
        out, err = self.run_output(f"all={text}", "one=%s%n")
        self.assertEqual(out, f"rank #0: {text}\n%s%n\n".encode())
        self.assertEqual(err, ["100010", "5"])

    def test_suppressed(self):
        ways = ["printf=a", "puts=b", "write=c", "child=d", "one=e", "all=f"]
        out, err = self.run_output("printf=before", "suppress=3", *ways, "restore", "printf=after", "all=g")
        self.assertEqual(out, b"before\nrank #3: f\nafter\nrank #3: g\n")
        self.assertEqual(err, ["0", "11", "11"])

    def test_rank_0_is_never_suppressed(self):
        out, _ = self.run_output("suppress=0", "printf=a", "puts=b", "child=c", "one=d", "all=e", "restore", "puts=f")
        self.assertEqual(out, b"a\nb\nc\nd\nrank #0: e\nf\n")

    def test_what_was_buffered_before_is_not_lost(self):
        out, _ = self.run_output("part=a", "suppress=1", "part=b", "restore", "part=c")
        self.assertEqual(out, b"ac")

    def test_twice_is_harmless(self):
        out, _ = self.run_output("suppress=1", "suppress=1", "puts=a", "restore", "puts=b", "restore", "puts=c")
        self.assertEqual(out, b"b\nc\n")

    def test_again_and_again(self):
        actions = ["puts=a", "suppress=1", "puts=b", "restore"] * 50
        before = ["open", "flags"]
        out, err = self.run_output(*before, *actions, *before)
        self.assertEqual(out, b"a\n" * 50)
        self.assertEqual(err[:2], err[2:])

    def test_restore_without_suppress(self):
        self.assertEqual(self.run_output("restore", "puts=a"), (b"a\n", []))

    def test_negative_rank(self):
        self.assertEqual(self.run_output("bad", "puts=a"), (b"a\n", ["MST_ERR_INVALID"]))

    def test_end_of_the_process_while_suppressed(self):
        self.assertEqual(self.run_output("puts=a", "suppress=1", "puts=b")[0], b"a\n")

    def test_descriptor_flags_are_restored(self):
        _, err = self.run_output("flags", "suppress=1", "restore", "flags", "cloexec", "flags", "suppress=1", "restore", "flags")
        self.assertEqual(err, ["0 1", "0 1", "1 1", "1 1"])

    def test_append_mode_and_offset_are_kept(self):
        path = self.path("out")
        with open(path, "ab") as file:
            self.run_output("puts=a", "suppress=2", "puts=b", "restore", "puts=c", stdout=file)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"a\nc\n")

    def test_buffering_on_a_pipe(self):
        for first in ([], ["puts=a"]):
            out, err = self.run_output(*first, "suppress=1", "puts=b", "restore", "puts=c", "buffering")
            self.assertEqual(err, ["full"])
            self.assertEqual(out, b"a\nc\n" if first else b"c\n")

    def test_buffering_stays_undecided(self):
        self.assertEqual(self.run_output("suppress=1", "restore", "buffering")[1], ["undecided"])

    def test_closed_standard_output(self):
        process = self.popen(
            OUTPUT, "close", "suppress=0", "err=on", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.assertEqual(process.communicate(timeout=DEADLINE)[1], b"on\n")
        process = self.popen(OUTPUT, "close", "suppress=1", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        err = process.communicate(timeout=DEADLINE)[1].decode()
        if process.returncode:  # it may succeed or fail, but a failure must have a reason
            self.assertRegex(err, "MST_ERR_SYSTEM: .*standard output")

    def test_pipe_without_reader(self):
        """A pipe without a reader is an error of the call and does not kill the process."""
        read, write = os.pipe()
        os.close(read)
        process = self.popen("sh", "-c", f"trap '' PIPE; exec {OUTPUT} all=a one=b err=on", stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        self.assertEqual(process.communicate(timeout=DEADLINE)[1], b"-1\n-1\non\n")

    def test_full_pipe_that_does_not_block(self):
        """A non-blocking pipe with a slow reader still gets every byte."""
        read, write = os.pipe()
        os.set_blocking(write, False)
        text = "y" * 130000
        process = self.popen(OUTPUT, f"all={text}", "err=on", stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        waiting = bytearray(4)
        wait_until(lambda: not fcntl.ioctl(read, termios.FIONREAD, waiting) and waiting[2], "the pipe is full")
        got, end = b"", time.monotonic() + DEADLINE
        while select.select([read], [], [], max(0, end - time.monotonic()))[0]:
            data = os.read(read, 4096)
            if not data:
                break
            got += data
        os.close(read)
        process.communicate(timeout=DEADLINE)
        self.assertEqual(len(got), len(f"rank #0: {text}\n"))


class Launched(OutputTest):
    def test_gated_by_rank(self):
        lines = self.launch(3, "init", "one=first", "all=each", "destroy")
        self.assertEqual(lines, ["[0] first", "[0] rank #0: each", "[1] rank #1: each", "[2] rank #2: each"])

    def test_suppressed_on_all_but_0(self):
        lines = self.launch(3, "init", "suppress", "puts=a", "write=b", "child=c", "all=d", "barrier", "restore", "puts=e", "destroy")
        self.assertEqual(
            lines,
            sorted(["[0] a", "[0] b", "[0] c", *(f"[{r}] rank #{r}: d" for r in range(3)), *(f"[{r}] e" for r in range(3))]),
        )


class OnATerminal(OutputTest):
    def on_terminal(self, *actions):
        """Runs the program with standard output on a terminal: its output, and standard error as lines."""
        mine, theirs = pty.openpty()
        process = self.popen(OUTPUT, *actions, stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        got, end = b"", time.monotonic() + DEADLINE
        while select.select([mine], [], [], max(0, end - time.monotonic()))[0]:
            try:
                got += os.read(mine, 65536)
            except OSError:  # the program has closed the terminal
                break
        os.close(mine)
        err = process.communicate(timeout=DEADLINE)[1]
        self.assertEqual(process.returncode, 0, err)
        return got.replace(b"\r\n", b"\n"), err.decode().splitlines()

    def test_exact_bytes(self):
        actions = ["puts=a", "suppress=2", "puts=b", "child=c", "one=d", "all=e", "restore", "puts=f", "child=g"]
        self.assertEqual(self.on_terminal(*actions)[0], b"a\nrank #2: e\nf\ng\n")

    def test_line_buffering_is_kept(self):
        for first in ([], ["puts=a"]):
            _, err = self.on_terminal(*first, "suppress=1", "puts=b", "restore", "puts=c", "buffering")
            self.assertEqual(err, ["line"])

    def test_lines_come_at_once_after_restore(self):
        """stdio flushes each line on a terminal, also if its first standard output was /dev/null."""
        mine, theirs = pty.openpty()
        process = self.popen(OUTPUT, "suppress=1", "puts=x", "restore", "puts=seen", "err=on", "child=", stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        self.assertEqual(process.stderr.readline(), b"on\n")
        self.assertTrue(select.select([mine], [], [], DEADLINE)[0])
        self.assertTrue(os.read(mine, 100).startswith(b"seen"))
        process.communicate(timeout=DEADLINE)
        os.close(mine)


if __name__ == "__main__":
    main()
