"""muster store: a server and the actions of a person with a shell."""

import os
import pty
import signal
import socket
import subprocess
import tempfile
import unittest

from harness import DEADLINE, MUSTER, ToolTest, wait_until

TIMEOUT = "3"  # seconds; the connection counts, which takes long on a busy machine


def has_socket(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
                return True
        except FileNotFoundError:
            continue
    return False


class StoreTest(ToolTest):
    """Serves a store on a free port for each test."""

    def setUp(self):
        super().setUp()
        self.server = self.begin("store", "serve", "--port", "0")
        self.listening = self.server.out()
        self.port = int(self.listening.rsplit(":", 1)[1])

    def store(self, action, *operands, **options):
        return self.muster("store", action, "--port", self.port, *operands, **options)

    def check(self, expected, action, *operands, **options):
        rc, out, err = self.store(action, *operands, **options)
        self.assertEqual((rc, out, err), (0, expected, b""), (action, operands))


class Serve(StoreTest):
    def test_says_where(self):
        self.assertEqual(self.listening, f"muster store: listening on 127.0.0.1:{self.port}")

    def test_ends_by_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server = self.begin("store", "serve", "--port", "0")
            server.out()
            server.send(number)
            self.assertEqual(server.finish(), (0, "", ""))

    def test_port_file(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "port")
            server = self.begin("store", "serve", "--port", "0", "--port-file", path)
            wait_until(lambda: os.path.exists(path), "the port file is there")
            with open(path, encoding="utf-8") as file:
                port = file.read()
            self.assertEqual(server.out(), f"muster store: listening on 127.0.0.1:{port.strip()}")
            server.send(signal.SIGTERM)
            self.assertEqual(server.finish()[0], 0)
            self.assertEqual(os.listdir(directory), [])

    def test_port_file_that_cannot_be_written(self):
        rc, out, err = self.muster("store", "serve", "--port", "0", "--port-file", "/no/such/directory/port")
        self.assertEqual((rc, out), (1, b""))
        self.assertIn(b"/no/such/directory/port", err)

    def test_port_that_is_taken(self):
        rc, out, err = self.muster("store", "serve", "--port", self.port)
        self.assertEqual((rc, out), (1, b""))
        self.assertRegex(err.decode(), rf"\Amuster store: .*{self.port}.*\n\Z")

    def test_host_that_is_not_ours(self):
        rc, out, err = self.muster("store", "serve", "--host", "192.0.2.1", "--port", "0")
        self.assertEqual((rc, out), (1, b""))
        self.assertRegex(err.decode(), r"\Amuster store: .*192\.0\.2\.1.*\n\Z")

    def test_ipv6(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("no IPv6 loopback")
        server = self.begin("store", "serve", "--host", "::1", "--port", "0")
        line = server.out()
        self.assertTrue(line.startswith("muster store: listening on [::1]:"), line)
        port = line.rsplit(":", 1)[1]
        at = ("--host", "::1", "--port", port)
        self.assertEqual(self.muster("store", "set", *at, "k", "v"), (0, b"", b""))
        self.assertEqual(self.muster("store", "get", *at, "k"), (0, b"v", b""))


class Values(StoreTest):
    def test_set_and_get(self):
        self.check(b"", "set", "key", "some value")
        self.check(b"some value", "get", "key")
        self.check(b"", "set", "key", "")
        self.check(b"", "get", "key")

    def test_value_from_stdin_is_taken_as_it_is(self):
        data = bytes(range(256)) * 1000 + b"\n"
        self.check(b"", "set", "blob", "-", data=data)
        self.check(data, "get", "blob")

    def test_closed_stdin_is_no_empty_value(self):
        command = f'exec "{MUSTER}" store set --port {self.port} closed - <&-'
        done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"cannot read the value from stdin", done.stderr)

    def test_value_that_looks_like_an_option(self):
        self.check(b"", "set", "--", "key", "--value")
        self.check(b"--value", "get", "key")

    def test_options_may_follow(self):
        self.assertEqual(self.muster("store", "set", "key", "v", "--port", self.port), (0, b"", b""))
        self.assertEqual(self.muster("store", "get", "key", f"-p{self.port}"), (0, b"v", b""))

    def test_get_on_a_terminal_ends_the_line(self):
        self.check(b"", "set", "key", "v")
        leader, follower = pty.openpty()
        try:
            process = self.popen("store", "get", "--port", self.port, "key", stdout=follower)
            self.assertEqual(process.wait(timeout=DEADLINE), 0)
            self.assertEqual(os.read(leader, 100), b"v\r\n")
        finally:
            os.close(leader)
            os.close(follower)

    def test_add(self):
        self.check(b"5\n", "add", "n", "5")
        self.check(b"3\n", "add", "n", "-2")
        self.check(b"3", "get", "n")
        self.check(b"", "set", "word", "abc")
        rc, out, err = self.store("add", "word", "1")
        self.assertEqual((rc, out), (1, b""))
        self.assertRegex(err.decode(), r"\Amuster store: .*word.*\n\Z")

    def test_append(self):
        self.check(b"", "append", "a", "x")
        self.check(b"", "append", "a", "-", data=b"yz")
        self.check(b"xyz", "get", "a")

    def test_delete(self):
        self.check(b"", "set", "key", "v")
        self.check(b"deleted\n", "del", "key")
        self.assertEqual(self.store("del", "key"), (1, b"not found\n", b""))

    def test_list_and_check(self):
        for key in ("b", "a", "c/d"):
            self.check(b"", "set", key, "v")
        rc, out, err = self.store("list")
        self.assertEqual((rc, err), (0, b""))
        keys = [line for line in out.decode().splitlines() if line in ("a", "b", "c/d")]
        self.assertEqual(keys, ["a", "b", "c/d"])
        self.check(b"yes\n", "check", "a", "b")
        self.assertEqual(self.store("check", "a", "z"), (1, b"no\n", b""))

    def test_queue(self):
        self.check(b"0\n", "len", "q")
        self.check(b"", "push", "q", "first")
        self.check(b"", "push", "q", "-", data=b"second")
        self.check(b"2\n", "len", "q")
        self.check(b"first", "pop", "q")
        self.check(b"second", "pop", "q")
        self.assertEqual(self.store("pop", "--timeout", TIMEOUT, "q")[0], 3)


class Waiting(StoreTest):
    def test_get_waits(self):
        waiting = self.begin("store", "get", "--port", self.port, "late")
        self.check(b"", "set", "late", "here")
        self.assertEqual(waiting.finish(), (0, "here", ""))

    def test_wait_for_several(self):
        waiting = self.begin("store", "wait", "--port", self.port, "a", "b")
        self.check(b"", "set", "a", "1")
        self.assertIsNone(waiting.process.poll())
        self.check(b"", "set", "b", "1")
        self.assertEqual(waiting.finish(), (0, "", ""))

    def test_timeout(self):
        actions = ("get", "wait", "pop")
        waiting = [self.begin("store", action, "--port", self.port, "--timeout", TIMEOUT, "never") for action in actions]
        for action, command in zip(actions, waiting):
            rc, out, err = command.finish()
            self.assertEqual((rc, out), (3, ""), (action, err))
            self.assertRegex(err, r"\Amuster store: .*never.*\n\Z")

    def test_interrupt(self):
        waiting = self.begin("store", "wait", "--port", self.port, "never")
        wait_until(lambda: has_socket(waiting.pid), "it has a socket")
        waiting.send(signal.SIGINT)
        self.assertEqual(waiting.finish(), (130, "", "muster store: interrupted\n"))

    def test_server_that_goes_away(self):
        waiting = self.begin("store", "wait", "--port", self.port, "--timeout", "5", "never")
        wait_until(lambda: has_socket(waiting.pid), "it has a socket")
        self.server.send(signal.SIGKILL)
        self.server.process.wait()
        rc, _, err = waiting.finish()
        self.assertIn(rc, (1, 3))
        self.assertRegex(err, r"\Amuster store: .*\n\Z")


class Nobody(ToolTest):
    def test_no_server(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            rc, out, err = self.muster("store", "get", "--port", port, "--timeout", "0.2", "key")
        self.assertIn(rc, (1, 3))
        self.assertEqual(out, b"")
        self.assertRegex(err.decode(), rf"\Amuster store: .*{port}.*\n\Z")

    def test_interrupt_while_connecting(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            waiting = self.begin("store", "get", "--port", port, "key")
            wait_until(lambda: self.handles_interrupt(waiting.pid), "it handles the signal")
            waiting.send(signal.SIGINT)
            self.assertEqual(waiting.finish(), (130, "", "muster store: interrupted\n"))

    @staticmethod
    def handles_interrupt(pid):
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            caught = [line.split()[1] for line in status if line.startswith("SigCgt")]
        return int(caught[0], 16) >> (signal.SIGINT - 1) & 1


class Mistakes(ToolTest):
    def check(self, words, says):
        rc, out, err = self.muster("store", *words)
        self.assertEqual((rc, out), (2, b""), words)
        self.assertRegex(err.decode(), r"\Amuster store[^\n]*\n\Z")
        self.assertIn(says, err.decode())

    def test_mistakes(self):
        self.check(["gte", "k"], "did you mean 'get'?")
        self.check(["get"], "takes KEY")
        self.check(["get", "a", "b"], "takes KEY")
        self.check(["set", "a"], "takes KEY VALUE")
        self.check(["wait"], "takes KEY ...")
        self.check(["serve", "now"], "takes no arguments")
        self.check(["get", "--prot", "1", "k"], "did you mean '--port'?")
        self.check(["get", "--port", "0", "k"], "not '0'")
        self.check(["get", "--timeout", "soon", "k"], "not 'soon'")

    def test_a_number_that_is_none(self):
        rc, out, err = self.muster("store", "add", "k", "many")
        self.assertEqual((rc, out), (2, b""))
        self.assertIn(b"not 'many'", err)

    def test_help(self):
        rc, out, err = self.muster("store", "--help")
        self.assertEqual((rc, err), (0, b""))
        for action in (b"serve", b"get", b"set", b"add", b"wait", b"list", b"del", b"check"):
            self.assertIn(action, out)
        rc, out, _ = self.muster("store", "serve", "--help")
        self.assertEqual(rc, 0)
        self.assertIn(b"--port-file PATH", out)
        self.assertEqual(self.muster("store")[0], 2)


if __name__ == "__main__":
    unittest.main()
