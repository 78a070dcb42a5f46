"""Random programs under random deaths: no hang, no wrong result, the right rank blamed, nothing left behind.

CHAOS_SEED=N runs the trial with that seed; CHAOS_TRIALS=N runs N trials of each kind, with random seeds, instead of a few.
"""

import os
import random

from harness import RanksTest, main
from trial import Trial, play

SEED, TRIALS = os.environ.get("CHAOS_SEED"), os.environ.get("CHAOS_TRIALS")
SEEDS = [int(SEED)] if SEED else random.sample(range(1 << 32), int(TRIALS)) if TRIALS else range(4)


class Chaos(RanksTest):
    def trials(self, mode, **how):
        for seed in SEEDS:
            trial = Trial(seed, mode, **how)
            with self.subTest(str(trial)), self.ended():
                self.assertEqual(play(self, trial)[1], [], trial)
        self.assert_nothing_left()

    def test_stop(self):
        self.trials("stop", hosted=False)

    def test_shrink_world(self):
        self.trials("shrink")

    def test_shrink_group(self):
        self.trials("group")


if __name__ == "__main__":
    main()
