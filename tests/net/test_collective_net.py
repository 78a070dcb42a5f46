"""The suite of communication calls between network namespaces: real links, real addresses."""


import unittest

import test_netns
from harness import ALL, PROGRAMS, SKIPPED, Process, main

COLLECTIVE = PROGRAMS / "collective"
LIMIT = 400.0  # seconds for one run


class CollectiveNet(test_netns.NetnsTest):
    def run_suite(self, spaces, *arguments, hosts=None, host="10.77.0.1", env=None):
        """One rank for each letter, in the namespace of that name; hosts: each of which counts as a host of its own."""
        ranks = []
        for rank, space in enumerate(spaces):
            place = {"RANK": rank, "WORLD_SIZE": len(spaces), "MASTER_ADDR": host, "MASTER_PORT": test_netns.PORT}
            settings = {"MUSTER_FORCE_HOST": (hosts or spaces)[rank], **(env or {})}
            command = [*self.spaces.inside(space), COLLECTIVE, *arguments]
            ranks.append(Process(self.popen(*command, env={**place, **settings})))
        texts = [rank.process.communicate(timeout=LIMIT)[0].decode(errors="replace") for rank in ranks]
        codes = [rank.process.returncode for rank in ranks]
        if SKIPPED in codes:
            reason = next((text.split("skipped: ", 1)[1] for text in texts if "skipped: " in text), "no reason given")
            self.skipTest(reason.splitlines()[0])
        self.assertEqual(codes, [0] * len(ranks), "".join(texts))
        self.assertRegex(texts[0], r"collective: ok: \d+ cases")
        self.assert_nothing_left()
        return texts[0]

    def test_three_hosts_of_one(self):
        out = self.run_suite("abc", "--quick", "--seed", 21)
        self.assertIn("3 ranks on 3 hosts", out)

    @unittest.skipUnless(ALL, "test_uneven_hosts has as many ranks on as many hosts: set MUSTER_TEST_ALL=1")
    def test_three_hosts_of_two(self):
        out = self.run_suite("abcabc", "--quick", "--seed", 22)
        self.assertIn("6 ranks on 3 hosts", out)

    def test_uneven_hosts(self):
        out = self.run_suite("aabbbc", "--quick", "--seed", 23)
        self.assertIn("6 ranks on 3 hosts", out)

    def test_ipv6(self):
        self.run_suite("abc", "--quick", "--seed", 24, host="fd77::1")

    def test_named_interface(self):
        """Data goes over the interface that was named; here that is the one the links hang on."""
        self.run_suite("abc", "--quick", "--seed", 25, env={"MUSTER_SOCKET_IFNAME": "eth0"})

    def test_soak(self):
        out = self.run_suite("abca", "--soak", 3, "--seed", 26)
        self.assertRegex(out, r"soak: \d+ cases")

    def test_shared_memory(self):
        """Networks differ, but the memory is shared: this never touches a network."""
        out = self.run_suite("abc", "--quick", "--seed", 27, hosts="hhh")
        self.assertIn("3 ranks on 1 hosts", out)


if __name__ == "__main__":
    main()
