"""The backend gloo: all that the suite asks of a backend, ranks that die, stop or disagree, and a Gloo that is not there."""

import os
import pathlib
import shutil
import subprocess

import test_faults
import test_probes
from collective_kit import CollectiveTest
from harness import BUILD, MUSTER, PROGRAMS, main

MODULES = BUILD / "lib/muster"
MODULE = MODULES / "mst_backend_gloo.so"
RACES = pathlib.Path(__file__).resolve().parent / "gloo_races.txt"
CHOICE = {
    "MUSTER_BACKEND": "gloo",
    "MUSTER_BACKEND_PATH": MODULES,
    "TSAN_OPTIONS": f"{os.environ.get('TSAN_OPTIONS', '')}:suppressions={RACES}:print_suppressions=0",
}


class Gloo:
    """What all tests here have in common."""

    settings = CHOICE

    def setUp(self):
        if not MODULE.exists():
            self.skipTest("the backend gloo was not built")
        super().setUp()


class Suite(Gloo, CollectiveTest):
    def run_ranks(self, n, hosts=None):
        out = self.run_suite(n, "--quick", "--seed", n, hosts=hosts, env=CHOICE)
        self.assertRegex(out, r"collective: ok: \d{4,} cases")

    def test_two_ranks(self):
        self.run_ranks(2)

    def test_three_ranks(self):
        self.run_ranks(3)

    def test_four_ranks(self):
        self.run_ranks(4)

    def test_hosts(self):
        """Over the address that muster gives, instead of the loopback."""
        self.run_ranks(3, "aab")

    def test_messages(self):
        for n in (2, 4):
            self.run_suite(n, program=PROGRAMS / "blocking_messages", env=CHOICE)

    def test_probes(self):
        for n in (1, 2, 3):
            self.run_suite(n, "calls", program=PROGRAMS / "probes", env=CHOICE)
        self.run_suite(2, "threads", 3, 20, program=PROGRAMS / "probes", env=CHOICE)

    def test_pipelines(self):
        """Messages go all the way round: ranks that open their groups in another order than their neighbours wait in a circle."""
        for words in (("stream", 4, 3, 2, 2), ("train", "interleaved", 3, 2, 2), ("ring_of_launcher",)):
            self.run_suite(3, *words, program=PROGRAMS / "pipeline", env=CHOICE)

    def test_aborts(self):
        for words in (("own", "barrier"), ("others", "all_reduce"), ("own", "recv_any", "cold"), ("others", "recv_before"), ("race",)):
            self.run_suite(3, *words, program=PROGRAMS / "aborts", env=CHOICE)

    def test_reducers(self):
        for words in (("train", 1), ("threads", 2), ("sum", 1), ("two",)):
            self.run_suite(3, *words, program=PROGRAMS / "buckets", env=CHOICE)


class Worker(Gloo, CollectiveTest):
    def test_stop(self):
        """A thread that does not end when it is told to."""
        done = subprocess.run([PROGRAMS / "gloo_worker"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Differences(Gloo, test_faults.Differences):
    """Gloo ends the process where lengths differ; ranks that disagree never get so far."""

    test_splits = None  # they wait until their deadline: only two ranks know a split


class Deaths(Gloo, test_faults.Deaths):
    """A death in the middle of a transfer, of which Gloo does not tell the call that waits for the rest."""

    victims = (0, 2)

    def test_all_reduce(self):
        self.die("all_reduce")

    def test_broadcast(self):
        self.die("broadcast")

    def test_gather(self):
        self.die("gather")

    def test_works(self):
        self.die("waited")

    def test_messages(self):
        self.die("ring")


class Probes(Gloo, test_probes.Failures):
    layouts = (None,)


class Stops(Gloo, test_faults.Stops):
    """A stopped rank, and a deadline of less than a second."""


class Absences(Gloo, test_faults.FaultsTest):
    wait, be_absent = test_faults.WAIT, test_faults.Absences.be_absent

    def test_message(self):
        self.be_absent("recv")


class Missing(Gloo, CollectiveTest):
    """What the user reads where a part of it is not installed."""

    def say(self, directory):
        env = {**CHOICE, "MUSTER_BACKEND_PATH": directory}
        process = self.popen(MUSTER, "run", "-n", 1, PROGRAMS / "collective", "--quick", env=env,
                             stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)  # fmt: skip
        out, _ = process.communicate(timeout=30)
        self.assertNotEqual(process.returncode, 0, out)
        return out.decode(errors="replace")

    def test_library(self):
        """A module that needs a library of a name that nobody has."""
        directory = pathlib.Path(self.path("modules"))
        directory.mkdir()
        code = MODULE.read_bytes()
        self.assertIn(b"libgloo.so", code)
        (directory / MODULE.name).write_bytes(code.replace(b"libgloo.so", b"libgl00.so"))
        out = self.say(directory)
        self.assertRegex(out, r"backend 'gloo' cannot be loaded: libgl00\.so.*: cannot open shared object file")
        self.assertIn("install the missing library", out)
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
