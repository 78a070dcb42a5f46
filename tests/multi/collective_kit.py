"""Shared by the drivers of tests/multi/collective.c: runs it under the launcher."""

import subprocess

from harness import MUSTER, PROGRAMS, SANITIZED, SKIPPED, RanksTest

COLLECTIVE = PROGRAMS / "collective"
LIMIT = 400.0  # seconds for one run; reached only when something is wrong


class CollectiveTest(RanksTest):
    def run_suite(self, n, *arguments, hosts=None, program=COLLECTIVE, env=None):
        """Runs n ranks; hosts has the simulated host of each. Skips the test if the program exits with 77."""
        command = [program, *arguments]
        if hosts:
            pick = " ".join(f"{rank}) host={host};;" for rank, host in enumerate(hosts))
            script = f'case $RANK in {pick} esac; MUSTER_FORCE_HOST=$host exec "$0" "$@"'
            command = ["sh", "-c", script, *command]
        process = self.popen(MUSTER, "run", "-n", n, *command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=env)
        out, _ = process.communicate(timeout=LIMIT)
        out = out.decode(errors="replace")
        if process.returncode == SKIPPED and (hosts or program != COLLECTIVE):
            reason = next((line for line in out.splitlines() if "skipped: " in line), "no reason given")
            self.skipTest(reason.split("skipped: ", 1)[-1])
        self.assertEqual(process.returncode, 0, out[-8000:])
        self.assert_nothing_left()
        return out

    def quick(self, n):
        """With sanitizers, only worlds of two ranks have large counts, which take most of the time."""
        return "--quick", "--seed", 1000 + n, *(("--max-count", 3000) if SANITIZED and n != 2 else ())

    def run_size(self, n):
        """The quick run of n ranks that share memory."""
        out = self.run_suite(n, *self.quick(n))
        self.assertIn(f"collective: {n} ranks on 1 hosts, seed {1000 + n}\n", out)
        self.assertRegex(out, r"collective: ok: \d{4,} cases")

    def run_hosts(self, hosts, env=None):
        """The quick run with one rank for each letter, on the simulated host of that name."""
        out = self.run_suite(len(hosts), *self.quick(len(hosts)), hosts=hosts, env=env)
        self.assertIn(f"{len(hosts)} ranks on {len(set(hosts))} hosts", out)
