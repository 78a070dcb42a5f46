"""The misuses of tests/misuse by ranks in network namespaces, started without a launcher."""

import test_netns
from harness import main
from misuse_kit import Layout, Run, cases

ADDRESS = "10.77.0.1"


class NetRun(Run):
    def starts(self, command):
        return self.plain_starts(command, ADDRESS, self.test.spaces.inside)


class MisuseNet(test_netns.NetnsTest):
    grace = 10

    def check_all(self, hosts, mode):
        layout = Layout(hosts, hosts, True, mode, False)
        for case, why in NetRun(self, layout).run(cases()).items():
            with self.subTest(case=case):
                self.assertIsNone(why)
        self.assert_nothing_left()

    def test_three_hosts(self):
        self.check_all("abc", "blocking")

    def test_two_hosts_of_two(self):
        self.check_all("aabb", "cold")


if __name__ == "__main__":
    main()
