"""muster run --bind: ranks start on processors of their own. How they are shared out is tests/unit/test_run_bind.c's."""

import os
import unittest

from harness import ToolTest, default_signals, lines_of

OWN = ("sh", "-c", "grep Cpus_allowed_list /proc/$$/status")


def cpus(text):
    """The set that a list such as 0-3,8 names."""
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


class Bind(ToolTest):
    def ranks(self, n, *options, **more):
        rc, out, err = self.muster("run", "-n", n, *options, *OWN, **more)
        self.assertEqual(rc, 0, err)
        return [cpus(line.split()[-1]) for line in sorted(lines_of(out))], lines_of(err)

    def test_every_rank_has_cores_of_its_own(self):
        usable = os.sched_getaffinity(0)
        shares, err = self.ranks(2, "--bind", "cores")
        self.assertEqual(err, [])
        self.assertEqual(set().union(*shares), usable)
        cores = set()
        for cpu in usable:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", encoding="utf-8") as siblings:
                cores.add(siblings.read())
        if len(cores) < 2:
            self.skipTest("one core cannot be shared out")
        self.assertFalse(shares[0] & shares[1])

    def test_within_what_the_launcher_has(self):
        last = max(os.sched_getaffinity(0))
        for how in ("cores", "numa"):
            shares, _ = self.ranks(3, f"--bind={how}",
                                   preexec_fn=lambda: (default_signals(), os.sched_setaffinity(0, {last})))
            self.assertEqual(shares, [{last}] * 3)

    def test_none_is_the_default(self):
        usable = os.sched_getaffinity(0)
        self.assertEqual(self.ranks(2)[0], [usable] * 2)
        self.assertEqual(self.ranks(2, "--bind", "none")[0], [usable] * 2)

    def test_nodes(self):
        for option in ("--bind=numa", "--numa-binding=numa", "--numa-binding=node"):
            shares, _ = self.ranks(1, option)
            self.assertEqual(shares, [os.sched_getaffinity(0)])

    def test_verbose_says_what_is_so(self):
        shares, err = self.ranks(2, "-v", "--bind", "cores")
        self.assertRegex(err[0], r"\Amuster run: 2 ranks, run [0-9a-f]{16}, store at 127\.0\.0\.1:\d+\Z")
        said = [line.split("muster run: local rank ")[1].split(" is bound to processors ") for line in err[1:]]
        self.assertEqual([(rank, cpus(text)) for rank, text in said], [("0", shares[0]), ("1", shares[1])])

    def test_restarted_ranks_are_bound_too(self):
        script = f"[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 1; {OWN[2]}"
        rc, out, _ = self.muster("run", "-n", 2, "--max-restarts", 1, "--bind", "cores", "sh", "-c", script)
        self.assertEqual(rc, 0)
        shares = [cpus(line.split()[-1]) for line in sorted(lines_of(out))]
        self.assertEqual(shares, self.ranks(2, "--bind", "cores")[0])

    def test_mistakes(self):
        for options, says in (
            (["--bind", "core"], "--bind takes cores, numa or none, not 'core'"),
            (["--numa-binding", ""], "--numa-binding takes cores, numa or none, not ''"),
            (["--bind", "cores", "--numa-binding", "numa"], "set the same option; remove one"),
        ):
            rc, out, err = self.muster("run", "-n", 2, *options, "echo", "started")
            self.assertEqual((rc, out), (2, b""))
            self.assertRegex(err.decode(), r"\Amuster run: [^\n]*\n\Z")
            self.assertIn(says, err.decode())


if __name__ == "__main__":
    unittest.main()
