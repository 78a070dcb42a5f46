"""The flight recorder: what the library keeps of a failure, what the launcher keeps of ranks that died or hang, and what it says when
asked (SIGUSR2); and how --prof and --trace reach the ranks."""

import json
import os
import pathlib
import re
import signal
import tempfile
import unittest

from harness import MUSTER, ToolTest, wait_until

RANK = os.path.join(os.path.dirname(MUSTER), "tests", "flight_rank")


class FlightTest(ToolTest):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.home = pathlib.Path(directory.name).resolve()
        self.trace = self.home / "deep" / "out"

    def flight(self, rank, directory=None):
        return json.loads(((directory or self.trace) / f"rank-{rank}.flight.json").read_text())

    def flights(self, directory=None):
        return sorted(p.name for p in (directory or self.trace).glob("*flight*"))

    def last(self, flight):
        op = flight["operations"][-1]
        return op["name"], op["seq"], op["state"]


class Options(FlightTest):
    SHOW = 'echo "$MUSTER_PROF,$MUSTER_TRACE"'

    def shown(self, *options, env=None):
        rc, out, err = self.muster("run", "--no-prefix", *options, "sh", "-c", self.SHOW, env=env, cwd=self.home)
        self.assertEqual(rc, 0, err)
        return out.decode().strip()

    def test_they_reach_the_ranks(self):
        self.assertEqual(self.shown(), ",")
        self.assertEqual(self.shown("--prof"), "1,")
        self.assertEqual(self.shown("--trace", "deep/out"), f",{self.trace}")
        self.assertTrue(self.trace.is_dir())
        self.assertEqual(self.shown("--trace", "deep/out", "--env", "MUSTER_TRACE=/other"), f",{self.trace}")
        self.assertEqual(self.shown("--prof", "--no-env", "--trace=x"), f"1,{self.home}/x")
        self.assertEqual(self.shown(env={"MUSTER_TRACE": "/other"}), ",/other")

    def test_they_reach_other_hosts(self):
        ssh = self.home / "ssh.sh"  # as ssh does, on this host
        ssh.write_text('#!/bin/sh\nwhile [ "$1" != other ]; do shift; done; shift; exec sh -c "$*"\n')
        ssh.chmod(0o755)
        rc, out, err = self.muster("run", "--hosts", "other", "--ssh", str(ssh), "--prof", "--trace", "deep/out",
                                   "sh", "-c", self.SHOW, cwd=self.home)
        self.assertEqual((rc, out.decode().strip()), (0, f"[0] 1,{self.trace}"), err)

    def test_a_directory_that_cannot_be(self):
        (self.home / "file").write_text("")
        for directory in ("file", "file/below", ""):
            rc, out, err = self.muster("run", "--trace", directory, "true", cwd=self.home)
            self.assertEqual((rc, out), (2, b""), err)
            self.assertRegex(err.decode(), r"\Amuster run: .*trace.*\n\Z")

    def test_the_table_at_the_end(self):
        rc, out, err = self.muster("run", "-n", 2, "--prof", RANK, "none")
        self.assertEqual(rc, 0, err)
        self.assertRegex(out.decode(), r"barrier")


class TheLibrary(FlightTest):
    """What the ranks write themselves."""

    def stall(self, how="stall", **more):
        run = self.begin("run", "-n", 3, RANK, how, **more)
        self.assertEqual(sorted(run.out() for _ in range(2)), ["[0] MST_ERR_STALLED", "[1] MST_ERR_STALLED"])
        return run

    def test_an_operation_that_ends_the_group(self):
        self.trace.mkdir(parents=True)
        run = self.stall(env={"MUSTER_TRACE": str(self.trace)})
        self.assertEqual(self.flights(), ["rank-0.flight.json", "rank-1.flight.json"])
        flight = self.flight(1)
        self.assertEqual((flight["version"], flight["rank"], flight["size"], flight["error"], flight["culprit"]),
                         (1, 1, 3, "MST_ERR_STALLED", 2))
        self.assertRegex(flight["reason"], r"^MST_ERR_STALLED: .*: rank 2\b")
        self.assertEqual([(op["name"], op["seq"]) for op in flight["operations"]],
                         [("barrier", 1), ("recv", 0), ("barrier", 2), ("all_reduce", 3)])  # not the one right after it
        op = flight["operations"][-1]
        self.assertEqual((op["state"], op["failed"], op["count"], op["dtype"], op["group_name"], op["group_size"],
                          op["function"]), ("done", True, 16, "f32", "world", 3, "step"))
        self.assertRegex(op["site"], r"^flight_rank\.c:\d+$")
        self.assertNotIn("failed", flight["operations"][0])
        begins = [o["begin_us"] for o in flight["operations"]]
        self.assertEqual(begins, sorted(begins))
        self.assertGreater(flight["now_us"] - begins[-1], 290e3)
        run.send(signal.SIGTERM)
        run.finish()

    def test_a_work_that_ends_the_group(self):
        """The file is there when mst_wait returns, though another thread may have written it."""
        self.trace.mkdir(parents=True)
        run = self.stall("stall_work", env={"MUSTER_TRACE": str(self.trace)})
        self.assertEqual(self.flights(), ["rank-0.flight.json", "rank-1.flight.json"])
        self.assertEqual((self.flight(0)["culprit"], self.last(self.flight(0))), (2, ("all_reduce", 3, "done")))
        run.send(signal.SIGTERM)
        run.finish()

    def test_a_group_that_ended(self):
        """Its receive is over, and belongs to no other group."""
        path = self.home / "mine.json"
        rc, _, err = self.muster("run", "-n", 2, RANK, "leave", str(path))
        self.assertEqual(rc, 0, err)
        flight = json.loads(path.read_text())
        groups = {g.get("name"): g for g in flight["groups"]}
        self.assertEqual({name: g.get("gone", False) for name, g in groups.items()}, {"world": False, "pair": True, "next": False})
        (op,) = (op for op in flight["operations"] if op["name"] == "irecv")
        self.assertEqual((op["group_name"], op["group_gone"], op["state"], op["failed"], op["peer"], op["tag"], op["dir"], op["seq"]),
                         ("pair", True, "done", True, 1, 4, "recv", 0))
        self.assertNotEqual(groups["pair"]["id"], groups["next"]["id"])

    def test_no_directory_no_file(self):
        run = self.stall(cwd=self.home)
        run.send(signal.SIGTERM)
        run.finish()
        self.assertEqual(list(self.home.iterdir()), [])

    def test_wrong_arguments_leave_none(self):
        rc, _, err = self.muster("run", "-n", 2, "--trace", str(self.trace), RANK, "invalid")
        self.assertEqual(rc, 0, err)
        self.assertEqual(self.flights(), [])

    def test_a_file_that_cannot_be_written(self):
        """It is said once, and the error is what it was."""
        self.trace.mkdir(parents=True)
        for rank in range(2):
            (self.trace / f"rank-{rank}.flight.json").mkdir()
        run = self.stall(env={"MUSTER_TRACE": str(self.trace)})
        run.send(signal.SIGTERM)
        _, _, err = run.finish()
        self.assertEqual(len(re.findall(r"\[0\].*cannot write the flight recorder to", err)), 1, err)

    def test_asked_for_by_the_program(self):
        path = self.home / "mine.json"
        rc, out, err = self.muster("run", "-n", 2, RANK, "dump", str(path))
        self.assertEqual(rc, 0, err)
        flight = json.loads(path.read_text())
        self.assertEqual((flight["rank"], flight["size"]), (0, 2))
        self.assertEqual([op["name"] for op in flight["operations"]], ["barrier", "send", "barrier"])
        self.assertEqual(flight["operations"][1]["peer"], 1)
        self.assertNotIn("reason", flight)
        self.assertIn("cannot write '/nowhere/at/all': No such file", out.decode())
        self.assertEqual([p.name for p in self.home.iterdir()], ["mine.json"])

    def test_repeated_calls_record_the_same_count(self):
        path = self.home / "mine.json"
        rc, _, err = self.muster("run", "-n", 2, RANK, "repeat", str(path))
        self.assertEqual(rc, 0, err)
        repeated = [op for op in json.loads(path.read_text())["operations"] if op["name"] == "reduce_scatter_tensor"]
        self.assertEqual([op["count"] for op in repeated], [8] * 5)

    def test_asked_for_when_there_is_nothing(self):
        rc, out, err = self.muster("run", RANK, "early", str(self.home / "x"))
        self.assertEqual(rc, 0, err)
        self.assertIn("has recorded nothing", out.decode())


class AfterAFailure(FlightTest):
    def test_a_rank_that_was_killed(self):
        rc, _, err = self.muster("run", "-n", 3, "--trace", str(self.trace), RANK, "die")
        self.assertEqual(rc, 137, err)
        self.assertIn(f"\n  flight recorder: muster report {self.trace}\n", err.decode())
        self.assertEqual(len(self.flights()), 3)
        dead, other = self.flight(2), self.flight(0)
        self.assertRegex(dead["reason"], r"^rank 2 \(pid \d+\) was ended by SIGKILL")
        self.assertEqual(self.last(dead), ("barrier", 2, "done"))
        self.assertRegex(other["reason"], "^MST_ERR_PEER_LOST: ")
        self.assertEqual((other["culprit"], self.last(other)), (2, ("all_reduce", 3, "done")))

    def test_a_job_that_was_interrupted(self):
        run = self.begin("run", "-n", 2, "--trace", str(self.trace), RANK, "hang")
        run.out(), run.out()
        wait_until(lambda: self.waits(run, 0), "rank 0 waits")
        run.send(signal.SIGTERM)
        self.assertEqual(run.finish()[0], 143)
        self.assertEqual(self.last(self.flight(0))[:2], ("all_reduce", 3))
        self.assertEqual(self.last(self.flight(1)), ("barrier", 2, "done"))

    def waits(self, run, rank):
        """Whether the rank has begun its all_reduce, as the launcher says."""
        run.send(signal.SIGUSR2)
        wait_until(lambda: (self.trace / f"rank-{rank}.flight.json").exists(), "the file is there")
        return self.last(self.flight(rank))[0] == "all_reduce"

    def test_files_of_another_run_are_gone(self):
        self.muster("run", "-n", 3, "--trace", str(self.trace), RANK, "die")
        self.assertEqual(len(self.flights()), 3)
        rc, _, err = self.muster("run", "-n", 3, "--trace", str(self.trace), RANK, "none")
        self.assertEqual((rc, self.flights()), (0, []), err)

    def test_without_a_directory_the_report_is_as_ever(self):
        _, _, err = self.muster("run", "-n", 2, RANK, "die", cwd=self.home)
        self.assertNotIn("flight recorder", err.decode())
        self.assertEqual(list(self.home.iterdir()), [])

    def test_a_directory_of_the_environment(self):
        self.trace.mkdir(parents=True)
        for options, n in (["--no-env"], 0), ([], 2), (["--env", f"MUSTER_TRACE={self.home}"], 2):
            self.muster("run", "-n", 2, *options, RANK, "die", env={"MUSTER_TRACE": str(self.trace)})
            self.assertEqual(len(self.flights()), n, options)
        self.assertEqual(len(self.flights(self.home)), 2)

    def test_a_program_without_muster(self):
        rc, _, err = self.muster("run", "-n", 2, "--trace", str(self.trace), "false")
        self.assertEqual((rc, self.flights()), (1, []), err)


class Asked(FlightTest):
    """SIGUSR2."""

    def ask(self, run, n, verdict):
        """What it says until it says verdict: the ranks may not be there yet."""
        while True:
            run.send(signal.SIGUSR2)
            said = [run.err() for _ in range(1 + n)]
            said.append(run.err())
            if re.search(verdict, said[-1]):
                return said

    def test_who_is_behind(self):
        run = self.begin("run", "-n", 3, "--trace", str(self.trace), RANK, "hang")
        for _ in range(3):
            run.out()
        said = self.ask(run, 3, r"ranks 0, 1 have been waiting")
        self.assertEqual(said[0], f"muster run: the flight recorders of 3 ranks: muster report {self.trace}")
        for rank in (0, 1):
            self.assertRegex(said[1 + rank], rf"^muster run: rank {rank}: in mst_all_reduce #3 of world \(3 ranks\), 16 f32, "
                                             r"at flight_rank\.c:\d+ \(step\), for \d+\.\d+ s$")
        self.assertRegex(said[3], r"^muster run: rank 2: last operation was mst_barrier #2 of world \(3 ranks\), at flight_rank\.c:\d+ "
                                  r"\(begin\), returned \d+\.\d+ s ago$")
        self.assertRegex(said[4], r"^muster run: rank 2 is behind: it has not reached mst_all_reduce #3 of world, in which "
                                  r"ranks 0, 1 have been waiting for \d+\.\d+ s \(flight_rank\.c:\d+\); its last operation was mst_barrier #2 ")
        self.assertEqual(self.last(self.flight(0))[:2], ("all_reduce", 3))
        self.assertIn(self.last(self.flight(0))[2], ("started", "queued"))
        run.send(signal.SIGTERM)
        self.assertEqual(run.finish()[0], 143)

    def test_a_member_that_has_called_nothing(self):
        run = self.begin("run", "-n", 3, "--trace", str(self.trace), RANK, "group")
        for _ in range(3):
            run.out()
        said = self.ask(run, 3, r"ranks 0, 1 have been waiting")
        self.assertRegex(said[4], r"^muster run: rank 2 is behind: it has not reached mst_barrier #1 of group 'sub', in which ranks 0, 1 have been waiting")
        self.assert_report_says(said[4])
        run.send(signal.SIGTERM)
        run.finish()

    def assert_report_says(self, line):
        """The same, of the files."""
        rc, out, err = self.muster("report", str(self.trace))
        self.assertEqual(rc, 0, err)
        spans = re.compile(r"\d+\.\d+ s")
        self.assertEqual(spans.sub("T", out.decode().splitlines()[0].rstrip(".").lower()),
                         spans.sub("T", line.removeprefix("muster run: ").lower()))

    def test_a_message_that_was_not_sent(self):
        run = self.begin("run", "-n", 2, "--trace", str(self.trace), RANK, "messages")
        run.out(), run.out()
        said = self.ask(run, 2, r"mst_recv #1 from rank 0 with tag 5 of world, in which rank 1 has been waiting")
        self.assertRegex(said[3], r"^muster run: rank 0 is behind: it has not reached mst_recv #1 from rank 0 with tag 5 of world, in which rank 1 has been waiting")
        self.assert_report_says(said[3])
        sends = [(op["tag"], op["seq"], op["dir"]) for op in self.flight(0)["operations"] if op["name"] == "send"]
        self.assertEqual(sends, [(0, 0, "send"), (5, 0, "send"), (6, 0, "send"), (6, 1, "send")])
        run.send(signal.SIGTERM)
        run.finish()

    def test_without_a_directory(self):
        run = self.begin("run", "-n", 2, RANK, "hang", cwd=self.home)
        run.out(), run.out()
        said = self.ask(run, 2, r"rank 0 has been waiting")
        directory = f"muster-flight.{run.process.pid}"
        self.assertIn(f"of 2 ranks: muster report {directory}", said[0])
        self.assertRegex(said[2], r"rank 1: last operation was .*, begun \d+\.\d+ s ago, has returned$")  # nobody looked at the clock
        self.assertEqual(len(self.flights(self.home / directory)), 2)
        run.send(signal.SIGTERM)
        run.finish()

    def test_ranks_are_not_disturbed(self):
        script = "trap 'echo got' USR2; echo up; read line; echo went on"
        run = self.begin("run", "-n", 1, "sh", "-c", script, cwd=self.home, stdin=-1)
        run.out()
        run.send(signal.SIGUSR2)
        self.assertIn("no rank of this node has recorded anything", run.err())
        run.process.stdin.write(b"x\n")
        self.assertEqual(run.out(), "[0] went on")
        self.assertEqual((run.finish()[0], list(self.home.iterdir())), (0, []))

    def test_on_a_wish_it_ends_the_job(self):
        run = self.begin("run", "--signals-to-handle", "USR2,TERM", "sh", "-c", "echo up; sleep 60", cwd=self.home)
        run.out()
        run.send(signal.SIGUSR2)
        self.assertEqual(run.finish()[0], 128 + signal.SIGUSR2)
        self.assertEqual(list(self.home.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
