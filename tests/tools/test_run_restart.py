"""muster run --max-restarts: generations follow each other whole, and only failures of ranks bring a new one."""

import os
import re
import signal
import tempfile
import unittest

from harness import MUSTER, Gate, ToolTest, lines_of, wait_until, without_pidfd

ROOT_CAUSE = re.compile(r"^muster run: (.*) failed; root cause:$", re.M)
WORLD = os.path.join(os.path.dirname(MUSTER), "tests", "world")
ATTEMPT = "$TORCHELASTIC_RESTART_COUNT"


class Restarts(ToolTest):
    def restart(self, n, restarts, *command, **options):
        rc, out, err = self.muster("run", "-n", n, "--max-restarts", restarts, *command, **options)
        return rc, lines_of(out), err.decode()

    def check_two_failures(self, **options):
        script = f"echo {ATTEMPT} of $TORCHELASTIC_MAX_RESTARTS; [ {ATTEMPT} = 2 ] || [ $RANK != 1 ] || exit 5"
        rc, out, err = self.restart(3, 4, "sh", "-c", script, **options)
        self.assertEqual(rc, 0)
        self.assertEqual(out[-3:], sorted(out[-3:], key=lambda line: line.split()[1]))
        self.assertEqual(sorted(out), sorted(f"[{r}] {a} of 4" for r in range(3) for a in range(3)))
        self.assertEqual([line.split()[1] for line in out], ["0"] * 3 + ["1"] * 3 + ["2"] * 3)
        self.assertEqual(ROOT_CAUSE.findall(err), ["attempt 0", "attempt 1"])
        self.assertEqual(err.count("  exit code  5\n"), 2)
        self.assertIn("muster run: starting all 3 ranks again: restart 2 of 4\n", err)

    def test_until_it_works(self):
        self.check_two_failures()

    def test_kernel_without_pidfd(self):
        self.check_two_failures(preexec_fn=without_pidfd)

    def test_the_last_failure_decides(self):
        rc, _, err = self.restart(2, 2, "sh", "-c", f"echo why {ATTEMPT} >&2; exit 1{ATTEMPT}")
        self.assertEqual(rc, 12)
        self.assertEqual(ROOT_CAUSE.findall(err), ["attempt 0", "attempt 1", "the job"])
        self.assertTrue(err.endswith("    | why 2\n"), err)
        self.assertNotIn("why 1", err.rsplit("root cause", 1)[1])

    def test_many_generations(self):
        rc, out, _ = self.restart(8, 30, "sh", "-c", f"echo {ATTEMPT}; exit 3")
        self.assertEqual((rc, len(out)), (3, 8 * 31))

    def test_nothing_of_the_old_generation_lives_on(self):
        script = (
            f"echo $$ >$0/{ATTEMPT}.$RANK; if [ {ATTEMPT} = 0 ]; then sleep 1000 & echo $! >$0/0.c$RANK; "
            "read go <$0/gate; exit 1; fi; "
            "for f in $0/0.[01]; do if kill -0 $(cat $f) 2>/dev/null; then echo alive; fi; done; "
            "for f in $0/0.c*; do while grep -qs 'State:.[^ZX]' /proc/$(cat $f)/status; do sleep 0.01; done; done; "
            "echo looked"
        )
        with tempfile.TemporaryDirectory() as directory:
            os.mkfifo(os.path.join(directory, "gate"))
            run = self.begin("run", "-n", 2, "--max-restarts", 1, "sh", "-c", script, directory)
            written = lambda: len([name for name in os.listdir(directory) if name.startswith("0.")]) == 4
            wait_until(written, "ranks and their children are there")
            with open(os.path.join(directory, "gate"), "w", encoding="utf-8") as gate:
                gate.write("go\n")
            rc, out, _ = run.finish()
        self.assertEqual((rc, sorted(out.splitlines())), (0, ["[0] looked", "[1] looked"]))

    def test_worlds_of_generations_do_not_meet(self):
        script = (
            f'[ {ATTEMPT} = 2 ] && exec "$0" init barriers=5; '
            'if [ "$RANK" = 2 ]; then (sleep 0.2; kill -9 $$) & fi; exec "$0" init barriers=1000000'
        )
        rc, _, err = self.restart(4, 2, "sh", "-c", script, WORLD)
        self.assertEqual(rc, 0, err)
        self.assertEqual(err.count("  rank       2 (local rank 2)\n"), 2)

    def test_signals_to_the_launcher_are_the_end(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            run = self.begin("run", "-n", 2, "--max-restarts", 9, "sh", "-c", f"echo {ATTEMPT}; exec sleep 1000")
            self.assertRegex(run.out(), r"\[\d\] 0")
            self.assertRegex(run.out(), r"\[\d\] 0")
            run.send(number)
            rc, out, err = run.finish()
            self.assertEqual((rc, out), (128 + number, ""))
            self.assertNotIn("again", err)

    def test_signal_while_a_failed_generation_ends(self):
        script = "trap '' TERM; echo ready; [ $RANK = 1 ] && read go <$0 && exit 4; while :; do sleep 0.01; done"
        with Gate() as gate:
            run = self.begin("run", "-n", 2, "--max-restarts", 9, "--shutdown-timeout", "0.5", "sh", "-c", script,
                             gate.path)
            run.out(), run.out()
            gate.open()
            self.assertIn("exited with code 4", run.err())
            run.send(signal.SIGTERM)
            rc, _, err = run.finish()
        self.assertEqual(rc, 4)
        self.assertEqual(ROOT_CAUSE.findall(err), ["the job"])

    def test_a_program_that_cannot_run_is_tried_once(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "text")
            with open(path, "w", encoding="utf-8") as file:
                file.write("no program\n")
            os.chmod(path, 0o755)
            rc, out, err = self.restart(3, 5, path)
        self.assertEqual((rc, out, err.count("\n")), (2, [], 1))

    def test_nobody_reads(self):
        run = self.begin("run", "--max-restarts", 9, "sh", "-c", "yes; exit 1")
        self.assertEqual(run.out(), "[0] y")
        run.process.stdout.close()
        self.assertNotIn("again", run.process.stderr.read().decode())

    def test_monitor_interval(self):
        self.assertEqual(self.muster("run", "--monitor-interval", "0.1", "true"), (0, b"", b""))
        self.assertIn(b"ignored: ranks are watched without polling", self.muster("run", "--help")[1])


if __name__ == "__main__":
    unittest.main()
