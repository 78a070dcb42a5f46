"""Profiling: what is recorded, when, and what the tables, the JSON and the traces say of it."""

import collections
import json
import pathlib
import subprocess
import unittest

from ranks import DEADLINE, PROGRAMS, RanksTest, main

PROF = PROGRAMS / "prof"
PART, TWICE = "part", "twice"
KINDS = {  # name: bytes with n ranks, and the factor of its bus bandwidth
    "barrier": (lambda n: 0, None),
    "broadcast": (lambda n: 64, 1),
    "all_reduce": (lambda n: 64, TWICE),
    "inference_all_reduce": (lambda n: 64, TWICE),
    "reduce": (lambda n: 64, 1),
    "all_gather_into_tensor": (lambda n: 64 * n, PART),
    "reduce_scatter_tensor": (lambda n: 64 * n, PART),
    "gather": (lambda n: 64 * n, 1),
    "scatter": (lambda n: 64 * n, 1),
    "all_to_all_single": (lambda n: 64 * n, PART),
    "monitored_barrier": (lambda n: 0, None),
    "all_gather": (lambda n: 64 * n, PART),
    "reduce_scatter": (lambda n: 64 * n, PART),
    "all_to_all": (lambda n: 64 * n, PART),
}


class ProfTest(RanksTest):
    def launch(self, n, *actions, env=None, status=0):
        """Runs n ranks to their end: rank 0's lines."""
        got, out = self.run_tool("run", "-n", n, PROF, *actions, env=env)
        self.assertEqual(got, status, out)
        return [line[4:] for line in out.splitlines() if line.startswith("[0] ")]

    def summary(self, n, *actions, env=None):
        """The operations of the JSON summary."""
        text = "".join(self.launch(n, *actions, "json", env=env))
        return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]["operations"]

    def ops(self, n, *actions, env=None):
        """The same by name and group."""
        return {(op["op"], op["group"]): op for op in self.summary(n, *actions, env=env)}


class Recorded(ProfTest):
    def test_every_kind(self):
        """Bytes and bandwidths of each call, with the size of its own group."""
        ops = self.ops(3, "enable", "init", "kinds")
        for group, n in (("world", 3), ("pair", 2)):
            for name, (size, factor) in KINDS.items():
                with self.subTest(name=name, group=group):
                    (row,) = ops[name, group]["rows"]
                    self.assertEqual((row["bytes"], row["count"]), (size(n), 1))
                    factors = {PART: (n - 1) / n, TWICE: 2 * (n - 1) / n, None: 0}
                    expected = row["tput_avg_gbps"] * factors.get(factor, factor)
                    self.assertAlmostEqual(row["busbw_avg_gbps"], expected, delta=0.02 + expected / 100)
            (large, small) = sorted(ops["all_reduce_coalesced", group]["rows"], key=lambda row: -row["bytes"])
            self.assertEqual((large["bytes"], small["bytes"]), (64, 32))

    def test_off(self):
        self.assertEqual(self.ops(2, "init", "sums=3"), {})
        self.assertEqual(self.ops(2, "disable", "init", "sums=3"), {})
        self.assertEqual(self.ops(2, 'set={"comms_logger": {"enabled": false}}', "init", "sums=3"), {})

    def test_start_and_stop(self):
        ops = self.ops(2, "init", "sums=1", "on", "sums=2", "off", "sums=4", "on", "sums=8", "off")
        self.assertEqual(ops["all_reduce", "world"]["rows"][0]["count"], 10)

    def test_some_operations(self):
        ops = self.ops(2, "enable=barrier", "init", "barrier", "sums=2", "on=mine", "named=mine", "named=other", "asked")
        counts = {name: op["rows"][0]["count"] for (name, _), op in ops.items()}
        self.assertEqual(counts, {"barrier": 1, "mine": 1, "all_reduce": 1})
        ops = self.ops(2, "enable=barrier", "init", "off=barrier", "barrier", "on=all_reduce", "sums=2")
        self.assertEqual([name for name, _ in ops], ["all_reduce"])

    def test_environment(self):
        config = self.path("ds.json")
        pathlib.Path(config).write_text('{"comms_logger": {"enabled": true, "prof_all": false, "prof_ops": ["barrier"]}}')
        ops = self.ops(2, "init", "barrier", "sums=2", env={"MUSTER_CONFIG": config})
        self.assertEqual([name for name, _ in ops], ["barrier"])

    def test_what_the_program_says_counts_more(self):
        self.assertEqual(self.ops(2, "disable", "init", "sums=2", env={"MUSTER_PROF": 1}), {})

    def test_works_show_what_overlapped(self):
        row = self.ops(2, "enable", "init", "works=5")["all_reduce", "world"]["rows"][0]
        self.assertEqual((row["works"], row["count"]), (5, 5))
        self.assertLessEqual(row["overlapped_ms"], row["works_ms"])

    def test_messages(self):
        ops = self.ops(3, "enable", "init", "pass=4")
        for name in ("isend", "recv"):
            self.assertEqual([(row["bytes"], row["count"]) for row in ops[name, "world"]["rows"]], [(32, 4)])

    def test_more_than_the_rings_hold(self):
        """Nothing is lost."""
        row = self.ops(2, "enable", "init", "sums=10000")["all_reduce", "world"]["rows"][0]
        self.assertEqual(row["count"], 10000)


class Tables(ProfTest):
    COLUMNS = r"Comm\. Op +Message Size +Count +Total Latency\(ms\) +Avg Latency\(ms\) +tput_avg \(Gbps\) +busbw_avg \(Gbps\)"

    def test_table(self):
        lines = self.launch(2, "enable", "init", "sums=5", "log")
        self.assertRegex(lines[0], self.COLUMNS)
        self.assertEqual(lines[1], "all_reduce")
        self.assertRegex(lines[2], r"^ {20}16\.0 B +5 ")
        self.assertNotIn("straggler", "\n".join(lines))

    def test_at_the_end_by_the_environment(self):
        """No call of the program is needed, nor that it ends its world."""
        for last in ([], ["leave"]):
            with self.subTest(last=last):
                text = "\n".join(self.launch(2, "init", "sums=5", *last, env={"MUSTER_PROF": 1}))
                self.assertRegex(text, self.COLUMNS)
                self.assertRegex(text, r"Total straggler\(ms\)")

    def test_different_counts(self):
        """Odd ranks record only a part: the rest is not paired, counted and named, and nothing breaks."""
        lines = self.launch(2, "enable", "init", "sums=6", "odd-off", "sums=4", "straggler")
        text = "\n".join(lines)
        self.assertRegex(text, r"4 calls of all_reduce .*not paired.*rank 1 has 6, rank 0 has 10")
        self.assertRegex(text.split("Total straggler")[1], r"16\.0 B +6 ")

    def test_verbose(self):
        lines = self.launch(2, "verbose", "init", "sums=2")
        self.assertEqual(len(lines), 2, lines)
        for line in lines:
            self.assertRegex(
                line,
                r"^comm op: all_reduce \| time \(ms\): [\d.]+ \| msg size: 16\.0 B \| algbw \(Gbps\): [\d.]+ \| busbw \(Gbps\): [\d.]+$",
            )

    def test_debug(self):
        """Calls of different functions are told apart, and by DeepSpeed's words."""
        ops = self.summary(2, "debug", "init", "sums=2", "works=1")
        self.assertEqual({(op["op"], op["function"]) for op in ops}, {("all_reduce", "works"), ("all_reduce", "calls")})
        lines = self.launch(2, "debug", "init", "sums=2", "log")
        self.assertIn("all_reduce | [Caller Func: calls]", lines)

    def test_a_rank_died(self):
        """Rank 0 still gets its table, which names who is missing."""
        store, port = self.serve()
        env = {"WORLD_SIZE": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        actions = ("enable", "init", "sums=3", "die=1", "log")
        ranks = [self.popen(PROF, *actions, env={**env, "RANK": r}) for r in range(3)]
        out = ranks[0].communicate(timeout=DEADLINE)[0].decode()
        self.assertRegex(out, r"16\.0 B +3 ")
        self.assertRegex(out, r"rank 1\b.*missing|missing.*rank 1\b")
        for rank in ranks[1:]:
            rank.communicate(timeout=DEADLINE)
        store.kill()


class Mistakes(ProfTest):
    def test_config(self):
        for text, words in {
            '{"comms_logger": {"enabled": "yes"}}': r"comms_logger\.enabled.*yes",
            '{"comms_logger": {"enable": true}}': r"enable.*enabled",
            '{"comms_logger": ': r"1:\d+",
            "/nonexistent.json": r"/nonexistent\.json",
        }.items():
            with self.subTest(text=text):
                status, out = self.run_tool("run", "-n", 1, PROF, f"set={text}", "init")
                self.assertNotEqual(status, 0)
                self.assertRegex(out, "MST_ERR_CONFIG.*" + words)

    def test_config_by_the_environment(self):
        status, out = self.run_tool("run", "-n", 1, PROF, "init", env={"MUSTER_CONFIG": "/nonexistent.json"})
        self.assertNotEqual(status, 0)
        self.assertRegex(out, r"init: MST_ERR_CONFIG.*/nonexistent\.json")

    def test_directory_of_traces(self):
        """What can be no directory is a mistake."""
        plain = self.path("plain")
        pathlib.Path(plain).touch()
        for wrong in ("/nonexistent/deeper", plain, plain + "/deeper"):
            with self.subTest(wrong=wrong):
                status, out = self.run_tool("run", "-n", 1, PROF, "init", env={"MUSTER_TRACE": wrong})
                self.assertNotEqual(status, 0)
                self.assertRegex(out, r"init: MST_ERR_CONFIG: .*traces to the directory " + wrong)


class Traces(ProfTest):
    def trace(self, n, *actions, command=(), env=None):
        """Runs and gives each rank's events."""
        self.traces = self.path("traces")
        status, out = self.run_tool(
            "run", "-n", n, *command, PROF, *actions, env={"MUSTER_TRACE": self.traces, **(env or {})}
        )
        self.assertEqual(status, 0, out)
        return [json.loads(pathlib.Path(self.traces, f"rank-{r}.trace.json").read_text()) for r in range(n)]

    def of(self, events, phase):
        return [event for event in events if event["ph"] == phase]

    def test_format(self):
        """What Perfetto asks of each kind of event."""
        needed = {"X": {"ts", "dur", "tid"}, "b": {"ts", "id", "cat"}, "e": {"ts", "id", "cat"}, "M": {"args"}}
        needed |= {"n": {"ts", "id", "cat", "bind_id"}}
        ranks = self.trace(3, "init", "kinds", "works=3", "pass=2")
        for r, events in enumerate(ranks):
            self.assertEqual(events[0]["name"], "muster")
            self.assertEqual((events[0]["args"]["rank"], events[0]["args"]["size"]), (r, 3))
            self.assertEqual(events[-1]["name"], "muster_end")
            for event in events:
                self.assertEqual(event["pid"], r)
                self.assertLessEqual(needed[event["ph"]], set(event))
                self.assertGreaterEqual(event.get("ts", 0), 0)
                self.assertGreaterEqual(event.get("dur", 0), 0)
            begun = {event["id"]: event["ts"] for event in self.of(events, "b")}
            ended = {event["id"]: event["ts"] for event in self.of(events, "e")}
            self.assertEqual(set(begun), set(ended))
            self.assertTrue(all(begun[i] <= ended[i] for i in begun))

    def test_calls_are_of_the_thread_that_called(self):
        """Also those that the comm's own thread brought to their end."""
        for events in self.trace(2, "init", "works=1", "sums=300", "works=3"):
            names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
            tids = {event["tid"] for phase in "Xb" for event in self.of(events, phase)}
            self.assertEqual([names[tid] for tid in tids], ["prof"])

    def test_arrows_meet(self):
        """Each is between a send and the end of its receive, and has an id as Perfetto wants it."""
        ranks = self.trace(3, "init", "pass=5")
        every = [event for events in ranks for event in events]
        sent = {event["bind_id"]: event for event in every if event.get("flow_out")}
        arrived = {event["bind_id"]: event for event in every if event.get("flow_in")}
        self.assertEqual(len(sent), 15)
        self.assertEqual(set(sent), set(arrived))
        for i, event in sent.items():
            self.assertRegex(i, r"^0x[0-9a-f]{1,16}$")
            self.assertEqual(event["name"], "isend")
            self.assertLess(event["ts"], arrived[i]["ts"])

    def assert_one_clock(self, ranks):
        """Nobody leaves a barrier before the last has come to it."""
        met = collections.defaultdict(list)
        for events in ranks:
            for event in self.of(events, "X"):
                if event["name"] == "barrier":
                    met[event["args"]["seq"]].append(event)
        errors = [e["args"]["error_ns"] for events in ranks for e in events if e["name"] == "muster_clock"]
        slack = 2 * max(errors, default=0) / 1000
        for calls in met.values():
            self.assertEqual(len(calls), len(ranks))
            first_out = min(call["ts"] + call["dur"] for call in calls)
            self.assertLessEqual(max(call["ts"] for call in calls), first_out + slack)
        return errors

    def test_one_host_has_one_clock(self):
        self.assert_one_clock(self.trace(3, "init", *["barrier", "sums=100"] * 5))

    HOSTS = ["bash", "-c", 'MUSTER_FORCE_HOST=$((RANK % 2)); export MUSTER_FORCE_HOST; exec "$0" "$@"']

    def test_hosts_are_compared(self):
        ranks = self.trace(3, "init", *["barrier", "sums=100"] * 5, command=self.HOSTS)
        errors = self.assert_one_clock(ranks)
        clocks = [event["args"] for event in ranks[1] if event["name"] == "muster_clock"]
        self.assertTrue(clocks)
        for clock in clocks:  # it is one clock in truth
            self.assertLessEqual(abs(clock["offset_ns"]), clock["error_ns"])
        self.assertTrue(errors)

    def test_clocks_that_differ(self):
        """Rank 1's clock is 5,000 seconds ahead, in a time namespace of its own."""
        apart = ["unshare", "--time", "--monotonic", "5000", "--fork"]
        if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no time namespaces here")
        script = self.HOSTS[2].replace("exec", '[ "$RANK" = 1 ] && set -- ' + " ".join(apart) + ' "$0" "$@" && exec "$@"; exec')
        ranks = self.trace(3, "init", *["barrier", "sums=100"] * 5, command=["bash", "-c", script])
        self.assert_one_clock(ranks)
        clock = next(event["args"] for event in ranks[1] if event["name"] == "muster_clock")
        self.assertLessEqual(abs(clock["offset_ns"] + 5000 * 10**9), clock["error_ns"])

    def test_killed(self):
        """What is there can be read once the end is added."""
        directory = self.path("traces")
        status, _ = self.run_tool("run", "-n", 2, PROF, "init", "sums=3000", "die=1", "barrier", env={"MUSTER_TRACE": directory})
        self.assertNotEqual(status, 0)
        text = pathlib.Path(directory, "rank-1.trace.json").read_text()
        self.assertFalse(text.rstrip().endswith("]"))
        self.assertEqual(json.loads(text + "]")[0]["args"]["rank"], 1)


if __name__ == "__main__":
    main()
