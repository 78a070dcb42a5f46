"""muster run on several nodes: launchers that find each other, agree on ranks, restart and end together.

The nodes are launchers on this machine that use loopback; tests/net has them in network namespaces.
"""

import os
import pathlib
import random
import signal
import socket
import struct
import tempfile
import time
import unittest

from harness import Gate, ToolTest, is_alive, wait_until

SHOW = 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE node $GROUP_RANK/$GROUP_WORLD_SIZE try $TORCHELASTIC_RESTART_COUNT"'
BUILD = os.environ.get("MUSTER_BUILD_DIR", "build")


def free_port():
    """A free port below the ephemeral range, so that no outgoing connection of another process takes it meanwhile."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10000, low) if low > 10100 else 0
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return s.getsockname()[1]


class NodesTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.port = free_port()

    def endpoint(self):
        return f"127.0.0.1:{self.port}"

    def node(self, *args, nnodes=2, n=1, rank=None, **options):
        """A launcher; with a rank, as static nodes are started, else by endpoint."""
        where = (
            ["--rdzv-endpoint", self.endpoint()]
            if rank is None
            else ["--master-addr", "127.0.0.1", "--master-port", self.port, "--node-rank", rank]
        )
        return self.begin("run", "--nnodes", nnodes, *where, "-n", n, *args, **options)

    def coordinator(self, *args, **options):
        """The first node; returns once it listens, so that it is the coordinator."""
        node = self.node(*args, **options)
        wait_until(self.listens, "the coordinator listens")
        return node

    def notices(self):
        """The notices of the nodes so far."""
        return self.muster("store", "get", "-p", self.port, "muster/launch/notices")[1].decode()

    @staticmethod
    def handles(node, number):
        """Whether the launcher is past the time in which a signal would end it as any program."""
        status = pathlib.Path(f"/proc/{node.pid}/status").read_text()
        caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
        return int(caught, 16) >> (number - 1) & 1

    def listens(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def finish(self, *nodes):
        return [node.finish() for node in nodes]


class Rendezvous(NodesTest):
    def test_ranks_follow_node_ranks_in_any_order_of_arrival(self):
        script = ["sh", "-c", SHOW]
        two = self.node(*script, nnodes=3, n=1, rank=2)
        one = self.node(*script, nnodes=3, n=3, rank=1)
        zero = self.node(*script, nnodes=3, n=2, rank=0)
        results = self.finish(zero, one, two)
        self.assertEqual([r[0] for r in results], [0, 0, 0], results)
        lines = [sorted(r[1].splitlines()) for r in results]
        self.assertEqual(lines[0], [f"[{r}] {r}/6 {r}/2 node 0/3 try 0" for r in range(2)])
        self.assertEqual(lines[1], [f"[{r}] {r}/6 {r - 2}/3 node 1/3 try 0" for r in range(2, 5)])
        self.assertEqual(lines[2], ["[5] 5/6 0/1 node 2/3 try 0"])

    def test_the_launcher_that_can_listen_at_the_endpoint_is_the_coordinator(self):
        nodes = [self.node("sh", "-c", SHOW, nnodes=4) for _ in range(4)]
        results = self.finish(*nodes)
        self.assertEqual([r[0] for r in results], [0] * 4, results)
        self.assertEqual(sorted(r[1][:7] for r in results), [f"[{r}] {r}/4" for r in range(4)])

    def test_nodes_wait_until_the_port_of_a_connection_is_free(self):
        with socket.socket() as other, socket.socket() as local:
            other.bind(("127.0.0.1", 0))
            other.listen()
            local.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no TIME_WAIT
            local.bind(("127.0.0.1", self.port))
            local.connect(other.getsockname())
            nodes = [self.node("sh", "-c", SHOW) for _ in range(2)]
            time.sleep(2)  # for so long the port is held
        for status, out, err in self.finish(*nodes):
            self.assertEqual((status, err), (0, ""))
            self.assertIn("/2 0/1 node", out)

    def test_static_node_0_waits_until_the_port_of_a_connection_is_free(self):
        with socket.socket() as local:
            local.bind(("127.0.0.1", self.port))
            nodes = [self.node("sh", "-c", SHOW, rank=rank) for rank in range(2)]
            time.sleep(1)  # for so long the port is held
        self.assertEqual([r[0] for r in self.finish(*nodes)], [0, 0])

    def test_a_job_that_has_ended_is_not_joined(self):
        """The store of a job answers for some seconds after its end; launchers of the next job must not join it."""
        for ranks in ((None, None), (0, 1)):
            with self.subTest(ranks=ranks):
                old = self.begin("store", "serve", "-p", self.port)
                wait_until(self.listens, "the store listens")
                for key, value in (("job", "muster-run-2 old"), ("orders", "\nE 0 \n"), ("ended", "\n")):
                    self.assertEqual(self.muster("store", "set", "-p", self.port, f"muster/launch/{key}", value)[0], 0)
                nodes = [self.node("sh", "-c", SHOW, rank=rank) for rank in ranks]
                time.sleep(1)  # for so long the old job answers
                old.send(signal.SIGTERM)
                old.finish()
                for status, out, err in self.finish(*nodes):
                    self.assertEqual((status, err), (0, ""))
                    self.assertIn("/2 0/1 node", out)

    def test_interrupt_while_the_port_is_held(self):
        with socket.socket() as local:
            local.bind(("127.0.0.1", self.port))
            node = self.node("true")
            time.sleep(0.5)  # it has found the port taken by now
            node.send(signal.SIGINT)
            self.assertIn(node.finish()[0], (-signal.SIGINT, 130))

    def test_ranks_compute_together(self):
        program = os.path.join(BUILD, "bin", "examples", "05_data_parallel")
        results = self.finish(*[self.node(program, n=2) for _ in range(2)])
        self.assertEqual([r[0] for r in results], [0, 0], results)
        models = [line.split("model")[1] for r in results for line in r[1].splitlines() if "my model" in line]
        self.assertEqual(len(models), 4)
        self.assertEqual(len(set(models)), 1)

    def test_job_id_is_the_coordinators(self):
        show = ["sh", "-c", "echo $TORCHELASTIC_RUN_ID"]
        first = self.coordinator("--rdzv-id", "train-7", *show)
        other = self.node(*show)
        for status, out, err in self.finish(first, other):
            self.assertEqual((status, out[4:]), (0, "train-7\n"), err)

    def test_one_node_with_an_endpoint_is_alone(self):
        status, out, err = self.node("sh", "-c", SHOW + "; echo $MASTER_PORT", nnodes=1, n=1).finish()
        self.assertEqual((status, err), (0, ""))
        self.assertIn(str(self.port), out)

    def test_logs_of_nodes_do_not_mix(self):
        with tempfile.TemporaryDirectory() as logs:
            nodes = [self.node("--log-dir", logs, "--rdzv-id", "j", "sh", "-c", SHOW) for _ in range(2)]
            self.assertEqual([r[0] for r in self.finish(*nodes)], [0, 0])
            runs = os.listdir(logs)
            self.assertEqual(len(runs), 2)
            texts = [pathlib.Path(logs, run, "attempt_0", "0", "stdout.log").read_text() for run in runs]
            self.assertEqual(sorted(t.split()[0] for t in texts), ["0/2", "1/2"])


class Elastic(NodesTest):
    CONF = "last_call_timeout=0.3,join_timeout=40"
    ALL = "last_call_timeout=40,join_timeout=40"  # begins once all that there may be are there

    def test_goes_on_with_min_after_the_last_call(self):
        nodes = [self.node("--rdzv-conf", self.CONF, "sh", "-c", SHOW, nnodes="2:4") for _ in range(2)]
        for status, out, err in self.finish(*nodes):
            self.assertEqual(status, 0, err)
            self.assertIn("/2 0/1 node", out)

    def test_a_node_joins_while_others_run(self):
        with Gate() as gate:
            script = f'{SHOW}; [ $WORLD_SIZE = 3 ] || read x < {gate.path}'
            first = self.coordinator("--rdzv-conf", self.CONF, "sh", "-c", script, nnodes="2:3")
            second = self.node("--rdzv-conf", self.CONF, "sh", "-c", script, nnodes="2:3")
            self.assertIn("0/2", first.out())
            third = self.node("--rdzv-conf", self.CONF, "sh", "-c", script, nnodes="2:3")
            results = self.finish(first, second, third)
            self.assertEqual([r[0] for r in results], [0, 0, 0], results)
            self.assertIn("0/3 0/1 node 0/3 try 1", results[0][1])
            self.assertRegex(results[0][2], r"host .* joins; starting all ranks again with 3 nodes")

    def test_a_killed_node_is_done_without(self):
        with Gate() as gate:
            script = f'{SHOW}; [ $WORLD_SIZE = 2 ] || read x < {gate.path}'
            nodes = [self.coordinator("--rdzv-conf", self.ALL, "sh", "-c", script, nnodes="2:3")]
            nodes += [self.node("--rdzv-conf", self.ALL, "sh", "-c", script, nnodes="2:3") for _ in range(2)]
            for node in nodes:
                self.assertIn("/3", node.out())
            nodes[2].send(signal.SIGKILL)
            results = self.finish(*nodes)
            self.assertEqual([r[0] for r in results], [0, 0, -9], results)
            self.assertIn("0/2 0/1 node 0/2 try 1", results[0][1])
            self.assertIn(f"(pid {nodes[2].pid}) was lost; continuing with 2 nodes", results[0][2])

    def test_a_node_that_is_told_to_end_leaves(self):
        with Gate() as gate:
            script = f'{SHOW}; [ $WORLD_SIZE = 1 ] || read x < {gate.path}'
            first = self.coordinator("--rdzv-conf", self.ALL, "sh", "-c", script, nnodes="1:2")
            other = self.node("--rdzv-conf", self.ALL, "sh", "-c", script, nnodes="1:2")
            self.assertIn("0/2", first.out())
            self.assertIn("1/2", other.out())
            other.send(signal.SIGTERM)
            self.assertEqual(other.finish()[0], 128 + signal.SIGTERM)
            status, out, err = first.finish()
            self.assertEqual(status, 0, err)
            self.assertIn("0/1", out)
            self.assertRegex(err, "leaves; ending all ranks")


class Failures(NodesTest):
    def test_first_failure_ends_all_with_its_code_and_is_reported_by_the_coordinator(self):
        script = 'if [ $RANK = 2 ]; then echo broken >&2; exit 7; fi; exec sleep 60'
        first = self.coordinator("sh", "-c", script, n=2)
        other = self.node("sh", "-c", script, n=1)
        results = self.finish(first, other)
        self.assertEqual([r[0] for r in results], [7, 7], results)
        report = results[0][2]
        for part in ("root cause:", "rank       2 (local rank 0)", "exit code  7", "| broken"):
            self.assertIn(part, report)
        self.assertIn("exited with code 7; ending the other ranks", results[1][2])

    def test_all_start_again_together(self):
        script = f'{SHOW}; if [ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT -lt 2 ]; then exit 3; fi'
        nodes = [self.node("--max-restarts", 2, "sh", "-c", script) for _ in range(2)]
        results = self.finish(*nodes)
        self.assertEqual([r[0] for r in results], [0, 0], results)
        for _, out, _ in results:
            self.assertEqual([line.split("try ")[1] for line in out.splitlines()], ["0", "1", "2"])

    def test_restarts_run_out(self):
        nodes = [self.node("--max-restarts", 1, "sh", "-c", "exit 5") for _ in range(2)]
        self.assertEqual([r[0] for r in self.finish(*nodes)], [5, 5])

    def test_killed_node_fails_the_job(self):
        first = self.coordinator("sh", "-c", "echo here; exec sleep 60")
        other = self.node("sh", "-c", "echo here; exec sleep 60")
        first.out(), other.out()
        other.send(signal.SIGKILL)
        status, _, err = first.finish()
        self.assertEqual(status, 1)
        self.assertIn(f"(pid {other.pid}) was lost", err)

    def test_killed_node_that_comes_back_is_waited_for(self):
        script = f'{SHOW}; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 60'
        first = self.coordinator("--max-restarts", 1, "sh", "-c", script)
        other = self.node("--max-restarts", 1, "sh", "-c", script)
        first.out(), other.out()
        other.send(signal.SIGKILL)
        wait_until(lambda: "waiting 600 s for another" in first.err(), "the coordinator waits")
        again = self.node("--max-restarts", 1, "sh", "-c", script)
        results = self.finish(first, again)
        self.assertEqual([r[0] for r in results], [0, 0], results)

    def test_killed_coordinator_ends_the_others(self):
        first = self.coordinator("sh", "-c", "echo here; exec sleep 60")
        other = self.node("sh", "-c", "echo $$; exec sleep 60")
        first.out()
        worker = int(other.out()[4:])
        first.send(signal.SIGKILL)
        status, _, err = other.finish()
        self.assertEqual(status, 1)
        self.assertIn("the coordinator of the job was lost", err)
        self.assertFalse(is_alive(worker))

    def test_killed_worker_is_the_cause(self):
        first = self.coordinator("sh", "-c", "echo $$; exec sleep 60")
        other = self.node("sh", "-c", "echo $$; exec sleep 60")
        first.out()
        os.kill(int(other.out()[4:]), signal.SIGKILL)
        results = self.finish(first, other)
        self.assertEqual([r[0] for r in results], [137, 137], results)
        self.assertIn("signal     SIGKILL", results[0][2])

    def test_a_node_that_is_through_may_go(self):
        with Gate() as gate:
            script = f'echo up; if [ $RANK = 0 ]; then read x < {gate.path}; fi'
            first = self.coordinator("sh", "-c", script)
            other = self.node("sh", "-c", script)
            first.out(), other.out()
            wait_until(lambda: "\nS 1 0 -1 " in self.notices(), "the coordinator knows that its ranks have ended")
            other.send(signal.SIGKILL)
            other.finish()
            gate.open()
            self.assertEqual(first.finish()[0], 0)


class Absent(NodesTest):
    """A rank that does not join in time is named with its host."""

    SCRIPT = "[ $RANK = 1 ] && exec sleep 60; exec " + os.path.join(BUILD, "bin", "examples", "05_data_parallel")

    def test_on_one_node(self):
        env = {"MUSTER_INIT_TIMEOUT_MS": "2000"}
        status, _, err = self.muster("run", "-n", 3, "sh", "-c", self.SCRIPT, env=env)
        self.assertEqual(status, 1)
        self.assertIn(f"missing: rank 1 (host {socket.gethostname()})", err.decode())

    def test_on_another_node(self):
        env = {"MUSTER_INIT_TIMEOUT_MS": "2000"}
        nodes = [self.node("sh", "-c", self.SCRIPT, n=2, env=env) for _ in range(2)]
        results = self.finish(*nodes)
        self.assertEqual([r[0] for r in results], [1, 1], results)
        for _, _, err in results:
            self.assertIn(f"missing: rank 1 (host {socket.gethostname()})", err)


class Strangers(NodesTest):
    """Somebody else writes to the store in which the launchers meet."""

    def append(self, log, text):
        status, _, err = self.muster("store", "append", "-p", self.port, f"muster/launch/{log}", "-", data=text.encode())
        self.assertEqual(status, 0, err)

    def test_half_a_line_costs_neither_time_nor_the_next(self):
        first = self.coordinator("sh", "-c", "echo up; exec sleep 60")
        with Gate() as gate:
            other = self.node("sh", "-c", f"echo up; read x < {gate.path}; exit 5")
            first.out(), other.out()
            self.append("notices", "half")
            self.append("orders", "G 1")
            before = self.ticks(first.pid) + self.ticks(other.pid)
            time.sleep(0.5)  # of which they must use next to nothing
            self.assertLess(self.ticks(first.pid) + self.ticks(other.pid) - before, 20)
            gate.open()
            self.assertEqual([r[0] for r in self.finish(first, other)], [5, 5])

    @staticmethod
    def ticks(pid):
        """Hundredths of a second of processor time so far."""
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def test_orders_that_make_no_sense_are_not_obeyed(self):
        first = self.coordinator("sh", "-c", "echo up; sleep 0.5")
        other = self.node("sh", "-c", "echo up; sleep 0.5")
        first.out(), other.out()
        self.append("orders", "\nG 7 1 1 1:0:1\nG 0 2 2 0:0:1 1:1:1\nG 9 5 1 1:0:5\n")
        self.assertEqual([r[:2] for r in self.finish(first, other)], [(0, ""), (0, "")])

    def test_a_false_end_is_noticed(self):
        first = self.coordinator("sh", "-c", "echo up; exec sleep 60")
        other = self.node("sh", "-c", "echo up; exec sleep 60")
        first.out(), other.out()
        self.append("orders", "\nE 0 \n")
        self.assertEqual(other.finish()[0], 0)
        status, _, err = first.finish()
        self.assertEqual(status, 1, err)
        self.assertIn("leaves", err)

    def test_texts_are_harmless(self):
        first = self.coordinator("sh", "-c", "echo up; exec sleep 60")
        other = self.node("sh", "-c", "echo up; exec sleep 60")
        first.out(), other.out()
        self.append("orders", "\nE 7 red \033[31m\n")
        status, _, err = other.finish()
        self.assertEqual(status, 7)
        self.assertIn("red ?[31m", err)
        first.send(signal.SIGTERM)
        first.finish()


class Interrupts(NodesTest):
    def test_interrupt_of_the_coordinator_reaches_all_ranks(self):
        script = "trap 'echo asked; exit 0' INT; echo up; while :; do sleep 0.05; done"
        first = self.coordinator("sh", "-c", script)
        other = self.node("sh", "-c", script)
        first.out(), other.out()
        first.send(signal.SIGINT)
        results = self.finish(first, other)
        self.assertEqual([r[0] for r in results], [130, 130], results)
        for _, out, _ in results:
            self.assertIn("asked", out)

    def test_a_second_interrupt_kills(self):
        script = "trap '' INT TERM; echo up; while :; do sleep 0.05; done"
        first = self.coordinator("sh", "-c", script)
        other = self.node("sh", "-c", script)
        first.out(), other.out()
        first.send(signal.SIGINT)
        first.err()
        first.send(signal.SIGINT)
        self.assertEqual([r[0] for r in self.finish(first, other)], [130, 130])

    def test_a_second_interrupt_kills_after_the_coordinators_own_ranks_have_ended(self):
        first = self.coordinator("sh", "-c", "trap 'exit 0' INT; echo $$; while :; do sleep 0.05; done")
        other = self.node("sh", "-c", "trap '' INT TERM; echo up; while :; do sleep 0.05; done")
        pid = first.out().split()[-1]
        other.out()
        first.send(signal.SIGINT)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the coordinator's rank has ended")
        first.send(signal.SIGINT)
        self.assertEqual([r[0] for r in self.finish(first, other)], [130, 130])

    def test_user_signals_reach_all_nodes(self):
        script = "trap 'echo got; exit 0' USR1; echo up; while :; do sleep 0.05; done"
        first = self.coordinator("sh", "-c", script)
        other = self.node("sh", "-c", script)
        first.out(), other.out()
        first.send(signal.SIGUSR1)
        for status, out, err in self.finish(first, other):
            self.assertEqual((status, out[4:]), (0, "got\n"), err)

    def test_the_coordinator_asks_all_nodes_what_their_ranks_do(self):
        rank = os.path.join(os.path.abspath(BUILD), "bin", "tests", "flight_rank")
        with tempfile.TemporaryDirectory() as trace:
            first = self.coordinator("--trace", trace, rank, "hang", n=2)
            other = self.node("--trace", trace, rank, "hang")
            first.out(), first.out(), other.out()
            while True:
                first.send(signal.SIGUSR2)
                said = [first.err() for _ in range(4)]
                theirs = [other.err() for _ in range(3)]
                if "ranks 0, 1 have been waiting" in said[-1]:
                    break
            self.assertRegex(said[-1], "not all 3 ranks of world are known here; no known rank is behind: all have reached mst_all_reduce #3 of world, ")
            self.assertRegex(theirs[1], "rank 2: last operation was mst_barrier #2 of world ")
            self.assertRegex(theirs[2], "no rank waits for another$")
            self.assertEqual(sum(name.endswith(".flight.json") for name in os.listdir(trace)), 3)
            first.send(signal.SIGTERM)
            self.finish(first, other)

    def test_term_of_the_coordinator_while_it_waits(self):
        first = self.coordinator("true")
        wait_until(lambda: self.handles(first, signal.SIGTERM), "it handles signals")
        first.send(signal.SIGTERM)
        self.assertEqual(first.finish()[0], 143)

    def test_interrupt_of_a_node_that_finds_no_coordinator(self):
        node = self.node("true", rank=1)
        wait_until(lambda: self.handles(node, signal.SIGINT), "it handles signals")
        node.send(signal.SIGINT)
        self.assertEqual(node.finish()[0], 130)


class Mistakes(NodesTest):
    def refused(self, pattern, *args):
        status, out, err = self.muster("run", *args, "true")
        self.assertEqual((status, out), (2, b""), err)
        self.assertEqual(err.count(b"\n"), 1, err)
        self.assertRegex(err.decode(), f"^muster run: .*{pattern}")

    def test_command_lines(self):
        self.refused("need an address to find each other", "--nnodes", 2)
        self.refused("needs --node-rank on every node", "--nnodes", 2, "--master-addr", "127.0.0.1")
        self.refused("MIN is greater than MAX", "--nnodes", "3:2", "--rdzv-endpoint", "127.0.0.1")
        self.refused("not '2:x'", "--nnodes", "2:x", "--rdzv-endpoint", "127.0.0.1")
        self.refused("the last of 2 nodes has node rank 1", "--nnodes", 2, "--node-rank", 2, "--master-addr", "127.0.0.1")
        self.refused("HOST or HOST:PORT", "--nnodes", 2, "--rdzv-endpoint", "a:b:c:d]")
        self.refused("--standalone means one node", "--nnodes", 2, "--standalone")
        self.refused("cannot be combined", "--nnodes", 2, "--rdzv-endpoint", "a:1", "--master-addr", "a")
        self.refused("takes c10d or static, not 'etcd'", "--rdzv-backend", "etcd")
        self.refused("join_timeout", "--rdzv-conf", "join=3")
        self.refused("--rdzv-id", "--rdzv-id", "a b")
        self.refused("--rdzv-id", "--rdzv-id", "..", "--log-dir", "/nowhere")
        self.refused("needs brackets", "--nnodes", 2, "--rdzv-endpoint", "::1:29400")
        self.refused("not the address of one host", "--nnodes", 2, "--rdzv-endpoint", "0.0.0.0:29400")
        self.refused("SIGWHAT", "--signals-to-handle", "SIGWHAT")
        self.refused("cannot have SIGKILL", "--signals-to-handle", "SIGKILL")

    def test_taken_port(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", self.port))
            s.listen()
            status, _, err = self.node("true", rank=0).finish()
            self.assertEqual(status, 2)
            self.assertIn("the port is taken", err)

    def test_stranger_at_the_endpoint_is_named_at_the_deadline(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", self.port))
            s.listen()
            nodes = [self.node("--rdzv-conf", "join_timeout=1", "true") for _ in range(2)]
            for status, out, err in self.finish(*nodes):
                self.assertEqual((status, out, err.count("\n")), (2, "", 1), err)
                self.assertRegex(err, f"{self.endpoint()}: the port is taken by pid {os.getpid()} .*, and no launcher answered")

    def test_nobody_at_the_endpoint(self):
        conf = ["--rdzv-conf", "join_timeout=0.3"]
        status, _, err = self.node(*conf, "true", rank=1).finish()
        self.assertEqual((status, err.count("\n")), (2, 1), err)
        self.assertRegex(err, f"cannot join the job: .*127.0.0.1:{self.port}")

    def test_somebody_else_at_the_endpoint(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", self.port))
            s.listen()
            status, _, err = self.node("--rdzv-conf", "join_timeout=0.5", "true", rank=1).finish()
            self.assertEqual((status, err.count("\n")), (2, 1), err)

    def test_a_launcher_that_is_alone_takes_nobody_in(self):
        alone = self.coordinator("sleep", 60, nnodes=1)
        status, _, err = self.node("--rdzv-conf", "join_timeout=1", "true", rank=1).finish()
        self.assertEqual((status, err.count("\n")), (2, 1), err)
        self.assertIn("is not a launcher that waits for nodes", err)
        alone.send(signal.SIGTERM)
        self.assertEqual(alone.finish()[0], 143)

    def test_different_nnodes_end_both(self):
        first = self.coordinator("true", nnodes=3)
        other = self.node("true", nnodes=2)
        results = self.finish(first, other)
        self.assertEqual([r[0] for r in results], [2, 2], results)
        self.assertIn("started with --nnodes 2, and the coordinator with --nnodes 3", results[1][2])
        self.assertIn("cannot join: it was started with --nnodes 2", results[0][2])
        self.assertEqual([r[2].count("\n") for r in results], [1, 1], results)

    def test_same_node_rank_twice(self):
        first = self.coordinator("true", nnodes=3, rank=0)
        nodes = [self.node("true", nnodes=3, rank=1) for _ in range(2)]
        results = self.finish(first, *nodes)
        self.assertEqual([r[0] for r in results], [2, 2, 2], results)
        self.assertRegex(results[0][2], "has --node-rank 1, as has node 1, host .* \\(pid")

    def test_other_job_id(self):
        first = self.coordinator("--rdzv-id", "one", "true")
        status, _, err = self.node("--rdzv-id", "two", "true").finish()
        self.assertEqual((status, err.count("\n")), (2, 1), err)
        self.assertIn("runs job 'one', not 'two'", err)
        other = self.node("--rdzv-id", "one", "true")
        self.assertEqual([r[0] for r in self.finish(first, other)], [0, 0])

    def test_too_few_nodes_are_named(self):
        first = self.coordinator("--rdzv-conf", "join_timeout=4", "true", nnodes=3, rank=0)
        other = self.node("--rdzv-conf", "join_timeout=40", "true", nnodes=3, rank=2)
        results = self.finish(first, other)
        self.assertEqual([r[0] for r in results], [1, 1], results)
        self.assertRegex(results[0][2], r"not enough nodes in 4 s: 2 of 3 nodes are here: .*; missing: node 1")

    def test_program_that_cannot_be_run_on_one_node(self):
        with tempfile.TemporaryDirectory() as place:
            garbage = os.path.join(place, "garbage")
            with open(garbage, "wb") as file:
                file.write(b"\x7fELF nonsense")
            os.chmod(garbage, 0o755)
            first = self.coordinator("--max-restarts", 3, "sleep", 60)
            other = self.node("--max-restarts", 3, garbage)
            results = self.finish(first, other)
            self.assertEqual([r[0] for r in results], [2, 2], results)
            self.assertIn("cannot run", results[1][2])


class Signals(NodesTest):
    def test_named_signals_end_the_job_and_reach_the_ranks(self):
        script = "trap 'echo got; exit 0' USR1; echo up; while :; do sleep 0.05; done"
        run = self.begin("run", "--signals-to-handle", "SIGUSR1,TERM", "sh", "-c", script)
        run.out()
        run.send(signal.SIGUSR1)
        status, out, _ = run.finish()
        self.assertEqual(status, 128 + signal.SIGUSR1)
        self.assertIn("got", out)

    def test_a_signal_that_is_not_handled_ends_the_launcher_as_any_program(self):
        run = self.begin("run", "--signals-to-handle", "TERM", "sh", "-c", "echo $$; exec sleep 60")
        worker = int(run.out()[4:])
        run.send(signal.SIGHUP)
        self.assertEqual(run.finish()[0], -signal.SIGHUP)
        wait_until(lambda: not is_alive(worker), "the rank ends with it")


if __name__ == "__main__":
    unittest.main()
