"""Random programs under random faults: no hang, no wrong result, the right rank blamed, nothing left behind.

CHAOS_TRIALS=N runs N trials of each kind, with random seeds, instead of a few. A trial that fails prints its arguments as
CHAOS_TRIAL='{…}', which repeats it, N times with CHAOS_TRIALS=N. CHAOS_SERIES='{…}' does so for series of kills.
"""

import json
import os
import random
import subprocess

from harness import RanksTest, main
from series import Series, play_series
from trial import FULL_DISK, Trial, play

SERIES = os.environ.get("CHAOS_SERIES")
TRIAL, TRIALS = os.environ.get("CHAOS_TRIAL"), int(os.environ.get("CHAOS_TRIALS", "0"))


class Chaos(RanksTest):
    def setUp(self):
        super().setUp()
        if SERIES or bool(TRIAL) != (self._testMethodName == "test_again"):
            self.skipTest("another test is to be repeated" if TRIAL or SERIES else "CHAOS_TRIAL is not set")

    def play(self, trial):
        with self.subTest(str(trial)), self.ended():
            self.assertEqual(play(self, trial)[1], [], trial)

    def trials(self, *modes, usual=1, **how):
        for seed in random.sample(range(1 << 32), TRIALS) if TRIALS else range(usual):
            for mode in modes:
                self.play(Trial(seed, mode, **how))
        self.assert_nothing_left()

    def test_again(self):
        for _ in range(TRIALS or 1):
            self.play(Trial(**json.loads(TRIAL)))
        self.assert_nothing_left()

    def test_stop(self):
        self.trials("stop", usual=2, hosted=False)

    def test_shrink_world(self):
        self.trials("shrink", usual=3)

    def test_shrink_group(self):
        self.trials("group", usual=3)

    def test_pause(self):
        self.trials("group", fault="pause")

    def test_freeze(self):
        self.trials("stop", fault="freeze", launched=False)

    def test_freeze_and_shrink(self):
        if not TRIALS:
            self.skipTest("takes long")
        self.trials("shrink", "group", fault="freeze")

    def test_store(self):
        self.trials("stop", fault="store", hosted=False)
        self.trials("group", fault="store", hosted=True)

    def test_few_descriptors(self):
        self.trials("stop", fault="descriptors")

    def test_full_disk(self):
        env = {**os.environ, "MUSTER_TRACE": self.directory}
        if subprocess.run([*FULL_DISK, "true"], env=env, capture_output=True, check=False).returncode:
            self.skipTest("nothing can be mounted here")
        self.trials("stop", launched=True, full_disk=True)


class OneAfterAnother(RanksTest):
    """Ranks are killed until one is left; scripts/kills.py runs thousands of these."""

    # The third one is in mst_monitored_barrier while another rank shrinks the group.
    KNOWN = [
        {"seed": 1000009, "mode": "group", "size": 8},
        {"seed": 1000048, "mode": "shrink", "size": 8},
        {"seed": 54, "mode": "group", "size": 8, "launched": False, "hosted": True},
    ]

    def test_series(self):
        if TRIAL:
            self.skipTest("CHAOS_TRIAL is set")
        for arguments in [json.loads(SERIES)] * (TRIALS or 1) if SERIES else self.KNOWN:
            series = Series(**arguments)
            with self.subTest(str(series)), self.ended():
                self.assertEqual(play_series(self, series)[1], [], series)
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
