"""Groups that span hosts: ranks of one host use shared memory, and waiting ranks sleep."""

import os
import pathlib

from harness import is_alive, main, open_files, segments
from test_faults import FaultsTest

TICKS = os.sysconf("SC_CLK_TCK")
ESTABLISHED = "01"


def sockets(pid):
    """The inodes of a process's sockets."""
    return {name[8:-1] for name in open_files(pid) if name.startswith("socket:[")}


def connections():
    """The two endpoints of each connection of this network namespace, by inode."""
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
    """The number of connections for each pair of ranks that has any."""
    table = connections()
    ends = {}
    for number, rank in enumerate(ranks):
        for inode in sockets(rank.pid) & table.keys():
            ends[table[inode]] = number
    pairs = [tuple(sorted((n, ends[there, here]))) for (here, there), n in ends.items() if (there, here) in ends]
    return {pair: pairs.count(pair) // 2 for pair in pairs}  # each is listed for both ends


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Connections(FaultsTest):
    def looped(self, hosts, operation):
        """The connected pairs of ranks while they repeat an operation, and the pairs of different hosts."""
        self.hosts = hosts
        store, ranks = self.world(len(hosts), "loop", operation)
        for rank in ranks:
            rank.begins("loop")
        found = connected(ranks)
        mapped = [segments(rank.pid, "muster-link") for rank in ranks]
        names = [name for rank in ranks for name in open_files(rank.pid)]
        self.assertTrue(all(is_alive(rank.pid) for rank in ranks))
        ranks[0].kill()
        self.end(store, ranks)
        self.assert_nothing_left()
        for rank, count in enumerate(mapped):
            self.assertEqual(count > 0, hosts.count(hosts[rank]) > 1, (rank, mapped))
        self.assertEqual([name for name in names if "memfd:muster" in name], [])
        n = range(len(hosts))
        return found, {(a, b) for a in n for b in n if a < b and hosts[a] != hosts[b]}

    def test_collectives(self):
        for hosts in ("aabb", "abab", "aaab"):
            with self.subTest(hosts=hosts), self.ended():
                found, apart = self.looped(hosts, "all_to_all_single")
                self.assertEqual(found, dict.fromkeys(apart, 1))

    def test_several_sockets(self):
        """The number of connections of the setting; by default one if both ends are on the same machine."""
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
        """A rank answers on the connection that the other rank has opened; collectives have their own."""
        found, _ = self.looped("ab", "echo")
        self.assertEqual(found, {(0, 1): 2})


class Sleep(FaultsTest):
    """Ranks that wait for an absent rank use little CPU time."""

    def wait_for_absent_rank(self, hosts, operation):
        self.hosts = hosts
        store, ranks = self.world(len(hosts), "absent", operation, 1500)
        before = [processor_seconds(rank.pid) for rank in ranks[:2]]
        for rank, used in zip(ranks[:2], before):
            rank.step("absent")
            self.assertLess(processor_seconds(rank.pid) - used, 0.15)
        self.end(store, ranks)

    def test_absent_rank_of_another_host(self):
        self.wait_for_absent_rank("aab", "all_reduce")

    def test_absent_rank_of_this_host(self):
        self.wait_for_absent_rank("aba", "all_to_all_single")

    def test_absent_root(self):
        """Rank 0 has nothing to send to rank 1 before it has received from rank 2."""
        self.wait_for_absent_rank("abab", "broadcast_from_absent")


class SleepOverSockets(Sleep):
    settings = {"MUSTER_TCP_STREAMS": 3}


if __name__ == "__main__":
    main()
