"""Profiling: what is recorded, and the tables, the JSON and the traces."""

import collections
import json
import os
import pathlib
import re
import subprocess
import unittest

from harness import DEADLINE, PROGRAMS, SLOWER, Process, RanksTest, main

PROF = PROGRAMS / "prof"
PART, TWICE = "part", "twice"
KINDS = {  # name: bytes with n ranks, and the bus bandwidth factor
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
            (row,) = ops["all_reduce_coalesced", group]["rows"]
            self.assertEqual((row["bytes"], row["count"]), (64 + 32, 1))

    def test_threads_start_and_stop_concurrently(self):
        names = [f"race{i}" for i in range(8)]
        ops = self.ops(2, "init", "race", *[f"named={name}" for name in [*names, "passing0", "passing7"]])
        self.assertEqual([name for name, _ in ops], names)

    def test_off(self):
        self.assertEqual(self.ops(2, "init", "sums=3"), {})
        self.assertEqual(self.ops(2, "disable", "init", "sums=3"), {})
        self.assertEqual(self.ops(2, 'set={"comms_logger": {"enabled": false}}', "init", "sums=3"), {})

    def test_start_and_stop(self):
        ops = self.ops(2, "init", "sums=1", "on", "sums=2", "off", "sums=4", "on", "sums=8", "off")
        self.assertEqual(ops["all_reduce", "world"]["rows"][0]["count"], 10)

    def test_counts_and_reset(self):
        """The counts are those of the summary; after a reset both start again."""
        before = ("count", "reset", "enable", "init", "count", "sums=3", "named=mine", "barrier")
        names = ("count=all_reduce", "count=mine", "count=none")
        lines = self.launch(2, *before, "count", *names, "reset", "count", "count=mine", "sums=2", "count")
        counts = [line.removeprefix("count ") for line in lines if line.startswith("count ")]
        self.assertEqual(counts, ["0", "0", "5", "all_reduce 3", "mine 1", "none 0", "0", "mine 0", "2"])
        ops = self.ops(2, "enable", "init", "sums=3", "barrier", "reset", "sums=2")
        self.assertEqual({name: op["rows"][0]["count"] for (name, _), op in ops.items()}, {"all_reduce": 2})
        self.assertEqual(ops["all_reduce", "world"]["rows"][0]["matched"], 2)

    def test_counts_of_all_worlds(self):
        path = self.path("other")
        lines = self.launch(2, "enable", "init", "sums=3", f"world={path}", "in=2", "count", "reset", "in=1", "count", "end", "count")
        self.assertEqual([line for line in lines if line.startswith("count ")], ["count 5", "count 1", "count 0"])

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

    def test_file_selects_operations(self):
        """MUSTER_PROF and MUSTER_TRACE enable profiling, and the file selects operations."""
        config = self.path("ds.json")
        for file, names in {
            '{"enabled": false, "prof_ops": ["barrier"]}': ["barrier"],
            '{"enabled": false, "prof_all": true, "prof_ops": ["barrier"]}': ["barrier", "all_reduce"],
            '{"prof_all": false}': [],
            '{"verbose": false}': ["barrier", "all_reduce"],
        }.items():
            pathlib.Path(config).write_text('{"comms_logger": %s}' % file)
            for env in ({"MUSTER_PROF": 1}, {"MUSTER_TRACE": self.path("traces")}):
                with self.subTest(file=file, env=env):
                    ops = self.ops(2, "init", "barrier", "sums=2", env={"MUSTER_CONFIG": config, **env})
                    self.assertEqual([name for name, _ in ops], names)
        ops = self.ops(2, "init", "barrier", "sums=2", env={"MUSTER_CONFIG": config})
        self.assertEqual(ops, {})

    def test_start_of_one_operation(self):
        """Only this operation is recorded, also if the configuration is off and selects none."""
        for first in ("disable", 'set={"comms_logger": {"enabled": false}}'):
            with self.subTest(first=first):
                ops = self.ops(2, first, "init", "on=barrier", "barrier", "sums=2")
                self.assertEqual([name for name, _ in ops], ["barrier"])

    def test_program_overrides_environment(self):
        self.assertEqual(self.ops(2, "disable", "init", "sums=2", env={"MUSTER_PROF": 1}), {})

    def test_works_show_overlap(self):
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
    COLUMNS = r"Operation +calls +mean \* +tput \* +busbw \* +communication"

    def test_table(self):
        lines = self.launch(2, "enable", "init", "sums=5", "log")
        self.assertRegex(lines[0], self.COLUMNS)
        self.assertEqual(lines[2], "all_reduce")
        self.assertRegex(lines[3], r"^ {4}16\.0 B +5 ")
        self.assertNotIn("waiting", "\n".join(lines))

    def test_at_the_end_by_the_environment(self):
        """The program needs no call, and need not end its world."""
        for last in ([], ["leave"]):
            with self.subTest(last=last):
                text = "\n".join(self.launch(2, "init", "sums=5", *last, env={"MUSTER_PROF": 1}))
                self.assertRegex(text, self.COLUMNS)
                self.assertRegex(text, self.COLUMNS + " +waiting +transfer")

    def test_different_counts(self):
        """Odd ranks record only some calls: the others are reported as unmatched, with their number and names."""
        lines = self.launch(2, "enable", "init", "sums=6", "odd-off", "sums=4", "straggler")
        text = "\n".join(lines)
        self.assertRegex(text, r"4 calls of all_reduce .*not matched.*rank 1 has 6, rank 0 has 10")
        self.assertRegex(text, r"began last most often, in \d of 6 calls")

    def test_names_that_control_terminals(self):
        """Also long names of groups, which are truncated between characters."""
        name = "a\nb\x1b[2Jü"
        lines = self.launch(2, "verbose", "init", f"named={name}", f"team={40 * 'ü'}", "log")
        self.assertEqual(len([line for line in lines if line.startswith(r"comm op: a\nb\x1b[2Jü | time")]), 1, lines)
        self.assertIn(r"a\nb\x1b[2Jü", lines)
        self.assertIn(f"all_reduce [group {31 * 'ü'}]", lines)

    def test_verbose(self):
        lines = self.launch(2, "verbose", "init", "sums=2")
        self.assertEqual(len(lines), 2, lines)
        for line in lines:
            self.assertRegex(
                line,
                r"^comm op: all_reduce \| time \(ms\): [\d.]+ \| msg size: 16\.0 B \| algbw \(Gbps\): [\d.]+ \| busbw \(Gbps\): [\d.]+$",
            )

    def test_debug(self):
        """Separates calls of different functions, with DeepSpeed's names."""
        ops = self.summary(2, "debug", "init", "sums=2", "works=1")
        self.assertEqual({(op["op"], op["function"]) for op in ops}, {("all_reduce", "works"), ("all_reduce", "calls")})
        lines = self.launch(2, "debug", "init", "sums=2", "log")
        self.assertIn("all_reduce | [Caller Func: calls]", lines)

    def test_a_rank_died(self):
        """
        Rank 0 still prints its table, which names only the missing rank, also if the others have failed in
        different calls since.
        """
        for tried in ([], ["r0-try"], ["r2-try"], ["r0-try", "r0-try", "r2-try"]):
            with self.subTest(tried=tried):
                store, port = self.serve()
                env = {"WORLD_SIZE": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
                actions = ("enable", "init", "sums=3", "die=1", *tried, "log")
                ranks = [self.popen(PROF, *actions, env={**env, "RANK": r}) for r in range(3)]
                out = ranks[0].communicate(timeout=DEADLINE)[0].decode()
                self.assertRegex(out, r"16\.0 B +3 ")
                self.assertRegex(out, r"(?m)^missing: the profile of rank 1$")
                self.assertNotIn("not in time", out)
                for rank in ranks[1:]:
                    rank.communicate(timeout=DEADLINE)
                store.kill()


class Together(ProfTest):
    """Ranks that do not all call the summary: no rank hangs, and later summaries cover the same calls on all ranks."""

    def counts(self, lines):
        """For each table, the number of all_reduces of rank 0 and, if it has that, of those on all ranks."""
        found = re.findall(r"(?m)^ {4}16\.0 B +(\d+) |^group world: .* of (\d+) calls?$", "\n".join(lines))
        return [int(own or matched) for own, matched in found]

    def test_rank_0_alone(self):
        """It waits until its timeout, names the others, and prints its own data."""
        status, out = self.run_tool("run", "-n", 3, PROF, "enable", "init", "sums=4", "r0-log=700", "sums=1", "straggler")
        self.assertEqual(status, 0, out)
        self.assertRegex(out, r"missing: the profile of ranks 1, 2\n.*not in time: ranks 1, 2\n")
        took = int(re.search(r"logged after (\d+) ms", out)[1])
        self.assertGreaterEqual(took, 690)
        self.assertLess(took, 5000 * SLOWER)
        lines = [line[4:] for line in out.splitlines() if line.startswith("[0] ")]
        self.assertEqual(self.counts(lines), [4, 5, 5])
        self.assertNotIn("missing", out.split("missing", 1)[1])

    def test_rank_0_alone_and_then_all_at_once(self):
        """No collective is between the two: a message makes rank 1 call after the timeout of rank 0."""
        lines = self.launch(2, "enable", "init", "sums=4", "r0-log=300", "pass=1", "straggler", "sums=2", "straggler")
        self.assertEqual(self.counts(lines), [4, 4, 4, 6, 6])
        self.assertEqual(len([line for line in lines if line.startswith("missing")]), 1)

    def test_rank_0_twice(self):
        """Its first summary uses the data of rank 1; its second waits until the timeout."""
        lines = self.launch(2, "enable", "init", "sums=4", "r1-log", "pass=1", "r0-straggler", "r0-log=300", "sums=2", "straggler")
        self.assertEqual(self.counts(lines), [4, 4, 4, 6, 6])
        self.assertEqual(len([line for line in lines if line.startswith("missing")]), 1)

    def test_another_alone_and_then_all(self):
        """Rank 0 does not use what rank 1 published alone, even if it finds nothing newer yet."""
        for late in (), ("r1-wait=200",):
            with self.subTest(late=late):
                first = ("sums=4", "r1-log=60000", "sums=2", *late, "straggler")
                lines = self.launch(2, "enable", "init", *first, "sums=3", "straggler")
                self.assertEqual(self.counts(lines), [6, 6, 9, 9])
                self.assertNotIn("missing", "\n".join(lines))

    def test_one_calls_twice(self):
        lines = self.launch(3, "enable", "init", "sums=4", "straggler", "r2-log", "sums=2", "straggler", "sums=3", "straggler")
        self.assertEqual(self.counts(lines), [4, 4, 6, 6, 9, 9])
        self.assertNotIn("missing", "\n".join(lines))

    def left_over(self, *actions):
        """Runs two ranks over a store that outlives them: rank 0's lines, and the profile keys at the end."""
        store, port = self.serve()
        env = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        ranks = [Process(self.popen(PROF, "enable", "init", *actions, env={**env, "RANK": r})) for r in range(2)]
        outs = [rank.finish() for rank in ranks]
        self.assertEqual([status for status, _ in outs], [0, 0], outs)
        status, keys = self.run_tool("store", "list", "--port", port)
        self.assertEqual(status, 0, keys)
        store.kill()
        return outs[0][1].splitlines(), [key for key in keys.splitlines() if "/prof/" in key]

    def test_keys_left_in_the_store(self):
        """None if all ranks call; of a rank that calls alone, at most its last four."""
        lines, keys = self.left_over("sums=4", "straggler", "sums=1", "straggler", "straggler")
        self.assertEqual((self.counts(lines), keys), ([4, 4, 5, 5, 5, 5], []))
        lines, keys = self.left_over("sums=4", *["r1-log"] * 9, "straggler", "sums=1", *["r1-log"] * 9, "sums=1", "straggler")
        self.assertEqual(self.counts(lines), [4, 4, 6, 6])
        self.assertLessEqual(len(keys), 4, keys)

    def test_ranks_run_ahead(self):
        """Messages do not synchronize all ranks, but each summary covers exactly the calls before it."""
        lines = self.launch(2, "enable", "init", "sums=2", "straggler", "pass=1", "straggler", "pass=1", "straggler", "pass=1", "straggler")
        self.assertEqual(self.counts(lines), [2, 2] * 4)
        passed = [line.split()[2] for line in lines if line.startswith("    32.0 B")]
        self.assertEqual(passed, ["1", "1", "2", "2", "3", "3"])

    def test_a_rank_that_has_ended(self):
        """Rank 1 has ended without this summary, so rank 0 does not wait for it."""
        lines = self.launch(2, "init", "sums=2", "r0-log=60000", env={"MUSTER_PROF": 1})
        self.assertEqual(self.counts(lines), [2, 2, 2])
        self.assertNotIn("missing", "\n".join(lines))

    def test_cancelled(self):
        status, out = self.run_tool("run", "-n", 2, PROF, "enable", "init", "sums=2", "cancelled")
        self.assertEqual(status, 0, out)
        self.assertEqual(out.count("cancelled: MST_ERR_CANCELLED"), 2)

    def test_in_a_callback(self):
        """It fails, because it would block."""
        lines = self.launch(2, "enable", "init", "sums=3", "back")
        self.assertIn("called back: MST_ERR_STATE", lines)

    def test_another_world(self):
        """Rank 0 of that world prints, which is rank 1 here; also at its end."""
        where = self.path("other")
        for last, env in ((["there", "end"], {}), (["end"], {"MUSTER_PROF": 1})):
            with self.subTest(last=last):
                status, out = self.run_tool("run", "-n", 2, PROF, "enable", "init", "sums=1", f"world={where}{len(env)}", "in=7", *last, env=env)
                self.assertEqual(status, 0, out)
                self.assertRegex(out, r"(?m)^\[1\] +16\.0 B +7 ")
                self.assertNotRegex(out, r"(?m)^\[0\] +16\.0 B +7 ")


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

    def test_incomplete_config(self):
        said = [line for line in self.launch(1, "init", "mistakes") if line.startswith("refused: ")]
        self.assertEqual([line.split(":")[1] for line in said], [" MST_ERR_INVALID"] * 4)
        for line, words in zip(said, (r"\.prof_ops is NULL.*\.n_ops is 3", r"\.prof_ops is given.*\.n_ops is 0", "name 1 is empty", "name 1 is empty")):
            self.assertRegex(line, words)

    def test_config_by_the_environment(self):
        status, out = self.run_tool("run", "-n", 1, PROF, "init", env={"MUSTER_CONFIG": "/nonexistent.json"})
        self.assertNotEqual(status, 0)
        self.assertRegex(out, r"init: MST_ERR_CONFIG.*/nonexistent\.json")

    def test_directory_of_traces(self):
        """A path that cannot be a directory is an error."""
        plain = self.path("plain")
        pathlib.Path(plain).touch()
        for wrong in ("/nonexistent/deeper", plain, plain + "/deeper"):
            with self.subTest(wrong=wrong):
                status, out = self.run_tool("run", "-n", 1, PROF, "init", env={"MUSTER_TRACE": wrong})
                self.assertNotEqual(status, 0)
                self.assertRegex(out, r"init: MST_ERR_CONFIG: .*traces to the directory " + wrong)


class Traces(ProfTest):
    def trace(self, n, *actions, command=(), env=None):
        """Runs the program; returns the events of each rank."""
        self.runs = getattr(self, "runs", 0) + 1
        self.traces = self.path(f"traces-{self.runs}")
        status, out = self.run_tool(
            "run", "-n", n, *command, PROF, *actions, env={"MUSTER_TRACE": self.traces, **(env or {})}
        )
        self.assertEqual(status, 0, out)
        return [json.loads(pathlib.Path(self.traces, f"rank-{r}.trace.json").read_text()) for r in range(n)]

    def of(self, events, phase):
        """Events of this phase, without the ends of flow arrows."""
        return [event for event in events if event["ph"] == phase and event.get("cat") != "arrow"]

    def test_format(self):
        """The fields that Perfetto requires of each kind of event."""
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

    # Bytes and dtype in the record of each call, in a group of 2: 64 bytes, or 64 bytes for each rank.
    TENSORS = {"broadcast": 64, "all_reduce": 64, "reduce": 64, "scan": 64, "exscan": 64, "inference_all_reduce": 64}
    SHARES = ("all_gather_into_tensor", "reduce_scatter_tensor", "gather", "scatter", "all_to_all_single", "reduce_scatter_fn")
    SHARES += ("allgather_fn", "all_gather", "reduce_scatter", "all_to_all", "gather_list", "scatter_list")
    SUMS = {"all_reduce_coalesced": 96, "broadcast_coalesced": 96, "all_gather_coalesced": 192, "reduce_scatter_coalesced": 192}
    BYTES = {"broadcast_bytes": 5, "all_gather_bytes": 16, "gather_bytes": 16, "scatter_bytes": 16, "send_bytes": 5, "recv_bytes": 11}
    MESSAGES = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_recv")
    ALIASES = {"reduce_scatter_fn": "reduce_scatter_tensor", "allgather_fn": "all_gather_into_tensor"}
    EVERY = {
        **{name: (size, "f32") for name, size in TENSORS.items()},
        **{name: (128, "f32") for name in SHARES},
        **{name: (size, "f32") for name, size in SUMS.items()},
        **{name: (size, "u8") for name, size in BYTES.items()},
        **{name: (32, "f32") for name in MESSAGES},
        "broadcast_coalesced": (96, None),  # tensors of two dtypes
        "barrier": (0, None),
        "monitored_barrier": (0, None),
    }

    def test_every_call_is_one_record(self):
        """Every call of the header has one record, with its name, bytes, dtype, group and call site."""
        header = pathlib.Path(os.environ["MUSTER_SOURCE_DIR"], "include/muster/comm.h").read_text()
        calls = set(re.findall(r"mst_status mst_(\w+)_with\([^;]*const mst_call \*", header)) - {"alloc", "probe", "iprobe"}
        self.assertEqual(calls, set(self.EVERY), "a call of comm.h is not in this test, or no more in comm.h")
        for command in ((), self.HOSTS):
            with self.subTest(command=command):
                self.check_every(command)

    def check_every(self, command):
        traces = self.path("every-hosts" if command else "every")
        status, out = self.run_tool("run", "-n", 3, *command, PROF, "init", "every", env={"MUSTER_TRACE": traces})
        self.assertEqual(status, 0, out)
        lines = {int(line): name for name, line in re.findall(r"once (\w+) (\d+)", out)}
        self.assertEqual(set(lines.values()), set(self.EVERY), out)
        events = json.loads(pathlib.Path(traces, "rank-0.trace.json").read_text())
        records = collections.defaultdict(list)
        for event in self.of(events, "X") + self.of(events, "b"):
            records[int(event["args"]["site"].rpartition(":")[2])].append(event)
        self.assertEqual(set(records), set(lines))
        groups = {event["args"]["group"]: event["args"] for event in events if event["name"] == "muster_group"}
        for line, name in lines.items():
            with self.subTest(name=name):
                self.assertEqual(len(records[line]), 2 if name in ("batch_isend_irecv", "send_recv") else 1)  # one for each message
                for event in records[line]:
                    size, dtype = self.EVERY[name]
                    args = event["args"]
                    self.assertEqual(event["name"], self.ALIASES.get(name, name))
                    self.assertEqual((args["bytes"], args.get("dtype")), (size, dtype))
                    self.assertRegex(args["site"], r"prof\.c:\d+$")
                    self.assertRegex(args["function"], r"^every_(tensor|list|bytes|message)$")
                    self.assertEqual((groups[args["group"]]["name"], groups[args["group"]]["ranks"]), ("pair", [0, 1]))
                    self.assertNotIn("status", args)
                    self.assertEqual(event["ph"] == "b", name in ("isend", "irecv", "batch_isend_irecv"))
                    self.assertEqual(event["cat"], "message" if name in (*self.MESSAGES, "send_bytes", "recv_bytes") else "collective")

    def test_calls_are_of_the_thread_that_called(self):
        """Also calls that the group's own thread completes."""
        for events in self.trace(2, "init", "works=1", "sums=300", "works=3"):
            names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
            tids = {event["tid"] for phase in "Xb" for event in self.of(events, phase)}
            self.assertEqual([names[tid] for tid in tids], ["prof"])

    def test_arrows_meet(self):
        """Each connects a send with the end of its receive, and has an id in Perfetto's format."""
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

    def assert_messages_meet(self, ranks):
        """Each message has the same number and length on both sides, and one flow arrow."""
        sides = {"send": {}, "recv": {}}
        for r, events in enumerate(ranks):
            for event in self.of(events, "X") + self.of(events, "b"):
                args = event["args"]
                if event["cat"] != "message" or "status" in args:
                    continue
                ends = (r, args["peer"]) if args["dir"] == "send" else (args["peer"], r)
                side, key = sides[args["dir"]], (args["tag"], *ends, args["seq"])
                self.assertNotIn(key, side)
                side[key] = args["bytes"]
        self.assertEqual(sides["send"], sides["recv"])
        out, into = ([e["bind_id"] for events in ranks for e in events if e.get(end)] for end in ("flow_out", "flow_in"))
        self.assertEqual(sorted(out), sorted(into))
        self.assertEqual((len(out), len(set(out))), (len(sides["send"]), len(sides["send"])))
        return sides["send"]

    def test_messages_from_any_source(self):
        self.assertEqual(len(self.assert_messages_meet(self.trace(3, "init", "any=20"))), 40)

    def test_messages_out_of_order(self):
        for command in ((), self.HOSTS):
            with self.subTest(command=command):
                sent = self.assert_messages_meet(self.trace(3, "init", "mixed=4", command=command))
                self.assertEqual(len(sent), 36)
                self.assertEqual(sent[1, 0, 1, 2], 800000)

    def test_a_cancelled_message(self):
        """It does not count, because the other side never received it."""
        self.assertEqual(set(self.assert_messages_meet(self.trace(2, "init", "late"))), {(9, 0, 1, 0)})

    def test_messages_count_while_recording_is_off(self):
        """Odd ranks record only the last two of four messages, with the same numbers as the others."""
        ranks = self.trace(2, "init", "odd-off", "pass=2", "odd-on", "pass=2")
        seqs = [sorted(e["args"]["seq"] for e in events if e.get("cat") == "message" and "args" in e) for events in ranks]
        self.assertEqual(seqs, [[0, 0, 1, 1, 2, 2, 3, 3], [2, 2, 3, 3]])

    def assert_one_clock(self, ranks):
        """No rank leaves a barrier before the last one has entered it."""
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
        for clock in clocks:  # it is the same clock
            self.assertLessEqual(abs(clock["offset_ns"]), clock["error_ns"])
        self.assertTrue(errors)

    def test_clocks_that_differ(self):
        """Rank 1's clock is 5,000 seconds ahead, in its own time namespace."""
        apart = ["unshare", "--time", "--monotonic", "5000", "--fork"]
        if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no time namespaces here")
        script = self.HOSTS[2].replace("exec", '[ "$RANK" = 1 ] && set -- ' + " ".join(apart) + ' "$0" "$@" && exec "$@"; exec')
        ranks = self.trace(3, "init", *["barrier", "sums=100"] * 5, command=["bash", "-c", script])
        self.assert_one_clock(ranks)
        clock = next(event["args"] for event in ranks[1] if event["name"] == "muster_clock")
        self.assertLessEqual(abs(clock["offset_ns"] + 5000 * 10**9), clock["error_ns"])

    def test_killed(self):
        """The trace is readable after its end has been appended."""
        directory = self.path("traces")
        status, _ = self.run_tool("run", "-n", 2, PROF, "init", "sums=3000", "die=1", "barrier", env={"MUSTER_TRACE": directory})
        self.assertNotEqual(status, 0)
        text = pathlib.Path(directory, "rank-1.trace.json").read_text()
        self.assertFalse(text.rstrip().endswith("]"))
        self.assertEqual(json.loads(text + "]")[0]["args"]["rank"], 1)


if __name__ == "__main__":
    main()
