"""Groups that span hosts: ranks of one host exchange through memory, and sleep and are woken all the same."""

import os
import pathlib

from harness import is_alive, main, segments
from test_faults import FaultsTest

TICKS = os.sysconf("SC_CLK_TCK")
ESTABLISHED = "01"


def sockets(pid):
    """The inodes of a process's sockets."""
    links = [os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    return {link[8:-1] for link in links if link.startswith("socket:[")}


def connections():
    """By inode: the two ends of each connection of this network namespace."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(table):
            continue
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == ESTABLISHED:
                found[fields[9]] = (fields[1], fields[2])
    return found


def connected(ranks):
    """How many connections there are between each pair of ranks that has any."""
    table = connections()
    ends = {}
    for number, rank in enumerate(ranks):
        for inode in sockets(rank.pid) & table.keys():
            ends[table[inode]] = number
    pairs = [tuple(sorted((n, ends[there, here]))) for (here, there), n in ends.items() if (there, here) in ends]
    return {pair: pairs.count(pair) // 2 for pair in pairs}  # each was seen from both ends


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Ways(FaultsTest):
    def looped(self, hosts, operation):
        """The pairs of ranks that are connected while they repeat an operation, and those of different hosts."""
        self.hosts = hosts
        store, ranks = self.world(len(hosts), "loop", operation)
        for rank in ranks:
            rank.begins("loop")
        found = connected(ranks)
        mapped = [segments(rank.pid, "muster-link") for rank in ranks]
        open_files = [os.readlink(entry) for rank in ranks for entry in pathlib.Path(f"/proc/{rank.pid}/fd").iterdir()]
        self.assertTrue(all(is_alive(rank.pid) for rank in ranks))
        ranks[0].kill()
        self.end(store, ranks)
        self.assert_nothing_left()
        for rank, count in enumerate(mapped):
            self.assertEqual(count > 0, hosts.count(hosts[rank]) > 1, (rank, mapped))
        self.assertEqual([name for name in open_files if "memfd:muster" in name], [])
        n = range(len(hosts))
        return found, {(a, b) for a in n for b in n if a < b and hosts[a] != hosts[b]}

    def test_collectives(self):
        for hosts in ("aabb", "abab", "aaab"):
            with self.subTest(hosts=hosts), self.ended():
                found, apart = self.looped(hosts, "all_to_all_single")
                self.assertEqual(found, dict.fromkeys(apart, 1))

    def test_streams(self):
        """As many connections as were asked for; left alone, one where both ends are on one machine."""
        for streams, count in ((3, 3), ("auto", 1)):
            self.settings = {"MUSTER_TCP_STREAMS": streams}
            with self.subTest(streams=streams), self.ended():
                found, apart = self.looped("aabb", "all_to_all_single")
                self.assertEqual(found, dict.fromkeys(apart, count))

    def test_messages(self):
        found, apart = self.looped("aabb", "ring")
        self.assertLessEqual({(1, 2), (0, 3)}, found.keys())
        self.assertLessEqual(found.keys(), apart)

    def test_answers(self):
        """Who is called before it has anything to say answers on that connection; collectives have one of their own."""
        found, _ = self.looped("ab", "echo")
        self.assertEqual(found, {(0, 1): 2})


class Sleep(FaultsTest):
    """Ranks that wait for one that does not come leave the processor to others."""

    def wait_in_vain(self, hosts, operation):
        self.hosts = hosts
        store, ranks = self.world(len(hosts), "absent", operation, 1500)
        before = [processor_seconds(rank.pid) for rank in ranks[:2]]
        for rank, used in zip(ranks[:2], before):
            rank.step("absent")
            self.assertLess(processor_seconds(rank.pid) - used, 0.15)
        self.end(store, ranks)

    def test_absent_rank_of_another_host(self):
        self.wait_in_vain("aab", "all_reduce")

    def test_absent_rank_of_this_host(self):
        self.wait_in_vain("aba", "all_to_all_single")

    def test_absent_root(self):
        """Rank 0 could speak to rank 1 at once, but has nothing to say before it has heard of rank 2."""
        self.wait_in_vain("abab", "broadcast_from_absent")


class SleepOverStreams(Sleep):
    settings = {"MUSTER_TCP_STREAMS": 3}


if __name__ == "__main__":
    main()
