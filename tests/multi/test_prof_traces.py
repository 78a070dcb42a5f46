"""Trace files are not lost when worlds end, ranks die, or the disk is full."""

import collections
import json
import os
import pathlib
import re
import subprocess

import test_prof
from harness import BUILD, MUSTER, Process, main


class Files(test_prof.ProfTest):
    def run_traced(self, n, *actions, traces, command=(), status=0, tool=(), env=None):
        """Runs ranks with traces: the output of all ranks and of the launcher."""
        got, out = Process(
            self.popen(MUSTER, "run", "-n", n, *tool, *command, test_prof.PROF, *actions, env={"MUSTER_TRACE": traces, **(env or {})}, stderr=subprocess.STDOUT)
        ).finish()
        self.assertEqual(got, status, out)
        return out

    def events(self, traces, name):
        return json.loads(pathlib.Path(traces, name).read_text())

    def count(self, traces, name):
        """The number of successful operations of a trace."""
        events = self.events(traces, name)
        self.assertEqual(events[-1]["name"], "muster_end")
        return len([event for event in events if event["ph"] in "Xb" and event["cat"] != "arrow"])

    def worlds(self, traces):
        """The names of the files of each world, oldest first."""
        found = collections.defaultdict(list)
        for path in sorted(pathlib.Path(traces).glob("*.trace.json")):
            first = path.read_text().split("\n")[0].strip("[,")
            found[json.loads(first)["args"]["unix_ns"]].append(path.name)
        return [found[began] for began in sorted(found)]

    def test_joining_again(self):
        """Each world has its own traces, and so has the next run."""
        traces = self.path("traces")
        self.run_traced(2, "init", "sums=3", "again", "sums=5", traces=traces)
        self.run_traced(3, "init", "sums=7", traces=traces)
        self.assertEqual(
            self.worlds(traces),
            [
                ["rank-0.trace.json", "rank-1.trace.json"],
                ["rank-0.2.trace.json", "rank-1.2.trace.json"],
                ["rank-0.3.trace.json", "rank-1.3.trace.json", "rank-2.trace.json"],
            ],
        )
        for name, calls in (("rank-1", 3), ("rank-1.2", 5), ("rank-1.3", 7), ("rank-2", 7)):
            self.assertEqual(self.count(traces, name + ".trace.json"), calls)
        for world, words in ((1, "2 ranks on 1 host, 6 events"), (2, "2 ranks on 1 host, 10 events"), (3, "3 ranks on 1 host, 21 events")):
            self.assertIn(words, self.run_tool("report", traces, "--world", world)[1])

    def test_two_worlds_at_a_time(self):
        traces = self.path("traces")
        self.run_traced(2, "init", "sums=3", "beside=" + self.path("store"), "sums=2", traces=traces)
        self.assertEqual(len(self.worlds(traces)), 2)
        for rank in range(2):
            self.assertEqual(self.count(traces, f"rank-{rank}.trace.json"), 5)
            self.assertEqual(self.count(traces, f"rank-{rank}.2.trace.json"), 5)

    def test_program_changes_its_directory(self):
        """A relative directory is relative to the working directory of mst_init: for traces and flight records."""
        here, there = self.path("here"), self.path("there")
        for folder in (here, there):
            os.mkdir(folder)
        self.run_tool("run", "-n", 2, "--max-restarts", 0, test_prof.PROF, f"go={here}", "init", f"go={there}", "sums=3", "r1-die=1", "try", env={"MUSTER_TRACE": "out"})
        self.assertEqual(os.listdir(there), [])
        left = os.listdir(os.path.join(here, "out"))
        self.assertTrue({"rank-0.trace.json", "rank-1.trace.json", "rank-0.flight.json"} <= set(left), left)

    def test_restarts(self):
        """The traces of the failed attempt are kept."""
        traces = self.path("traces")
        script = 'if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then set -- "$@" die=1; fi; exec "$0" "$@" barrier'
        self.run_traced(2, "init", "sums=2000", command=["bash", "-c", script], tool=["--max-restarts", 1], traces=traces)
        first, second = self.worlds(traces)
        self.assertEqual(second, ["rank-0.2.trace.json", "rank-1.2.trace.json"])
        self.assertEqual(first, ["rank-0.trace.json", "rank-1.trace.json"])
        self.assertEqual(self.count(traces, "rank-1.2.trace.json"), 2001)
        lines = pathlib.Path(traces, "rank-1.trace.json").read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]  # the rank may have been killed while it wrote
        self.assertGreaterEqual(len(whole), len(lines) - 1)
        self.assertEqual(json.loads("".join(whole).rstrip(",\n") + "]")[0]["args"]["rank"], 1)

    def test_fork(self):
        """The child has the unwritten events of its parent, but does not write them."""
        traces = self.path("traces")
        self.run_traced(2, "init", "sums=3", "fork", "sums=4", "odd-fork", traces=traces)
        for rank in range(2):
            self.assertEqual(self.count(traces, f"rank-{rank}.trace.json"), 7)

    def test_a_child_with_worlds_of_its_own(self):
        """They have their own traces, and end."""
        if b"__tsan_init" in (BUILD / "lib/libmuster.so").read_bytes():
            self.skipTest("ThreadSanitizer does not let a child have threads")
        traces = self.path("traces")
        self.run_traced(2, "init", "sums=3", "odd-fork=" + self.path("store"), "sums=4", traces=traces)
        for name, calls in (("rank-0", 7), ("rank-1", 7), ("rank-0.2", 5), ("rank-0.3", 5)):
            self.assertEqual(self.count(traces, name + ".trace.json"), calls)

    def test_some_ranks_are_not_traced(self):
        """No rank waits for them, and the others have one clock."""
        for untraced in (0, 1):
            with self.subTest(untraced=untraced):
                traces = self.path(f"traces{untraced}")
                script = f'[ "$RANK" = {untraced} ] && unset MUSTER_TRACE; exec "$0" "$@"'
                out = self.run_traced(3, "init", "barrier", "sums=5", command=["bash", "-c", script], traces=traces)
                self.assertEqual(out, "")
                names = [f"rank-{r}.trace.json" for r in range(3) if r != untraced]
                self.assertEqual(self.worlds(traces), [names])
                ends = [next(e for e in self.events(traces, name) if e.get("name") == "barrier") for name in names]
                self.assertLessEqual(max(e["ts"] for e in ends), min(e["ts"] + e["dur"] for e in ends))
                self.assertLess(ends[0]["ts"], 4e6)  # since the world was formed

    def test_wall_clock_without_clock_server(self):
        """Rank 0 is not traced, so there is no clock server: rank 1 on another host uses wall-clock time and states its error."""
        traces = self.path("traces")
        apart, ahead = ["unshare", "--time", "--monotonic", "5000", "--fork"], 5000 * 10**9
        if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
            apart, ahead = ["env"], 0  # no time namespaces on this system
        script = test_prof.Traces.HOSTS[2].replace(
            "exec", '[ "$RANK" = 0 ] && unset MUSTER_TRACE; [ "$RANK" = 1 ] && set -- "$0" "$@" && exec ' + " ".join(apart) + ' "$@"; exec'
        )
        self.run_traced(3, "init", "barrier", "sums=5", command=["bash", "-c", script], traces=traces)
        events = [self.events(traces, f"rank-{r}.trace.json") for r in (1, 2)]
        clock = next(event["args"] for event in events[0] if event["name"] == "muster_clock")
        self.assertEqual(clock["error_ns"], 10**9)
        self.assertLess(abs(clock["offset_ns"] + ahead), 10**7)  # it is the same wall clock
        self.assertFalse([event for event in events[1] if event["name"] == "muster_clock"])  # rank 2 is on rank 0's host
        self.assertGreaterEqual(min(event["ts"] for event in events[0] if event["ph"] == "X"), -10000)

    def small_disk(self, options):
        """A directory on a small disk, if one can be mounted."""
        disk = self.path("disk-" + options)
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True, check=False).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        return disk

    def test_disk_full(self):
        """One warning, the number of lost events at the end, and the run continues."""
        disk = self.small_disk("size=256k")
        out = self.run_traced(1, "init", "sums=3000", "wait=200", "sums=10", traces=disk + "/traces")
        self.assertEqual(len(re.findall(r"cannot write to \S*rank-0\.trace\.json: No space left", out)), 1, out)
        missing = re.findall(r"(\d+) operations are missing in \S*rank-0\.trace\.json", out)
        self.assertEqual(len(missing), 1, out)
        text = pathlib.Path(disk, "traces", "rank-0.trace.json").read_text().rstrip()
        events = json.loads(text if text.endswith("]") else text + "]")
        self.assertEqual(len([event for event in events if event["ph"] == "X"]) + int(missing[0]), 3010)
        self.assertGreater(len(events), 100)
        if events[-1]["name"] == "muster_end":
            self.assertEqual((events[-1]["args"]["dropped"], events[-1]["args"]["events"]), (int(missing[0]), len(events)))

    def test_no_space_from_the_start(self):
        """One warning for each rank, no file, and the run continues: first no inode, then no space in the file."""
        for options in ("nr_inodes=2", "size=4k"):
            with self.subTest(options=options):
                disk = self.small_disk(options)
                os.mkdir(disk + "/traces")
                if options == "size=4k":
                    pathlib.Path(disk, "full").write_bytes(bytes(4096))
                out = self.run_traced(2, "init", "sums=3000", traces=disk + "/traces")
                for rank in range(2):
                    self.assertEqual(len(re.findall(rf"cannot write the trace \S*rank-{rank}\.trace\.json: No space left", out)), 1, out)
                self.assertEqual(os.listdir(disk + "/traces"), [])


if __name__ == "__main__":
    main()
