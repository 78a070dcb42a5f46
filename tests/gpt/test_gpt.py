"""The program examples/gpt: it learns, resumes from a checkpoint, generates, and reports errors."""

import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import unittest

from gpt_kit import losses

GPT = pathlib.Path(os.environ["MUSTER_BUILD_DIR"]) / "bin/gpt"
RECORDED = pathlib.Path(os.environ["MUSTER_SOURCE_DIR"]) / "tests/gpt/recorded"
SMALL = ["--layers", "2", "--width", "32", "--heads", "2", "--context", "32", "--batch", "4", "--every", "1"]


def gpt(*arguments, status=0):
    done = subprocess.run([GPT, *map(str, arguments)], capture_output=True, timeout=100)
    if done.returncode != status:
        raise AssertionError(f"status {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode("utf-8", "replace") if status == 0 else done.stderr.decode()


class Program(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def test_learns(self):
        curve = losses(gpt("train", "--steps", 60, *SMALL))
        self.assertAlmostEqual(float(curve[0]), 5.545, delta=0.2)  # log 256: no better than chance
        self.assertLess(float(curve[59]), 3.2)

    def test_every_kind_of_model_learns(self):
        for extra in (["--norm", "rms"], ["--activation", "relu"]):
            curve = losses(gpt("train", "--steps", 30, *SMALL, *extra))
            self.assertLess(float(curve[29]), 3.8)

    def test_resuming_gives_the_same_losses(self):
        whole = losses(gpt("train", "--steps", 12, "--save", self.path / "whole", *SMALL))
        # The learning rate depends on --steps, so the shorter run has the same and uses --stop-after.
        gpt("train", "--steps", 12, "--save", self.path / "half", "--save-every", 6, "--stop-after", 6, *SMALL)
        rest = losses(gpt("train", "--steps", 12, "--load", self.path / "half", "--save", self.path / "rest", *SMALL))
        self.assertEqual(rest, {step: loss for step, loss in whole.items() if step >= 6})
        weights = [(self.path / name / "model.safetensors").read_bytes() for name in ("whole", "rest")]
        self.assertEqual(*weights)

    def test_micro_batches_change_little(self):
        one, four = (losses(gpt("train", "--steps", 8, "--micro-batches", n, *SMALL)) for n in (1, 4))
        for step in one:
            self.assertAlmostEqual(float(one[step]), float(four[step]), delta=2e-3)

    def test_generates(self):
        gpt("train", "--steps", 20, "--save", self.path / "m", *SMALL)
        common = ["generate", "--load", self.path / "m", "--prompt", "The", "--tokens", 80]  # longer than the context
        greedy = [gpt(*common, "--temperature", 0, "--seed", seed) for seed in (1, 2)]
        self.assertEqual(*greedy)
        self.assertTrue(greedy[0].startswith("The"))
        drawn = [gpt(*common, "--temperature", 1, "--seed", seed) for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[1], drawn[2])
        ids = gpt("generate", "--load", self.path / "m", "--ids", "84,104,101", "--tokens", 5, "--temperature", 0)
        self.assertEqual(bytes(map(int, ids.split())), greedy[0][:8].encode())
        (self.path / "empty").write_text("\n\n")
        for arguments, message in (
            (["--samples", 0], "nothing to generate"),
            (["--samples", 2**30], "more than"),
            (["--tokens", 2**62], "0 to 2^30"),
            (["--batch", 0], "at least one text"),
            (["--prompt", ""], "empty prompt"),
            (["--ids", "1,x"], "1,x: expected numbers"),
            (["--prompts", self.path / "empty"], "all lines are empty"),
            (["--prompts", self.path / "empty", "--ids", "1"], "only one of"),
        ):
            self.assertIn(message, gpt("generate", "--load", self.path / "m", *arguments, status=1))

    def test_prompts_are_ids_if_tokens_are_not_bytes(self):
        (self.path / "ids").write_text("3,60,7\n\n5\n9,9\n")
        common = ["generate", "--load", RECORDED / "gpt2", "--tokens", 6, "--temperature", 0]
        alone = [gpt(*common, "--ids", ids) for ids in ("3,60,7", "5", "9,9")]
        self.assertEqual(gpt(*common, "--prompts", self.path / "ids"), "".join(alone))
        (self.path / "ids").write_text("3\n3,64")
        self.assertIn("token 64", gpt(*common, "--prompts", self.path / "ids", status=1))

    def test_errors(self):
        short = self.path / "short"
        short.write_bytes(b"x" * 64)
        for arguments, message in (
            (["fly"], "no such command"),
            (["train", "--stepz", 1], "no such option"),
            (["train", "--steps"], "expected a value"),
            (["train", "--steps", "-1"], "expected an integer from 0"),
            (["train", "--width", 30, "--heads", 4], "not a multiple of 4 heads"),
            (["train", "--batch", 3, "--micro-batches", 2], "cannot be split into 2"),
            (["train", "--steps", " 5"], "expected an integer from 0"),
            (["train", "--rate", "nan"], "at least 0"),
            (["train", "--digits", 18], "at most 17"),
            (["train", "--schedule", "best"], "1f1b, gpipe or interleaved"),
            (["train", "--resume", 1], "give --save"),
            (["train", "--save", self.path / "none" / "model"], "No such file"),
            (["train", "--save", short], "Not a directory"),
            (["train", "--text", self.path / "none"], "No such file"),
            (["train", "--text", short], "too few for sequences of 64"),
            (["matmul", "--batch", 0], "rows"),
            (["generate"], "--load"),
            (["--steps", 5], "a command comes first"),
            (["generate", self.path], "expected an option, as in --load"),
            (["generate", "--rate", 1], "gpt generate has no such option"),
            (["logits", "--mesh", "pp=2"], "gpt logits has no such option"),
            (["train", "--resume", "--save", self.path], "--resume --save: expected 0 or 1"),
            (["train", "--batch", 0], "at least one sequence"),
            (["train", "--chunks", 3], "--chunks needs --schedule interleaved"),
            (["train", "--schedule=interleaved", "--chunks=0"], "at least one chunk"),
            (["train", "--backend", "native"], "give --mesh"),
            (["train", "--mesh", "2,4"], "--mesh 2,4: dimensions are dp, tp, pp and cp"),
            (["train", "--mesh", "dq=2"], "--mesh dq=2: dimensions are"),
            (["generate", "--load", self.path, "--prompt", "a", "--ids", "1"], "only one of"),
            (["generate", "--load", self.path], "config.json"),
        ):
            self.assertIn(message, gpt(*arguments, status=1))
        with open("/dev/full", "wb") as full:
            done = subprocess.run([GPT, "--help"], stdout=full, stderr=subprocess.PIPE, timeout=100)
        self.assertEqual((done.returncode, done.stderr), (1, b"gpt: cannot write to standard output\n"))

    def test_a_failed_save_keeps_the_old_checkpoint(self):
        save = self.path / "m"
        gpt("train", "--steps", 1, "--save", save, *SMALL)
        before = {file.name: file.read_bytes() for file in save.iterdir()}
        other = [str(a) for a in (GPT, "train", "--steps", 1, "--save", save, *SMALL, "--layers", 3)]

        def limit_file_size():  # the process is killed while it writes the model
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

        done = subprocess.run(other, stdout=subprocess.DEVNULL, timeout=100, preexec_fn=limit_file_size)
        self.assertEqual(done.returncode, -signal.SIGXFSZ)
        self.assertEqual({name: (save / name).read_bytes() for name in before}, before)
        gpt("train", "--steps", 1, "--save", save, *SMALL, "--layers", 3)
        self.assertEqual({file.name for file in save.iterdir()}, set(before))


if __name__ == "__main__":
    unittest.main()
