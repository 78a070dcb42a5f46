"""Every communication call against a naive reference, at every small world size, on one host and on pretended ones."""

import subprocess

from ranks import PROGRAMS, SKIPPED, TOOL, RanksTest, main

COLLECTIVE = PROGRAMS / "collective"
BADCALLS = PROGRAMS / "badcalls"


class CollectiveTest(RanksTest):
    def run_suite(self, n, *arguments, hosts=None, program=COLLECTIVE):
        """Runs n ranks; hosts says which pretended host each is on. Skips where the library cannot do this yet."""
        command = [program, *arguments]
        if hosts:
            pick = " ".join(f"{rank}) host={host};;" for rank, host in enumerate(hosts))
            script = f'case $RANK in {pick} esac; MUSTER_FORCE_HOST=$host exec "$0" "$@"'
            command = ["sh", "-c", script, *command]
        process = self.popen(TOOL, "run", "-n", n, *command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        out, _ = process.communicate(timeout=150)
        out = out.decode(errors="replace")
        if process.returncode == SKIPPED and hosts:
            reason = next((line for line in out.splitlines() if "skipped: " in line), "groups that span hosts")
            self.skipTest(reason.split("skipped: ", 1)[-1])
        self.assertEqual(process.returncode, 0, out[-8000:])
        self.assert_nothing_left()
        return out

    def seed_of(self, n):
        return 1000 + n


class OneHost(CollectiveTest):
    """Over shared memory."""

    def run_size(self, n):
        out = self.run_suite(n, "--quick", "--seed", self.seed_of(n))
        self.assertRegex(out, rf"collective: {n} ranks on 1 hosts, seed {self.seed_of(n)}\n")
        self.assertRegex(out, r"collective: ok: \d{4,} cases")

    def test_1(self):
        self.run_size(1)

    def test_2(self):
        self.run_size(2)

    def test_3(self):
        self.run_size(3)

    def test_4(self):
        self.run_size(4)

    def test_5(self):
        self.run_size(5)

    def test_6(self):
        self.run_size(6)

    def test_7(self):
        self.run_size(7)

    def test_8(self):
        self.run_size(8)

    def test_soak(self):
        out = self.run_suite(4, "--soak", 3, "--seed", 77)
        self.assertRegex(out, r"soak: \d+ cases in .* calls per second")


class PretendedHosts(CollectiveTest):
    """Ranks that are told to sit on different hosts: what leaves a host goes over tcp."""

    def run_hosts(self, hosts):
        out = self.run_suite(len(hosts), "--quick", "--seed", self.seed_of(len(hosts)), hosts=hosts)
        self.assertIn(f"{len(hosts)} ranks on {len(set(hosts))} hosts", out)

    def test_two_hosts_of_one(self):
        self.run_hosts("ab")

    def test_two_hosts_of_two(self):
        self.run_hosts("aabb")

    def test_three_hosts_in_turn(self):
        self.run_hosts("abcabc")

    def test_uneven_hosts(self):
        self.run_hosts("aaabc")

    def test_four_hosts(self):
        self.run_hosts("abcdabcd")


class BadCalls(CollectiveTest):
    def test_alone(self):
        self.run_suite(1, program=BADCALLS)

    def test_three(self):
        self.run_suite(3, program=BADCALLS)


if __name__ == "__main__":
    main()
