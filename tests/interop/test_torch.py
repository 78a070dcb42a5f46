"""PyTorch and muster in one store: its clients on our server, our client on its server, and all at once.

Every version of torch for which an interpreter is found (see torch_support.candidates) gets the same tests.
Without any the test is skipped.
"""

import pathlib
import sys
import unittest

from torch_support import STORE_CLIENT, TOOL, Child, PortTaken, find_torches, finish_all, free_port, serve

ATTEMPTS = 5  # at a port that was free a moment ago
TORCHES, REASONS = find_torches()


def url(port):
    return f"tcp://127.0.0.1:{port}"


def megabytes_of(pid):
    """The most memory a process ever held."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024


class EachTorch:
    """The tests of one version, in self.torch."""

    def setUp(self):
        if self.torch.numbers == (2, 1):
            self.skipTest("2.1 speaks a dialect of its own, which cannot be told from 1.13's")

    def c(self, *arguments):
        return Child(self, STORE_CLIENT, *arguments)

    def tool(self, action, port, *operands):
        return Child(self, TOOL, "store", action, "--port", port, *operands).finish()

    def master(self, backend, world=0):
        """A torch server and its port; if it is to wait for a world of workers, ours have joined it."""
        for _ in range(ATTEMPTS):
            child = self.torch.start(self, "master", backend, world)
            port = child.line()
            workers = [self.c("join", url(port), world) for _ in range(world - 1)]
            try:
                self.assertEqual(child.line(), "complete")
            except PortTaken:
                continue
            finish_all(workers)
            return child, port
        self.fail("no free port")

    # Its clients on our server

    def test_client_operations(self):
        for backend in self.torch.backends:
            with self.subTest(libuv=backend):
                self.torch.run(self, "operations", serve(self), backend)

    def test_sixteen_at_once(self):
        self.torch.run(self, "crowd", serve(self), 16, 50)

    def test_gloo_over_our_store(self):
        for size in (2, 4):
            with self.subTest(ranks=size):
                self.torch.run(self, "gloo", serve(self), size, "store")

    def test_gloo_as_workers_of_torchrun(self):
        for size in (2, 4):
            with self.subTest(ranks=size):
                self.torch.run(self, "gloo", serve(self), size, "env")

    def test_torchrun_over_our_store(self):
        self.torch.torchrun(self, serve(self), 2).finish()

    def test_its_barrier_and_ours_are_one(self):
        if "barrier" not in self.torch.methods:
            self.skipTest("its stores have no barrier")
        port = serve(self)
        finish_all([self.torch.start(self, "barrier", port, "both", 2), self.c("barrier", url(port), "both", 2)])

    # Our client on its server

    def test_our_client_operations(self):
        for backend in self.torch.backends:
            with self.subTest(libuv=backend):
                master, port = self.master(backend)
                self.c("operations", url(port), *self.torch.extras(backend)).finish()
                self.c("waits", url(port)).finish()

    def test_values_cross(self):
        for backend in self.torch.backends:
            with self.subTest(libuv=backend):
                master, port = self.master(backend)
                self.tool("set", port, "from_c", "täst")
                self.assertEqual(master.ask("get", "from_c").encode("latin-1").decode(), "täst")
                master.ask("set", "from_python", "yes")
                self.assertEqual(self.tool("get", port, "from_python"), b"yes")
                self.assertEqual(master.ask("add", "both", 5), 5)
                self.assertEqual(self.tool("add", port, "both", "2").strip(), b"7")
                waiting = Child(self, TOOL, "store", "get", "--port", port, "later")
                master.ask("set", "later", "came")
                self.assertEqual(waiting.finish(), b"came")
                self.assertEqual(master.ask("delete_key", "later"), True)
                if "queue" in self.torch.extras(backend):
                    self.tool("push", port, "jobs", "one")
                    self.assertEqual(master.ask("queue_pop", "jobs"), "one")

    def test_our_barrier(self):
        for backend in self.torch.backends:
            with self.subTest(libuv=backend):
                master, port = self.master(backend)
                finish_all([self.c("barrier", url(port), "three", 3) for _ in range(3)])

    def test_our_appends_are_all_kept(self):
        for backend in self.torch.backends:
            with self.subTest(libuv=backend):
                master, port = self.master(backend)
                finish_all([self.c("append", url(port), 50) for _ in range(3)])
                self.assertEqual(master.ask("get", "c/shared"), "x" * 150)

    def test_our_clients_are_counted(self):
        for backend in self.torch.backends:
            with self.subTest(libuv=backend):
                master, _ = self.master(backend, world=4)
                self.assertEqual(master.ask("get", "joined"), "3")

    def test_its_clients_are_counted(self):
        """A master of ours waits for two of theirs and one of ours."""
        for _ in range(ATTEMPTS):
            port = free_port()
            master = self.c("join", url(port), 4, "master")
            workers = [self.torch.start(self, "join", port, 4) for _ in range(2)]
            try:
                self.c("join", url(port), 4).finish()
                finish_all([*workers, master])
                return
            except PortTaken:
                continue
        self.fail("no free port")

    def test_probing_harms_nobody(self):
        """Finding out what a server speaks costs it no memory and its other clients nothing."""
        for backend in self.torch.backends:
            with self.subTest(libuv=backend):
                master, port = self.master(backend)
                self.c("open", url(port), 1).finish()
                before = megabytes_of(master.process.pid)
                prober = self.c("open", url(port), 100)
                others = [self.torch.start(self, "meet", port, 2, 200) for _ in range(2)]
                finish_all([prober, *others])
                self.assertEqual(master.ask("add", "meet/sum", 0), 400)
                self.assertLess(megabytes_of(master.process.pid) - before, 32)


class AllTogether(unittest.TestCase):
    def test_all_meet_in_one_store(self):
        """Clients of every version and ours, two each, in one store of ours at once."""
        port = serve(self)
        torches = [torch for torch in TORCHES if torch.numbers != (2, 1)]
        parties = 2 * (len(torches) + 1)
        clients = [torch.start(self, "meet", port, parties, 100) for torch in torches for _ in range(2)]
        clients += [Child(self, STORE_CLIENT, "meet", url(port), parties, 100) for _ in range(2)]
        finish_all(clients)


for torch in TORCHES:
    name = "Torch_" + torch.version.split("+")[0].replace(".", "_")
    globals()[name] = type(name, (EachTorch, unittest.TestCase), {"torch": torch})

if __name__ == "__main__":
    if not TORCHES:
        print("no torch:", *REASONS, sep="\n  ")
        sys.exit(77)
    unittest.main(verbosity=2)
