"""The backend nccl without a GPU: the module, and the library over it, with the CUDA runtime and the NCCL of tests/fake_cuda."""

import json
import pathlib
import re
import subprocess

from collective_kit import CollectiveTest
from harness import BUILD, MUSTER, PROGRAMS, main

MODULE = BUILD / "lib/muster/mst_backend_nccl.so"
FAKES = {
    "MUSTER_NCCL_LIBRARY": PROGRAMS / "libfake_nccl.so", "MUSTER_CUDART_LIBRARY": PROGRAMS / "libfake_cudart.so",
    "MUSTER_BACKEND_PATH": MODULE.parent, "MUSTER_BACKEND": "cpu:native,cuda:nccl",
}  # fmt: skip


class NcclTest(CollectiveTest):
    def run_program(self, *command, env=None, status=0):
        """What it wrote; all its ranks have ended."""
        process = self.popen(*command, env={**FAKES, **(env or {})}, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        out, _ = process.communicate(timeout=100)
        out = out.decode(errors="replace")
        self.assertEqual(process.returncode, status, out[-4000:])
        return out

    def engine(self, n, scenario, **options):
        return self.run_program(PROGRAMS / "nccl_engine", MODULE, n, scenario, **options)

    def world(self, n, mode, **options):
        return self.run_program(MUSTER, "run", "-n", n, PROGRAMS / "nccl_world", mode, **options)


class Module(NcclTest):
    def test_probe(self):
        out = self.engine(1, "probe")
        self.assertIn("usable: NCCL 2.28.9, CUDA runtime 13.0, driver for 13.0, 2 GPUs", out)

    def test_missing_library(self):
        out = self.engine(1, "probe", env={"MUSTER_NCCL_LIBRARY": "/nowhere/libnccl.so.2"}, status=1)
        for part in ("not usable: NCCL cannot be loaded", "/nowhere/libnccl.so.2", "set MUSTER_NCCL_LIBRARY"):
            self.assertIn(part, out)
        out = self.engine(1, "probe", env={"MUSTER_CUDART_LIBRARY": "/nowhere/libcudart.so"}, status=1)
        self.assertIn("not usable: the CUDA runtime cannot be loaded", out)

    def test_no_library_of_the_name(self):
        """The runtime is a library, but no NCCL."""
        out = self.engine(1, "probe", env={"MUSTER_NCCL_LIBRARY": FAKES["MUSTER_CUDART_LIBRARY"]}, status=1)
        self.assertIn("it has no ncclGetVersion", out)

    def test_too_old(self):
        out = self.engine(1, "probe", env={"FAKE_NCCL_VERSION": 21703}, status=1)
        self.assertIn("NCCL 2.17.3 is too old: this needs 2.18.1 or later", out)

    def test_no_gpu(self):
        out = self.engine(1, "probe", env={"FAKE_CUDA_DEVICES": 0}, status=1)
        self.assertIn("no GPU can be used here: no CUDA-capable device is detected", out)

    def test_everything(self):
        for n in (1, 2, 3, 4):
            with self.subTest(ranks=n):
                self.assertIn("nccl_engine: close", self.engine(n, "all"))

    def test_strict(self):
        """What NCCL does in its own way, where that is asked for."""
        self.engine(2, "all", env={"MUSTER_NCCL_STRICT": 1})

    def test_nothing_is_left(self):
        """Streams, events and memory are given back, whatever became of the communicators."""
        report = pathlib.Path(self.path("report"))
        for scenario in ("memory", "all", "death"):
            self.engine(2, scenario, env={"FAKE_CUDA_REPORT": report})
        lines = report.read_text().splitlines()
        self.assertEqual(len(lines), 5)  # who dies says nothing
        for line in lines:
            self.assertIn("streams 0 events 0 blocks 0 ", line)

    def test_rank_never_comes(self):
        out = self.engine(3, "absent")
        self.assertEqual(out.count("NCCL did not connect the ranks before the deadline"), 2)

    def test_rank_dies(self):
        self.assertEqual(self.engine(3, "death").count("abort and close took"), 2)

    def test_nccl_says_that_a_rank_is_lost(self):
        out = self.engine(2, "broken", env={"FAKE_NCCL_BREAK": "0 3"})
        self.assertRegex(out, r"NCCL: (launching )?an operation: remote process exited or there was a network error: a fake")

    def test_device(self):
        out = self.engine(1, "memory", env={"MUSTER_CUDA_DEVICE": "7"}, status=1)
        self.assertIn('MUSTER_CUDA_DEVICE is "7", and there are 2 GPUs', out)
        self.engine(2, "memory", env={"MUSTER_CUDA_DEVICE": "1"})


class Library(NcclTest):
    def test_suite(self):
        for n in (1, 2, 4):
            with self.subTest(ranks=n):
                out = self.run_suite(n, "--quick", "--device", "--seed", 2000 + n, env=FAKES)
                self.assertRegex(out, r"collective: ok: \d{4,} cases")

    def test_lost(self):
        out = self.world(3, "lost", status=137)
        self.assertEqual(out.count("MST_ERR_PEER_LOST, culprit 2"), 2, out)

    def test_late(self):
        out = self.world(2, "late")
        self.assertIn("rank 0: MST_ERR_STALLED, culprit 1", out)

    def test_host_memory(self):
        out = self.world(2, "host", env={"MUSTER_BACKEND": "nccl"})
        self.assertIn("memory of the host, which backend 'nccl' cannot use", out)
        out = self.world(2, "host", env={"MUSTER_BACKEND": "nccl", "MUSTER_STAGE": 1})
        self.assertIn("staged: 1", out)

    def test_another_current_device(self):
        for n in (1, 2, 3):
            self.world(n, "device")

    def test_later_work_of_the_default_stream(self):
        self.world(2, "first")

    def test_device_of_the_first_buffer(self):
        self.world(2, "buffer")

    def profile(self, **env):
        """Of rank 0's table at the end: size, number of calls and mean time in ms, by name."""
        out = self.world(2, "profile", env={"MUSTER_PROF": "1", **env})
        rows = re.findall(r"^\[0\] (\S.*)\n\[0\] +(\S+ K?B) +(\d+) +(\S+) ", out, re.M)
        return {name: (size, int(count), float(ms)) for name, size, count, ms in rows}

    def test_profile_of_streams(self):
        """What is on a stream counts with the device's time, though its call was over long before."""
        ops = self.profile(FAKE_CUDA_ELAPSED="12.5")
        for name, count in (("all_reduce", 3), ("waited for", 1), ("send", 1)):
            self.assertEqual(ops[name], ("3.91 KB", count, 12.5))

    def test_profile_of_a_graph(self):
        """What is captured moves nothing now, and nobody may ask its events how they go."""
        ops = self.profile(FAKE_CUDA_CAPTURES="1")
        self.assertEqual(ops["all_reduce"][:2], ("0 B", 3))

    def test_streams(self):
        self.world(2, "stream")

    def test_a_group_ends_before_its_stream(self):
        """What was on the stream was called and has not failed; how long it took is not known."""
        traces = pathlib.Path(self.path("traces"))
        self.world(2, "leave", env={"MUSTER_TRACE": traces})
        events = json.loads((traces / "rank-0.trace.json").read_text())
        calls = [(e["args"].get("status"), e["args"].get("device")) for e in events if e["name"] == "left"]
        self.assertEqual(calls, [(None, None)])

    def test_library_is_missing(self):
        """It says why, and native still works."""
        missing = {"MUSTER_NCCL_LIBRARY": "/nowhere/libnccl.so.2"}
        out = self.run_program(MUSTER, "run", "-n", 2, PROGRAMS / "collective", env=missing, status=1)
        self.assertIn("NCCL cannot be loaded", out)
        self.run_suite(2, "--quick", "--only", "all_reduce", env={**FAKES, **missing, "MUSTER_BACKEND": "native"})


if __name__ == "__main__":
    main()
