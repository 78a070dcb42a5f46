"""Fails each allocation and system call of a rank in turn: an error with a message each time, and nothing else."""

from harness import PROGRAMS, SKIPPED, Process, RanksTest, main

FAIL_CALLS = PROGRAMS / "fail_calls"
FEW = 20  # calls; with fewer of them, the interception does not work


class FailCalls(RanksTest):
    def fail_calls(self, phase, rank, method):
        status, out = Process(self.popen(FAIL_CALLS, phase, rank, method)).finish()
        if status == SKIPPED:
            self.skipTest("calls cannot be intercepted")
        self.assertEqual(status, 0, out)
        self.assertRegex(out, r"^calls \d+, failed \d+, tolerated \d+$")
        self.assertGreater(int(out.split()[1].rstrip(",")), FEW)
        self.assert_nothing_left()

    def test_joining(self):
        self.fail_calls("init", 1, "hash")

    def test_joining_with_the_store(self):
        self.fail_calls("init", 0, f"tcp://127.0.0.1:{self.free_port()}")

    def test_joining_at_a_store(self):
        self.fail_calls("init", 1, f"tcp://127.0.0.1:{self.free_port()}")

    def test_first_operations(self):
        for rank in (0, 1):
            self.fail_calls("use", rank, "hash")


if __name__ == "__main__":
    main()
