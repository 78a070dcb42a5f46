"""Random programs on three hosts in network namespaces whose network fails.

CHAOS_TRIALS=N and CHAOS_TRIAL='{…}' as in test_chaos.py.
"""

import json
import os
import random
import shutil

import network
from harness import main
from network import NetworkTrial, play

TRIAL, TRIALS = os.environ.get("CHAOS_TRIAL"), int(os.environ.get("CHAOS_TRIALS", "0"))


class Network(network.NetworkCase):
    def setUp(self):
        super().setUp()
        if bool(TRIAL) != (self._testMethodName == "test_again"):
            self.skipTest("CHAOS_TRIAL is set" if TRIAL else "CHAOS_TRIAL is not set")

    def play(self, trial):
        if trial.fault.startswith("reset") and not shutil.which("ss"):
            self.skipTest("needs ss")
        with self.subTest(str(trial)), self.ended():
            self.assertEqual(play(self, trial)[1], [], trial)

    def trials(self, *faults):
        if not TRIALS:
            for fault in faults:
                self.play(NetworkTrial(0, "shrink", fault, steps=400))
        for seed in random.sample(range(1 << 32), TRIALS):
            for fault in faults:
                for mode in "stop", "shrink", "group":
                    self.play(NetworkTrial(seed, mode, fault))
        self.assert_nothing_left()

    def test_again(self):
        for _ in range(TRIALS or 1):
            self.play(NetworkTrial(**json.loads(TRIAL)))
        self.assert_nothing_left()

    def test_harmless(self):
        self.trials("outage", "reset_store")

    def test_split(self):
        self.trials("partition")

    def test_reset(self):
        self.trials("reset_link")

    def test_cut(self):
        if not TRIALS:
            self.skipTest("takes long")
        self.trials("cut")


if __name__ == "__main__":
    main(at_once=2)
