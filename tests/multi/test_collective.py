"""Every communication call against a naive reference, over shared memory, in small worlds; invalid calls."""

from collective_kit import CollectiveTest
from harness import PROGRAMS, main

BADCALLS = PROGRAMS / "badcalls"
BLOCKING_MESSAGES = PROGRAMS / "blocking_messages"


class OneHost(CollectiveTest):
    def test_1(self):
        self.run_size(1)

    def test_2(self):
        self.run_size(2)

    def test_3(self):
        self.run_size(3)

    def test_4(self):
        self.run_size(4)

    def test_soak(self):
        out = self.run_suite(4, "--soak", 3, "--seed", 77)
        self.assertRegex(out, r"soak: \d+ cases in .* calls per second")

    def test_large_in_place(self):
        """A rank does not overwrite a round of an all_to_all that it has not published."""
        for n, threads in ((2, 3), (3, 1)):
            with self.subTest(n=n, threads=threads):
                bench = "bench", "all_to_all", "--backend", "native", "-n", n, "--place", "in", "--bytes", "16M", "--seconds", 0.02
                status, out = self.run_tool(*bench, env={"MUSTER_THREADS": threads})
                self.assertEqual(status, 0, out)


class BlockingMessages(CollectiveTest):
    """Blocking messages in a program without works, which use a fast path."""

    def test_pair(self):
        for seed in range(3):
            self.assertIn("blocking_messages: ok", self.run_suite(2, seed, program=BLOCKING_MESSAGES))

    def test_pairs(self):
        self.run_suite(5, 99, program=BLOCKING_MESSAGES)

    def test_hosts(self):
        self.run_suite(2, 7, hosts="ab", program=BLOCKING_MESSAGES)


class BadCalls(CollectiveTest):
    def test_alone(self):
        self.run_suite(1, program=BADCALLS)

    def test_three(self):
        self.run_suite(3, program=BADCALLS)


if __name__ == "__main__":
    main()
