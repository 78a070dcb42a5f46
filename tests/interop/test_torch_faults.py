"""Failures of the backend "muster" of torch.distributed: what each rank raises, and when. See test_torch_backend.py."""

import re

from torch_backends import TORCHES, BackendRanksTest, run


class FaultsTest(BackendRanksTest):
    hosts = None  # the simulated host of each rank; None: all on this host

    def faults(self, torch, case, *patterns, within=10, victim=None, status=None):
        """Each rank but the victim raises what the patterns say within so many seconds; status: how it ends then."""
        for rank, (ended, out) in enumerate(self.ranks(torch, 3, "faults.py", case, hosts=self.hosts)):
            if rank == victim:
                continue
            found = re.search(r"^DistBackendError ([\d.]+) (.*)$", out, re.M)
            self.assertTrue(found, (case, rank, out))
            self.assertLess(float(found[1]), within, (case, rank, out))
            self.assertIn(status, (None, ended), (case, rank, out))
            for pattern in patterns:
                self.assertRegex(found[2], pattern, (case, rank))

    def test_faults(self):
        died = "Connection closed by peer", r"rank 1 \(host .*, pid \d+\)"
        for torch in TORCHES:
            with self.subTest(torch=torch.version):
                # Between hosts PyTorch's store does not tell who died, so a rank needs a connection to notice it.
                for case in ("killed", "killed_before_the_end", "killed_during_a_work", "left_without_destroy", *(["killed_sender"] if not self.hosts else [])):
                    self.faults(torch, case, *died, victim=1)
                self.faults(torch, "different_sizes", r"all_reduce of [456] f32.*all_reduce of [456] f32", "the calls differ|made different calls")
                self.faults(torch, "rejected", "mst_all_reduce: BAND is not defined for f32")
                self.faults(torch, "late_rank", "Timed out", "rank 1 ", victim=1)
                phrases = "Ranks 1 failed to pass monitoredBarrier in 1000 ms|Rank 2 successfully reached monitoredBarrier, but received errors"
                self.faults(torch, "monitored_barrier", phrases, "missing: rank 1 ", victim=1)
                self.faults(torch, "wait_with_a_timeout", "Timed out waiting 300ms", victim=1)
                self.faults(torch, "aborted", "abort")
                self.faults(torch, "wrong_arguments", "right: 3")
                self.faults(torch, "destroyed_during_a_call", "abort|destroyed|right|left")
                for case in ("shrunk_twice", "reinitialised"):
                    self.faults(torch, case, "right")
                self.faults(torch, "forked", "right: 7 3")
                self.faults(torch, "short_timeout", "Timed out", victim=1)
                for case in ("forked_during_a_collective", "ended_during_callbacks", "ended_in_a_call", "ended_before_works_are_freed"):
                    self.faults(torch, case, "right", status=0)
                if not self.hosts:
                    self.faults(torch, "killed_with_pending_works", "right", victim=1)
                for case in ("shrunk", "reconfigured"):
                    self.faults(torch, case, "right: ", victim=1)
                self.faults(torch, "destroyed_with_pending_works", "destroyed before the operation was done|has destroyed group")

    def test_again_at_the_same_address(self):
        """Usually the others wait long enough for rank 0. A late one fails as with gloo."""
        for torch in TORCHES:
            with self.subTest(torch=torch.version):
                ends = ([status for status, _ in self.ranks(torch, 3, "faults.py", "reinitialised_at_once", hosts=self.hosts)] for _ in range(3))
                self.assertIn([0, 0, 0], ends)


if __name__ == "__main__":
    run()
