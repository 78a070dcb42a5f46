"""muster tune: measures every algorithm, and writes prices by which programs choose."""

import os
import re
import tempfile
import unittest

from harness import MUSTER, ToolTest

BRIEF = ("-r", "1", "-s", "0.0005")


class Tune(ToolTest):
    def test_prices_are_written_and_used(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "prices")
            rc, out, err = self.muster("tune", *BRIEF, "--all", "--output", path)
            err = err.decode()
            self.assertEqual((rc, out), (0, b""), err)
            self.assertIn("muster tune: starts 4 ranks on this machine as 2 simulated hosts", err)
            self.assertIn("4 ranks on 2 hosts (simulated", err)
            self.assertRegex(err, r"all_reduce +hierarchical +8 MiB +[\d.]+ us")
            self.assertRegex(err, r"The selected algorithms take [\d.]+x the time of the best ones")
            self.assertIn(f"MUSTER_MODEL={path}", err)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertRegex(text, r"(?m)^remote\.latency +[\d.]+ us ")
            with open(path, "a", encoding="utf-8") as file:
                file.write("remote.latency 1 s\n")
            plan = ("info", "--plan", "all_reduce", "--hosts", "2")
            rc, by_option, err = self.muster(*plan, "--model", path)
            self.assertEqual((rc, err), (0, b""))
            rc, by_setting, err = self.muster(*plan, env={"MUSTER_MODEL": path})
            self.assertEqual((rc, err), (0, b""))
            self.assertEqual(by_option, by_setting)
            rc, by_default, err = self.muster(*plan)
            self.assertNotEqual(by_default, by_setting)

    def test_without_a_file_only_the_model_is_printed(self):
        rc, out, err = self.muster("tune", *BRIEF, "-H", "3", "-n", "1")
        self.assertEqual(rc, 0, err)
        self.assertIn("3 ranks on 3 hosts", err.decode())
        lines = out.decode().splitlines()
        self.assertEqual(len([line for line in lines if re.search(r" (GB/s|us) +# ", line)]), 8)
        for line in lines:
            self.assertRegex(line, r"^(#|[a-z.]+ +[\d.]+)")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            with open(path, "wb") as file:
                file.write(out)
            rc, _, err = self.muster("info", "--plan", "all_reduce", "--hosts", "2", "--model", path)
            self.assertEqual((rc, err), (0, b""))

    def test_ranks_of_one_host_have_nothing_to_choose(self):
        rc, out, err = self.muster("run", "-n", "2", "--", MUSTER, "tune", *BRIEF)
        self.assertEqual(rc, 1)
        self.assertIn("all ranks are on one host", (out + err).decode())

    def test_what_cannot_be_written_is_said(self):
        rc, _, err = self.muster("tune", *BRIEF, "-n", "1", "-o", "/nonexistent/prices")
        self.assertEqual(rc, 1)
        self.assertIn("cannot write /nonexistent/prices", err.decode())

    def test_mistakes(self):
        for words, part in ((("-n", "0"), "-n"), (("-H", "1"), "-H"), (("more",), "more")):
            rc, out, err = self.muster("tune", *words)
            self.assertEqual((rc, out), (2, b""), words)
            self.assertIn(part, err.decode())


if __name__ == "__main__":
    unittest.main()
