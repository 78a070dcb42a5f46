"""Random programs under random deaths: no hang, no wrong result, the right rank blamed, nothing left behind.

CHAOS_SEED=N runs the trial with that seed; CHAOS_TRIALS=N runs N trials of each kind instead of a few.
"""

import os
import random

from harness import RanksTest, main
from trial import Trial, play

TRIALS = int(os.environ.get("CHAOS_TRIALS", 4))


class Chaos(RanksTest):
    def trials(self, mode):
        seed = os.environ.get("CHAOS_SEED")
        for _ in range(1 if seed else TRIALS):
            trial = Trial(int(seed) if seed else random.SystemRandom().randrange(1 << 32), mode)
            with self.subTest(str(trial)), self.ended():
                self.assertEqual(play(self, trial)[1], [], trial)
        self.assert_nothing_left()

    def test_stop(self):
        self.trials("stop")

    def test_shrink_world(self):
        self.trials("shrink")

    def test_shrink_group(self):
        self.trials("group")


if __name__ == "__main__":
    main()
