"""The limit of the shared memory that ranks hold (MUSTER_SHM_BYTES), and the first barrier of many ranks."""

from collective_kit import CollectiveTest
from harness import PROGRAMS, SANITIZED, main

MEMORY = PROGRAMS / "memory"
DEFAULT = 8 << 10  # KiB of a rank on a host
GROUPS = 100 if SANITIZED else 1000
FIRST_MS = 30000  # only a barrier that hangs takes longer; docs/performance.md has the figure


class Memory(CollectiveTest):
    def measure(self, n, *arguments, hosts=None, env=None):
        """The lines of the program, by their names."""
        out = self.run_suite(n, *arguments, hosts=hosts, program=MEMORY, env=env)
        lines = [line.split("] ", 1)[-1].split("\t") for line in out.splitlines() if "\t" in line]
        return {name: [float(value) for value in values] for name, *values in lines}

    def check_limit(self, n, phases, limit=DEFAULT):
        for name, (regions, links) in phases.items():
            self.assertLessEqual(regions + links, n * limit, name)

    def test_groups(self):
        phases = self.measure(8, "groups", GROUPS)
        self.assertEqual(len(phases), 4, phases)
        self.assertLess(phases["4 B"][0] / GROUPS, 64)
        self.check_limit(8, phases)

    def test_setting(self):
        phases = self.measure(4, "groups", 50, env={"MUSTER_SHM_BYTES": "2M"})
        self.check_limit(4, phases, 2 << 10)
        more = self.measure(4, "groups", 50, env={"MUSTER_SHM_BYTES": "1G"})
        self.assertGreater(more["in turns"][0], 4 * DEFAULT)

    def test_messages(self):
        """Oversubscribed ranks use more cells for each message."""
        for n in (2, 16):
            with self.subTest(n=n):
                phases = self.measure(n, "messages")
                self.assertEqual(len(phases), 3, phases)
                self.check_limit(n, phases)

    def test_messages_between_hosts(self):
        self.check_limit(8, self.measure(8, "messages", hosts="aaaabbbb"))

    def test_first_barrier(self):
        n = 64 if SANITIZED else 256
        for _, longest, _ in self.measure(n, "first").values():
            self.assertLess(longest, FIRST_MS)


if __name__ == "__main__":
    main()
