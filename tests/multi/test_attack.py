"""Strangers who reach the ports of a job: whatever they send is refused, and the job does not notice.

A stranger does not have the secret. The attacks are those of raw sockets; the last two use programs of muster itself.
"""

import contextlib
import os
import pathlib
import resource
import select
import socket
import struct
import subprocess
import threading
import time
import unittest

import auth_kit
from harness import DEADLINE, MUSTER, PROGRAMS, Process, RanksTest, has_local_store, listening, main, wait_until

SUMS = PROGRAMS / "sums"
FILES = 1024
CROWD = 1000
VALIDATE = b"\0" + struct.pack("<I", 0x3C85F7CE)


def key(text):
    return struct.pack("<Q", len(text)) + text


def request(opcode, *parts):
    return VALIDATE + bytes([opcode]) + b"".join(parts)


# What strangers send first. The operations of the store are numbered as in src/wire/store_msg.h.
ATTACKS = {
    "read a key": request(3, key(b"/muster/job.0/1/rank/0")),
    "list the keys": request(17) * 3,
    "count the keys": request(7),
    "append an event": request(9, key(b"/muster/job.0/1/events"), key(b"x 1\n")),
    "become a client of muster": request(64, struct.pack("<q", 0)) + bytes([68]) + key(os.urandom(16)) + bytes(8),
    "read a key as PyTorch 1.13": b"\2" + key(b"/a"),
    "http": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500),
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "garbage": os.urandom(4096),
    "an old hello of a rank": b"MSTL" + bytes(32),
    "half a magic": auth_kit.MAGIC[:4] + b"xxxx",
}


class Attack(RanksTest):
    def setUp(self):
        super().setUp()
        self.secret = self.write_secret("secret")
        self.sockets = []

    def tearDown(self):
        for s in self.sockets:
            s.close()
        super().tearDown()

    def write_secret(self, name):
        text = os.urandom(32).hex()
        path = self.path(name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(text)
        return path

    def key(self):
        return auth_kit.key_of(pathlib.Path(self.secret).read_text(encoding="ascii"))

    def connect(self, port):
        s = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        self.sockets.append(s)
        return s

    def members(self, env=None):
        return {"MUSTER_SECRET_FILE": self.secret, "MUSTER_STORE_LOCAL": 0, **(env or {})}

    def job(self, n, rounds=20):
        """A job that checks its results, with a host for each rank, which holds after the first round."""
        script = 'MUSTER_FORCE_HOST=$RANK exec "$0" "$@"'
        command = [MUSTER, "run", "-n", n, "sh", "-c", script, SUMS, rounds, "hold"]
        job = Process(self.popen(*command, env=self.members(), stderr=subprocess.STDOUT))
        left = n
        while left:
            line = job.line()
            self.assertIsNotNone(line, "the job ended")
            left -= line.endswith("ready")
        return job

    def check_right(self, job, n):
        job.resume()
        status, out = job.finish()
        self.assertEqual((status, out.count("right")), (0, n), out)
        self.assertLessEqual(out.count("[muster]"), 1, out)  # one line about the clients of PyTorch

    def serve_limited(self):
        """A store with the usual limit on descriptors: its process and port."""
        path = self.path("port")
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))  # noqa: E731
        command = [MUSTER, "store", "serve", "--port", 0, "--port-file", path]
        store = Process(self.popen(*command, env=self.members(), preexec_fn=limit, stdin=subprocess.DEVNULL))
        wait_until(lambda: os.path.exists(path) and pathlib.Path(path).read_text().strip(), "the store serves")
        return store, int(pathlib.Path(path).read_text())

    def test_every_port_of_a_job(self):
        """A rank looks at new connections only while it opens links; the store answers at once."""
        job = self.job(3)
        store = int(self.variable(job, "MASTER_PORT"))
        children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        ports = sorted({port for pid in (job.pid, *children) for port in listening(pid)})
        self.assertGreaterEqual(len(ports), 3, ports)  # the store, and the ranks that others connect to
        self.assertIn(store, ports)
        status, out = self.run_tool("status", job.pid, env=self.members())
        self.assertEqual(status, 0)
        for port in ports:  # `muster status` knows all of them, and who may connect
            self.assertRegex(out, rf"127\.0\.0\.1:{port} \({'store' if port == store else 'rank [012]'}\)")
        self.assertIn("members of the job may connect, which have its secret (the file of MUSTER_SECRET_FILE)\n", out)
        sockets = {}
        for port in ports:
            for name, data in ATTACKS.items():
                s = sockets[port, name] = self.connect(port)
                with contextlib.suppress(ConnectionError):
                    s.sendall(data)
                if port == store:
                    self.assertEqual(auth_kit.receive(s, 1), b"", name)
            # Those who stay silent, and those who say half of a hello.
            for _ in range(20):
                self.connect(port)
                self.connect(port).sendall(auth_kit.MAGIC + b"\1")
        for role in (auth_kit.STORE, auth_kit.LINK, auth_kit.CLOCK):
            s = self.connect(store)
            verdict = auth_kit.authenticate(s, auth_kit.key_of("not the secret of this job"), role)
            self.assertEqual(verdict, b"the secrets differ" if role == auth_kit.STORE else b"\3")  # another service
            self.assertEqual(auth_kit.receive(s, 1), b"")
        self.check_right(job, 3)
        for where, s in sockets.items():
            self.assertEqual(auth_kit.receive(s, 1), b"", where)

    def variable(self, job, name):
        """A variable of the first rank of a job."""
        rank = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()[-1]
        entries = pathlib.Path(f"/proc/{rank}/environ").read_bytes().split(b"\0")
        return next(entry for entry in entries if entry.startswith(name.encode() + b"="))[len(name) + 1 :].decode()

    def members_at(self, port, rank, *actions, env=None):
        """A rank of two that meets the other at a store of another process."""
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": 2, "RANK": rank}
        agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "job"}
        return self.rank(*actions, env={**self.members(), **place, **agent, "MUSTER_FORCE_HOST": rank, **(env or {})})

    def test_the_description_of_the_handshake(self):
        """With the secret the Python client is served; a replay and a reflection of what it said are not."""
        _, port = self.serve_limited()
        s = self.connect(port)
        self.assertEqual(auth_kit.authenticate(s, self.key()), b"\0\0")
        s.sendall(request(7))
        self.assertEqual(auth_kit.receive(s, 8), bytes(8))
        # A replay: the same bytes again, from the same address and port. Nobody else has this address.
        local, said, proof = ("127.0.0.77", 0), None, None
        for expected in (b"\0\0", b"\4\0"):
            s = socket.socket()
            self.sockets.append(s)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no TIME_WAIT
            s.settimeout(DEADLINE)
            s.bind(local)
            s.connect(("127.0.0.1", port))
            local = s.getsockname()
            said = said or auth_kit.hello(s)
            s.sendall(said)
            answer = auth_kit.receive(s, auth_kit.ANSWER)
            proof = proof or auth_kit.prove(self.key(), said, answer)
            s.sendall(proof)
            self.assertEqual(auth_kit.receive(s, 2), expected)
            s.close()
        # A reflection: the server's own MAC.
        s = self.connect(port)
        s.sendall(auth_kit.hello(s))
        answer = auth_kit.receive(s, auth_kit.ANSWER)
        s.sendall(bytes(4) + answer[-32:])
        self.assertEqual(auth_kit.receive(s, 2), b"\4\0")
        # Other addresses, as behind a relay.
        s = self.connect(port)
        said = auth_kit.hello(s, addresses=auth_kit.packed(("127.0.0.1", 1)) + auth_kit.packed(s.getpeername()))
        s.sendall(said)
        s.sendall(auth_kit.prove(self.key(), said, auth_kit.receive(s, auth_kit.ANSWER)))
        self.assertEqual(auth_kit.receive(s, 2), b"\6\0")

    def memory_of(self, pid):
        return int(next(line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1])

    def test_a_crowd_of_silent_connections(self):
        """1,000 of them at a limit of 1,024 descriptors, and clients that want to fill the store: members get in."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 4 * FILES:
            self.skipTest(f"needs {4 * FILES} descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (4 * FILES, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        store, port = self.serve_limited()
        before = self.memory_of(store.pid)
        for _ in range(CROWD):
            self.connect(port)
        ranks = [self.members_at(port, r, "init", "barriers=3", "destroy") for r in range(2)]
        big = request(1, key(b"/fill"), key(bytes(1 << 20)))
        for _ in range(50):
            with contextlib.suppress(ConnectionError):
                self.connect(port).sendall(big)
            with contextlib.suppress(ConnectionError):
                self.connect(port).sendall(request(17) * 1000)
        self.assert_ends(*ranks)
        descriptors = len(os.listdir(f"/proc/{store.pid}/fd"))
        self.assertLess(descriptors, 64 + 40)
        self.assertLess(self.memory_of(store.pid) - before, 20 << 10)
        status, out = self.run_tool("store", "list", "--port", port, env=self.members())
        self.assertEqual(status, 0)
        self.assertNotIn("fill", out)

    def test_the_place_of_a_late_rank(self):
        """A process with another secret does not become rank 1; the rank itself does."""
        store, port = self.serve_limited()
        first = self.members_at(port, 0, "init", "barrier", "destroy")
        stranger = self.members_at(port, 1, "init", env={"MUSTER_SECRET_FILE": self.write_secret("other")})
        self.assert_failed(stranger.step("init"), "MST_ERR_CONFIG", r"secret .*/other\) differs from that of the store at 127.0.0.1")
        late = self.members_at(port, 1, "init", "barrier", "destroy")
        self.assert_ends(first, late)
        store.kill()

    def test_ranks_with_different_secrets(self):
        """The store is the user's on this host, but the data links are not."""
        port = self.free_port()
        secrets = [{"MUSTER_SECRET_FILE": path} for path in (self.secret, self.write_secret("other"))]
        ranks = []
        for r in range(2):
            env = {"MUSTER_FORCE_HOST": r, **secrets[r]}
            ranks.append(self.tcp(r, 2, f"tcp://127.0.0.1:{port}", "init", "barrier", env=env))
            wait_until(lambda: has_local_store(port), "rank 0 serves the Unix socket")
        step = ranks[0].step("barrier")
        self.assert_failed(step, "MST_ERR_CONFIG", r"cannot connect to rank 1 \(host .*/secret\) differs from that of the rank at", "MUSTER_SECRET_FILE to the same")
        for rank in ranks:
            rank.finish()

    def relay(self, port):
        """Passes all bytes on to the port; returns its own."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve():
            pairs = {}
            while True:
                ready = select.select([listener, *pairs], [], [], 0.1)[0]
                if listener.fileno() < 0:
                    return
                for s in ready:
                    if s is listener:
                        near, far = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
                        self.sockets += [near, far]
                        pairs[near], pairs[far] = far, near
                        continue
                    with contextlib.suppress(OSError):
                        data = s.recv(65536)
                        if data:
                            pairs[s].sendall(data)
                            continue
                    for end in (s, pairs.pop(s)):
                        pairs.pop(end, None)
                        end.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        return listener.getsockname()[1]

    def test_a_relay(self):
        """A relay that could alter what passes is found out, unless the setting for NAT allows it."""
        _, port = self.serve_limited()
        between = self.relay(port)
        arguments = ("store", "set", "--port", between, "--timeout", "20", "k", "v")
        process = self.popen(MUSTER, *arguments, env=self.members(), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        _, err = process.communicate(timeout=DEADLINE)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn(f"to 127.0.0.1:{port}, but this process sees".encode(), err)
        self.assertIn(b"MUSTER_AUTH_ADDRESSES=0", err)
        # Both ends must allow it.
        status, _ = self.run_tool(*arguments, env=self.members({"MUSTER_AUTH_ADDRESSES": 0}))
        self.assertNotEqual(status, 0)

    def test_without_a_secret(self):
        """On one host the user counts: loopback TCP without any secret works for the same user."""
        none = {"HOME": "", "XDG_CONFIG_HOME": "", "MUSTER_STORE_LOCAL": 0}
        port = self.free_port()
        url = f"tcp://127.0.0.1:{port}"
        ranks = [self.tcp(r, 2, url, "init", "barriers=3", "destroy", env={**none, "MUSTER_FORCE_HOST": r}) for r in range(2)]
        self.assert_ends(*ranks)

    @unittest.skipIf(os.getuid() != 0, "needs root: it starts a process of another user")
    def test_another_user_without_a_secret(self):
        none = {"HOME": "", "XDG_CONFIG_HOME": "", "MUSTER_STORE_LOCAL": 0}
        path = self.path("port")
        self.popen(MUSTER, "store", "serve", "--port", 0, "--port-file", path, env=none, stdin=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(path) and pathlib.Path(path).read_text().strip(), "the store serves")
        port = int(pathlib.Path(path).read_text())
        # A socket that another user has made: the kernel knows whose it is.
        pid_file = self.path("answer")
        pid = os.fork()
        if pid == 0:
            try:
                answer = os.open(pid_file, os.O_WRONLY | os.O_CREAT)
                os.setgid(65533)
                os.setuid(65533)
                with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as s:
                    s.sendall(auth_kit.hello(s, flags=0) + bytes(36) + request(7))
                    os.write(answer, auth_kit.receive(s, 200))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        self.assertEqual(pathlib.Path(pid_file).read_bytes(), b"\5")
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as s:
            s.sendall(auth_kit.hello(s, flags=0) + bytes(36) + request(7))
            self.assertEqual(auth_kit.receive(s, auth_kit.ANSWER + 10)[-10:], bytes(10))

    def test_an_open_store(self):
        """Clients without authentication are served if the store is open, and refused with a hint otherwise."""
        for options, served in ((["--open"], True), ([], False)):
            path = self.path(f"port{served}")
            command = [MUSTER, "store", "serve", *options, "--port", 0, "--port-file", path]
            store = self.popen(*command, env=self.members(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            wait_until(lambda p=path: os.path.exists(p) and pathlib.Path(p).read_text().strip(), "the store serves")
            port = int(pathlib.Path(path).read_text())
            s = self.connect(port)
            with contextlib.suppress(ConnectionError):
                s.sendall(request(7))
            self.assertEqual(auth_kit.receive(s, 8), bytes(8) if served else b"")
            s = self.connect(port)
            self.assertEqual(auth_kit.authenticate(s, self.key()), b"\0\0")
            begin = time.monotonic()
            status, _ = self.run_tool("store", "set", "--open", "--port", port, "--timeout", 20, "a", "b", env={"MUSTER_STORE_LOCAL": 0})
            self.assertEqual(status == 0, served)
            self.assertLess(time.monotonic() - begin, 15)
            store.terminate()
            err = store.communicate(timeout=DEADLINE)[1]
            self.assertEqual(b"--open-store" in err, not served, err)


if __name__ == "__main__":
    main()
