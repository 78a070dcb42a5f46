"""muster run: what its report tells of a rank that died: the call it was in, its last error, who was to blame, its own
message; ranks that never join; and what is said while ranks wait for each other."""

import json
import os
import pathlib
import pty
import re
import select
import sys
import tempfile
import time
import unittest

from harness import DEADLINE, MUSTER, Gate, ToolTest, lines_of
from test_run_torch import REASON

RANK = os.path.join(os.path.dirname(MUSTER), "tests", "rank_state_rank")


class Report(ToolTest):
    def report(self, n, *command, options=()):
        """Exit status, the report's fields by name, and all of stderr."""
        rc, _, err = self.muster("run", "-n", n, *options, *command)
        text = err.decode()
        self.assertEqual(text.count("root cause:"), 1, text)
        fields = {}
        for line in text.rsplit("root cause:\n", 1)[1].splitlines():
            match = re.fullmatch(r"  (\w+(?: \w+)?) {2,}(.*)", line)
            if match:
                self.assertNotIn(match[1], fields, text)
                fields[match[1]] = match[2]
        return rc, fields, text


class TheCall(Report):
    STEP = r"mst_all_reduce #4 of 2 ranks, 16 f32, at rank_state_rank\.c:\d+ \(step\)"

    def test_abort_inside(self):
        rc, fields, text = self.report(2, RANK, "abort")
        self.assertEqual((rc, fields["rank"]), (134, "1 (local rank 1)"), text)
        self.assertRegex(fields["in"], rf"\A{self.STEP}\Z")
        self.assertNotIn("last call", fields)
        self.assertNotIn("error", fields)

    def test_killed_inside(self):
        rc, fields, text = self.report(2, RANK, "kill")
        self.assertEqual(rc, 137, text)
        self.assertRegex(fields["in"], rf"\A{self.STEP}\Z")

    def test_bad_memory(self):
        rc, fields, text = self.report(2, RANK, "segv")
        self.assertEqual((rc, fields["rank"]), (139, "1 (local rank 1)"), text)
        self.assertRegex(fields["in"], r"\Amst_all_reduce #4 of 2 ranks, 512 f64, at .*\(step_on_bad_memory\)\Z")

    def test_outside(self):
        rc, fields, text = self.report(2, RANK, "outside")
        self.assertEqual(rc, 137, text)
        self.assertRegex(fields["last call"], r"\Amst_barrier #3 of 2 ranks at rank_state_rank\.c:\d+ \(begin\)\Z")
        self.assertNotIn("in", fields)

    def test_in_wait(self):
        rc, fields, text = self.report(2, RANK, "wait")
        self.assertEqual(rc, 134, text)
        self.assertRegex(fields["in"], r"\Amst_wait at rank_state_rank\.c:\d+ \(step_wait\)\Z")

    def test_behind_a_wrapper_that_closes_descriptors(self):
        script = "import os, sys; os.closerange(3, 1000); os.execv(sys.argv[1], sys.argv[1:])"
        rc, fields, text = self.report(2, sys.executable, "-c", script, RANK, "abort")
        self.assertEqual(rc, 134, text)
        self.assertRegex(fields["in"], rf"\A{self.STEP}\Z")

    def test_a_program_without_muster(self):
        rc, fields, text = self.report(2, "sh", "-c", "[ $RANK = 1 ] && exit 7; sleep 60")
        self.assertEqual(rc, 7)
        self.assertEqual(set(fields), {"time", "host", "rank", "pid", "exit code"}, text)

    def test_each_generation_has_its_own(self):
        script = '[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec "$0" outside; [ $RANK = 1 ] && exit 7; sleep 60'
        rc, _, err = self.muster("run", "-n", 2, "--max-restarts", 1, "sh", "-c", script, RANK)
        first, second = err.decode().split("root cause:")[1:]
        self.assertEqual(rc, 7)
        self.assertIn("last call  mst_barrier", first)
        self.assertNotIn("last call", second)

    def test_threads(self):
        rc, fields, text = self.report(2, RANK, "threads")
        self.assertEqual(rc, 1, text)
        self.assertRegex(fields["last call"], r"\Amst_barrier #\d+ of 2 ranks at rank_state_rank\.c:\d+ \(call_often\)\Z")
        self.assertRegex(fields["error"], r"rank 77 is not in the group\Z")


class TheError(Report):
    def test_refused_call(self):
        rc, fields, text = self.report(2, RANK, "wrong")
        self.assertEqual((rc, fields["rank"]), (1, "1 (local rank 1)"), text)
        self.assertRegex(fields["error"], r"\AMST_ERR_INVALID: 99 is not a valid dtype; give one of ")

    def test_a_forked_child_is_not_the_rank(self):
        rc, fields, text = self.report(2, RANK, "forked")
        self.assertEqual(rc, 1, text)
        self.assertNotIn("error", fields)
        self.assertRegex(fields["last call"], r"\Amst_barrier #3 ")

    def test_cannot_join(self):
        rc, fields, text = self.report(1, RANK, "outside", options=("--env", "MUSTER_TIMEOUT_MS=x"))
        self.assertEqual(rc, 1, text)
        self.assertRegex(fields["error"], r"\AMST_ERR_CONFIG: MUSTER_TIMEOUT_MS='x' is not ")
        self.assertRegex(fields["last call"], r"\Amst_init at rank_state_rank\.c:")

    def test_the_one_to_blame_is_the_cause(self):
        for how in ("blame", "blame-and-leave"):
            rc, fields, text = self.report(3, RANK, how)
            self.assertIn("rank 0", text.splitlines()[0], text)
            self.assertEqual((rc, fields["rank"], fields["exit code"]), (3, "2 (local rank 2)", "3"), text)

    def test_garbage(self):
        for seed in range(6):
            rc, out, err = self.muster("run", "-n", 2, RANK, "scribble", seed)
            self.assertEqual(rc, 1, err)
            self.assertEqual(out.decode(), "[1] -1 -1\n")
            text = err.decode(errors="replace")
            self.assertRegex(text, r"\n  exit code  1\n")
            self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f]")
            self.assertEqual("  error      MST_ERR" in text and re.search(r"(in|call) +\?{47}", text) is not None,
                             seed % 2 == 1, text)


class TheMessage(Report):
    def message(self, script):
        with tempfile.TemporaryDirectory() as directory:
            _, fields, text = self.report(1, "sh", "-c", f"{script}\nexit 5", options=("--log-dir", directory))
        return fields.get("message"), text

    def text(self, data):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return self.message(f'cp {file.name} "$TORCHELASTIC_ERROR_FILE"')

    def test_both_forms(self):
        self.assertEqual(self.text(b'{"message": "no memory"}')[0], "no memory")
        record = {"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "...", "timestamp": "1"}}}
        self.assertEqual(self.text(json.dumps(record).encode())[0], "ValueError: x")

    def test_lines(self):
        message, text = self.text(json.dumps({"message": "first\nsecond\nthird\x1b[2J\n"}).encode())
        self.assertEqual(message, "first")
        self.assertIn("  message    first\n    | second\n    | third?[2J\n", text)

    def test_what_is_none(self):
        for data in (b"", b"{", b"[]", b'"x"', b"\xff\x00\xfe", b'{"message": 7}', b'{"message": {"message": null}}',
                     b'{"message": {}}', b"[" * 100000, b'{"message": "' + b"x" * (1 << 20) + b'"}', b"null"):
            self.assertIsNone(self.text(data)[0])

    def test_long_ones_are_cut(self):
        message, text = self.text(json.dumps({"message": "x" * 500000}).encode())
        self.assertRegex(message, r"\Ax{1000,2047}\Z")
        self.assertLess(len(text), 4096)

    def test_other_files(self):
        for script in ("mkfifo", "mkdir", "ln -s /dev/zero", "ln -s /nowhere"):
            self.assertIsNone(self.message(f'{script} "$TORCHELASTIC_ERROR_FILE"')[0])

    @unittest.skipIf(REASON, f"{sys.executable} cannot: {REASON}")
    def test_torch(self):
        script = """
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    raise ValueError("the loss is not a number")
main()
"""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "main.py")
            pathlib.Path(path).write_text(script, encoding="utf-8")
            rc, fields, text = self.report(1, sys.executable, path, options=("--log-dir", directory))
        self.assertEqual((rc, fields["message"]), (1, "ValueError: the loss is not a number"), text)


class Joining(Report):
    def test_a_rank_that_never_joins(self):
        begin = time.monotonic()
        rc, fields, text = self.report(4, RANK, "absent")
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual((rc, fields["rank"], fields["exit code"]), (1, "3 (local rank 3)", "0"), text)
        self.assertRegex(text.splitlines()[0], r"\Amuster run: rank 3 \(pid \d+\) on \S+ ended without joining the "
                         r"world in which rank 0, rank 1, rank 2 wait for it; ending the other ranks\Z")
        self.assertIn("ended without joining", fields["cause"])

    def test_it_is_started_again(self):
        script = '[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; exec "$0" absent'
        rc, _, err = self.muster("run", "-n", 2, "--max-restarts", 1, "sh", "-c", script, RANK)
        self.assertEqual(rc, 0, err)
        self.assertIn("attempt 0 failed", err.decode())

    def test_a_world_without_it(self):
        with tempfile.TemporaryDirectory() as directory:
            rc, _, err = self.muster("run", "-n", 3, RANK, "smaller", f"file://{directory}/store")
        self.assertEqual((rc, err), (0, b""))

    def test_jobs_without_muster(self):
        rc, _, err = self.muster("run", "-n", 2, "sh", "-c", "[ $RANK = 0 ] || sleep 2")
        self.assertEqual((rc, err), (0, b""))

    def test_lines(self):
        with Gate() as gate:
            run = self.begin("run", "-n", 3, RANK, "late", gate.path, env={"MUSTER_SLOW_S": "0"})
            begin = time.monotonic()
            self.assertRegex(run.err(), r"\Amuster run: 2 of 3 ranks wait to join; missing: rank 2 \(pid \d+\)\Z")
            self.assertGreater(time.monotonic() - begin, 8)
            gate.open()
            rc, _, err = run.finish()
        self.assertEqual((rc, err), (0, ""))

    def on_terminal(self, *options, lines):
        """What a terminal is sent while the last rank is late: until it has shown that, and all of it."""
        leader, follower = pty.openpty()
        seen = b""
        with Gate() as gate:
            process = self.popen("run", "-n", 2, *options, "sh", "-c", f'{lines}\nexec "$0" late {gate.path}', RANK,
                                 stdout=follower, stderr=follower, env={"TERM": "xterm"})
            os.close(follower)
            end = time.monotonic() + DEADLINE
            opened = False
            while True:
                self.assertTrue(select.select([leader], [], [], max(0.0, end - time.monotonic()))[0], seen)
                try:
                    seen += os.read(leader, 65536)
                except OSError:
                    break
                if not opened and b"1 of 2 ranks wait to join" in seen:
                    opened = True
                    gate.open()
            os.close(leader)
        self.assertEqual(process.wait(DEADLINE), 0, seen)
        return seen.decode()

    def test_terminal(self):
        seen = self.on_terminal(lines="(sleep 4; echo late line) &")
        shown = re.findall(r"muster run: 1 of 2 ranks wait to join; missing: rank 1 \(pid \d+\)", seen)
        self.assertTrue(shown, seen)
        # What is left on the screen: a line that ends in return and erase is gone.
        left = re.sub(r"[^\n]*\r\x1b\[K", "", seen.replace("\r\n", "\n"))
        self.assertNotIn("wait to join", left)


if __name__ == "__main__":
    unittest.main()
