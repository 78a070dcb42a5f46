"""Fails the allocations and system calls of a rank, one in each round: a clear error each time, and nothing is left.

Normally a few rounds of each phase run, in a layout that depends on the phase. FAIL_CALLS_ALL=1 runs all rounds in all
layouts, which takes long, and prints a line for each case; FAIL_CALLS_PHASES=a,b restricts that to these phases,
FAIL_CALLS_LAYOUTS="hosted,hosted hosts" to these layouts. FAIL_CALLS_AT_ONCE cases run at the same time. The driver then
needs a higher RANKS_TEST_LIMIT.
"""

import concurrent.futures
import os
import re
import subprocess
import time

from harness import MUSTER, PROGRAMS, Process, RanksTest, main

FAIL_CALLS = PROGRAMS / "fail_calls"
ALL = bool(os.environ.get("FAIL_CALLS_ALL"))
PHASES = list(filter(None, os.environ.get("FAIL_CALLS_PHASES", "").split(",")))
LAYOUTS = list(filter(None, os.environ.get("FAIL_CALLS_LAYOUTS", "").split(","))) or [
    "threads", "hosted", "served", "hosted hosts", "served hosts", "file", "file hosts",
]  # fmt: skip
MODES = ((), ("-a",), ("-l",))  # the rank leaves after a failure, repeats the step, or all later calls fail, too
REPEATED = ("all_reduce", "new_group", "shrink_group", "shrink_world", "agree")  # in the normal run
ROUNDS = 3  # of each phase in the normal run
FOUND = (  # rounds that once had a problem
    ("served", "abort", 1), ("hosted", "mesh", 1, "-a", "-f", 18, "-n", 30), ("hosted", "grow_world", 1, "-a", "-f", 27, "-n", 33),
    ("served", "shrink_world", 0, "-f", 72, "-n", 85),
)  # fmt: skip
AT_ONCE = int(os.environ.get("FAIL_CALLS_AT_ONCE", 3))
ENDED = re.compile(r"ended (\d) (\S+) culprit (-?\d+), left (-?\d+) (-?\d+) (-?\d+) (-?\d+), call (\S+): (.*)")


class FailCalls(RanksTest):
    def setUp(self):
        super().setUp()
        self.store, self.port = self.serve()
        _, out = Process(self.popen(FAIL_CALLS, "list")).finish()
        marks = dict((*line.split(), "")[:2] for line in out.splitlines())
        self.phases = [phase for phase in marks if not PHASES or phase in PHASES]
        self.joiners = {phase for phase in marks if marks[phase] == "joiner"}

    def end(self):
        self.store.kill()
        for name in os.listdir(self.directory):
            if not name.startswith("port"):
                os.unlink(self.path(name))
        self.assert_nothing_left()

    def rounds(self, layout, phase, rank, *options):
        """Runs rounds of a phase."""
        name, _, hosts = layout.partition(" ")
        places = {"hosted": self.free_port, "served": lambda: self.port, "file": lambda: self.path(f"{phase}-{rank}-{hosts}{''.join(map(str, options))}")}
        if name in places:
            name = f"{name}:{places[name]()}"
        process = self.popen(FAIL_CALLS, *(("-k", 2) if hosts else ()), *options, phase, rank, name)
        begin = time.monotonic()
        out = process.communicate()[0].decode()
        if ALL:
            case = f"{phase}, {layout}, rank {rank}{''.join(f' {option}' for option in options)}"
            print(f"{out if process.returncode else out.splitlines()[-1]} in {time.monotonic() - begin:.0f} s: {case}", flush=True)
        self.assertEqual(process.returncode, 0, out)
        self.assertRegex(out, r"(?m)^calls [1-9]\d*, failed \d+, tolerated \d+, bad 0$")

    def run_cases(self, run, cases):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for case, result in [(case, pool.submit(run, *case)) for case in cases]:
                with self.subTest(case=case):
                    result.result()
        self.end()

    def fits(self, layout, phase):
        """New processes cannot join threads, nor a world without a server."""
        return phase not in self.joiners or layout.split()[0] in ("hosted", "served")

    def test_some_rounds(self):
        if ALL:
            self.skipTest("all rounds run")
        cases = []
        for i, phase in enumerate(self.phases):
            layout = LAYOUTS[i % len(LAYOUTS)] if phase not in self.joiners else "served hosts"
            cases.append((layout, phase, i % 2, "-c", ROUNDS, *(["-a"] if phase in REPEATED else [])))
        self.run_cases(self.rounds, cases)

    def test_found_rounds(self):
        if ALL:
            self.skipTest("all rounds run")
        self.run_cases(self.rounds, FOUND)

    def test_all_rounds(self):
        if not ALL:
            self.skipTest("takes long: set FAIL_CALLS_ALL=1")
        self.run_cases(self.rounds, [
            (layout, phase, rank, *mode)
            for phase in self.phases
            for layout in LAYOUTS if self.fits(layout, phase)
            for rank in ((0, 1, 3) if phase in self.joiners else (0, 1))
            for mode in MODES
        ])  # fmt: skip

    def launch(self, phase, rank, number):
        """Runs one round under the launcher: how the ranks ended."""
        process = self.popen(MUSTER, "run", "-n", 3, "--survive", "--no-prefix", FAIL_CALLS, "-f", number, phase, rank, "launched",
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        out, err = (text.decode() for text in process.communicate())
        self.assertEqual(process.returncode, 0, out + err)
        self.assertNotIn(",;", err)  # the calls have no sites
        return {int(match[1]): match for match in ENDED.finditer(out)}

    def launched_rounds(self, phase, rank, step):
        """Rounds under the launcher, in which ranks may not leave more than without failures."""
        usual, number = self.launch(phase, rank, 0), 1 + step // 2
        while True:
            ended = self.launch(phase, rank, number)
            self.assertEqual(set(ended), set(usual), (phase, number))
            failed = ended[rank][2] != "MST_OK"
            for r, match in ended.items():
                self.assertTrue(failed or match[2] == "MST_OK", match[0])
                self.assertTrue(match[2] == "MST_OK" or r == rank or int(match[3]) == rank or f"rank {rank}" in match[9], match[0])
                for k in range(4, 8):
                    self.assertLessEqual(int(match[k]), int(usual[r][k]), (phase, number, match[0]))
            if ended[rank][8] == "-":
                return
            number += step

    def test_with_the_launcher(self):
        phases = self.phases if ALL else ["all_reduce", "shrink_world"]
        cases = [(phase, rank, 1 if ALL else 40) for phase in phases if phase not in self.joiners for rank in (0, 1)[:2 if ALL else 1]]
        self.run_cases(self.launched_rounds, cases)


if __name__ == "__main__":
    main()
