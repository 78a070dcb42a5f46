"""
Training goes on after the death of processes, with --survive: in the remaining processes, or with new ones.

With --deterministic 1 the losses have the same bits as those of a run without deaths: one that continues from a checkpoint
of the same step with the same number of processes, or the whole run if a new process takes the place of the dead one.
"""

import functools
import os
import pathlib
import re
import signal
import tempfile
import unittest

from gpt_kit import TINY, command, losses, max_difference, output, start
from test_mesh_runs import APART, LIMIT, rank_pid

STEPS = 60  # a rank is killed when a step is printed; training must not have ended by then
EXACT = ["train", "--steps", str(STEPS), "--survive", "1", "--deterministic", "1", *TINY, "--digits", "17"]
CONTINUES = re.compile(r"continuing with (\d+) process(?:es)? after (\d+) steps; the pause took ([\d.]+) s")


@functools.cache
def undisturbed(run=()):
    """The losses of three ranks."""
    return losses(output(command("dp=3", *EXACT, run=run)))


class Survive(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def kill(self, mesh, deaths, *extra, run=("--survive",)):
        """Kills ranks when a step is done, {step: ranks}: standard output and error."""
        process = start(command(mesh, *EXACT, *extra, run=run))
        out = ""
        try:
            for line in process.stdout:
                out += line
                step = re.search(r"step +(\d+) ", line)
                for rank in deaths.get(int(step[1]), ()) if step else ():
                    os.kill(rank_pid(process.pid, rank), signal.SIGKILL)
            _, err = process.communicate(timeout=100)
        finally:
            process.terminate()
            process.wait()
        self.assertEqual(process.returncode, 0, err)
        return out, err

    def restart(self, curve, mesh, step, smaller):
        """The losses of a run that stops after these steps and continues with another mesh."""
        output(command(mesh, *EXACT, "--stop-after", step, "--save", self.path / "m"))
        curve.update(losses(output(command(smaller, *EXACT, "--load", self.path / "m"))))
        return curve

    def check_losses(self, out, curve):
        """A process that dies as rank 0 may not have printed its last step."""
        printed = losses(out)
        self.assertGreaterEqual(len(printed), STEPS - len(CONTINUES.findall(out)))
        self.assertEqual(printed, {step: curve[step] for step in printed})

    def check_shrinks(self, victim, run=()):
        out, err = self.kill("dp=3", {10: [victim]}, run=["--survive", *run])
        (size, step, pause), = CONTINUES.findall(out)
        self.assertEqual(size, "2")
        self.assertLess(float(pause), 30)
        self.assertIn("; continuing with 2 of 3 ranks", err)
        self.check_losses(out, self.restart(dict(undisturbed(tuple(run))), "dp=3", int(step), "dp=2"))

    def test_the_others_continue(self):
        self.check_shrinks(1)

    def test_rank_0_dies(self):
        self.check_shrinks(0)

    def test_hosts(self):
        self.check_shrinks(2, run=APART)

    def test_all_but_one_die(self):
        out, _ = self.kill("dp=3", {5: [1], 20: [2]})
        self.assertEqual([size for size, _, _ in CONTINUES.findall(out)], ["2", "1"])
        self.assertEqual(sorted(losses(out)), list(range(STEPS)))

    def test_two_die_at_once(self):
        out, _ = self.kill("dp=4", {10: [1, 3]})
        self.assertEqual(CONTINUES.findall(out)[-1][0], "2")
        self.assertEqual(sorted(losses(out)), list(range(STEPS)))

    def test_replacement(self):
        """Also of rank 0, which prints; and of a process that has replaced another."""
        whole = undisturbed()
        for deaths in ({10: [1]}, {10: [0]}, {5: [2], 15: [2], 25: [0]}):
            with self.subTest(deaths=deaths):
                out, err = self.kill("dp=3", deaths, "--join-timeout", 30, run=["--replace"])
                self.assertEqual([size for size, _, _ in CONTINUES.findall(out)], ["3"] * len(deaths), out + err)
                self.check_losses(out, whole)

    def test_replacement_that_does_not_come(self):
        out, _ = self.kill("dp=3", {10: [1]}, "--join-timeout", 0.5)
        (size, _, pause), = CONTINUES.findall(out)
        self.assertEqual(size, "2")
        self.assertGreater(float(pause), 0.5)

    def test_saves(self):
        out, _ = self.kill("dp=3", {10: [0]}, "--save", self.path / "saved", "--save-every", 4)
        self.assertIn(f"saved in {self.path / 'saved'}", out)
        self.assertIn(f"already has {STEPS} steps", output(command("dp=2", *EXACT, "--load", self.path / "saved")))

    def test_uneven_shares(self):
        """8 sequences for 3 processes: the losses are those of 2."""
        three, two = (losses(output(command(mesh, *EXACT, "--steps", 5))) for mesh in ("dp=3", "dp=2"))
        self.assertLess(max_difference(three, two), LIMIT)

    def test_errors(self):
        for extra, message in (
            (["--survive", 1], "--survive needs --mesh dp=N"),
            (["--survive", 1, "--mesh", "dp=2,pp=2"], "--survive needs --mesh dp=N"),
            (["--join-timeout", 5], "--join-timeout needs --survive 1"),
        ):
            process = start(command(None, "train", *extra))
            _, err = process.communicate(timeout=100)
            self.assertIn(message, err)
            self.assertNotEqual(process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
