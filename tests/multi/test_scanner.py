"""A scanner opens many connections to every port of a running job: calls stay fast, and memory stays bounded.

The scanner speaks HTTP, TLS, SSH, garbage, half messages, hellos with and without a secret, and single bytes. It takes a part of the machine itself, so calls
are compared with those while the same scanner works on other ports. SCANNER_SECONDS=60 scans for longer.
"""

import contextlib
import os
import pathlib
import re
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time

from harness import MUSTER, PROGRAMS, SANITIZED, Process, RanksTest, listening, main

SECONDS = float(os.environ.get("SCANNER_SECONDS", "2"))
SIZE, AT_ONCE, HELD, ATTEMPTS = 4, 300, 1.5, 4  # HELD: seconds that a connection stays open at most
GROWTH_KIB = 4096
PAYLOADS = (
    b"", b"\0", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    b"SSH-2.0-OpenSSH_9.6\r\n", os.urandom(4096), b"\0\xce\xf7\x85\x3c\x11", b"\xa5muster\n" + bytes(20),
    b"\xa5muster\n\1\1\1\0" + os.urandom(104), b"\xa5muster\n\1\1\0\0" + os.urandom(104), b"\xa5muster\n\1\2\0\0" + os.urandom(104),
)  # fmt: skip


class Scanner:
    """Connections to some ports: as many as AT_ONCE at a time, each with one of the payloads; every third drips it."""

    def __init__(self, ports):
        self.ports, self.opened, self.closed = ports, 0, 0
        self.selector, self.live = selectors.DefaultSelector(), {}

    def open(self):
        connection = socket.socket()
        connection.setblocking(False)
        payload = PAYLOADS[self.opened % len(PAYLOADS)]
        connection.connect_ex(("127.0.0.1", self.ports[self.opened % len(self.ports)]))
        self.live[connection] = [time.monotonic() + HELD * (self.opened % 4) / 3, payload, self.opened % 3 == 0]
        self.selector.register(connection, selectors.EVENT_READ)
        self.opened += 1

    def feed(self, connection):
        """Sends the payload, or a byte of it; False if the other end has closed the connection."""
        _, payload, drips = entry = self.live[connection]
        part = payload[:1] if drips else payload
        try:
            sent = connection.send(part) if part else 0
        except BlockingIOError:
            return True
        except OSError:
            return False
        entry[1] = payload[sent:]
        return True

    def close(self, connection):
        self.selector.unregister(connection)
        del self.live[connection]
        connection.close()

    def scan(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(min(30, AT_ONCE - len(self.live))):
                self.open()
            ended = [connection for connection in self.live if not self.feed(connection)]
            for key, _ in self.selector.select(0.01):
                with contextlib.suppress(OSError):
                    if not key.fileobj.recv(4096):
                        ended.append(key.fileobj)
            now = time.monotonic()
            late = [connection for connection, entry in self.live.items() if entry[0] < now]
            self.closed += len(set(ended))
            for connection in {*ended, *late}:
                self.close(connection)
        for connection in list(self.live):
            self.close(connection)


DECOY = """
import socket, selectors, sys
selector = selectors.DefaultSelector()
for _ in range(int(sys.argv[1])):
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(listener.getsockname()[1], flush=True)
    selector.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        key.fileobj.accept()[0].close()
"""


class Scan(RanksTest):
    def start(self):
        """Starts the job: its launcher, and the pids of launcher and ranks."""
        hosts = "case $LOCAL_RANK in 0|1) export MUSTER_FORCE_HOST=a;; *) export MUSTER_FORCE_HOST=b;; esac; exec " + str(PROGRAMS / "scanned")
        job = Process(self.popen(MUSTER, "run", "-n", SIZE, "sh", "-c", hosts, stdin=subprocess.PIPE))
        self.windows, pids = [], [job.pid]
        while len(pids) <= SIZE:
            if found := re.search(r"pid (\d+)", job.line()):
                pids.append(int(found[1]))
        threading.Thread(target=self.read, args=(job,), daemon=True).start()
        return job, pids

    def read(self, job):
        while line := job.line():
            if found := re.search(r"window (\d+) (\d+)", line):
                self.windows.append(int(found[2]))
            else:
                self.windows.append(line)  # an error

    def decoys(self, n):
        process = Process(self.popen(sys.executable, "-c", DECOY, n, stdin=subprocess.DEVNULL))
        return process, [int(process.line()) for _ in range(n)]

    def worst(self, ports):
        """Scans the ports: the median over the time of the 99th percentile of the calls, in microseconds."""
        before, scanner = len(self.windows), Scanner(ports)
        scanner.scan(SECONDS)
        self.scanned = scanner.opened, scanner.closed
        found = self.windows[before:]
        self.assertTrue(found and all(isinstance(one, int) for one in found), found)
        return statistics.median(found)

    def memory(self, pids):
        return [int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) for pid in pids]

    def test_every_port(self):
        job, pids = self.start()
        ports = sorted({port for pid in pids for port in listening(pid)})
        self.assertGreaterEqual(len(ports), 3, "the store and the ranks")
        decoy, elsewhere = self.decoys(len(ports))
        self.worst(ports)  # buffers and tables get their size
        before, seen = self.memory(pids), []
        for _ in range(ATTEMPTS):
            control, attacked = self.worst(elsewhere), self.worst(ports)
            seen.append((attacked, control, *self.scanned))
            if attacked <= 2 * control:
                break
        print(f"p99 in us while scanned, while others are scanned, connections, closed by the job: {seen}")
        grown = [late - early for early, late in zip(before, self.memory(pids), strict=True)]
        if not SANITIZED:
            self.assertLessEqual(attacked, 2 * control, seen)
            self.assertLess(max(grown), GROWTH_KIB, grown)
        self.assertGreater(self.scanned[1], self.scanned[0] / 3, "the job closes connections of strangers")
        decoy.kill()
        job.process.stdin.close()
        self.assertEqual(job.process.wait(), 0)
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
