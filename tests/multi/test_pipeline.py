"""Pipelines: every schedule computes the right results, and failures name the stage that failed."""

import time

from collective_kit import CollectiveTest
from harness import BUILD, PROGRAMS, SLOWER, main

PIPELINE = PROGRAMS / "pipeline"


class Pipelines(CollectiveTest):
    def run_pipeline(self, n, *arguments, hosts=None, env=None):
        out = self.run_suite(n, *arguments, hosts=hosts, program=PIPELINE, env=env)
        self.assertEqual(out.count("ok\n"), n, out)
        return out

    def test_schedules(self):
        for n in (1, 2, 3, 4):
            for schedule, chunks in (("gpipe", 0), ("1f1b", 0), ("interleaved", 2), ("interleaved", 3), ("forward", 0)):
                for micros in (1, 3, 8):
                    with self.subTest(n=n, schedule=schedule, chunks=chunks, micros=micros):
                        self.run_pipeline(n, "train", schedule, micros, chunks, 3)

    def test_several_hosts(self):
        self.run_pipeline(3, "train", "1f1b", 6, 0, 3, hosts="aab")
        self.run_pipeline(4, "train", "interleaved", 8, 2, 2, hosts="abab")

    def test_stream_schedule(self):
        for n, batches, tokens, inner, micros in ((1, 2, 3, 1, 1), (2, 4, 5, 2, 2), (3, 3, 4, 3, 1), (4, 6, 3, 4, 2), (3, 5, 1, 2, 1)):
            with self.subTest(n=n, batches=batches, tokens=tokens):
                self.run_pipeline(n, "stream", batches, tokens, inner, micros)

    def test_exchange_of_the_backend(self):
        """Neighbours reconnect in order: otherwise each would wait in its first receive for the previous stage."""
        env = {"MUSTER_BACKEND_PATH": BUILD / "tests/backends", "MUSTER_LOG": "error"}
        for n, schedule, chunks in ((3, "interleaved", 2), (2, "1f1b", 0)):
            with self.subTest(n=n, schedule=schedule), self.ended():
                self.run_pipeline(n, "exchange", schedule, 6, chunks, "minimal", env=env)
                self.run_pipeline(n, "exchange", schedule, 6, chunks, "minimal", "group", env=env)

    def test_wrong_arguments(self):
        self.run_pipeline(1, "wrong")

    def test_ring(self):
        for n in (1, 2, 3, 4):
            with self.subTest(n=n):
                out = self.run_pipeline(n, "ring", self.free_port())
                self.assertEqual(out.count("joining the distributed world at 127.0.0.1:"), n)
                self.assertEqual(out.count("joined the distributed world\n"), 1)
                self.assertEqual(out.count("only rank 0 prints"), 1)

    def test_ring_in_an_existing_world(self):
        for n in (1, 2, 3):
            self.run_pipeline(n, "ring_of_launcher")

    def test_alone(self):
        self.run_pipeline(1, "alone")

    def run_failing(self, n, *arguments, status=0):
        """The output of all ranks, after their end."""
        got, out = self.run_tool("run", "-n", n, PIPELINE, *arguments)
        self.assertEqual(got != 0, status != 0, out)
        return out

    def test_a_callback_fails(self):
        """In the first step, before the groups were used, and later; also detected two hops away."""
        for stage, step in ((1, 0), (1, 1), (3, 2)):
            out = self.run_failing(4, "fail", "returns_error", stage, step)
            words = f"the callback forward of stage {stage} returned MST_ERR_INVALID for micro-batch 2"
            self.assertIn(f"[{stage}] MST_ERR_CALLBACK culprit -1: rank {stage}: mst_pipeline_run (pipeline.c:", out)
            for rank in {0, 1, 2, 3} - {stage}:
                self.assertRegex(out, rf"\[{rank}\] MST_ERR_CALLBACK culprit {stage}: .*rank {stage} .* gave up the pipeline: {words}")

    def test_a_call_in_a_callback_fails(self):
        out = self.run_failing(4, "fail", "call_fails", 1, 1)
        for rank, culprit in enumerate((2, 2, 1, 2)):  # no rank names itself
            self.assertRegex(out, rf"\[{rank}\] MST_ERR_STALLED culprit {culprit}: .*no message from rank 2 ")

    def test_a_stage_is_killed(self):
        out = self.run_failing(4, "fail", "killed", 1, 1, status=1)
        for rank in (0, 2, 3):
            self.assertRegex(out, rf"\[{rank}\] MST_ERR_PEER_LOST culprit 1: .*rank 1 .* died")

    def test_a_stage_is_killed_after_another_has_left(self):
        out = self.run_failing(3, "first_stage_leaves", status=1)
        self.assertIn("[0] MST_OK ", out)
        self.assertRegex(out, r"\[2\] MST_ERR_PEER_LOST culprit 1: .*rank 1 .* died")

    def test_misuse(self):
        for n in (1, 2, 3):
            self.run_pipeline(n, "misuse")

    def test_a_stage_times_out(self):
        out = self.run_failing(4, "fail", "times_out", 1, 1)
        for rank in (0, 2, 3):
            self.assertRegex(out, rf"\[{rank}\] MST_ERR_STALLED culprit 1: ")

    def test_ranks_disagree(self):
        out = self.run_failing(4, "new_fails", "other_schedule", 2)
        words = ["a pipeline of %s of 4 stages, 4 micro-batches" % schedule for schedule in ("1f1b", "gpipe")]
        for rank in range(4):
            self.assertRegex(out, rf"\[{rank}\] MST_ERR_MISMATCH culprit \d: .* created ({words[0]}, but .* created {words[1]}|{words[1]}, but .* created {words[0]})")
        self.assertEqual(out.count("ok\n"), 4, out)
        out = self.run_failing(4, "new_fails", "no_shape", 1)
        for rank, culprit in enumerate((1, -1, 1, 1)):
            self.assertRegex(out, rf"\[{rank}\] MST_ERR_INVALID culprit {culprit}: .*\.out")
        out = self.run_failing(4, "new_fails", "no_memory", 1)
        for rank, culprit in enumerate((1, -1, 1, 1)):
            self.assertIn(f"[{rank}] MST_ERR_MEMORY culprit {culprit}: ", out)

    def test_a_stage_comes_after_the_timeout(self):
        """All stages are registered then, so the last one could assume that all are ready."""
        for n, stage in ((2, 1), (3, 0), (4, 2)):
            out = self.run_failing(n, "new_fails", "late", stage)
            for rank in range(n):
                culprit = rf"(?!{rank})\d" if rank == stage else str(stage)
                self.assertRegex(out, rf"\[{rank}\] MST_ERR_STALLED culprit {culprit}: .*arrived in time; missing: rank {stage} ")
            self.assertEqual(out.count("ok\n"), n, out)

    def test_a_stage_cannot_open_its_backend(self):
        for n, failing in ((2, 0), (2, 1), (4, 1), (5, 4)):
            began = time.monotonic()
            out = self.run_failing(n, "new_fails", "no_backend", failing)
            self.assertLess(time.monotonic() - began, 5 * SLOWER)
            for rank in range(n):
                culprit = -1 if rank == failing else failing
                self.assertRegex(out, rf"\[{rank}\] MST_ERR_SYSTEM culprit {culprit}: .*this rank cannot open the backend")
            self.assertEqual(out.count("ok\n"), n, out)


if __name__ == "__main__":
    main()
