"""
Training over a mesh: runs with identical bits, checkpoints shared by meshes, and runs that lose a rank.

With --deterministic 1 a sum depends only on the inputs and their order in the group. So these runs write the same bytes:
all numbers of stages, schedules and numbers of micro-batches; dimensions in another order, unless dp and cp change their
order; ranks on one host and on several. Another size of dp, tp or cp splits the sums elsewhere and agrees within rounding.
"""

import contextlib
import itertools
import os
import pathlib
import re
import signal
import tempfile
import unittest

from gpt_kit import TINY, command, losses, max_difference, output, start

LIMIT = 1e-7  # see test_mesh.py
APART = ["sh", "-c", 'MUSTER_FORCE_HOST=$((RANK % 2)) exec "$0" "$@"']


def rank_pid(launcher, rank):
    """The pid of this rank."""
    for child in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        with contextlib.suppress(ProcessLookupError):  # it has exited
            if f"\0RANK={rank}\0" in "\0" + pathlib.Path(f"/proc/{child}/environ").read_text():
                return int(child)
    raise AssertionError(f"no rank {rank} under {launcher}")


class Runs(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def weights(self, mesh, *extra, run=()):
        """The losses in all digits, and the weights after some steps."""
        save = self.path / "weights"
        exact = ["--deterministic", 1, *TINY, "--digits", 17]
        out = output(command(mesh, "train", "--steps", 4, "--save", save, *exact, *extra, run=run))
        return losses(out), (save / "model.safetensors").read_bytes()

    def test_pipelines_to_the_bit(self):
        reference = self.weights("pp=2")
        for schedule, micros in itertools.product(("gpipe", "1f1b", "interleaved"), (1, 2, 4)):
            extra = ["--schedule", schedule, "--micro-batches", micros]
            self.assertEqual(self.weights("pp=2", *extra), reference, extra)
        self.assertEqual(self.weights("pp=4"), reference)
        self.assertEqual(self.weights("pp=8", "--schedule", "gpipe"), reference)

    def test_orders_to_the_bit(self):
        self.assertEqual(self.weights("dp=2,tp=2"), self.weights("tp=2,dp=2"))
        self.assertEqual(self.weights("dp=2,pp=2,tp=2"), self.weights("tp=2,pp=2,dp=2"))
        self.assertEqual(self.weights("dp=2,tp=2"), self.weights("dp=2,tp=2"))

    def test_hosts_to_the_bit(self):
        for mesh in ("dp=4", "tp=4", "dp=2,cp=2"):
            self.assertEqual(self.weights(mesh), self.weights(mesh, run=APART), mesh)

    def test_every_mesh_loads_every_checkpoint(self):
        whole = losses(output(command(None, "train", "--steps", 6, *TINY)))
        meshes = (None, "dp=2", "tp=2", "pp=2", "cp=2", "dp=2,pp=2", "tp=2,cp=2")
        for i, mesh in enumerate(meshes):
            save, other = self.path / str(i), meshes[(i + 3) % len(meshes)]
            first = losses(output(command(mesh, "train", "--steps", 6, "--stop-after", 3, "--save", save, *TINY)))
            rest = losses(output(command(other, "train", "--steps", 6, "--load", save, *TINY)))
            with self.subTest(saved_under=mesh, loaded_under=other):
                self.assertEqual((sorted(first), sorted(rest)), ([0, 1, 2], [3, 4, 5]))
                self.assertLess(max_difference({**first, **rest}, whole), LIMIT)

    def test_errors_are_printed_once(self):
        for rank in ("0", "1"):
            (self.path / rank).mkdir()
            (self.path / rank / "text").write_bytes(b"a text of one length, " * 20 + rank.encode())
        output(command(None, "train", "--steps", 1, "--save", self.path / "1" / "m", *TINY))
        apart = ["sh", "-c", 'mkdir -p $RANK; cd $RANK; exec "$0" "$@"']
        for mesh, extra, run, message in (
            ("dp=2", ["--flight", 1], (), "no such option"),
            ("pp=2", ["--layers", 1], (), "cannot be split into 2"),
            ("dp=2", ["--rate", 1e30], (), "is not finite"),
            ("dp=2", ["--save", "m", "--resume", 1], apart, "share the directory"),
            ("tp=2", ["--save", "m"], apart, "m/model.safetensors.part: No such file"),
            ("pp=2", ["--text", "text"], ["sh", "-c", 'cd $RANK; exec "$0" "$@"'], "other ranks on another text"),
            ("pp=2", ["--backend", "native,nativ"], (), "no backend 'nativ'"),
            ("dp=2", ["--backend", "native,,mpi"], (), "names separated by commas"),
        ):
            with self.subTest(mesh=mesh, extra=extra):
                line = command(mesh, "train", "--steps", 3, *TINY, *extra, run=run)
                process = start(line, cwd=self.path)
                _, err = process.communicate(timeout=100)
                self.assertNotEqual(process.returncode, 0)
                printed = re.findall(r"^\[\d\] gpt: .*", err, re.M)
                self.assertEqual(len(printed), 1, err)
                self.assertRegex(printed[0], message)

    def test_processes_without_a_mesh_are_refused(self):
        process = start([command("dp=2")[0], "run", "-n", "2", command(None)[0], "train", "--steps", "1"])
        _, err = process.communicate(timeout=100)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(err.count("] gpt: 2 processes were started: give --mesh"), 1, err)
        process = start([command("dp=2")[0], "run", "-n", "2", command(None)[0], "matmul"])
        _, err = process.communicate(timeout=100)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(err.count("] gpt: 2 processes were started: this command runs in one"), 1, err)

    def test_options_contradict_the_model(self):
        output(command(None, "train", "--steps", 2, "--save", self.path / "m", *TINY))
        for option, value, message in (("--width", 64, "has 32; omit the option"), ("--norm", "rms", "--norm: the model in")):
            process = start(command(None, "train", "--steps", 3, "--load", self.path / "m", option, value))
            _, err = process.communicate(timeout=100)
            self.assertIn(message, err)
        out = output(command(None, "train", "--steps", 2, "--load", self.path / "m"))
        self.assertIn("already has 2 steps; raise --steps", out)
        out = output(command(None, "train", "--steps", 3, "--load", self.path / "m"))
        self.assertIn(f"resuming from {self.path / 'm'} after 2 steps\n", out)

    def kill_in_the_middle(self, mesh, rank, *extra, run=()):
        """Kills a rank after ten steps: standard output and error of the run, and its exit code."""
        process = start(command(mesh, "train", "--steps", 60, "--deterministic", 1, *TINY, *extra, run=run))
        try:
            head = []
            for line in process.stdout:
                head.append(line)
                if re.search(r"step +10 ", line):
                    break
            os.kill(rank_pid(process.pid, rank), signal.SIGKILL)
            out, err = process.communicate(timeout=100)
        finally:
            process.terminate()
            process.wait()
        return "".join(head) + out, err, process.returncode

    def test_a_killed_rank_is_named(self):
        for mesh in ("dp=4", "pp=4", "tp=2,cp=2"):
            with self.subTest(mesh=mesh):
                out, err, status = self.kill_in_the_middle(mesh, 2)
                self.assertNotEqual(status, 0)
                self.assertNotIn("step   59", out)
                self.assertRegex(err, r"\[[013]\] gpt: MST_ERR_PEER_LOST: .*rank 2\b", err)
                # No rank reports a survivor as lost.
                lost = re.findall(r"MST_ERR_PEER_LOST: .*?\brank (\d) \(host [^)]*\) died", err)
                self.assertEqual(set(lost), {"2"}, err)

    def test_resumes_after_a_killed_rank(self):
        for mesh in ("dp=2,tp=2", "pp=2,cp=2"):
            with self.subTest(mesh=mesh):
                save = ["--save", self.path / mesh, "--save-every", 4, "--resume", 1]
                undisturbed = output(command(mesh, "train", "--steps", 60, "--deterministic", 1, *TINY))
                out, err, status = self.kill_in_the_middle(mesh, 1, *save, run=["--max-restarts", 1])
                self.assertEqual(status, 0, err)
                self.assertEqual(losses(out), losses(undisturbed))
                again = [int(step) for step in re.findall(r"step +(\d+) ", out)]
                self.assertEqual(again.count(0), 1)  # the second attempt did not start from step 0


if __name__ == "__main__":
    unittest.main()
