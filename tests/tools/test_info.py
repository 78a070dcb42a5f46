"""muster info without a request: a report for people, and the same facts as JSON for programs."""

import json
import os
import re
import tempfile
import unittest

from harness import MUSTER, ToolTest

WIDTH = 100


class Info(ToolTest):
    def info(self, *words, **options):
        rc, out, err = self.muster("info", *words, **options)
        self.assertEqual((rc, err), (0, b""), words)
        return out.decode()

    def check_form(self, text):
        for line in text.splitlines():
            self.assertLessEqual(len(line), WIDTH)
            self.assertEqual(line, line.rstrip())
        self.assertNotRegex(text, r"=(yes|no)\b|because=|name=")

    def test_text_and_json_agree(self):
        text, facts = self.info(), json.loads(self.info("--json"))
        self.check_form(text)
        self.assertEqual(list(facts), ["build", "machine", "discovery", "network", "secret", "tls", "backends", "settings"])
        self.assertEqual(re.findall(r"(?m)^[A-Z]\w+$", text), ["Machine", "Launcher", "Network", "Secret", "Backends"])
        self.assertTrue(text.startswith(f"muster {facts['build']['version']} "))
        self.assertRegex(text, rf"processor +{re.escape(facts['machine']['cpu'])}\n")
        for name, backend in facts["backends"].items():
            self.assertRegex(text, rf"(?m)^  {name} +{'usable' if backend['usable'] else 'not usable'} +\S")
        for interface in facts["network"]["interfaces"]:
            self.assertRegex(text, rf"(?m)^  {interface['name']} +.*{re.escape(interface['address'])}(,|$)")
        self.assertIn("no launcher", text)

    def test_ranks(self):
        rc, out, _ = self.muster("run", "-np", 2, "--local-ranks-filter", 1, MUSTER, "info")
        self.assertEqual(rc, 0)
        text = re.sub(r"(?m)^\[1\] ", "", out.decode())
        self.assertIn("rank         1 of 2 (RANK, WORLD_SIZE)", text)
        self.assertRegex(text, r"rank 0 is at 127\.0\.0\.1:\d+ \(MASTER_ADDR, MASTER_PORT\)")
        self.assertRegex(text, r"(?m)^  variables    RANK=1$")

    def test_secret(self):
        """Says which secret would be used, never its value, and makes none."""
        value = "do-not-print-this-value"
        with tempfile.TemporaryDirectory() as directory:
            home, path = os.path.join(directory, "home"), os.path.join(directory, "file")
            own = os.path.join(home, "muster/secret")
            os.mkdir(home)
            with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(value)
            for env, source, where, exists in (
                ({"XDG_CONFIG_HOME": home}, "user", own, False),
                ({"XDG_CONFIG_HOME": home, "MUSTER_SECRET_FILE": path}, "MUSTER_SECRET_FILE", path, True),
            ):
                text, facts = self.info(env=env), json.loads(self.info("--json", env=env))
                self.assertEqual(facts["secret"], {"source": source, "path": where, "exists": exists})
                self.assertRegex(text, rf"(?m)^Secret\n  path +{re.escape(where)}\n  source +{source}\n")
                self.assertEqual("does not exist" in text, not exists)
                self.assertNotIn(value, text + str(facts))
            self.assertEqual(os.listdir(home), [])
            os.chmod(path, 0o640)
            text, facts = self.info(env=env), json.loads(self.info("--json", env=env))
            self.assertIn("other users can access it", facts["secret"]["error"])
            self.assertIn("other users can access it", " ".join(text.split()))
            self.assertNotIn(value, text + str(facts))

    def test_tls(self):
        for env, on, said in (({}, False, "MUSTER_TLS=1"), ({"MUSTER_TLS": "1"}, True, "on, with the secret")):
            text, facts = self.info(env=env), json.loads(self.info("--json", env=env))
            self.assertEqual((facts["tls"]["on"], facts["tls"]["certificates"]), (on, False))
            self.assertIn(said if facts["tls"]["available"] else "mst_tls.so", " ".join(text.split()))

    def test_settings(self):
        text = self.info("--env", env={"MUSTER_SLOW_S": "3"})
        self.check_form(text)
        self.assertIn("MUSTER_SLOW_S=3 (set; the default is 10)\n    Seconds", text)
        self.assertIn("MUSTER_LOG=warn (default)\n", text)
        self.assertIn("MUSTER_SOCKET_IFNAME is not set\n", text)


if __name__ == "__main__":
    unittest.main()
