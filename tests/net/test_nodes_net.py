"""Launchers in three network namespaces: nodes that are cut off, killed and restarted.

The ranks of different namespaces count as ranks of different hosts (MUSTER_FORCE_HOST), so what they exchange goes
over the network, too.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from harness import DEADLINE, MUSTER, SLOWER, ToolProcess, ToolTest, default_signals, is_alive, wait_until
from test_netns import NAMES, open_namespaces

PORT = 29400
BUILD = os.environ.get("MUSTER_BUILD_DIR", "build")
LOOP = os.path.join(BUILD, "bin", "tests", "faults")
HANG = os.path.join(BUILD, "bin", "tests", "flight_rank")
SHOW = 'echo "$RANK/$WORLD_SIZE try $TORCHELASTIC_RESTART_COUNT"'
SILENCE = 3  # seconds


class NodesInNamespaces(ToolTest):
    def setUp(self):
        super().setUp()
        self.spaces = open_namespaces()
        self.addCleanup(self.spaces.close)

    def node(self, space, *args, nnodes=3, n=1):
        command = [*self.spaces.inside(space), MUSTER, "run", "--nnodes", str(nnodes), "-n", str(n)]
        command += ["--rdzv-endpoint", f"10.77.0.1:{PORT}", *map(str, args)]
        env = self.environment({"MUSTER_FORCE_HOST": space, "MUSTER_TCP_TIMEOUT_S": str(SILENCE)})
        process = subprocess.Popen(
            command,
            env=env,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=default_signals,
        )
        self.processes.append(process)
        return ToolProcess(process)

    def nodes(self, *args, **options):
        return [self.node(space, *args, **options) for space in NAMES]

    def cut(self, space):
        self.spaces.ip("hub", f"link set {space}0 down")

    def mend(self, space):
        self.spaces.ip("hub", f"link set {space}0 up")

    def statuses(self, nodes):
        results = [node.finish() for node in nodes]
        return [r[0] for r in results], results

    def test_ranks_of_three_hosts_compute_together(self):
        nodes = self.nodes(os.path.join(BUILD, "bin", "examples", "05_data_parallel"), n=2)
        statuses, results = self.statuses(nodes)
        self.assertEqual(statuses, [0, 0, 0], results)
        models = {line.split("model")[1] for r in results for line in r[1].splitlines() if "my model" in line}
        self.assertEqual(len(models), 1)

    def test_status_from_another_host(self):
        nodes = [self.node(space, HANG, "hang", nnodes=2) for space in "ab"]

        def status(*options):
            command = [*self.spaces.inside("c"), MUSTER, "status", *options, f"10.77.0.1:{PORT}"]
            done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=60, check=False)
            return done.stdout

        def states():
            out = status("--json")
            return [rank["state"] for rank in json.loads(out).get("ranks", [])] if out else []

        wait_until(lambda: states() == ["waiting", "computing"], "rank 0 waits")
        self.assertRegex(status(), r"(?m)^ +0 .* waits for rank 1$")
        for node in nodes:
            node.process.terminate()
            node.finish()

    def test_nodes_wait_until_the_port_is_free(self):
        hold = f"import socket; s = socket.socket(); s.bind(('10.77.0.1', {PORT})); print('held', flush=True); input()"
        holder = subprocess.Popen(
            [*self.spaces.inside("a"), sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.addCleanup(holder.kill)
        self.assertEqual(holder.stdout.readline(), b"held\n")
        nodes = self.nodes("sh", "-c", SHOW)
        time.sleep(1)  # for so long the port is held
        holder.communicate(b"\n")
        statuses, results = self.statuses(nodes)
        self.assertEqual(statuses, [0, 0, 0], results)

    def test_connecting_does_not_occupy_the_port(self):
        """A client whose ephemeral port is the port of the store must not connect to itself."""
        few = f"echo {PORT} {PORT + 1} > /proc/sys/net/ipv4/ip_local_port_range"
        get = f"{few}; exec {MUSTER} store get --host 10.77.0.1 -p {PORT} -t 1 key"
        result = subprocess.run([*self.spaces.inside("a"), "sh", "-c", get], capture_output=True, text=True)
        self.assertRegex(result.stderr, f"10.77.0.1:{PORT} .Connection refused")
        bind = f"import socket; s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('10.77.0.1', {PORT})); s.listen()"
        subprocess.run([*self.spaces.inside("a"), sys.executable, "-c", bind], check=True)

    def test_node_that_is_cut_off_is_lost_on_both_sides(self):
        nodes = self.nodes("sh", "-c", f"{SHOW}; exec sleep 60")
        for node in nodes:
            self.assertIn("/3 try 0", node.out())
        self.cut("c")
        statuses, results = self.statuses(nodes)
        self.assertEqual(statuses, [1, 1, 1], results)
        self.assertRegex(results[0][2], r"\(pid \d+\) was lost; ending all ranks")
        self.assertRegex(results[1][2], "was lost")
        self.assertIn("the coordinator of the job was lost", results[2][2])

    def test_coordinator_that_is_cut_off_is_lost_on_both_sides(self):
        nodes = self.nodes("sh", "-c", f"{SHOW}; exec sleep 60")
        for node in nodes:
            self.assertIn("/3 try 0", node.out())
        since = time.monotonic()
        self.cut("a")
        statuses, results = self.statuses(nodes)
        self.assertLess(time.monotonic() - since, (SILENCE + 3) * SLOWER)
        self.assertEqual(statuses, [1, 1, 1], results)
        self.assertRegex(results[0][2], r"\(pid \d+\) was lost; ending all ranks")
        for place in (1, 2):
            self.assertRegex(results[place][2], "the coordinator of the job was lost.*its host does not answer")

    def test_ranks_of_a_host_that_is_cut_off(self):
        """The launchers and the ranks in a collective both detect it; every launcher ends."""
        nodes = self.nodes(LOOP, "loop", "all_reduce", "60000")
        for node in nodes:
            while "BEGIN" not in node.out():
                pass
        since = time.monotonic()
        self.cut("c")
        statuses, results = self.statuses(nodes)
        self.assertLess(time.monotonic() - since, (SILENCE + 4) * SLOWER)
        self.assertNotIn(0, statuses, results)

    @unittest.skipUnless(shutil.which("ss"), "needs ss")
    def test_reset_connections_harm_nobody(self):
        """Connections of launchers and of ranks to their stores are reset: the job goes on."""
        with tempfile.TemporaryDirectory() as place:
            flag = os.path.join(place, "enough")
            script = f"{SHOW}; until [ -e {flag} ]; do sleep 0.05; done; exec {os.path.join(BUILD, 'bin', 'examples', '05_data_parallel')}"
            nodes = self.nodes("sh", "-c", script)
            for node in nodes:
                self.assertIn("/3 try 0", node.out())
            command = [*self.spaces.inside("a"), "ss", "-K", "-n", "-t", "-H", "src", f"10.77.0.1:{PORT}"]
            out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE).stdout
            self.assertTrue(out)
            time.sleep(1.5)  # longer than a client may take to connect again
            pathlib.Path(flag).touch()
            statuses, results = self.statuses(nodes)
            self.assertEqual(statuses, [0, 0, 0], results)

    def test_job_goes_on_without_the_one_that_is_cut_off_and_takes_it_back(self):
        with tempfile.TemporaryDirectory() as place:
            flag = os.path.join(place, "enough")
            script = f'{SHOW}; until [ -e {flag} ]; do sleep 0.05; done'
            conf = ("--rdzv-conf", "last_call_timeout=10", "sh", "-c", script)
            nodes = self.nodes(*conf, nnodes="2:3")
            for node in nodes:
                self.assertIn("/3 try 0", node.out())
            self.cut("b")
            self.assertEqual(nodes[0].out(), "[0] 0/2 try 1")
            self.assertEqual(nodes[2].out(), "[1] 1/2 try 1")
            self.assertEqual(nodes[1].finish()[0], 1)
            self.mend("b")
            again = self.node("b", *conf, nnodes="2:3")
            self.assertEqual(nodes[0].out(), "[0] 0/3 try 2")
            self.assertEqual(again.out(), "[2] 2/3 try 2")
            pathlib.Path(flag).touch()
            self.assertEqual(self.statuses([nodes[0], nodes[2], again])[0], [0, 0, 0])

    def test_killed_node_comes_back(self):
        script = f"{SHOW}; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 60"
        args = ("--max-restarts", 1, "sh", "-c", script)
        nodes = self.nodes(*args)
        for node in nodes:
            self.assertIn("/3 try 0", node.out())
        nodes[1].send(signal.SIGKILL)
        nodes[1].finish()
        again = self.node("b", *args)
        self.assertEqual(self.statuses([nodes[0], nodes[2], again])[0], [0, 0, 0])

    def test_killed_coordinator(self):
        nodes = self.nodes("sh", "-c", "echo $$; exec sleep 60")
        workers = [int(node.out()[4:]) for node in nodes]
        nodes[0].send(signal.SIGKILL)
        statuses, results = self.statuses(nodes)
        self.assertEqual(statuses, [-9, 1, 1], results)
        wait_until(lambda: not any(map(is_alive, workers)), "no rank is left")

    def test_killed_rank_in_a_collective_is_named_by_all(self):
        nodes = self.nodes(LOOP, "loop", "all_reduce", "60000")
        for node in nodes:
            while "BEGIN" not in node.out():
                pass
        victim = self.child_of(nodes[1].pid)
        os.kill(victim, signal.SIGKILL)
        statuses, results = self.statuses(nodes)
        self.assertEqual(statuses, [137] * 3, results)
        self.assertIn(f"pid        {victim}", results[0][2])
        for place in (0, 2):
            self.assertRegex(results[place][1], rf"rank \d \(host .*, pid {victim}\) died")

    def child_of(self, launcher):
        """The only rank of a launcher, which also has its warden."""
        children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        ranks = [pid for pid in children if os.path.realpath(f"/proc/{pid}/exe") != os.path.realpath(MUSTER)]
        self.assertEqual(len(ranks), 1)
        return int(ranks[0])

    def test_kill_at_every_phase(self):
        """One node is killed, in each phase: the others end soon, and no process is left."""
        script = "echo up; exec sleep 60"
        for victim in range(3):
            for phase in ("coming", "running"):
                with self.subTest(victim=victim, phase=phase):
                    seconds = 3 if phase == "coming" else 40  # a node that was killed while coming is waited for
                    nodes = self.nodes("--rdzv-conf", f"join_timeout={seconds}", "sh", "-c", script)
                    if phase == "running":
                        for node in nodes:
                            node.out()
                    nodes[victim].send(signal.SIGKILL)
                    statuses, results = self.statuses(nodes)
                    self.assertEqual(statuses[victim], -9)
                    self.assertNotIn(0, statuses, results)
                    wait_until(lambda: not self.marked(), "nothing is left")


if __name__ == "__main__":
    unittest.main()
