"""Kills the ranks of one run of chaos.c one after the other until one is left; the others shrink the world each time."""

import collections
import random
import signal
import subprocess
import time

from trial import Job, Trial

# What a survivor of one kill reported: milliseconds from the kill to its error and to its next success, and the error.
SLOW = 10000  # milliseconds: a longer recovery is a failure
Report = collections.namedtuple("Report", "survivor victim detected recovered message")


class Series(Trial):
    """The seed draws the victims, the pauses between them and, unless given, the layout."""

    def __init__(self, seed, mode, **given):
        super().__init__(seed, mode, **{"fault": "SIGKILL", "threads": 1, **given})
        self.arguments = {"seed": seed, "mode": mode, **given}
        draw = random.Random(seed)
        self.victims = draw.sample(range(self.size), self.size - 1)
        self.delays = [draw.uniform(0, 0.05) for _ in self.victims]
        self.steps = 1000000

    def __str__(self):
        return super().__str__().replace("CHAOS_TRIAL", "CHAOS_SERIES")


class SeriesJob(Job):
    def wait_for(self, rank, word):
        """The next line of a rank that begins with the word; lines of other ranks are kept for them."""
        while True:
            for i, line in enumerate(self.fresh[rank]):
                if line.split(" ")[0] == word:
                    del self.fresh[rank][: i + 1]
                    return line
                if line.startswith("failed"):
                    raise AssertionError(f"rank {rank}: {line}")
            index = self.read(0 if self.trial.launched else rank)
            if index is None:
                raise AssertionError(f"rank {rank} ended; its last lines: {self.lines[rank][-3:]}")
            self.fresh[index].append(self.lines[index][-1])

    def kill_each(self):
        """Kills the victims in turn; yields the reports of each kill."""
        self.fresh = [[] for _ in self.lines]
        living = list(range(self.trial.size))
        for victim, delay in zip(self.trial.victims, self.trial.delays):
            time.sleep(delay)
            number = living.index(victim) if self.trial.mode == "shrink" else victim  # a new world has new ranks
            living.remove(victim)
            since = time.monotonic() * 1000
            self.send(victim, signal.SIGKILL)
            for rank in living:
                _, at, culprit, message = self.wait_for(rank, "lost").split(" ", 3)
                again = self.wait_for(rank, "again").split(" ")[1]
                if int(culprit) != number or f"rank {number} " not in message:
                    raise AssertionError(f"process {rank} names rank {culprit}, not {number}: {message}")
                if float(again) - since > SLOW:
                    raise AssertionError(f"process {rank} took {float(again) - since:.0f} ms after the loss of rank {number}: {message}")
                yield Report(rank, victim, float(at) - since, float(again) - since, message)
        self.send(living[0], signal.SIGUSR2)
        self.wait_for(living[0], "done")


def play_series(case, series):
    """Runs the series: the reports, and a list of what is wrong."""
    job = SeriesJob(case, series)
    reports, problems = [], []
    try:
        problems = job.begin()
        if not problems:
            for report in job.kill_each():
                reports.append(report)
            statuses = job.finish()
            last = (set(range(series.size)) - set(series.victims)).pop()
            if statuses[0 if series.launched else last]:
                problems.append(f"the last rank or its launcher ended with {statuses}")
    except (AssertionError, subprocess.TimeoutExpired) as error:
        problems.append(f"after {len(reports)} reports: {error}")
    finally:
        job.end()
    return reports, problems
