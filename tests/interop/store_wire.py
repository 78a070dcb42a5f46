"""What the byte-exact store tests share: `muster store serve`, raw connections to it, fields of messages."""

import os
import re
import select
import socket
import struct
import subprocess
import unittest

MUSTER = os.path.abspath(os.path.join(os.environ.get("MUSTER_BUILD_DIR", "build"), "bin", "muster"))
DEADLINE = 60.0  # seconds; reached only when something is wrong
VALIDATE = bytes.fromhex("00cef7853c")


def number(value):
    return struct.pack("<q", value)


def text(value):
    """A string or bytes: its length and itself."""
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def texts(*values):
    return struct.pack("<Q", len(values)) + b"".join(map(text, values))


class Connection:
    """A raw connection; every wait has a deadline."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, n):
        """Exactly n bytes, or fewer if the server ends the connection."""
        data = b""
        while len(data) < n:
            try:
                part = self.socket.recv(n - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                break
            data += part
        return data

    def ask(self, request, n):
        self.send(request)
        return self.receive(n)

    def is_ended(self):
        """Waits for the server to end the connection; false if it sends something instead."""
        return self.receive(1) == b""

    def is_quiet(self, seconds=0.0):
        return not select.select([self.socket], [], [], seconds)[0]

    def close(self):
        self.socket.close()


class WireTest(unittest.TestCase):
    """Serves a store for each test."""

    maxDiff = None

    def setUp(self):
        self.connections = []
        environment = dict(os.environ, MUSTER_LOG="error", MUSTER_STORE_OPEN="1")
        self.server = subprocess.Popen([MUSTER, "store", "serve", "--port", "0"], stdout=subprocess.PIPE,
                                       env=environment)
        self.addCleanup(self.stop)
        line = self.server.stdout.readline().decode()
        match = re.search(r":(\d+)\s*$", line)
        self.assertIsNotNone(match, line)
        self.port = int(match[1])

    def stop(self):
        for connection in self.connections:
            connection.close()
        self.server.terminate()
        self.assertEqual(self.server.wait(DEADLINE), 0)
        self.server.stdout.close()

    def connect(self, opening=b""):
        connection = Connection(self.port)
        self.connections.append(connection)
        connection.send(opening)
        return connection

    def settle(self):
        """Returns once the server has dealt with all that was sent before: it has one thread."""
        self.assertEqual(self.connect(VALIDATE).ask(b"\x0dsync", 4), b"sync")

    def expect(self, connection, request, reply):
        self.assertEqual(connection.ask(request, len(reply)).hex(" "), reply.hex(" "), request.hex(" "))
