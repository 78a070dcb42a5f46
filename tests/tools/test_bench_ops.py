"""muster bench: tables, JSON, CSV and plots of tiny runs; no performance is tested."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

from harness import MUSTER, ToolTest, wait_until

QUICK = ("--rounds", 1, "--seconds", 0.002)
SMALL = QUICK + ("--bytes", "4:64:16")
OPS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "send_recv",
    "barrier",
)
ONE_FORM = ("send_recv", "barrier")
BLOCKS = ("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all")
KEYS = (
    "backend op dtype ranks hosts bytes buffers us_median us_p99 algbw_GBps busbw_GBps ratio_to wrong in_place bound".split()
)
# Other tests check for leaks. Many ranks end here, and the leak check of each scans all shared memory.
QUIET = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
SCRIPT = os.path.join(os.environ.get("MUSTER_SOURCE_DIR", "."), "scripts", "bench_table.py")
CHART = os.path.join(os.path.dirname(SCRIPT), "bench_chart.py")
# A CUDA runtime and an NCCL that need no GPU.
FAKES = {
    f"MUSTER_{setting}_LIBRARY": os.path.join(os.path.dirname(MUSTER), "tests", f"libfake_{name}.so")
    for setting, name in (("CUDART", "cudart"), ("NCCL", "nccl"))
}
MPI = "openmpi" if shutil.which("mpirun.openmpi") and shutil.which("mpicc.openmpi") else None
# The directory of the sample backend.
SAMPLE = {"MUSTER_BACKEND_PATH": os.path.join(os.environ.get("MUSTER_BUILD_DIR", "build"), "tests/backends")}
GLOO = os.path.join(os.environ.get("MUSTER_BUILD_DIR", "build"), "lib/muster/mst_backend_gloo.so")
NCCL = os.path.join(os.environ.get("MUSTER_BUILD_DIR", "build"), "lib/muster/mst_backend_nccl.so")


def bus(op, n):
    """busbw / algbw of nccl-tests."""
    return {"all_reduce": 2 * (n - 1) / n, "all_gather": (n - 1) / n, "reduce_scatter": (n - 1) / n}.get(
        op, (n - 1) / n if op == "all_to_all" else 0 if op == "barrier" else 1
    )


def heads_of(out):
    return re.findall(r"(?m)^(\w+), .*\d+ ranks?, .*$", out.decode())


class Bench(ToolTest):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = lambda name: os.path.join(directory.name, name)

    def bench(self, *words, env=None):
        """Exit status, output, and errors without the announcement, which is in self.announced."""
        rc, out, err = self.muster("bench", *words, env={**QUIET, **(env or {})})
        self.announced, err = re.fullmatch(rb"(muster bench(?:: measures| \w+: starts) .*\n)?((?s:.*))", err).groups()
        return rc, out, err

    def json_of(self, *words, rc=0, env=None):
        path = self.path("figures.json")
        status, out, err = self.bench(*words, "--json", path, env=env)
        self.assertEqual(status, rc, (out, err))
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file], out, err


class Figures(Bench):
    def check_line(self, line):
        self.assertEqual(list(line), KEYS)
        self.assertGreater(line["us_median"], 0)
        self.assertGreaterEqual(line["us_p99"], line["us_median"])
        algbw = line["bytes"] / line["us_median"] / 1e3
        self.assertAlmostEqual(line["algbw_GBps"] / algbw if algbw else 1, 1, delta=1e-3)
        expected = algbw * bus(line["op"], line["ranks"])
        self.assertAlmostEqual(line["busbw_GBps"] / expected if expected else 1, 1, delta=1e-3)
        self.assertEqual(line["wrong"], 0)

    def test_every_operation(self):
        lines, out, err = self.json_of("all", *SMALL, "--backend", "native", "--ranks", "3")
        self.assertEqual(err, b"")
        self.assertRegex(out, rb"\Aoperations on .* \d+ cores, .*\nnative: muster \d+\.\d+\.\d+\n")
        self.assertEqual(heads_of(out), list(OPS))
        self.assertRegex(
            self.announced,
            rb"measures all_reduce, .*, barrier of f32 from 4 B to 64 B with 3 ranks on this machine: muster; "
            rb"starts the ranks 18 times, for about \d+ seconds in total\n",
        )
        for line in lines:
            self.check_line(line)
            self.assertEqual((line["ranks"], line["hosts"], line["buffers"], line["ratio_to"]), (3, 1, "hot", None))
        for op in OPS:
            sizes = [12, 60] if op in BLOCKS else [0] if op == "barrier" else [4, 64]
            forms = [False] if op in ONE_FORM else [False, True]
            found = [(line["in_place"], line["bytes"]) for line in lines if line["op"] == op]
            self.assertEqual(found, [(form, size) for form in forms for size in sizes], op)
        self.check_layout(out.decode(), lines)

    def check_layout(self, out, lines):
        """The table of one backend has the columns of nccl-tests and fits 100 columns."""
        times = r" +([\d.]+|N/A) +([\d.]+|-|N/A) +([\d.]+|-|N/A) +(\d+|N/A)"
        rows = re.findall(rf"(?m)^ +(\d+) +(\d+) +(\w+|-) +(sum|-){times}{times}$", out)
        self.assertEqual(len(rows), len([line for line in lines if not line["in_place"]]))
        self.assertLessEqual(max(map(len, out[out.index("\nall_reduce, ") :].splitlines())), 110)
        self.assertRegex(out, r"(?m)^#  +out-of-place  +in-place$")
        self.assertRegex(out, r"(?m)^# +size +count +dtype +redop( +time +algbw +busbw +#wrong){2}$")
        self.assertRegex(out, r"(?m)^# average busbw: [\d.]+ GB/s$")
        for row, line in zip(rows, [line for line in lines if not line["in_place"]], strict=True):
            blocks = 3 if line["op"] in BLOCKS else 1
            self.assertEqual(row[:2], (str(line["bytes"]), str(line["bytes"] // 4 // blocks)))
            self.assertEqual(row[3], "sum" if line["op"] in ("all_reduce", "reduce", "reduce_scatter") else "-")
            self.assertEqual(row[7], "0")
            self.assertEqual(row[8:], ("N/A",) * 4 if line["op"] in ONE_FORM else (*row[8:11], "0"))

    def test_dtypes_buffers_ranks_and_csv(self):
        table = self.path("figures.csv")
        lines, out, _ = self.json_of(
            "all_reduce", "scatter", "barrier", *QUICK, "--bytes", "64", "--backend", "native", "--ranks", "1,2",
            "--dtype", "bf16,f8e5m2", "--buffers", "rotate,symmetric", "--csv", table,
        )  # fmt: skip
        kinds = {(x["op"], x["ranks"], x["dtype"], x["buffers"], x["in_place"]) for x in lines}
        self.assertEqual(len(kinds), 2 * 2 * 2 * 2 * 2 + 2)
        self.assertEqual(len(heads_of(out)), 2 * 2 * 2 * 2 + 2)
        for line in lines:
            self.check_line(line)
        with open(table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["us_median"] for row in rows], [f"{line['us_median']:.4f}" for line in lines])

    def test_sizes_are_rounded(self):
        lines, out, _ = self.json_of("all_reduce", "gather", *QUICK, "--bytes", "3:1K:2", "--backend", "native", "--ranks", "3", "--place", "out")
        sizes = {op: [line["bytes"] for line in lines if line["op"] == op] for op in ("all_reduce", "gather")}
        self.assertEqual(sizes["all_reduce"], [4, 12, 24, 48, 96, 192, 384, 768])
        self.assertEqual(sizes["gather"], [12, 24, 48, 96, 192, 384, 768])
        self.assertIn(b"\nsizes are multiples of 4 bytes: 3 became 4\n", out)
        self.assertIn(b"\nsizes are multiples of 12 bytes: 3 became 12\n", out)
        _, out, _ = self.json_of("scatter", *QUICK, "--bytes", "64:1K:2", "--backend", "native", "--ranks", "3", "--dtype", "f64")
        self.assertIn(b"\nsizes are multiples of 24 bytes: 64 became 48, 128 became 120, 256 became 240, and 2 more were rounded\n", out)
        _, out, _ = self.json_of("scatter", *SMALL, "--backend", "native")
        self.assertIn(b"4 became 8", out)
        _, out, _ = self.json_of("all_reduce", "barrier", *SMALL, "--backend", "native")
        self.assertNotIn(b"became", out)

    def test_simulated_hosts(self):
        lines, out, _ = self.json_of("all_reduce", *SMALL, "--backend", "native", "--hosts-simulated", 8)
        self.assertEqual({line["hosts"] for line in lines}, {2})
        self.assertIn(b"2 simulated hosts", out)

    @unittest.skipUnless(all(map(os.path.exists, (*FAKES.values(), NCCL))), "the backend nccl or the tests' own CUDA was not built")
    def test_buffers_on_a_device(self):
        lines, out, _ = self.json_of("all", *SMALL, "--backend", "nccl", "--dtype", "f16", env=FAKES)
        self.assertEqual({line["op"] for line in lines}, set(OPS) - {"barrier"})
        for line in lines:
            self.check_line(line)
        self.assertIn(b"nccl: not supported: a barrier has no buffers", out)

    def test_a_loadable_module(self):
        lines, out, err = self.json_of("all_reduce", "send_recv", *SMALL, "--backend", "native,minimal", env=SAMPLE)
        self.assertEqual(err, b"")
        self.assertIn(b"minimal: muster over minimal (an example that uses the store)", out)
        self.assertEqual([line["backend"] for line in lines], ["native", "minimal"] * 4)
        for line in lines:
            self.check_line(line)
        self.assertIn(b"minimal", self.bench(env=SAMPLE)[1])

    def test_shares_of_the_lower_bound(self):
        rc, out, err = self.bench("all_reduce", *QUICK, "--bytes", "64", "--backend", "native", "--limits")
        self.assertEqual((rc, err), (0, b""))
        self.assertRegex(out, rb"(?m)^ +bytes .* bound +reached$")
        self.assertRegex(out, rb"(?m)^ +64 +native .* 0 .*\d%$")

    @unittest.skipUnless(MPI, "Open MPI is not installed")
    def test_ratios_and_the_plot(self):
        picture = self.path("figures.svg")
        lines, out, err = self.json_of(
            "all_reduce", "gather", "barrier", *SMALL, "--backend", f"native,{MPI}", "--plot", picture
        )
        self.assertIn(b"on this machine: muster, Open MPI; starts the ranks 6 times", self.announced)
        self.assertFalse(any(line["in_place"] or line["bound"] for line in lines))
        self.assertEqual(err, b"")
        ours = [line for line in lines if line["backend"] == "native"]
        theirs = [line for line in lines if line["backend"] == MPI]
        self.assertEqual(len(ours), 5)
        for mine, other in zip(ours, theirs, strict=True):
            self.check_line(mine)
            self.check_line(other)
            self.assertIsNone(other["ratio_to"])
            self.assertAlmostEqual(mine["ratio_to"][MPI] * mine["us_median"] / other["us_median"], 1, delta=2e-3)
        self.assertIn(b"more than 1: native is faster", out)
        self.assertRegex(out, rb"(?m)^all  .*x ")
        root = ET.parse(picture).getroot()
        space = "{http://www.w3.org/2000/svg}"
        lines = list(root.iter(space + "polyline"))
        self.assertEqual(len(lines), 2 * 2 * 2)  # operations with sizes, panels, backends
        self.assertEqual({len(line.get("points").split()) for line in lines}, {2})
        words = " ".join(text.text for text in root.iter(space + "text"))
        for word in ("all_reduce, 2 ranks", "gather, 2 ranks", "cores", "native", MPI, "microseconds", "GB/s"):
            self.assertIn(word, words)


    @unittest.skipUnless(MPI, "Open MPI is not installed")
    def test_an_mpi_with_settings(self):
        lines, _, _ = self.json_of("barrier", *QUICK, "--backend", f"{MPI},{MPI}:sm")
        times = {line["backend"]: line["us_median"] for line in lines}
        self.assertEqual(sorted(times), [MPI, f"{MPI}:sm"])

    @unittest.skipUnless(MPI, "Open MPI is not installed")
    def test_an_mpi_in_place(self):
        lines, out, _ = self.json_of("all", *SMALL, "--backend", MPI, "--place", "in")
        self.assertEqual({line["op"] for line in lines if line["in_place"]}, set(OPS) - set(ONE_FORM))
        for line in lines:
            self.check_line(line)
        self.assertRegex(out, rb"(?m)^ +64 +16 +f32 +- +N/A +N/A +N/A +N/A +[\d.]+ ")

    @unittest.skipUnless(os.path.exists(GLOO), "the backend gloo was not built")
    def test_the_faster_setting_of_threads(self):
        lines, out, _ = self.json_of("all_reduce", *SMALL, "--backend", "native,gloo")
        self.assertIn(b"starts the ranks 3 times", self.announced)
        found = re.search(rb"(?m)^gloo: its ranks are (not )?bound to processors, which is (\d+\.\d\d) times as fast as (un)?bound$", out)
        self.assertGreaterEqual(float(found[2]), 1)
        self.assertEqual(bool(found[1]), not found[3])
        bound = {line["backend"]: line["bound"] for line in lines}
        self.assertEqual(bound, {"native": False, "gloo": not found[1]})


class Trouble(Bench):
    def test_a_wrong_result_is_counted_and_reported(self):
        lines, out, err = self.json_of(
            "all_reduce", "gather", *SMALL, "--backend", "native", rc=1, env={"BENCH_TEST_CORRUPT": "1"}
        )
        self.assertEqual({(line["op"], line["in_place"]) for line in lines}, {(op, form) for op in ("all_reduce", "gather") for form in (False, True)})
        self.assertTrue(all(line["wrong"] > 0 for line in lines), lines)
        self.assertRegex(out, rb"(?m)^native: WRONG: \d+ elements; the first: \d+ bytes: rank 1 of 2: element 0 is ")
        self.assertRegex(out, rb"(?m)^native: in place: WRONG: \d+ elements")
        self.assertEqual(err, b"muster bench: results were wrong\n")
        rows = re.findall(r"(?m)^ +\d+ +\d+ +f32 .*$", out.decode())
        shown = [count for row in rows for count in (row.split()[7], row.split()[11])]
        counted = sorted(line["wrong"] for line in lines)
        self.assertEqual(sorted(map(int, shown)), counted)

    def test_unusable_backends_are_left_out(self):
        with tempfile.TemporaryDirectory() as empty:
            lines, out, err = self.json_of("barrier", *QUICK, "--backend", "native,openmpi,mpi", env={"PATH": empty})
        self.assertEqual(err, b"")
        self.assertIn(b"on this machine: muster; starts the ranks 1 times", self.announced)
        self.assertRegex(out, rb"(?m)^openmpi is skipped: cannot find 'mpirun' in PATH")
        self.assertRegex(out, rb"(?m)^mpi is skipped: cannot find 'mpirun' in PATH")
        self.assertEqual([line["backend"] for line in lines], ["native"])

    def test_no_backend_is_usable(self):
        with tempfile.TemporaryDirectory() as empty:
            lines, out, err = self.json_of("barrier", *QUICK, "--backend", "mpich", rc=1, env={"PATH": empty})
        self.assertEqual(lines, [])
        self.assertIn(b"mpich is skipped", out)
        self.assertEqual(err, b"muster bench: none of the backends is usable\n")

    @unittest.skipUnless(MPI, "Open MPI is not installed")
    def test_a_dtype_that_a_backend_lacks(self):
        lines, out, _ = self.json_of("broadcast", *SMALL, "--backend", f"native,{MPI}", "--dtype", "bf16")
        self.assertEqual([line["backend"] for line in lines], ["native"] * 2)
        self.assertIn(f"{MPI}: not supported: MPI has no bf16".encode(), out)

    def under_way(self):
        """The benchmark's directory and the number of the current trial, from the arguments of its ranks."""
        for pid in self.marked():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as words:
                    found = re.search(rb"\0(/tmp/[^/]*)/results\.(\d+)\0", words.read())
            except (FileNotFoundError, ProcessLookupError):
                continue
            if found:
                return found[1].decode(), int(found[2])
        return None, 0

    def trial(self):
        return self.under_way()[1]

    def begin_long(self):
        """A benchmark that runs until a signal ends it, and its directory."""
        bench = self.begin(
            "bench", "barrier", "--rounds", 100, "--seconds", 1, "--backend", "native", env=QUIET,
        )  # fmt: skip
        return bench, wait_until(lambda: self.under_way()[0], "the directory of the benchmark")

    def test_signals_leave_no_directory(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            bench, directory = self.begin_long()
            bench.send(number)
            self.assertEqual(bench.finish()[0], 128 + number)
            self.assertFalse(os.path.exists(directory))

    def test_leftovers_are_removed_and_others_are_not(self):
        bench, left = self.begin_long()
        bench.send(signal.SIGKILL)
        bench.finish()
        wait_until(lambda: not self.marked(), "the end of its ranks")
        other, used = self.begin_long()
        self.assertTrue(os.path.exists(left), "it may be new and not yet locked")
        for directory in (left, used):
            os.utime(directory, (0, 0))
        self.assertEqual(self.bench("barrier", *QUICK, "--backend", "native")[0], 0)
        self.assertFalse(os.path.exists(left))
        self.assertTrue(os.path.exists(used))
        other.send(signal.SIGTERM)
        other.finish()

    def test_an_interruption_keeps_the_results(self):
        path, picture = self.path("figures.json"), self.path("figures.svg")
        bench = self.begin(
            "bench", "barrier", "send_recv", "--rounds", 100, "--seconds", 0.01, "--bytes", 64, "--backend", "native",
            "--json", path, "--plot", picture, env=QUIET,
        )  # fmt: skip
        wait_until(lambda: self.trial() > 3, "the third round")
        bench.send(signal.SIGINT)
        rc, out, err = bench.finish()
        self.assertEqual(rc, 128 + signal.SIGINT)
        self.assertRegex(err, r"\Amuster bench: measures .*\nmuster bench: interrupted\n\Z")
        self.assertEqual(heads_of(out.encode()), ["send_recv"])
        with open(path, encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["op"] for line in file], ["send_recv"])
        self.assertEqual(len(list(ET.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}polyline"))), 2)

    def test_a_setting_that_is_wrong(self):
        rc, out, err = self.bench("barrier", env={"MUSTER_STAGE": "x"})
        self.assertEqual((rc, out), (2, b""))
        self.assertRegex(err, rb"\Amuster bench: MUSTER_STAGE='x' is not a whole number from 0 to 1; correct .*\n\Z")

    def test_mistakes_are_refused(self):
        new, old, link = map(self.path, ("new", "old", "link"))
        with open(old, "w", encoding="utf-8") as file:
            file.write("figures of yesterday")
        os.symlink(old, link)
        mistakes = (
            (("allreduce",), b"unknown operation 'allreduce'; did you mean 'all_reduce'?"),
            (("xyzzy",), b"unknown operation 'xyzzy'"),
            (("barrier", "--frob"), b"unknown option '--frob'"),
            (("barrier", "--backend", "nativ"), b"unknown backend 'nativ'; did you mean 'native'?"),
            (("barrier", "--backend", "minimul"), b"unknown backend 'minimul'; did you mean 'minimal'?"),
            (("barrier", "--backend", "xyzzy"), b"gloo nccl minimal openmpi mpich openmpi:nocma openmpi:sm openmpi:ucx mpich:nocma torch; modules mst_backend_xyzzy.so are searched"),
            (("barrier", "--hosts-simulated", "2", "--backend", "openmpi:sm"), b"openmpi:sm is for one host"),
            (("barrier", "--backend", ""), b"--backend needs a name"),
            (("barrier", "--backend", "native,native"), b"'native' twice"),
            (("barrier", "--dtype", "bf17"), b"unknown dtype 'bf17'; did you mean 'bf16'?"),
            (("barrier", "--buffers", "cold"), b"hot, rotate and symmetric, not 'cold'"),
            (("barrier", "--place", "here"), b"--place takes out, in or both, not 'here'"),
            (("barrier", "--bytes", "4:x"), b"--bytes takes MIN:MAX:N"),
            (("barrier", "--bytes", "0:4"), b"--bytes takes MIN:MAX:N"),
            (("barrier", "--bytes", "-4"), b"--bytes takes MIN:MAX:N"),
            (("barrier", "--bytes", "4:64:1"), b"--bytes takes MIN:MAX:N"),
            (("barrier", "--bytes", "8G"), b"--bytes takes MIN:MAX:N"),
            (("barrier", "--bytes", "64:4"), b"begins with the larger size"),
            (("barrier", "--ranks", "1025"), b"from 1 to 1024, not '1025'"),
            (("barrier", "--ranks", "0"), b"from 1 to 1024, not '0'"),
            (("barrier", "--seconds", "0"), b"more than 0"),
            (("barrier", "--json", "/nowhere/x"), b"cannot write to /nowhere/x"),
            (("barrier", "--plot", "/nowhere/x"), b"cannot write to /nowhere/x"),
            (("barrier", "--json", new, "--csv", new), b"--json and --csv name the same file"),
            (("barrier", "--csv", old, "--plot", f"{os.path.dirname(old)}/./old"), b"--csv and --plot name the same file"),
            (("barrier", "--json", old, "--plot", link), b"--json and --plot name the same file"),
            (("--rounds", "1"), b"name an operation"),
            (("limits", "--processes", "0"), b"not '0'"),
            (("limits", "word"), b"unexpected argument 'word'"),
            (("init", "--peers", "muster,xyzzy"), b"--peers takes muster, openmpi, mpich and torch, not 'xyzzy'"),
            (("kernels", "--op", "xyzzy"), b"unknown operation 'xyzzy'"),
            (("kernels", "--dtypes", "f3"), b"nothing to measure"),
            (("prof", "--way", "xyzzy"), b"--way takes off, flight, recorded, summed, tick or clock, not 'xyzzy'"),
        )
        for words, message in mistakes:
            rc, out, err = self.bench(*words, env=SAMPLE)
            self.assertEqual((rc, out), (2, b""), words)
            self.assertIn(message, err)
            self.assertEqual(err.count(b"\n"), 1)
        self.assertFalse(os.path.exists(new))
        with open(old, encoding="utf-8") as file:
            self.assertEqual(file.read(), "figures of yesterday")


class Others(Bench):
    def test_without_arguments_it_lists_the_choices(self):
        rc, out, err = self.bench()
        self.assertEqual((rc, err), (0, b""))
        for word in OPS + ("native", "gloo", "bf16", "limits", "store", "init", "kernels", "prof"):
            self.assertIn(word.encode(), out)

    def test_limits(self):
        lines, out, err = self.json_of("limits", "--rounds", 1, "--seconds", 0.001)
        self.assertEqual(err, b"")
        self.assertIn(b"copy (memcpy)", out)
        kinds = {line["limit"] for line in lines}
        self.assertLessEqual({"copy_GBps", "add_GBps"}, kinds)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertEqual(kinds, {"copy_GBps", "add_GBps", "tcp_GBps", "line_us", "tcp_us"})
        for line in lines:
            self.assertEqual(list(line), ["limit", "bytes", "processes", "value"])
            self.assertGreater(line["value"], 0)

    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "there is one processor")
    def test_limits_keep_no_connection(self):
        """A single worker has no connection, and the parent keeps no ends of the others' connections."""
        bench = self.begin("bench", "limits", "--processes", "1,2", "--rounds", 1, "--seconds", 0.1, env=QUIET)

        def is_apart():
            with open(f"/proc/{bench.pid}/task/{bench.pid}/children", encoding="utf-8") as children:
                two = len(children.read().split()) == 2
            names = [f"/proc/{bench.pid}/fd/{name}" for name in os.listdir(f"/proc/{bench.pid}/fd") if int(name) > 2]
            try:
                return two and not any(os.readlink(name).startswith("socket:") for name in names)
            except FileNotFoundError:  # closed meanwhile
                return False

        wait_until(is_apart, "two workers and a parent without connections", 20)
        self.assertEqual(bench.finish()[0], 0)

    def test_store(self):
        table = self.path("store.csv")
        options = ("--clients", 2, "--barrier", 4, "--rounds", 1, "--seconds", 0.01, "--python", "/bin/false", "--csv", table)
        rc, out, err = self.bench("store", *options)
        self.assertEqual((rc, err), (0, b"muster bench store: /bin/false has no torch; torch is left out\n"))
        with open(table, newline="", encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(len(lines), 7 + 3)
        for line in lines:
            name, *figures = line.rsplit(",", 1 if line.startswith("barrier") else 8)
            self.assertIn(name.removeprefix("barrier ").encode(), out)
            self.assertGreater(float(figures[0]), 0, line)

    def test_init(self):
        table = self.path("init.csv")
        options = ("--ranks", 2, "--threads", 3, "--reps", 2, "--peers", "muster,mpich,torch", "--python", "/bin/false")
        with tempfile.TemporaryDirectory() as empty:
            rc, out, err = self.bench("init", *options, "--csv", table, env={"PATH": empty})
        self.assertEqual((rc, err), (0, b""), out)
        self.assertIn(b"starts worlds of 2 processes on this machine, 2 times each, with muster,mpich,torch", self.announced)
        self.assertIn(b"MPICH is skipped: cannot find 'mpirun' in PATH", out)
        self.assertIn(b"torch gloo is skipped: /bin/false fails: no output", out)
        with open(table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        expected = [("muster", "2"), ("threads-hash", "3"), ("threads-tcp", "3")]
        self.assertEqual([(row["backend"], row["ranks"]) for row in rows[::2]], expected)
        for row in rows:
            self.assertEqual((row["runs"], row["outcome"]), ("2", "fine"))
            self.assertLessEqual(0, float(row["min_ms"]))
            self.assertLessEqual(float(row["min_ms"]), float(row["median_ms"]))
            self.assertLessEqual(float(row["median_ms"]), float(row["max_ms"]))
        rc, out, err = self.bench("init", "--ranks", 2, "--threads", 0, "--reps", 1, "--peers", "muster", "--json")
        self.assertEqual((rc, err), (0, b""))
        (case,) = json.loads(out)["cases"]
        self.assertEqual((case["backend"], case["ranks"], case["outcome"]), ("muster", 2, "fine"))
        self.assertGreater(case["wall_seconds"][0], case["first_barrier_seconds"][0])

    def test_kernels_and_prof(self):
        rc, out, err = self.bench("kernels", "--rounds", 1, "--dtypes", "bf16,f32", "--inputs", 3)
        self.assertEqual((rc, err), (0, b""))
        self.assertEqual(re.findall(rb"(?m)^(\w+) +(?:[\d.]+ *){9}$", out), [b"f32", b"bf16"])
        rc, out, err = self.bench("prof", "--rounds", 1)
        self.assertEqual((rc, err), (0, b""))
        self.assertEqual(len(re.findall(rb"(?m)^[a-z_() ]+ [\d.]+(?: +-?[\d.]+)?$", out)), 6)
        self.assertEqual(self.bench("prof", "--rounds", 1, "--way", "flight"), (0, b"", b""))

    def test_the_chart_of_the_readme(self):
        figures, picture = self.path("figures.json"), self.path("chart.svg")
        with open(figures, "w", encoding="utf-8") as file:
            for op in ("all_reduce", "send_recv", "gather"):
                for k, backend in enumerate(("native", "openmpi", "mpich", "gloo", "mpi")):
                    for size in (4, 1024, 2**20):
                        line = {"backend": backend, "op": op, "dtype": "f32", "ranks": 2, "hosts": 1, "bytes": size}
                        print(json.dumps({**line, "us_median": 0.3 * (k + 1) * (1 + size / 1000)}), file=file)
        pictures = []
        for _ in range(2):
            subprocess.run([sys.executable, CHART, "--note", "a <test>", picture, figures], check=True, timeout=60)
            with open(picture, encoding="utf-8") as file:
                pictures.append(file.read())
        self.assertEqual(*pictures)
        self.assertIn("prefers-color-scheme: dark", pictures[0])
        space = "{http://www.w3.org/2000/svg}"
        root = ET.fromstring(pictures[0])
        self.assertEqual(root.get("width"), "800")
        lines = list(root.iter(space + "polyline"))
        self.assertEqual(sorted(line.get("class") for line in lines), sorted(2 * ["line gloo", "line mpich", "line native", "line openmpi"]))
        heights = [[float(point.split(",")[1]) for point in line.get("points").split()] for line in lines]
        self.assertTrue(all(ys == sorted(ys, reverse=True) for ys in heights), "longer times are higher")
        words = [text.text for text in root.iter(space + "text")]
        for word in ("all_reduce", "send_recv", "muster", "Open MPI", "MPICH", "Gloo", "1 µs", "4 B", "1 KiB"):
            self.assertIn(word, words)
        self.assertRegex(" ".join(words), r"2 ranks on one host, f32.* cores, .*muster \d.*; a <test>")
        rc = subprocess.run([sys.executable, CHART, picture, figures, "scatter"], capture_output=True, timeout=60, check=False)
        self.assertIn(b"no results of these operations", rc.stderr)

    def test_the_tables_of_a_document(self):
        figures, document = self.path("figures.json"), self.path("page.md")
        line = {"op": "all_reduce", "dtype": "f32", "ranks": 2, "hosts": 1, "bytes": 4, "buffers": "hot"}
        more = {"us_p99": 2.0, "algbw_GBps": 0.1, "busbw_GBps": 0.1, "wrong": 0}
        with open(figures, "w", encoding="utf-8") as file:
            others = {"gloo": 9.0, "openmpi": 3.0, "mpich": 4.0, "openmpi:sm": 2.0}
            for backend, us, ratio in (("native", 0.25, others), *((name, 0.25 * x, None) for name, x in others.items())):
                print(json.dumps({"backend": backend, **line, "us_median": us, "ratio_to": ratio, **more}), file=file)
        with open(document, "w", encoding="utf-8") as file:
            file.write("before\n<!-- make bench: begin -->\nold\n<!-- make bench: end -->\nafter\n")
        texts = []
        for _ in range(2):
            subprocess.run([sys.executable, SCRIPT, document, figures], check=True, timeout=60)
            with open(document, encoding="utf-8") as file:
                texts.append(file.read())
        self.assertEqual(*texts)
        self.assertRegex(texts[0], r"(?s)\Abefore\n.*cores, .*after\n\Z")
        self.assertIn("| 4 B | 0.25, 2.00× |", texts[0])
        self.assertIn("| geometric mean, worst | gloo | openmpi | mpich | faster MPI | fastest MPI, tuned |", texts[0])
        self.assertIn("| all | 9.00×, 9.00× | 3.00×, 3.00× | 4.00×, 4.00× | 3.00×, 3.00× | 2.00×, 2.00× |", texts[0])
        self.assertNotIn("old", texts[0])


if __name__ == "__main__":
    unittest.main()
