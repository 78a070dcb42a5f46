"""muster run --survive and --replace: the others go on when a rank dies, and a new process takes its place."""

import os
import re
import signal
import tempfile

from harness import PROGRAMS, Gate, ToolTest, is_alive, main, without_pidfd
from sshd import SshTest
from test_run_nodes import NodesTest

SURVIVOR = PROGRAMS / "survivor"
RANK = re.compile(r"\[\d+\] rank (\d+) of (\d+), pid (\d+)")


class SurviveTest(ToolTest):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = os.path.join(directory.name, "stop")

    def ranks(self, run, n, size):
        """Reads the lines of n ranks of a world of that size: their pids by rank."""
        found = {}
        while len(found) < n:
            line = run.out()
            match = RANK.fullmatch(line or "")
            self.assertTrue(match, line)
            self.assertEqual(int(match[2]), size, line)
            found[int(match[1])] = int(match[3])
        return found

    def stop(self):
        with open(self.file, "w", encoding="utf-8"):
            pass

    def end(self, run, status=0):
        """The ranks end of themselves: what the launcher wrote to stderr."""
        self.stop()
        rc, _, err = run.finish()
        self.assertEqual(rc, status, err)
        return err


class OneNode(SurviveTest):
    def start(self, mode, n, *options, **more):
        run = self.begin("run", "-n", n, *options, SURVIVOR, mode, self.file, **more)
        return run, self.ranks(run, n, n)

    def check_shrinks(self, victim, **more):
        run, pids = self.start("shrink", 4, "--survive", **more)
        os.kill(pids[victim], signal.SIGKILL)
        line = run.err()
        self.assertRegex(line, rf"^muster run: rank {victim} \(pid {pids[victim]}\) on \S+ was ended by SIGKILL "
                         r"\(Killed\), (in|last call) mst_all_reduce #\d+ of 4 ranks, 2 i32, at .*survivor\.c:\d+ \(sum\); "
                         r"continuing with 3 of 4 ranks$")  # fmt: skip
        self.ranks(run, 3, 3)
        err = self.end(run)
        self.assertEqual(len(err.splitlines()), 2, err)
        self.assertIn("muster run: 3 of 4 ranks ended with code 0; these died:\nmuster run:   rank "
                      f"{victim} (pid {pids[victim]}) on ", err)  # fmt: skip

    def test_the_others_go_on(self):
        self.check_shrinks(2)

    def test_rank_0_dies(self):
        """The launcher hosts the store."""
        self.check_shrinks(0)

    def test_kernel_without_pidfd(self):
        self.check_shrinks(1, preexec_fn=without_pidfd)

    def test_min(self):
        run, pids = self.start("shrink", 4, "--survive=3")
        os.kill(pids[1], signal.SIGKILL)
        self.assertIn("continuing with 3 of 4 ranks", run.err())
        left = list(self.ranks(run, 3, 3).values())
        os.kill(left[1], signal.SIGABRT)
        rc, _, err = run.finish()
        self.assertEqual(rc, 128 + signal.SIGABRT, err)
        self.assertIn("; 2 of 4 ranks left, but --survive needs 3\n", err)
        self.assertIn("muster run: the job failed; root cause:", err)
        self.assertIn("  signal     SIGABRT", err)
        self.assertIn(f"muster run:   rank 1 (pid {pids[1]}) on ", err)
        self.assertFalse(any(map(is_alive, left)))

    def test_min_is_at_most_the_number_of_ranks(self):
        rc, _, err = self.muster("run", "-n", 2, "--survive=3", "true")
        self.assertEqual((rc, err), (2, b"muster run: --survive=3 needs more ranks than the 2 of this job\n"))

    def test_program_that_does_not_recover(self):
        """All ranks fail after the first: the job fails, and the first is the root cause."""
        run, pids = self.start("fail", 3, "--survive")
        os.kill(pids[1], signal.SIGKILL)
        rc, _, err = run.finish()
        self.assertEqual(rc, 128 + signal.SIGKILL, err)
        self.assertIn("  rank       1 (local rank 1)\n", err)
        self.assertIn("muster run: 0 of 3 ranks ended with code 0; these died:\n", err)

    def test_restart_when_too_few_are_left(self):
        script = "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK = 0 ] || exit 4"
        rc, _, err = self.muster("run", "-n", 3, "--survive=2", "--max-restarts", 1, "sh", "-c", script)
        self.assertEqual(rc, 0, err)
        self.assertIn(b"starting all 3 ranks again: restart 1 of 1", err)

    def test_exit_codes_of_ranks_that_died_do_not_count(self):
        rc, _, err = self.muster("run", "-n", 4, "--survive", "sh", "-c", "exit $((RANK % 2 * 9))")
        self.assertEqual(rc, 0, err)
        self.assertIn(b"muster run: 2 of 4 ranks ended with code 0; these died:\n", err)

    def test_rank_dies_before_it_joins(self):
        """The others wait for it in mst_init, which nothing can repair."""
        script = '[ $RANK != 1 ] || exit 5; exec "$0" shrink "$1"'
        rc, _, err = self.muster("run", "-n", 3, "--survive", "sh", "-c", script, SURVIVOR, self.file)
        self.assertEqual(rc, 5, err)
        self.assertRegex(err.decode(), r"rank 1 \(pid \d+\) on \S+ ended without joining the world in which")

    def test_program_that_cannot_run(self):
        rc, _, err = self.muster("run", "-n", 3, "--replace", "/dev/null")
        self.assertEqual((rc, err.count(b"\n")), (2, 1), err)

    def test_signals_end_all(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            run, pids = self.start("shrink", 3, "--survive")
            os.kill(pids[1], signal.SIGKILL)
            self.ranks(run, 2, 2)
            run.send(number)
            rc, _, err = run.finish()
            self.assertEqual(rc, 128 + number, err)

    def test_replacement_joins(self):
        run, pids = self.start("grow", 3, "--replace")
        for count, victim in enumerate((1, 0, 2), 1):
            os.kill(pids[victim], signal.SIGKILL)
            self.assertRegex(run.err(), rf"rank {victim} \(pid {pids[victim]}\) on \S+ was ended by SIGKILL .*; "
                             rf"starting replacement {count} of at most 3$")  # fmt: skip
            before, pids = pids, self.ranks(run, 3, 3)
            self.assertEqual([r for r in pids if pids[r] != before[r]], [victim])
        err = self.end(run)
        self.assertIn("muster run: 3 of 3 ranks ended with code 0; these died:\n", err)

    def test_flight_recorder_of_a_rank_that_died(self):
        with tempfile.TemporaryDirectory() as trace:
            run, pids = self.start("grow", 3, "--replace", "--trace", trace)
            os.kill(pids[1], signal.SIGKILL)
            self.ranks(run, 3, 3)
            with open(os.path.join(trace, "rank-1.flight.json"), encoding="utf-8") as file:
                self.assertRegex(file.read(), rf'"pid": ?{pids[1]}\b')
            self.end(run)

    def test_replacements_admit_others(self):
        """All first ranks have died, and the replacements start slowly: each of them is admitted."""
        run, pids = self.start("slow", 2, "--replace=3")
        for victim in (1, 0, 1):
            os.kill(pids[victim], signal.SIGKILL)
            pids = self.ranks(run, 2, 2)
        self.assertNotIn("waited to join", self.end(run))

    def test_replacement_before_the_world_forms(self):
        """It takes the place of the dead rank in mst_init."""
        with Gate() as gate:
            script = '[ $RANK != 1 ] || [ -e "$2" ] || { >"$2"; read go <"$3"; exit 5; }; exec "$0" grow "$1"'
            run = self.begin("run", "-n", 3, "--replace", "sh", "-c", script, SURVIVOR, self.file, self.file + ".1",
                             gate.path)  # fmt: skip
            gate.open()
            self.ranks(run, 3, 3)
            self.end(run)

    def test_replacements_are_bounded(self):
        run, pids = self.start("crash", 3, "--replace=2")
        os.kill(pids[1], signal.SIGKILL)
        for text in ("starting replacement 1 of at most 2", "starting replacement 2 of at most 2",
                     "exited with code 7; continuing with 2 of 3 ranks"):  # fmt: skip
            self.assertRegex(run.err(), text)
        self.ranks(run, 2, 2)
        self.end(run)

    def test_replacement_that_is_not_needed(self):
        """The others end without it; the launcher does not wait for it."""
        run, pids = self.start("shrink", 3, "--replace")
        os.kill(pids[1], signal.SIGKILL)
        self.ranks(run, 2, 2)
        err = self.end(run)
        self.assertIn("waited to join, but no rank was left to admit it; continuing with 2 of 3 ranks", err)
        self.assertIn("muster run: 2 of 3 ranks ended with code 0; these died:\n", err)

    def test_replacements_that_wait_for_each_other(self):
        run, pids = self.start("fail", 2, "--replace")
        os.kill(pids[1], signal.SIGKILL)
        rc, _, err = run.finish()
        self.assertNotEqual(rc, 0, err)
        self.assertIn("no rank was left to admit it", err)

    def test_environment_and_output_of_a_replacement(self):
        script = ('echo "$RANK $LOCAL_RANK $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT ${MUSTER_JOIN:-0}"; '
                  '[ $RANK = 0 ] && { read go <"$0"; exit 0; }; [ -e "$1" ] && { >"$0"; exit 0; }; '
                  '>"$1"; sleep 1000 & printf unfinished; kill -9 $$')  # fmt: skip
        with Gate() as gate, tempfile.TemporaryDirectory() as logs:
            run = self.begin("run", "-n", 2, "--replace", "--log-dir", logs, "--rdzv-id", "job", "sh", "-c", script,
                             gate.path, self.file, env={"MUSTER_JOIN": "1"})  # fmt: skip
            rc, out, err = run.finish()
            with open(os.path.join(logs, "job/attempt_0/1/stdout.log"), encoding="utf-8") as log:
                self.assertEqual(log.read(), "1 1 2 0 0\nunfinished1 1 2 0 0\n")
        self.assertEqual(rc, 0, err)
        self.assertEqual(sorted(out.splitlines()), ["[0] 0 0 2 0 0", "[1] 1 1 2 0 0", "[1] 1 1 2 0 0", "[1] unfinished"])

    def test_help(self):
        out = self.muster("run", "--help")[1].decode()
        self.assertIn("--survive[=MIN]", out)
        self.assertIn("--replace[=N]", out)


class SeveralNodes(SurviveTest, NodesTest):
    def start(self, mode, *options, n=2):
        """Two nodes; the ranks of the first, the second, and their pids."""
        command = [*options, SURVIVOR, mode, self.file]
        nodes = [self.coordinator(*command, n=n), self.node(*command, n=n)]
        pids = {}
        for node in nodes:
            pids.update(self.ranks(node, n, 2 * n))
        return nodes, pids

    def end_all(self, nodes):
        self.stop()
        results = self.finish(*nodes)
        self.assertEqual([r[0] for r in results], [0, 0], results)
        return results[0][2]

    def test_rank_of_either_node_dies(self):
        for victim in (0, 3):
            with self.subTest(victim=victim):
                self.port += 1
                nodes, pids = self.start("shrink", "--survive")
                os.kill(pids[victim], signal.SIGKILL)
                self.assertRegex(nodes[0].err(), rf"rank {victim} \(pid {pids[victim]}\) on \S+ was ended by SIGKILL .*; "
                                 "continuing with 3 of 4 ranks")  # fmt: skip
                for node in (0, 1):
                    self.ranks(nodes[node], 1 if victim // 2 == node else 2, 3)
                self.assertIn("muster run: 3 of 4 ranks ended with code 0; these died:\n", self.end_all(nodes))
                os.unlink(self.file)

    def test_all_ranks_of_a_node_die(self):
        nodes, pids = self.start("shrink", "--survive", n=1)
        os.kill(pids[1], signal.SIGKILL)
        self.ranks(nodes[0], 1, 1)
        self.end_all(nodes)

    def test_min(self):
        nodes, pids = self.start("shrink", "--survive=4")
        os.kill(pids[3], signal.SIGKILL)
        results = self.finish(*nodes)
        self.assertEqual([r[0] for r in results], [137, 137], results)
        self.assertIn("; 3 of 4 ranks left, but --survive needs 4\n", results[0][2])
        self.assertIn("  rank       3 (local rank 1)\n", results[0][2])

    def test_replacement_joins(self):
        nodes, pids = self.start("grow", "--replace", n=1)
        for victim in (1, 0):
            os.kill(pids[victim], signal.SIGKILL)
            before, pids = pids, {**self.ranks(nodes[0], 1, 2), **self.ranks(nodes[1], 1, 2)}
            self.assertEqual([r for r in pids if pids[r] != before[r]], [victim])
        self.end_all(nodes)

    def test_replacements_admit_others(self):
        nodes, pids = self.start("slow", "--replace=3", n=1)
        for victim in (1, 0, 1):
            os.kill(pids[victim], signal.SIGKILL)
            pids = {**self.ranks(nodes[0], 1, 2), **self.ranks(nodes[1], 1, 2)}
        self.assertNotIn("waited to join", self.end_all(nodes))

    def test_replacements_are_bounded_for_all_nodes(self):
        nodes, pids = self.start("crash", "--replace=1")
        os.kill(pids[3], signal.SIGKILL)
        self.assertRegex(nodes[0].err(), "starting replacement 1 of at most 1")
        self.assertRegex(nodes[0].err(), "exited with code 7; continuing with 3 of 4 ranks")
        self.ranks(nodes[0], 2, 3)
        os.kill(pids[0], signal.SIGKILL)
        self.assertRegex(nodes[0].err(), "continuing with 2 of 4 ranks")
        self.end_all(nodes)

    def test_replacement_that_is_not_needed(self):
        nodes, pids = self.start("shrink", "--replace", n=1)
        os.kill(pids[1], signal.SIGKILL)
        self.ranks(nodes[0], 1, 1)
        self.assertIn("waited to join, but no rank was left to admit it", self.end_all(nodes))

    def test_node_is_lost(self):
        nodes, pids = self.start("shrink", "--survive")
        os.kill(nodes[1].pid, signal.SIGKILL)
        self.assertRegex(nodes[0].err(), r"host \S+ \(pid \d+\) was lost; continuing with 2 of 4 ranks")
        self.ranks(nodes[0], 2, 2)
        self.stop()
        self.assertEqual(nodes[0].finish()[0], 0)
        self.assertFalse(is_alive(pids[3]))

    def test_coordinator_without_survive(self):
        """The launchers differ in their options: the coordinator decides."""
        nodes = [self.coordinator(SURVIVOR, "shrink", self.file), self.node("--survive", SURVIVOR, "shrink", self.file)]
        pids = {**self.ranks(nodes[0], 1, 2), **self.ranks(nodes[1], 1, 2)}
        os.kill(pids[1], signal.SIGKILL)
        results = self.finish(*nodes)
        self.assertEqual([r[0] for r in results], [137, 137], results)


class Hosts(SurviveTest, SshTest):
    def start(self, mode, *options):
        """Two ranks on each of two hosts."""
        run = self.begin(*self.words("127.0.0.2:2,127.0.0.3:2", *options), SURVIVOR, mode, self.file)
        return run, self.ranks(run, 4, 4)

    def test_rank_dies(self):
        run, pids = self.start("shrink", "--survive=2")
        os.kill(pids[0], signal.SIGKILL)
        self.assertRegex(run.err(), r"rank 0 \(pid \d+\) on \S+ was ended by SIGKILL .*; continuing with 3 of 4 ranks$")
        self.ranks(run, 3, 3)
        err = self.end(run)
        self.assertEqual(len(err.splitlines()), 2, err)

    def test_replacement_joins(self):
        run, pids = self.start("grow", "--replace")
        os.kill(pids[3], signal.SIGKILL)
        self.assertRegex(run.err(), "starting replacement 1 of at most 4$")
        again = self.ranks(run, 4, 4)
        self.assertEqual([r for r in again if pids[r] != again[r]], [3])
        self.end(run)

    def test_launcher_of_a_host_is_lost(self):
        run, pids = self.start("shrink", "--survive")
        with open(f"/proc/{pids[3]}/stat", encoding="utf-8") as stat:
            launcher = int(stat.read().rsplit(")", 1)[1].split()[1])
        os.kill(launcher, signal.SIGKILL)
        self.assertRegex(run.err(), r"node 1, host \S+ \(pid \d+\) was lost; continuing with 2 of 4 ranks")
        self.ranks(run, 2, 2)
        self.end(run)


del ToolTest, SshTest, NodesTest, SurviveTest  # unittest must not run them again

if __name__ == "__main__":
    main(at_once=3)
