"""Pipelines: every schedule computes what it should, messages are where they belong, and failures name who failed."""

import time

from collective_kit import CollectiveTest
from ranks import BUILD, PROGRAMS, SLOWER, main

PIPELINE = PROGRAMS / "pipeline"


class Pipelines(CollectiveTest):
    def run_well(self, n, *words, hosts=None, env=None):
        out = self.run_suite(n, *words, hosts=hosts, program=PIPELINE, env=env)
        self.assertEqual(out.count("ok\n"), n, out)
        return out

    def test_schedules(self):
        for n in (1, 2, 3, 4):
            for schedule, chunks in (("gpipe", 0), ("1f1b", 0), ("interleaved", 2), ("interleaved", 3), ("forward", 0)):
                for micros in (1, 3, 8):
                    with self.subTest(n=n, schedule=schedule, chunks=chunks, micros=micros):
                        self.run_well(n, "train", schedule, micros, chunks, 3)

    def test_several_hosts(self):
        self.run_well(3, "train", "1f1b", 6, 0, 3, hosts="aab")
        self.run_well(4, "train", "interleaved", 8, 2, 2, hosts="abab")

    def test_streams(self):
        for n, batches, tokens, inner, micros in ((1, 2, 3, 1, 1), (2, 4, 5, 2, 2), (3, 3, 4, 3, 1), (4, 6, 3, 4, 2), (3, 5, 1, 2, 1)):
            with self.subTest(n=n, batches=batches, tokens=tokens):
                self.run_well(n, "stream", batches, tokens, inner, micros)

    def test_the_backend_is_exchanged(self):
        """Neighbours connect again, in order: here each would wait in its first receive for the one before."""
        env = {"MUSTER_BACKEND_PATH": BUILD / "tests/backends", "MUSTER_LOG": "error"}
        for n, schedule, chunks in ((3, "interleaved", 2), (2, "1f1b", 0)):
            with self.subTest(n=n, schedule=schedule), self.ended():
                self.run_well(n, "exchange", schedule, 6, chunks, "minimal", env=env)
                self.run_well(n, "exchange", schedule, 6, chunks, "minimal", "group", env=env)

    def test_wrong_arguments(self):
        self.run_well(1, "wrong")

    def test_ring(self):
        for n in (1, 2, 3, 4):
            with self.subTest(n=n):
                out = self.run_well(n, "ring", self.free_port())
                self.assertEqual(out.count("joining the distributed world at 127.0.0.1:"), n)
                self.assertEqual(out.count("joined the distributed world\n"), 1)
                self.assertEqual(out.count("only rank 0 prints"), 1)

    def test_ring_of_a_world_that_there_is(self):
        for n in (1, 2, 3):
            self.run_well(n, "round")

    def test_alone(self):
        self.run_well(1, "alone")

    def failed(self, n, *words, status=0):
        """What each rank said; none is there any more."""
        got, out = self.run_tool("run", "-n", n, PIPELINE, *words)
        self.assertEqual(got != 0, status != 0, out)
        return out

    def test_a_callback_fails(self):
        """In the first step, before the groups were used, and later; two hops away it is known, too."""
        for stage, step in ((1, 0), (1, 1), (3, 2)):
            out = self.failed(4, "fail", "refuses", stage, step)
            words = f"the callback forward of stage {stage} returned MST_ERR_INVALID for micro-batch 2"
            self.assertIn(f"[{stage}] MST_ERR_CALLBACK culprit -1: rank {stage}: mst_pipeline_run (pipeline.c:", out)
            for rank in {0, 1, 2, 3} - {stage}:
                self.assertRegex(out, rf"\[{rank}\] MST_ERR_CALLBACK culprit {stage}: .*rank {stage} .* gave up the pipeline: {words}")

    def test_a_call_in_a_callback_fails(self):
        out = self.failed(4, "fail", "leans", 1, 1)
        for rank, culprit in enumerate((2, 2, 1, 2)):  # no rank blames itself
            self.assertRegex(out, rf"\[{rank}\] MST_ERR_STALLED culprit {culprit}: .*no message of rank 2 ")

    def test_a_stage_is_killed(self):
        out = self.failed(4, "fail", "dies", 1, 1, status=1)
        for rank in (0, 2, 3):
            self.assertRegex(out, rf"\[{rank}\] MST_ERR_PEER_LOST culprit 1: .*rank 1 .* died")

    def test_a_stage_is_killed_after_another_has_left(self):
        out = self.failed(3, "after_leaving", status=1)
        self.assertIn("[0] MST_OK ", out)
        self.assertRegex(out, r"\[2\] MST_ERR_PEER_LOST culprit 1: .*rank 1 .* died")

    def test_misused(self):
        for n in (1, 2, 3):
            self.run_well(n, "misused")

    def test_a_stage_is_late(self):
        out = self.failed(4, "fail", "late", 1, 1)
        for rank in (0, 2, 3):
            self.assertRegex(out, rf"\[{rank}\] MST_ERR_STALLED culprit 1: ")

    def test_ranks_that_do_not_fit(self):
        out = self.failed(4, "unfit", "differs", 2)
        words = ["a pipeline of %s of 4 stages, 4 micro-batches" % schedule for schedule in ("1f1b", "gpipe")]
        for rank in range(4):
            self.assertRegex(out, rf"\[{rank}\] MST_ERR_MISMATCH culprit \d: .* made ({words[0]} .* made {words[1]}|{words[1]} .* made {words[0]})")
        self.assertEqual(out.count("ok\n"), 4, out)
        out = self.failed(4, "unfit", "lacks", 1)
        for rank, culprit in enumerate((1, -1, 1, 1)):
            self.assertRegex(out, rf"\[{rank}\] MST_ERR_INVALID culprit {culprit}: .*\.out")
        out = self.failed(4, "unfit", "starves", 1)
        for rank, culprit in enumerate((1, -1, 1, 1)):
            self.assertIn(f"[{rank}] MST_ERR_MEMORY culprit {culprit}: ", out)

    def test_a_stage_comes_when_the_others_have_given_up(self):
        """All stages are counted by then, so that the last one could take it that all are well."""
        for n, stage in ((2, 1), (3, 0), (4, 2)):
            out = self.failed(n, "unfit", "tarries", stage)
            for rank in range(n):
                culprit = rf"(?!{rank})\d" if rank == stage else str(stage)
                self.assertRegex(out, rf"\[{rank}\] MST_ERR_STALLED culprit {culprit}: .*arrived in time; missing: rank {stage} ")
            self.assertEqual(out.count("ok\n"), n, out)

    def test_a_stage_cannot_open_its_backend(self):
        for n, shut in ((2, 0), (2, 1), (4, 1), (5, 4)):
            began = time.monotonic()
            out = self.failed(n, "unfit", "shut", shut)
            self.assertLess(time.monotonic() - began, 5 * SLOWER)
            for rank in range(n):
                culprit = -1 if rank == shut else shut
                self.assertRegex(out, rf"\[{rank}\] MST_ERR_SYSTEM culprit {culprit}: .*the door is shut")
            self.assertEqual(out.count("ok\n"), n, out)


if __name__ == "__main__":
    main()
