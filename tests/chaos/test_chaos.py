"""Random programs under random faults: no hang, no wrong result, the right rank blamed, nothing left behind.

CHAOS_SEED=N runs the trial with that seed; CHAOS_TRIALS=N runs N trials of each kind instead of a few.
"""

import os
import random
import signal
import time

from harness import PROGRAMS, Process, RanksTest, main

CHAOS = PROGRAMS / "chaos"
TRIALS = int(os.environ.get("CHAOS_TRIALS", 3))
DEADLINE = 60


class Trial:
    """What the seed says: the layout, the victims, the faults and their moments."""

    def __init__(self, seed, mode):
        draw = random.Random(seed)
        self.seed, self.mode = seed, mode
        self.size = draw.choice((3, 4, 8))
        self.hosts = draw.choice((1, 1, 2, 3))
        self.hosted = draw.random() < 0.5  # rank 0 hosts the store
        first = 1 if self.hosted else 0
        count = draw.choice((1, 1, 2)) if self.size > 3 else 1
        self.victims = draw.sample(range(first, self.size), count)
        self.delays = [draw.uniform(0, 0.3) for _ in self.victims]
        self.fault = draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM))

    def __str__(self):
        return (f"CHAOS_SEED={self.seed} {self.mode}: {self.size} ranks on {self.hosts} hosts, hosted {self.hosted}, "
                f"{self.fault.name} to {self.victims} after {[round(d, 3) for d in self.delays]} s")


class Chaos(RanksTest):
    def start(self, trial, steps):
        if trial.hosted:
            store, place = None, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port()}
        else:
            store, port = self.serve()
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        ranks = []
        for r in range(trial.size):
            env = {"RANK": r, "WORLD_SIZE": trial.size, **place, "MUSTER_SLOW_S": 0}
            if trial.hosts > 1:
                env["MUSTER_FORCE_HOST"] = r % trial.hosts
            ranks.append(Process(self.popen(CHAOS, trial.seed, steps, trial.mode, env=env)))
        for rank in ranks:
            self.assertEqual(rank.line(), "ready")
        return store, ranks

    def strike(self, trial, ranks):
        begin = time.monotonic()
        for delay, victim in sorted(zip(trial.delays, trial.victims)):
            time.sleep(max(0, begin + delay - time.monotonic()))
            ranks[victim].send(trial.fault)

    def ends(self, trial, rank, number):
        lines = []
        while (line := rank.line()) is not None:
            lines.append(line.split(" ", 3))
        status = rank.process.wait(timeout=DEADLINE)
        return status, lines, (number, status, lines[-3:], rank.process.stderr.read() if rank.process.stderr else "")

    def check(self, trial, ranks):
        survivors = [r for r in range(trial.size) if r not in trial.victims]
        for number in survivors:
            status, lines, all_of_it = self.ends(trial, ranks[number], number)
            self.assertEqual(status, 3 if trial.mode == "stop" else 0, all_of_it)
            lost = [line for line in lines if line[0] == "lost"]
            if trial.mode == "stop":
                self.assertEqual(len(lost), 1, all_of_it)
            first = int(lost[0][2]) if lost else trial.victims[0]
            self.assertIn(first, trial.victims, all_of_it)
            if lost:
                self.assertRegex(lost[0][3], rf"rank {first}\b")
        for number in trial.victims:
            ranks[number].kill()

    def run_trial(self, trial):
        with self.subTest(str(trial)), self.ended():
            store, ranks = self.start(trial, 1000000 if trial.mode == "stop" else 400)
            self.strike(trial, ranks)
            self.check(trial, ranks)
            if store:
                store.kill()
            for process in [*ranks, *([store] if store else [])]:
                for stream in process.process.stdin, process.process.stdout, process.process.stderr:
                    if stream:
                        stream.close()

    def trials(self, mode):
        seed = os.environ.get("CHAOS_SEED")
        for i in range(TRIALS):
            self.run_trial(Trial(int(seed) if seed else random.SystemRandom().randrange(1 << 32), mode))
            if seed:
                break
        self.assert_nothing_left()

    def test_stop(self):
        self.trials("stop")

    def test_shrink_world(self):
        self.trials("shrink")

    def test_shrink_group(self):
        self.trials("group")


if __name__ == "__main__":
    main()
