"""The backend "muster" of torch.distributed with several Python threads in each rank, and with more ranks than processors."""

import os
import re

from torch_backends import TORCHES, BackendRanksTest, run

THREADS = ("groups", "messages", "works", "all_at_once")
VALUES = ("all_reduce", "all_gather", "all_to_all", "coalesced", "messages", "works", "barriers")


class ThreadsTest(BackendRanksTest):
    def right(self, torch, n, script, cases, **options):
        for status, out in self.ranks(torch, n, script, *cases, **options):
            self.assertEqual((status, re.findall(r"^(\w+): right$", out, re.M)), (0, list(cases)), out)

    def test_threads(self):
        for torch in TORCHES:
            for hosts in (None, "ab"):
                with self.subTest(torch=torch.version, hosts=hosts):
                    self.right(torch, 2, "threads.py", THREADS, hosts=hosts)

    def test_four_ranks_on_two_processors(self):
        processors = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, processors)
        os.sched_setaffinity(0, sorted(processors)[:2])  # the ranks inherit it
        for torch in TORCHES:
            for hosts in (None, "aabb"):
                with self.subTest(torch=torch.version, hosts=hosts):
                    self.right(torch, 4, "threads.py", THREADS, hosts=hosts)
                    self.right(torch, 4, "values.py", VALUES, hosts=hosts)


if __name__ == "__main__":
    run()
