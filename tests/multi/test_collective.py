"""Every communication call against a naive reference, over shared memory, in small worlds; calls that are refused."""

from collective_kit import CollectiveTest
from harness import PROGRAMS, main

BADCALLS = PROGRAMS / "badcalls"
LETTERS = PROGRAMS / "letters"


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


class Letters(CollectiveTest):
    """Blocking messages in a program without works."""

    def test_pair(self):
        for seed in range(5):
            self.assertIn("letters: ok", self.run_suite(2, seed, program=LETTERS))

    def test_pairs(self):
        self.run_suite(5, 99, program=LETTERS)

    def test_hosts(self):
        self.run_suite(2, 7, hosts="ab", program=LETTERS)


class BadCalls(CollectiveTest):
    def test_alone(self):
        self.run_suite(1, program=BADCALLS)

    def test_three(self):
        self.run_suite(3, program=BADCALLS)


if __name__ == "__main__":
    main()
