"""Ranks that are threads: many ranks in one process, over every kind of store; and all operations between a few."""

import re
import resource
import subprocess
import time

from harness import ALL, PROGRAMS, SANITIZED, SOON, Process, RanksTest, main

THREADS = PROGRAMS / "threads"
THREAD_RANKS = PROGRAMS / "thread_ranks"
THREAD_FDS = PROGRAMS / "thread_fds"
FDS_OF_A_RANK = 8  # most descriptors for each rank of a process, where it also hosts the store
LIMIT = 400.0  # seconds for one run of all operations; reached only when something is wrong


def limit_descriptors(limit):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


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

    def count_descriptors(self, method, size, *part):
        """Starts a process with these ranks; the function that waits for it returns its number of descriptors."""
        process = Process(self.popen(THREAD_FDS, method, size, *part, stderr=subprocess.DEVNULL))

        def finish():
            status, out = process.finish()
            self.assertRegex(out, r"^descriptors \d+\ndone\n$")
            self.assertEqual(status, 0)
            return int(out.split()[1])

        return finish

    def test_descriptors_grow_with_the_ranks(self):
        """Not with their pairs. A process with 128 ranks would need 16,000 otherwise."""
        size = 64 if SANITIZED else 128
        for method in ("hash", f"tcp://127.0.0.1:{self.free_port()}", f"file://{self.path('meet')}"):
            with self.subTest(method):
                self.assertLess(self.count_descriptors(method, size)(), size * FDS_OF_A_RANK)
        self.assert_nothing_left()

    def test_descriptors_of_several_processes(self):
        """Each process watches the others once, and opens one pipe for each rank."""
        url = f"tcp://127.0.0.1:{self.free_port()}"
        counts = [self.count_descriptors(url, 128, first, 32) for first in range(0, 128, 32)]
        for finish in counts:
            self.assertLess(finish(), 128 * FDS_OF_A_RANK)
        self.assert_nothing_left()

    def test_many_ranks(self):
        size = 1024 if ALL else 384
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < size * FDS_OF_A_RANK:
            self.skipTest(f"RLIMIT_NOFILE is {hard}")
        if SANITIZED:
            self.skipTest("takes minutes with sanitizers")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, size * FDS_OF_A_RANK), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.assertLess(self.count_descriptors("hash", size)(), size * FDS_OF_A_RANK)

    def run_limited(self, limit, method):
        """Runs 64 ranks in a process with that many descriptors: their lines, and the seconds that it took."""
        since = time.monotonic()
        process = Process(
            self.popen(THREAD_FDS, method, 64, stderr=subprocess.DEVNULL, preexec_fn=lambda: limit_descriptors(limit))
        )
        status, out = process.finish()
        lines = out.splitlines()
        self.assertEqual((status, len(lines)), (1, 64), out)
        return lines, time.monotonic() - since

    def test_few_descriptors(self):
        """Every rank learns at once that there are not enough."""
        for limit in (12, 20, 40, 64):
            with self.subTest(limit=limit):
                lines, seconds = self.run_limited(limit, "hash")
                self.assertLess(seconds, SOON)
                for line in lines:
                    self.assertRegex(line, rf"MST_ERR_SYSTEM.*RLIMIT_NOFILE is {limit}\)")

    def test_few_descriptors_with_the_store(self):
        """The same if rank 0 also hosts the store. A thread that begins late may find no store any more."""
        lines, _ = self.run_limited(100, f"tcp://127.0.0.1:{self.free_port()}")
        self.assertTrue(any(re.search("RLIMIT_NOFILE|has run out of descriptors", line) for line in lines), lines)
        known = {"MST_ERR_SYSTEM", "MST_ERR_UNREACHABLE", "MST_ERR_STORE_LOST"}
        self.assertLessEqual({line.split(": ")[1] for line in lines}, known, lines)
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
