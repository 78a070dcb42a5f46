"""What docs/messages.md, docs/buffers.md and docs/threads.md say of messages, deadlines and buffers is true."""

from collective_kit import CollectiveTest
from harness import PROGRAMS, main


class Documented(CollectiveTest):
    def check(self, **settings):
        out = self.run_suite(2, program=PROGRAMS / "documented", **settings)
        self.assertEqual(out.count("done\n"), 2, out)

    def test_one_host(self):
        self.check()

    def test_hosts(self):
        self.check(hosts="ab")


if __name__ == "__main__":
    main()
