"""Our client on store servers that lack operations: PyTorch's protocol of 1.13 and of 2.2, served from here.

test_torch.py does the same with the servers of PyTorch itself, where it is installed.
"""

import select
import socketserver
import struct
import threading
import unittest

from store_wire import number, text
from torch_support import BUILD, STORE_CLIENT, Child, finish_all

A = "SET COMPARE_SET GET ADD CHECK WAIT NUM_KEYS WATCH_KEY DELETE_KEY".split()
C = "VALIDATE SET COMPARE_SET GET ADD CHECK WAIT NUM_KEYS DELETE_KEY APPEND MULTI_GET MULTI_SET CANCEL_WAIT".split()
LONGEST = 64 << 20
READS = b"\1nothing"  # COMPARE_SET that expects it only reads
EXAMPLE = BUILD / "bin/examples/05_data_parallel"


class HangUp(Exception):
    pass


class Connection(socketserver.BaseRequestHandler):
    """One client; a request that the protocol lacks ends it."""

    def handle(self):
        try:
            while True:
                opcode = self.read(1)[0]
                if opcode >= len(self.server.operations):
                    return
                self.request.sendall(getattr(self, self.server.operations[opcode])())
        except (HangUp, AttributeError, KeyError, ValueError, ConnectionError):
            pass

    def read(self, n):
        data = b""
        while len(data) < n:
            more = self.request.recv(n - len(data))
            if not more:
                raise HangUp
            data += more
        return data

    def integer(self):
        return struct.unpack("<q", self.read(8))[0]

    def text(self):
        n = self.integer()
        if not 0 <= n <= LONGEST:
            raise HangUp
        return self.read(n)

    def texts(self):
        return [self.text() for _ in range(self.integer())]

    def change(self, key, value):
        self.server.values[key] = value
        self.server.changed.notify_all()

    def VALIDATE(self):
        if self.read(4) != bytes.fromhex("cef7853c"):
            raise HangUp
        return b""

    def SET(self):
        key, value = self.text(), self.text()
        with self.server.changed:
            self.change(key, value)
        return b""

    def COMPARE_SET(self):
        key, expected, desired = self.text(), self.text(), self.text()
        with self.server.changed:
            now = self.server.values.get(key)
            if expected == READS and key in self.server.meanwhile:
                self.change(key, self.server.meanwhile.pop(key))
            elif now == expected or (now is None and not expected):
                self.change(key, desired)
                return text(desired)
            return text(expected if now is None else now)

    def GET(self):
        key = self.text()
        with self.server.changed:
            return text(self.server.values[key])

    def ADD(self):
        key, more = self.text(), self.integer()
        with self.server.changed:
            total = int(self.server.values.get(key, b"0")) + more
            self.change(key, str(total).encode())
            return number(total)

    def CHECK(self):
        keys = self.texts()
        with self.server.changed:
            return b"\0" if all(key in self.server.values for key in keys) else b"\1"

    def WAIT(self):
        keys = self.texts()
        with self.server.changed:
            while not all(key in self.server.values for key in keys):
                self.server.changed.wait(0.01)
                if select.select([self.request], [], [], 0)[0]:
                    if self.server.operations is A:
                        raise HangUp
                    self.read(1)  # CANCEL_WAIT
                    return b"\1"
        return b"\0"

    def NUM_KEYS(self):
        with self.server.changed:
            return number(len(self.server.values))

    def DELETE_KEY(self):
        key = self.text()
        with self.server.changed:
            return number(self.server.values.pop(key, None) is not None)

    def APPEND(self):
        key, value = self.text(), self.text()
        with self.server.changed:
            self.change(key, self.server.values.get(key, b"") + value)
        return b""

    def MULTI_GET(self):
        keys = self.texts()
        with self.server.changed:
            return b"".join(text(self.server.values[key]) for key in keys)

    def MULTI_SET(self):
        pairs = [(self.text(), self.text()) for _ in range(self.integer())]
        with self.server.changed:
            for key, value in pairs:
                self.change(key, value)
        return b""

    def CANCEL_WAIT(self):
        return b"\1"


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, operations):
        super().__init__(("127.0.0.1", 0), Connection)
        self.operations, self.values, self.changed = operations, {}, threading.Condition()
        self.meanwhile = {}  # the value that a key gets after it was read for the first time


class OldServer(unittest.TestCase):
    def each(self, test):
        for name, operations in (("1.13", A), ("2.2", C)):
            with self.subTest(protocol=name), Server(operations) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                test(server, f"tcp://127.0.0.1:{server.server_address[1]}")
                server.shutdown()

    def c(self, *arguments):
        return Child(self, STORE_CLIENT, *arguments)

    def test_operations(self):
        self.each(lambda server, url: self.c("operations", url).finish())

    def test_waits(self):
        self.each(lambda server, url: self.c("waits", url).finish())

    def test_barrier(self):
        self.each(lambda server, url: finish_all([self.c("barrier", url, "three", 3) for _ in range(3)]))

    def test_appends_are_all_kept(self):
        def test(server, url):
            finish_all([self.c("append", url, 50) for _ in range(3)])
            self.assertEqual(server.values[b"/c/shared"], b"x" * 150)
            self.assertEqual([key for key in server.values if b"\1" in key], [], "a lock is left")

        self.each(test)

    def test_an_append_keeps_a_value_that_was_set_meanwhile(self):
        def test(server, url):
            if server.operations is C:
                return  # appends itself
            server.meanwhile[b"/c/shared"] = b"other"
            self.c("append", url, 1).finish()
            self.assertEqual(server.values[b"/c/shared"], b"otherx")

        self.each(test)

    def test_a_world_forms(self):
        def test(server, url):
            job = ("WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1", f"MASTER_PORT={server.server_address[1]}")
            agent = ("TORCHELASTIC_RUN_ID=old", "TORCHELASTIC_USE_AGENT_STORE=True")
            finish_all([Child(self, "env", f"RANK={rank}", *job, *agent, EXAMPLE) for rank in range(3)])

        self.each(test)


if __name__ == "__main__":
    unittest.main()
