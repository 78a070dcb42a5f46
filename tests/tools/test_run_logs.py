"""muster run --log-dir, --redirects, --tee and --local-ranks-filter: what is shown, what is kept, and what is not."""

import os
import pathlib
import re
import resource
import signal
import sys
import tempfile
import unittest

from harness import ToolTest, default_signals, lines_of, wait_until

BOTH = "echo out $RANK; echo err $RANK >&2"


class Logs(ToolTest):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.logs = pathlib.Path(self.directory.name, "a", "b")

    def kept(self):
        """What every file holds, by its path below the run's directory."""
        runs = list(self.logs.iterdir())
        self.assertEqual(len(runs), 1)
        self.assertRegex(runs[0].name, r"\A[0-9a-f]{16}\Z")
        return {str(p.relative_to(runs[0])): p.read_bytes() for p in runs[0].rglob("*.log")}

    def run_both(self, n, *options, script=BOTH):
        rc, out, err = self.muster("run", "-n", n, *options, "sh", "-c", script)
        self.assertEqual(rc, 0, err)
        return sorted(lines_of(out)), sorted(lines_of(err))

    def expect(self, kept, shown, n, *options):
        """kept and shown name streams such as o0 and e1."""
        text = {f"{'oe'[s]}{r}": (("out", "err")[s], r) for s in range(2) for r in range(n)}
        out, err = self.run_both(n, "--log-dir", self.logs, *options)
        self.assertEqual(out, [f"[{r}] out {r}" for w, r in map(text.get, shown.split()) if w == "out"])
        self.assertEqual(err, [f"[{r}] err {r}" for w, r in map(text.get, shown.split()) if w == "err"])
        self.assertEqual(
            self.kept(),
            {f"attempt_0/{r}/std{w}.log": f"{w} {r}\n".encode() for w, r in map(text.get, kept.split())},
        )

    def test_everything_is_kept_and_shown(self):
        self.expect("o0 e0 o1 e1", "o0 e0 o1 e1", 2)

    def test_redirects(self):
        self.expect("o0 o1", "e0 e1", 2, "--redirects", "1")

    def test_redirects_of_all(self):
        self.expect("o0 e0 o1 e1", "", 2, "-r", "3")

    def test_redirects_by_rank(self):
        self.expect("o0 o1 e1", "e0 o2 e2", 3, "--redirects", "0:1,1:3,2:0")

    def test_tee_by_rank(self):
        self.expect("e1", "o0 e0 o1 e1", 2, "--tee=1:2")

    def test_tee_beats_redirects(self):
        self.expect("o0 e0 o1 e1", "e0 e1", 2, "--redirects", "3", "--tee", "2")

    def test_filter(self):
        self.expect("o0 e0 o1 e1 o2 e2", "o0 o2 e0 e2", 3, "--local-ranks-filter", "0,2")

    def test_filter_alone(self):
        out, err = self.run_both(3, "--local_ranks_filter=1")
        self.assertEqual((out, err), (["[1] out 1"], ["[1] err 1"]))
        self.assertFalse(self.logs.exists())

    def test_the_report_knows_what_was_not_shown(self):
        rc, _, err = self.muster("run", "-n", 2, "--log-dir", self.logs, "-r3", "--local-ranks-filter", 0, "sh", "-c",
                                 "echo why $RANK >&2; [ $RANK = 0 ] || exit 3; sleep 1000")
        self.assertEqual(rc, 3)
        self.assertTrue(err.endswith(b"    | why 1\n"), err)

    def test_each_attempt_has_files(self):
        rc, _, _ = self.muster("run", "-n", 2, "--max-restarts", 1, "--log-dir", self.logs, "sh", "-c",
                               "echo $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_ERROR_FILE; exit 1")
        self.assertEqual(rc, 1)
        run = next(self.logs.iterdir()).resolve()
        for path, data in self.kept().items():
            if "stdout" in path:
                attempt, rank = re.match(r"attempt_(\d)/(\d)/", path).groups()
                self.assertEqual(data.decode(), f"{attempt} {run}/attempt_{attempt}/{rank}/error.json\n")
        self.assertEqual(len(self.kept()), 8)

    def test_bytes_are_kept_as_they_are(self):
        data = bytes(range(256)) * 3000 + b"no newline"
        rc, out, _ = self.muster("run", "--log-dir", self.logs, "cat", data=data)
        self.assertEqual((rc, self.kept()["attempt_0/0/stdout.log"]), (0, data))
        self.assertTrue(all(line.startswith(b"[0] ") for line in out[:-1].split(b"\n")))

    def test_lines_are_whole_in_both_places(self):
        worker = (
            "import os\n"
            "for i in range(500):\n"
            "    data = f'<{os.environ[\"RANK\"]}:{i}:{\"x\" * (i * 37 % 900)}>\\n'.encode()\n"
            "    os.write(1, data[:len(data) // 2]); os.write(1, data[len(data) // 2:])\n"
        )
        rc, out, _ = self.muster("run", "-n", 4, "--log-dir", self.logs, sys.executable, "-c", worker)
        self.assertEqual(rc, 0)
        whole = [[f"<{r}:{i}:{'x' * (i * 37 % 900)}>" for i in range(500)] for r in range(4)]
        for rank in range(4):
            shown = [line[4:] for line in lines_of(out) if line.startswith(f"[{rank}] ")]
            self.assertEqual(shown, whole[rank])
            self.assertEqual(lines_of(self.kept()[f"attempt_0/{rank}/stdout.log"]), whole[rank])

    def test_full_disk_is_said_once_and_ends_nothing(self):
        def small_files():
            default_signals()
            resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))

        rc, out, err = self.muster("run", "-n", 2, "--log-dir", self.logs, "--tee", "3", "sh", "-c",
                                   "seq 1 20000; seq 1 20000 >&2; echo last", preexec_fn=small_files)
        self.assertEqual(rc, 0)
        self.assertEqual(err.count(b"muster run: "), 1)
        self.assertIn(b"muster run: cannot write the ranks' logs: File too large; continuing without logs\n", err)
        self.assertEqual(len(lines_of(out)), 2 * 20001)
        self.assertEqual({len(data) for data in self.kept().values()}, {10000})

    def test_what_is_not_shown_waits_for_no_reader(self):
        # Rank 0 is stuck behind a console that nobody reads; rank 1 ends all the same.
        script = "if [ $RANK = 0 ]; then yes; else seq 1 300000; echo >$0/done; fi"
        place = self.directory.name
        run = self.begin("run", "-n", 2, "--log-dir", self.logs, "-r", "1:1", "sh", "-c", script, place)
        run.out()
        wait_until(lambda: os.path.exists(os.path.join(place, "done")), "rank 1 has written everything")
        run.send(signal.SIGTERM)
        run.finish()
        self.assertTrue(self.kept()["attempt_0/1/stdout.log"].endswith(b"\n300000\n"))

    def test_directory_for_temporary_files(self):
        place = self.directory.name
        rc, out, err = self.muster("run", "--tee", "3", "echo", "hi", env={"TMPDIR": place})
        self.assertEqual((rc, out), (0, b"[0] hi\n"))
        where = re.fullmatch(rb"muster run: the ranks' logs are in (.*)\n", err)[1].decode()
        self.assertTrue(where.startswith(place), where)
        self.assertEqual(pathlib.Path(where, "attempt_0/0/stdout.log").read_bytes(), b"hi\n")

    def check_mistake(self, says, *options):
        rc, out, err = self.muster("run", "-n", 2, *options, "echo", "started")
        self.assertEqual((rc, out), (2, b""), options)
        self.assertRegex(err.decode(), r"\Amuster run: [^\n]*\n\Z")
        self.assertIn(says, err.decode())

    def test_mistakes(self):
        for value in ("4", "-1", "x", "", "0:4", "0:", ":1", "0:1,", "0:1;1:1", "0:1:1", "99999999999999999999"):
            for option in ("redirects", "tee"):
                self.check_mistake(f"--{option} takes 0 to 3", f"--{option}={value}")
        self.check_mistake("a local rank that does not exist", "--tee", "0:1,2:1")
        self.check_mistake("a local rank that does not exist", "--local-ranks-filter", "99999999999999999999")
        for value in ("", "a", "0,", ",", "0 1", "-1"):
            self.check_mistake("--local-ranks-filter takes local ranks", f"--local-ranks-filter={value}")
        self.check_mistake("--no-prefix", "--no-prefix", "--log-dir", self.logs)
        self.check_mistake("--log-dir is empty", "--log-dir", "")
        self.assertFalse(self.logs.exists())
        self.check_mistake("cannot keep logs in '/dev/null/x': Not a directory", "--log-dir", "/dev/null/x")
        self.check_mistake("cannot keep logs in", "--log-dir", "/" + "x/" * 3000)

    def test_a_second_run_keeps_the_logs_of_the_first(self):
        with tempfile.TemporaryDirectory() as place:
            for text in ("one", "two"):
                self.assertEqual(self.muster("run", "--rdzv-id", "j", "--log-dir", place, "echo", text)[0], 0)
            texts = [pathlib.Path(place, run, "attempt_0", "0", "stdout.log").read_text() for run in ("j", "j.2")]
            self.assertEqual(texts, ["one\n", "two\n"])


if __name__ == "__main__":
    unittest.main()
