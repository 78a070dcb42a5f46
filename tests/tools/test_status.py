"""muster status: what it shows of running, hung, stopped, dying and starting jobs, on one node, on several, and without a launcher."""

import json
import os
import signal
import socket
import time

from harness import MUSTER, Gate, RanksTest, ToolTest, main, wait_until
from test_run_nodes import NodesTest

RANK = os.path.join(os.path.dirname(MUSTER), "tests", "flight_rank")
SLEEP = "while :; do sleep 0.1; done"


class StatusTest(ToolTest):
    def text(self, *job, rc=0):
        status, out, err = self.muster("status", *job)
        self.assertEqual(status, rc, (out, err))
        return (out if rc == 0 else err).decode()

    def status(self, job):
        return json.loads(self.text("--json", job))

    def states(self, job):
        """The states of the ranks; none while the job is not known yet."""
        rc, out, _ = self.muster("status", "--json", job)
        return [rank["state"] for rank in json.loads(out).get("ranks", [])] if rc == 0 else []

    def shows(self, job, *states):
        """Waits until the ranks have these states; what is shown then."""
        wait_until(lambda: self.states(job) == list(states), f"{states}")
        return self.status(job)


class OneNode(StatusTest):
    def hang(self, *options, n=3):
        run = self.begin("run", "-n", n, *options, RANK, "hang")
        self.assertEqual({run.out() for _ in range(n)}, {f"[{r}] ready" for r in range(n)})
        return run

    def test_ranks_that_wait_and_the_late_one(self):
        name = f"job.{os.getpid()}"
        run = self.hang("--rdzv-id", name)
        shown = self.shows(run.pid, "waiting", "waiting", "computing")
        first, late = shown["ranks"][0], shown["ranks"][2]
        self.assertEqual((first["waits_for"], first["call"], first["sequence"]), (2, "mst_all_reduce", 3))
        self.assertRegex(first["site"], r"^flight_rank\.c:\d+$")
        self.assertGreaterEqual(first["in_call_s"], 1)
        self.assertGreaterEqual(first["age_s"], first["in_call_s"])
        self.assertTrue(late["awaited"])
        self.assertLess(late["operations"], first["operations"])
        self.assertGreaterEqual(late["last_operation_s"], 1)
        self.assertRegex(shown["diagnosis"], r"^Rank 2 is behind: it has not reached mst_all_reduce #3 of world, .*\.$")
        for job in (run.pid, name, shown["address"]):
            text = self.text(job)
            self.assertRegex(text, rf"^job {name} at \S+: 3 ranks, 1 of 1 nodes, attempt 0, running\n")
            self.assertRegex(text, r"(?m)^ +0 .* waiting .* in mst_all_reduce #3 of world .*; waits for rank 2$")
            self.assertRegex(text, r"(?m)^! +2 .* computing .*other ranks wait for it$")
            self.assertRegex(text, r"(?m)^Rank 2 is behind: ")

    def test_groups_and_messages(self):
        for how, n, states, diagnosis in (
                ("group", 3, ("waiting", "waiting", "computing"), r"^Rank 2 is behind: it has not reached mst_barrier #1 of group 'sub', "),
                ("messages", 2, ("computing", "waiting"), r"^Rank 0 is behind: it has not reached mst_recv #1 from rank 0 with tag 5 "),
                ("stall", 2, ("computing", "computing"), None)):
            with self.subTest(how):
                run = self.begin("run", "-n", n, RANK, how)
                run.out()
                shown = self.shows(run.pid, *states)
                if diagnosis:
                    self.assertRegex(shown["diagnosis"], diagnosis)
                else:
                    self.assertRegex(shown["ranks"][0]["error"], "^MST_ERR_STALLED: ")
                run.process.terminate()
                run.finish()

    def test_a_stopped_rank(self):
        run = self.hang()
        pid = self.status(run.pid)["ranks"][1]["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.shows(run.pid, "waiting", "stopped", "computing")
        self.assertRegex(self.text(run.pid), r"(?m)^! +1 .* stopped ")
        os.kill(pid, signal.SIGCONT)
        self.shows(run.pid, "waiting", "waiting", "computing")

    def test_without_flight_recorders(self):
        run = self.hang("--env", "MUSTER_FLIGHT=0")
        shown = self.shows(run.pid, "in call", "in call", "computing")
        self.assertEqual(shown["ranks"][0]["call"], "mst_all_reduce")
        self.assertNotIn("operations", shown["ranks"][0])

    def test_a_rank_that_does_not_join(self):
        run = self.begin("run", "-n", 2, "sh", "-c", f'test $RANK = 0 && exec {RANK} hang; {SLEEP}')
        shown = self.shows(run.pid, "joining", "starting")
        self.assertEqual((shown["ranks"][0]["call"], shown["ranks"][0]["in_call"]), ("mst_init", True))

    def test_ranks_that_have_ended(self):
        with Gate() as death, Gate() as failure:
            ends = f"0) exit 0;; 1) read x <{death.path}; kill -9 $$;; 2) read x <{failure.path}; exit 3;;"
            run = self.begin("run", "-n", 4, "--shutdown-timeout", 600, "sh", "-c", f'trap "" TERM; case $RANK in {ends} esac; {SLEEP}')
            self.shows(run.pid, "exited 0", "starting", "starting", "starting")
            death.open()
            shown = self.shows(run.pid, "exited 0", "killed SIGKILL", "starting", "starting")
            self.assertEqual(shown["ranks"][1]["exit_signal"], 9)
            self.assertIn("was ended by SIGKILL", shown["ranks"][1]["error"])
            failure.open()
            shown = self.shows(run.pid, "exited 0", "killed SIGKILL", "exited 3", "starting")
            self.assertEqual(shown["ranks"][2]["exit_code"], 3)
            self.assertRegex(self.text(run.pid), r"attempt 0, stopping\n")

    def test_after_a_restart(self):
        program = f"test $TORCHELASTIC_RESTART_COUNT = 0 && exit 1; {SLEEP}"
        run = self.begin("run", "--max-restarts", 1, "sh", "-c", program)
        while not run.err().endswith("restart 1 of 1"):
            pass
        self.assertEqual(self.shows(run.pid, "starting")["generation"], 1)

    def test_watching(self):
        run = self.hang()
        watch = self.begin("status", "--json", "--watch", 0.1, run.pid)
        for _ in range(3):
            self.assertEqual(json.loads(watch.out())["world_size"], 3)
        run.process.terminate()
        run.finish()
        rc, _, err = watch.finish()
        self.assertEqual((rc, err), (0, ""))

    def test_many_requests_do_no_harm(self):
        run = self.hang()
        host, port = self.status(run.pid)["address"].split(":")
        rc, _, err = self.muster("store", "append", "--host", host, "-p", port, "muster/status/asked", "?" * 5000)
        self.assertEqual(rc, 0, err)
        self.shows(run.pid, "waiting", "waiting", "computing")
        self.assertLess(self.cpu_ms(run.pid, 0.5), 100)
        run.process.terminate()
        self.assertEqual(run.finish()[0], 128 + signal.SIGTERM)

    @staticmethod
    def cpu_ms(pid, seconds):
        """Processor time that the process uses meanwhile."""
        def used():
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                return sum(map(int, stat.read().rpartition(")")[2].split()[11:13])) * 1000 / os.sysconf("SC_CLK_TCK")
        before = used()
        time.sleep(seconds)
        return used() - before

    def test_a_stopped_launcher(self):
        run = self.hang()
        os.kill(run.pid, signal.SIGSTOP)
        try:
            self.assertIn("before the timeout", self.text("--timeout", 0.5, run.pid, rc=3))
        finally:
            os.kill(run.pid, signal.SIGCONT)
        self.shows(run.pid, "waiting", "waiting", "computing")

    def test_several_jobs_are_listed(self):
        names = [f"listed-{os.getpid()}-{i}" for i in (0, 1, 1)]
        runs = [self.hang("--rdzv-id", name, n=1) for name in names]
        text = self.text()
        listed = json.loads(self.text("--json"))["jobs"]
        for name, run in zip(names, runs):
            self.assertRegex(text, rf"(?m)^ *{run.pid}  127\.0\.0\.1:\d+ +{name} +\S*flight_rank hang$")
            self.assertIn((run.pid, name), [(job["pid"], job["run"]) for job in listed])
        same = json.loads(self.text("--json", names[1]))["jobs"]
        self.assertEqual(sorted(job["pid"] for job in same), sorted(run.pid for run in runs[1:]))
        self.assertEqual(self.status(names[0])["run"], names[0])
        rc, out, _ = self.muster("__complete", "status", names[0][:-1])
        self.assertEqual((rc, {line.split("\t")[0] for line in out.decode().splitlines()}), (0, set(names)))

    def test_jobs_of_other_users(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        run = self.hang()
        rc, _, err = self.muster("status", run.pid, user=65534, preexec_fn=None)
        self.assertEqual(rc, 1, err)
        self.assertRegex(err.decode(), rf"no launcher of this user on this host runs job {run.pid}; give HOST:PORT")


class Wrong(StatusTest):
    def test_jobs_that_do_not_exist(self):
        self.assertRegex(self.text("no-such-job", rc=1), r"no launcher of this user on this host runs job no-such-job; give HOST:PORT")
        self.assertRegex(self.text(os.getpid(), rc=1), r"no launcher of this user on this host runs job \d+")
        self.assertRegex(self.text("a:b", rc=1), r"a job is HOST:PORT, a pid or a name, not 'a:b'")
        self.assertRegex(self.text("a", "b", rc=2), r"takes one job, not 2")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            self.assertIn(str(port), self.text("-t", 0.2, f"127.0.0.1:{port}", rc=1))

    def test_a_server_that_is_no_store(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.assertIn("muster status: ", self.text("-t", 0.3, f":{server.getsockname()[1]}", rc=3))


class Stores(RanksTest):
    """Stores that no launcher serves."""

    def status(self, port, *options):
        rc, out = self.run_tool("status", *options, f"127.0.0.1:{port}")
        self.assertEqual(rc, 0, out)
        return out

    def set(self, port, key, value):
        self.assertEqual(self.run_tool("store", "set", "-p", port, key, value)[0], 0)

    def test_members_and_lost_ranks(self):
        _, port = self.serve()
        self.assertRegex(self.status(port), r"no launcher: the calls are not known\nno rank has joined")
        port = self.free_port()  # of a store that rank 0 hosts
        ranks = [self.tcp(r, 3, f"tcp://127.0.0.1:{port}", "init", "hold") for r in (0, 1)]
        self.joined(f"tcp://127.0.0.1:{port}", 0, 1)
        text = self.status(port)
        self.assertRegex(text, r"world muster/\S+/1/: \d of 3 ranks have joined\n")
        self.assertRegex(text, r"(?m)^ +2 .* missing$")
        ranks.append(self.tcp(2, 3, f"tcp://127.0.0.1:{port}", "init", "hold"))
        for rank in ranks:
            self.assert_ok(rank.step("init"))
        ranks[1].kill()
        states = lambda: [r["state"] for r in json.loads(self.status(port, "--json"))["worlds"][0]["ranks"]]
        wait_until(lambda: states() == ["joined", "died", "joined"], "the death of rank 1")
        self.assertRegex(self.status(port), rf"(?m)^ +0 +\S+ +{ranks[0].pid}  joined$")
        keys = self.keys(f"tcp://127.0.0.1:{port}")
        self.assertFalse([key for key in keys if "status" in key], "nothing is left in a store without launchers")

    def test_a_launcher_that_does_not_answer(self):
        _, port = self.serve()
        self.set(port, "muster/launch/hosts", "run 0 2 a\n")  # as earlier versions write it
        self.assertIn("or it is of a version that does not answer: the calls are not known\n", self.status(port))
        self.set(port, "muster/launch/ended", "")
        self.assertIn(": the job has ended\n", self.status(port))

    def test_answers_that_cannot_be_read(self):
        _, port = self.serve()
        self.set(port, "muster/status/launchers", "+1 other\n+2 garbage\n+3 away\n-3\n")
        answer = {"format": 2, "muster": "9.9", "asked": 1 << 40, "run": "r", "pid": 1, "phase": "running", "generation": 0,
                  "nodes": 1, "world_size": 2, "first_rank": 0, "local_world_size": 2, "ranks": [{"rank": 0, "phase": "joined"}]}
        self.set(port, "muster/status/node/1", json.dumps(answer))
        for garbage in ("{", "[]", json.dumps({**answer, "format": 1, "world_size": -1}), "\x01"):
            self.set(port, "muster/status/node/2", garbage)
            text = self.status(port)
            self.assertIn("the launcher on host other is muster 9.9, whose answers this version cannot read\n", text)
            self.assertRegex(text, r"(?m)^ +0  other .* unknown ")
            self.assertIn("the launcher on host garbage does not answer", text)
            self.assertIn("the launcher on host away has gone\n", text)
        self.set(port, "muster/status/node/1", json.dumps({**answer, "format": 1, "ranks": [
            {"rank": 7}, {"rank": 1, "pid": 5, "phase": "joined\x1b[2J", "flight": {"version": 1, "rank": 0}}, 3]}))
        text = self.status(port)
        self.assertNotIn("\x1b", text)
        self.assertRegex(text, r"(?m)^ +0  other .* ended ")


class SeveralNodes(NodesTest, StatusTest):
    def test_ranks_of_two_nodes(self):
        first = self.coordinator(RANK, "hang", n=2)
        wait_until(lambda: "has not started its ranks yet" in self.text(self.endpoint()), "the first node waits")
        second = self.node(RANK, "hang", n=1)
        shown = self.shows(self.endpoint(), "waiting", "waiting", "computing")
        self.assertEqual([rank.get("waits_for") for rank in shown["ranks"]], [2, 2, None])
        self.assertEqual({node["pid"] for node in shown["nodes"]}, {first.pid, second.pid})
        self.assertRegex(self.text(second.pid), r"(?m)^job \S+ at \S+: 3 ranks, 2 of 2 nodes")
        os.kill(second.pid, signal.SIGSTOP)
        try:
            self.shows(self.endpoint(), "waiting", "waiting", "no answer")
            self.assertRegex(self.text(first.pid), r"the launcher on host \S+ does not answer")
        finally:
            os.kill(second.pid, signal.SIGCONT)
        self.shows(self.endpoint(), "waiting", "waiting", "computing")

    def test_a_node_whose_ranks_have_ended(self):
        self.coordinator("sh", "-c", SLEEP)
        self.node("true")
        self.shows(self.endpoint(), "starting", "ended")

    def test_a_node_that_is_lost(self):
        self.coordinator("--rdzv-conf", "last_call_timeout=600", "sh", "-c", SLEEP, nnodes="1:2")
        second = self.node("sh", "-c", SLEEP, nnodes="1:2")
        self.shows(self.endpoint(), "starting", "starting")
        second.kill()
        shown = self.shows(self.endpoint(), "starting")
        self.assertEqual((shown["generation"], [node["gone"] for node in shown["nodes"]].count(True)), (1, 1))


if __name__ == "__main__":
    main(at_once=3)
