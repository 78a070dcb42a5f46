"""Ranks that are threads: 64 ranks in one process, over every kind of store; and all operations between a few."""

from harness import PROGRAMS, Process, RanksTest, main

THREADS = PROGRAMS / "threads"
THREAD_RANKS = PROGRAMS / "thread_ranks"
LIMIT = 400.0  # seconds for one run of all operations; reached only when something is wrong


class Threads(RanksTest):
    def run_threads(self, *args):
        process = Process(self.popen(THREADS, *args))
        status, out = process.finish()
        self.assertEqual((status, out), (0, "done\n"))
        self.assert_nothing_left()

    def test_hash(self):
        self.run_threads(64, 100, "hash")

    def test_tcp(self):
        self.run_threads(64, 100, f"tcp://127.0.0.1:{self.free_port()}")

    def test_file(self):
        self.run_threads(64, 5, f"file://{self.path('meet')}")

    def test_file_is_removed_however_they_leave(self):
        """All leave at the same moment, many times: the last one removes the file."""
        for _ in range(20):
            self.run_threads(8, 1, f"file://{self.path('meet')}")

    def test_several_worlds_at_once(self):
        self.run_threads(8, 50, "hash", 8)

    def test_all_operations(self):
        """Every operation, blocking and with works, and several groups at once: for the race detector."""
        process = self.popen(THREAD_RANKS, 3, 1)
        out, _ = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, out), (0, b"done\n"))
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
