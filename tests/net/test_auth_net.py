"""Launchers in two network namespaces, as on two hosts: with the same secret, with two, with one, and with none."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import MUSTER, ToolProcess, ToolTest, default_signals
from test_netns import open_namespaces

PORT = 29400
BUILD = os.environ.get("MUSTER_BUILD_DIR", "build")
SUMS = os.path.join(BUILD, "bin", "tests", "sums")
NONE = {"HOME": "", "XDG_CONFIG_HOME": ""}
MODULE = os.path.join(os.environ.get("MUSTER_BACKEND_PATH", ""), "mst_tls.so")

# Reads every packet of a host until its standard input ends. Writes how many there were with data, and how many had
# a key of the store, or a run of equal numbers, in them.
CAPTURE = """
import select, socket, struct, sys
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
print("ready", flush=True)
n = plain = 0
while True:
    ready = select.select([packets, sys.stdin], [], [])[0]
    if packets not in ready:
        break
    data = packets.recv(1 << 17)
    n += len(data) > 200
    plain += b"muster/" in data or struct.pack("<8f", *(1.0 + i for i in range(7)), 1.0) in data
print(n, plain, flush=True)
"""


class Secrets(ToolTest):
    @classmethod
    def setUpClass(cls):
        cls.spaces = open_namespaces()
        cls.addClassCleanup(cls.spaces.close)

    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp(prefix="muster-secrets-")
        self.addCleanup(shutil.rmtree, self.directory)

    def home(self, name, secret=None):
        """A home directory, with a secret in it or without one."""
        home = pathlib.Path(self.directory, name)
        if not home.exists():
            (home / ".config" / "muster").mkdir(parents=True, mode=0o700)
        if secret:
            path = home / ".config" / "muster" / "secret"
            path.write_text(secret, encoding="ascii")
            path.chmod(0o600)
        return {"HOME": str(home), "XDG_CONFIG_HOME": ""}

    def begin(self, space, env, *command):
        process = subprocess.Popen(
            [*self.spaces.inside(space), *map(str, command)],
            env=self.environment(env),
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=default_signals,
        )
        self.processes.append(process)
        return ToolProcess(process)

    def node(self, space, env, *options):
        env = {"MUSTER_FORCE_HOST": space, "MUSTER_TRACE": os.path.join(self.directory, "trace"), **env}
        return self.begin(space, env, MUSTER, "run", "--nnodes", 2, "--rdzv-endpoint", f"10.77.0.1:{PORT}", *options, SUMS, 3)

    def job(self, *environments):
        nodes = [self.node(space, env) for space, env in zip("ab", environments)]
        results = [node.finish() for node in nodes]
        self.assertEqual([result[0] for result in results], [0, 0], results)
        self.assertEqual("".join(result[1] for result in results).count("right"), 2, results)

    def test_the_same_secret(self):
        """Of the user, made by the first that needs it; of the user, copied; of a file."""
        self.job(self.home("shared"), self.home("shared"))
        self.assertEqual(os.stat(os.path.join(self.directory, "shared/.config/muster/secret")).st_mode & 0o777, 0o600)
        self.job(self.home("one", "a secret of two hosts"), self.home("two", "a secret of two hosts\n"))
        file = os.path.join(self.directory, "one/.config/muster/secret")
        self.job({**NONE, "MUSTER_SECRET_FILE": file}, self.home("two"))

    def refused(self, first, second, *parts):
        """The second launcher is refused, and says why. The first goes on with another one."""
        node = self.node("a", first, "--rdzv-conf", "join_timeout=50")
        stranger = self.node("b", second)
        status, _, err = stranger.finish()
        self.assertNotEqual(status, 0)
        for part in ("the store at 10.77.0.1", *parts):
            self.assertIn(part, err)
        late = self.node("b", first)
        results = [node.finish(), late.finish()]
        self.assertEqual([result[0] for result in results], [0, 0], results)

    def test_other_secrets(self):
        first = self.home("one", "a secret of one host")
        second = self.home("two", "a secret of the other")
        self.refused(first, second, "two/.config/muster/secret) differs from that of", "copy ~/.config/muster/secret")

    def test_without_a_secret(self):
        first = self.home("one", "a secret of one host")
        self.refused(first, NONE, "this process has none: there is no place for a secret", "MUSTER_SECRET_FILE")

    def test_a_store_without_a_secret(self):
        """The user is the same, but not the host, as the kernel sees it."""
        node = self.node("a", NONE, "--rdzv-conf", "join_timeout=20")
        status, _, err = self.node("b", self.home("one", "a secret of one host")).finish()
        self.assertNotEqual(status, 0)
        self.assertIn("the store at 10.77.0.1:29400 has no secret", err)
        node.process.terminate()
        node.finish()

    def test_clients_of_a_third_host(self):
        first = self.home("one", "a secret of one host")
        store = self.begin("a", first, MUSTER, "store", "serve", "--host", "10.77.0.1", "--port", PORT)
        for env, right in ((first, True), (self.home("two", "a secret of the other"), False)):
            process = self.begin("c", env, MUSTER, "store", "set", "--host", "10.77.0.1", "--port", PORT, "--timeout", 20, "a", "b")
            status, _, err = process.finish()
            self.assertEqual(status == 0, right, err)
        store.process.terminate()
        store.finish()

    def capture(self, env):
        """Runs a job of two hosts: the number of packets, and of those that can be read."""
        sniffer = self.spawn(
            *self.spaces.inside("b"), sys.executable, "-c", CAPTURE, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.assertEqual(sniffer.stdout.readline(), b"ready\n")
        self.job(env, env)
        out, _ = sniffer.communicate(timeout=60)
        return map(int, out.split())

    @unittest.skipUnless(os.path.exists(MODULE), "the module for TLS was not built (libssl-dev)")
    def test_tls_hides_what_is_sent(self):
        env = {**self.home("shared"), "MUSTER_BACKEND_PATH": os.path.dirname(MODULE)}
        packets, readable = self.capture(env)
        self.assertGreater(readable, 10, packets)
        packets, readable = self.capture({**env, "MUSTER_TLS": "1"})
        self.assertGreater(packets, 10)
        self.assertEqual(readable, 0, packets)

    @unittest.skipUnless(os.path.exists(MODULE), "the module for TLS was not built (libssl-dev)")
    def test_tls_on_one_host(self):
        home = {**self.home("one", "a secret of both"), "MUSTER_BACKEND_PATH": os.path.dirname(MODULE)}
        self.refused({**home, "MUSTER_TLS": "1"}, home, "uses TLS, but this process does not")
        self.refused(home, {**home, "MUSTER_TLS": "1"}, "does not use TLS, but this process does")

    def test_an_open_store_warns(self):
        store = self.begin("a", self.home("one"), MUSTER, "store", "serve", "--open", "--host", "10.77.0.1", "--port", PORT)
        client = "import socket; s = socket.create_connection(('10.77.0.1', 29400), 30); s.send(b'\\0\\xce\\xf7\\x85\\x3c\\7'); print(len(s.recv(8)))"
        for _ in range(100):
            status, out, _ = self.begin("b", {}, sys.executable, "-c", client).finish()
            if status == 0:
                break
        self.assertEqual((status, out), (0, "8\n"))
        store.process.terminate()
        self.assertEqual(store.finish()[2].count("is open: everyone"), 1)


if __name__ == "__main__":
    unittest.main()
