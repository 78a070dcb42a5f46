"""Communication that cannot succeed over a backend module: the store detects what the engine does not.

The module is the example backend, which cannot detect the death of a rank.
"""

import os

import test_faults
from harness import BUILD, Rank, main

SAMPLE = {"MUSTER_BACKEND": "minimal", "MUSTER_BACKEND_PATH": BUILD / "tests/backends", "MUSTER_LOG": "error"}


class Deaths(test_faults.Deaths):
    settings = SAMPLE
    victims = (1,)

    def test_itself(self):
        self.die("all_gather_into_tensor")

    def test_composed(self):
        self.die("all_reduce")

    def test_messages(self):
        self.die("ring")


class Differences(test_faults.FaultsTest):
    """Each rank checks in which call the next rank waits."""

    settings = SAMPLE

    def differ(self, what, *parts):
        store, ranks = self.world(3, "differ", what)
        for step in [rank.step("differ") for rank in ranks]:
            self.assert_failed(step, "MST_ERR_MISMATCH", *parts, test_faults.HERE)
            self.assert_within(step, 5000)
        self.end(store, ranks)
        self.assert_nothing_left()

    def test_operation(self):
        self.differ("operation", "all_reduce", "broadcast")

    def test_count(self):
        """The engine detects this."""
        self.differ("count", "minimal: rank . .*sent another number of bytes")

    def test_root(self):
        # A rank that did not wait in the broadcast may be in its next call by then.
        self.differ("root", "root [01]", "root [01]|made another call as operation")


class Checked(test_faults.Differences):
    """Ranks compare their calls before the engine starts them: all differences that native detects are detected."""

    settings = {**SAMPLE, "MUSTER_CHECK": 1}

    def test_splits(self):
        self.skipTest("what each pair of ranks exchanges is not compared")

    def test_message(self):
        self.skipTest("messages are not compared")


class Absences(test_faults.Absences):
    settings = SAMPLE
    wait = 1200  # ranks learn from the store who else waits, after 200 ms; more beside other tests

    def test_collective(self):
        self.be_absent("all_reduce")

    def test_message(self):
        self.be_absent("recv")


class Choices(test_faults.FaultsTest):
    """Backends that are not available."""

    def start(self, *backends):
        store, port = self.serve()
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        path = f"{SAMPLE['MUSTER_BACKEND_PATH']}:{os.environ.get('MUSTER_BACKEND_PATH', '')}"
        ranks = []
        for number, backend in enumerate(backends):
            env = {"RANK": number, "WORLD_SIZE": len(backends), **place, **SAMPLE, "MUSTER_BACKEND_PATH": path}
            ranks.append(Rank(self.popen(test_faults.FAULTS, "loop", "all_reduce", env={**env, "MUSTER_BACKEND": backend})))
        return store, ranks

    def test_unknown(self):
        store, ranks = self.start("shelve", "shelve")
        for rank in ranks:
            self.assert_failed(rank.step("init"), "MST_ERR_UNSUPPORTED", "there is no backend 'shelve'", "muster info")
        self.end(store, ranks)

    def test_different(self):
        """All ranks fail at once, whichever comes first and whatever operation they call."""
        for pair in (("native", "minimal"), ("minimal", "native"), ("native", "cpu:minimal"), ("auto", "minimal")):
            with self.subTest(pair=pair), self.ended():
                store, ranks = self.start(*pair)
                first, second = (name.replace("cpu:", "").replace("auto", "native") for name in pair)
                one, other = f"rank 0 chose backend '{first}', but rank 1 chose '{second}'", \
                    f"rank 1 chose backend '{second}', but rank 0 chose '{first}'"
                for number, rank in enumerate(ranks):
                    step = rank.step("init")
                    self.assert_failed(step, "MST_ERR_MISMATCH", f"{one}|{other}", "the same .backend or MUSTER_BACKEND")
                    self.assertEqual(step.culprit, 1 - number)
                    self.assert_within(step, 5000)
                self.end(store, ranks)

    def test_same_backends_written_differently(self):
        store, ranks = self.start("auto", "cpu:native")
        for rank in ranks:
            self.assertEqual(rank.step("init").status, "MST_OK")
        for rank in ranks:
            rank.kill()
        self.end(store, ranks)

    def test_wrong_memory(self):
        store, ranks = self.start("cuda:minimal", "cuda:minimal")
        for rank in ranks:
            self.assert_failed(rank.step("init"), "MST_ERR_INVALID", "cannot serve memory of the device")
        self.end(store, ranks)


if __name__ == "__main__":
    main()
