"""muster info --schedule: the chart, the picture, the data; and the pictures and charts of docs/ are what the tool makes now."""

import fcntl
import json
import os
import pathlib
import pty
import re
import shlex
import struct
import tempfile
import termios
import unittest
import xml.etree.ElementTree as xml

from harness import ToolTest

SOURCE = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", pathlib.Path(__file__).resolve().parent.parent.parent))

ONE = """\
1f1b: 2 stages, 3 micro-batches; a backward takes 2 forwards' time

time     0              5              10
stage 0  F0 F1 ·  ·  B0--- F2 B1--- ·  B2---
stage 1  ·  F0 B0--- F1 B1--- F2 B2--- ·  ·

takes 12 forwards' time; bubble 25.0 % = (p-1)/(m+p-1) = 1/4
"""


class InfoSchedule(ToolTest):
    def schedule(self, *options):
        rc, out, err = self.muster("info", "--schedule", *options)
        self.assertEqual((rc, err), (0, b""), options)
        return out.decode()

    def refused(self, part, *options, rc=2):
        got, out, err = self.muster("info", "--schedule", *options)
        self.assertEqual((got, out), (rc, b""), options)
        self.assertEqual(err.count(b"\n"), 1)
        self.assertIn(part, err.decode())

    def test_chart(self):
        out = self.schedule("1f1b", "--stages", "2", "--microbatches", "3", "--backward", "2")
        self.assertTrue(out.startswith(ONE), out)

    def test_summary(self):
        out = self.schedule("1f1b", "--stages", "4", "--microbatches", "8")
        self.assertIn("bubble 27.3 % = (p-1)/(m+p-1) = 3/11", out)
        kept = re.findall(r"(?m)^\d+ +27\.3 % +(\d+) ", out)
        self.assertEqual(kept, ["4", "3", "2", "1"])
        self.assertRegex(out, r"(?m)^3 .* 8 in    0 out     0 in    8 out$")
        out = self.schedule("interleaved", "--stages", "4", "--microbatches", "8")
        self.assertIn("15.8 % = (p-1)/(v·m+p-1) = 3/19", out)

    def test_stream(self):
        out = self.schedule("stream", "--stages", "2", "--batches", "2", "--tokens", "3")
        self.assertIn("stage 0  P0 P1 T0 T1 T0 T1 ·\n", out)
        self.assertIn("stage 1  ·  P0 P1 T0 T1 T0 T1\n", out)

    def test_wide_charts_go_on_below(self):
        out = self.schedule("gpipe", "--stages", "3", "--microbatches", "40")
        self.assertTrue(all(len(line) <= 110 for line in out.splitlines()))
        lines = [line[9:] for line in out.splitlines() if line.startswith("stage 1 ")]
        self.assertGreater(len(lines), 1)
        whole = " ".join(lines).split()
        self.assertEqual([cell for cell in whole if cell != "·"], [f"F{i}" for i in range(40)] + [f"B{i}" for i in range(40)])

    def test_list_of_a_stage(self):
        out = self.schedule("gpipe", "--stages", "2", "--microbatches", "2", "--stage", "1")
        self.assertRegex(out, r"(?m)^ +0 +0  receive activations 0 of micro-batch 0 from stage 0 into buffer 0$")
        self.assertRegex(out, r"(?m)^ +\d+ +\d+  backward micro-batch 1$")

    def test_json(self):
        data = json.loads(self.schedule("stream", "--stages", "3", "--tokens", "2", "--json"))
        self.assertEqual([stage["keeps"] for stage in data["stages"]], [3, 3, 3])
        first, last = data["stages"][0]["actions"], data["stages"][-1]["actions"]
        sent = [(a["batch"], a["token"]) for a in last if a["kind"] == "send" and a["channel"] == "tokens"]
        came = [(a["batch"], a["token"]) for a in first if a["kind"] == "receive" and a["channel"] == "tokens"]
        self.assertEqual(sent, [(batch, token) for token in range(2) for batch in range(3)])
        self.assertEqual(sent, came)
        self.assertEqual(sum(a["kind"] == "take" for a in first), 3)

    def test_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.svg")
            self.assertEqual(self.schedule("interleaved", "--stages", "3", "--svg", path), "")
            text = pathlib.Path(path).read_text()
        self.assertEqual(text, self.schedule("interleaved", "--stages", "3", "--svg", "-"))
        self.assertIn("prefers-color-scheme:dark", text)
        root = xml.fromstring(text)
        cells = [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if e.get("class") in ("f0", "f1", "b0", "b1")]
        self.assertEqual(len(cells), 3 * 6 * 2 * 2 + 4)  # and the keys
        right = float(root.get("width"))
        self.assertTrue(all(float(e.get("x")) + float(e.get("width")) <= right for e in cells))

    def on_terminal(self, columns, *options, **env):
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = self.popen("info", "--schedule", *options, stdout=follower, env={"TERM": "xterm", "NO_COLOR": "", **env})
        os.close(follower)
        out = b""
        try:
            while part := os.read(leader, 65536):
                out += part
        except OSError:  # EIO: the other end is closed
            pass
        os.close(leader)
        _, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, b""))
        return out.decode()

    def test_terminal(self):
        out = self.on_terminal(70, "1f1b", "--backward", "2")
        self.assertIn("\033[30;104mF0\033[0m", out)
        plain = re.sub("\033\\[[0-9;]*m", "", out)
        chart = [line for line in plain.splitlines() if line.startswith(("time ", "stage 0 "))]
        self.assertEqual(len(chart), 4)  # it goes on below
        self.assertTrue(all(len(line) <= 70 for line in chart), chart)
        self.assertNotIn("\033", self.on_terminal(70, "1f1b", NO_COLOR="1"))

    def test_mistakes(self):
        self.refused("did you mean '1f1b'?", "1f1")
        self.refused("use stream, forward, gpipe, 1f1b or interleaved", "everything")
        self.refused("--stages takes a whole number from 1 to 4096", "1f1b", "--stages", "0")
        self.refused("1f1b has one; use the schedule interleaved", "1f1b", "--chunks", "2")
        self.refused("use the schedule stream", "gpipe", "--tokens", "2")
        self.refused("--inner needs --schedule stream", "gpipe", "--inner", "2")
        self.refused("--backward needs a schedule for training, not stream", "stream", "--backward", "2")
        self.refused("--json and --svg cannot be combined", "gpipe", "--json", "--svg", "-")
        self.refused("--mesh and --schedule cannot be combined", "gpipe", "--mesh", "dp=2")
        self.refused("--ranks needs --plan", "gpipe", "--ranks", "3")
        self.refused("the last stage is 3", "gpipe", "--stage", "4")
        self.refused("the limit is", "stream", "--batches", "1000000", "--tokens", "1000000")
        self.refused("too many to draw", "gpipe", "--stages", "4096", "--microbatches", "1048576")
        self.refused("too wide", "gpipe", "--microbatches", "5000", "--svg", "-")
        self.refused("No such file or directory", "gpipe", "--svg", "/nonexistent/a.svg", rc=1)


class Docs(ToolTest):
    """Each command in docs/pipelines.md is run again; what it writes or prints must be what is there."""

    text = (SOURCE / "docs/pipelines.md").read_text()

    def test_pictures(self):
        commands = re.findall(r"<!-- muster (info --schedule .*) -->", self.text)
        self.assertGreaterEqual(len(commands), 4)
        for command in commands:
            *words, path = shlex.split(command)
            rc, out, err = self.muster(*words, "-")
            self.assertEqual((rc, err), (0, b""), command)
            self.assertEqual(out, (SOURCE / path).read_bytes(), f"run: muster {command}")
            self.assertIn(f"](pictures/{pathlib.Path(path).name})", self.text)

    def test_charts(self):
        charts = re.findall(r"```console\n\$ muster (info .*)\n((?:.*\n)*?)```", self.text)
        self.assertGreaterEqual(len(charts), 1)
        for command, printed in charts:
            rc, out, _ = self.muster(*shlex.split(command))
            self.assertEqual((rc, out.decode()), (0, printed), f"run: muster {command}")


if __name__ == "__main__":
    unittest.main()
