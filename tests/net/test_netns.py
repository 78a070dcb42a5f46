"""Ranks in network namespaces and process namespaces of one kernel, as containers are.

Three network namespaces hang on a bridge in a fourth, with addresses that exist nowhere else:

    a 10.77.0.1 --+
    b 10.77.0.2 --+-- bridge
    c 10.77.0.3 --+

Each is held by a process that ends when this one does, and the namespaces end with their holders: nothing can be
left behind, however the test ends.
"""

import os
import shutil
import subprocess
import unittest

from harness import DEADLINE, WORLD, RanksTest, main, wait_until

NAMES = "abc"
PORT = 29500  # nobody else is in these namespaces


class Namespaces:
    """The four namespaces. Raises OSError or CalledProcessError where the system has no such thing."""

    def __init__(self):
        self.holders = {}
        for name in ("hub", *NAMES):
            holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            self.holders[name] = holder
            own = os.readlink("/proc/self/ns/net")
            wait_until(lambda: holder.poll() is not None or self.space_of(holder.pid) not in (own, None), "its namespace")
            if holder.poll() is not None:
                raise OSError("unshare --net does not work here")
        self.ip("hub", "link add bridge0 type bridge")
        self.ip("hub", "link set bridge0 up")
        for n, name in enumerate(NAMES, 1):
            self.ip("hub", f"link add {name}0 type veth peer name eth0 netns {self.holders[name].pid}")
            self.ip("hub", f"link set {name}0 master bridge0 up")
            self.ip(name, f"address add 10.77.0.{n}/24 dev eth0")
            self.ip(name, f"address add fd77::{n}/64 dev eth0 nodad")
            self.ip(name, "link add data0 type veth peer name data1")
            self.ip(name, f"address add 10.78.0.{n}/24 dev data0")
            for device in ("lo", "eth0", "data0", "data1"):
                self.ip(name, f"link set {device} up")
        for name in NAMES:
            wait_until(lambda: "state UP" in self.ip(name, "link show eth0"), "the link is up")

    @staticmethod
    def space_of(pid):
        try:
            return os.readlink(f"/proc/{pid}/ns/net")
        except FileNotFoundError:
            return None

    def inside(self, name):
        return ["nsenter", f"--net=/proc/{self.holders[name].pid}/ns/net"]

    def ip(self, name, arguments):
        command = [*self.inside(name), "ip", *arguments.split()]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE).stdout

    def close(self):
        for holder in self.holders.values():
            holder.stdin.close()
            holder.wait(DEADLINE)


def open_namespaces():
    """Namespaces; skips the test where there can be none."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root to make network namespaces")
    for tool in ("ip", "unshare", "nsenter"):
        if not shutil.which(tool):
            raise unittest.SkipTest(f"needs {tool}")
    try:
        return Namespaces()
    except (OSError, subprocess.CalledProcessError) as error:
        raise unittest.SkipTest(f"no network namespaces here: {error}, {getattr(error, 'stderr', '')}") from None


class NetnsTest(RanksTest):
    @classmethod
    def setUpClass(cls):
        cls.spaces = None
        cls.spaces = open_namespaces()

    @classmethod
    def tearDownClass(cls):
        if cls.spaces:
            cls.spaces.close()

    def member(self, space, rank, size, *actions, host="10.77.0.1", **options):
        return self.tcp(
            rank, size, f"tcp://{host}:{PORT}", *actions, prefix=self.spaces.inside(space), **options
        )

    def world(self, spaces, *actions, env=lambda space: {}, **options):
        """One rank for each letter of spaces, in the namespace of that name."""
        return [
            self.member(space, rank, len(spaces), *actions, env=env(space), **options)
            for rank, space in enumerate(spaces)
        ]

    def places(self, ranks):
        """Where the ranks sit, which all of them must say alike."""
        for rank in ranks:
            self.assert_ok(rank.step("topology"))
        for rank in ranks:
            self.assertEqual(rank.rank_infos, ranks[0].rank_infos)
        self.assert_ends(*ranks)
        return ranks[0].rank_infos

    usual = ("init", "topology", "barriers=5", "destroy")


class Networks(NetnsTest):
    def test_one_host_although_the_networks_differ(self):
        places = self.places(self.world("abcabc", *self.usual))
        self.assertEqual([p.host for p in places], [0] * 6)
        self.assertEqual([p.local_rank for p in places], [0, 1, 2, 3, 4, 5])
        self.assertEqual({p.local_size for p in places}, {6})
        self.assertEqual([p.address for p in places], ["10.77.0.1", "10.77.0.2", "10.77.0.3"] * 2)

    def test_forced_hosts(self):
        places = self.places(self.world("abcabc", *self.usual, env=lambda space: {"MUSTER_FORCE_HOST": space}))
        self.assertEqual([p.host for p in places], [0, 1, 2, 0, 1, 2])
        self.assertEqual([p.local_rank for p in places], [0, 0, 0, 1, 1, 1])
        self.assertEqual({p.local_size for p in places}, {2})
        self.assertEqual([p.address for p in places], ["10.77.0.1", "10.77.0.2", "10.77.0.3"] * 2)

    def test_uneven_hosts(self):
        places = self.places(self.world("abbcab", *self.usual, env=lambda space: {"MUSTER_FORCE_HOST": space}))
        self.assertEqual([p.host for p in places], [0, 1, 1, 2, 0, 1])
        self.assertEqual([p.local_rank for p in places], [0, 0, 1, 0, 1, 2])
        self.assertEqual([p.local_size for p in places], [2, 3, 3, 1, 2, 3])

    def test_ipv6(self):
        places = self.places(self.world("abc", *self.usual, host="[fd77::1]"))
        self.assertEqual([p.address for p in places], ["fd77::1", "fd77::2", "fd77::3"])

    def test_all_addresses_of_the_master(self):
        """Rank 0 may be told to listen everywhere; the others name one of its addresses."""
        ranks = [self.member("a", 0, 3, *self.usual, host="0.0.0.0")]
        ranks += [self.member(space, rank, 3, *self.usual) for rank, space in ((1, "b"), (2, "c"))]
        self.assertEqual([p.address for p in self.places(ranks)][1:], ["10.77.0.2", "10.77.0.3"])

    def test_listens_on_its_own_address_only(self):
        rank = self.member("a", 0, 2, "init", timeout=1500)
        listening = wait_until(lambda: self.listening("a"), "rank 0 listens")
        self.assertEqual(listening, ["10.77.0.1"])
        rank.step("init")
        self.assert_ends(rank, status=1)
        self.assertEqual(self.listening("a"), [])

    def listening(self, space):
        out = subprocess.run(
            [*self.spaces.inside(space), "cat", "/proc/net/tcp", "/proc/net/tcp6"],
            check=True, capture_output=True, text=True, timeout=DEADLINE,
        ).stdout  # fmt: skip
        found = []
        for fields in (line.split() for line in out.splitlines()):
            if fields[3] == "0A":
                address = fields[1].split(":")[0]
                found.append(".".join(str(b) for b in reversed(bytes.fromhex(address))) if len(address) == 8 else address)
        return found

    def test_named_interface(self):
        places = self.places(self.world("abc", *self.usual, env=lambda _: {"MUSTER_SOCKET_IFNAME": "data0"}))
        self.assertEqual([p.address for p in places], ["10.78.0.1", "10.78.0.2", "10.78.0.3"])

    def test_advertised_address(self):
        places = self.places(self.world("ab", *self.usual, env=lambda _: {"MUSTER_ADVERTISE_ADDR": "203.0.113.9"}))
        self.assertEqual([p.address for p in places], ["203.0.113.9"] * 2)

    def test_interface_that_is_not_there(self):
        rank = self.member("a", 0, 2, "init", env={"MUSTER_SOCKET_IFNAME": "eth7"})
        self.assert_failed(rank.step("init"), "MST_ERR_CONFIG", "MUSTER_SOCKET_IFNAME='eth7'", "eth0", "data0")
        self.assert_ends(rank, status=1)

    def test_interface_without_an_address(self):
        rank = self.member("a", 0, 2, "init", env={"MUSTER_SOCKET_IFNAME": "data1"})
        step = rank.step("init")
        # A link-local IPv6 address is one that other hosts cannot use.
        self.assert_failed(step, "MST_ERR_CONFIG", "MUSTER_SOCKET_IFNAME='data1'")

    def test_master_address_of_another_namespace(self):
        rank = self.member("b", 0, 2, "init")
        self.assert_failed(rank.step("init"), "MST_ERR_ADDRESS", "10.77.0.1")

    def test_rank_killed_while_others_are_awaited(self):
        ranks = [self.member(space, r, 4, "init") for r, space in enumerate("abc")]
        wait_until(lambda: all(self.has_joined(r) for r in range(3)), "all three have joined")
        died = ranks[1].kill()
        for rank in (ranks[0], ranks[2]):
            step = rank.step("init")
            self.assert_failed(step, "MST_ERR_PEER_LOST", rf"rank 1 \(host .*, pid {ranks[1].pid}\) died")
            self.assert_soon(step, died)

    def test_host_killed_while_others_are_awaited(self):
        ranks = [self.member(space, r, 4, "init") for r, space in enumerate("abc")]
        wait_until(lambda: all(self.has_joined(r) for r in range(3)), "all three have joined")
        died = ranks[0].kill()
        for rank in ranks[1:]:
            step = rank.step("init")
            self.assert_failed(step, "MST_ERR_STORE_LOST", f"10.77.0.1:{PORT}")
            self.assert_soon(step, died)

    def has_joined(self, rank):
        command = [
            *self.spaces.inside("a"), WORLD.parent.parent / "muster", "store", "check", "--host", "10.77.0.1",
            "--port", str(PORT), f"muster/job.0/1/rank/{rank}",
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, timeout=DEADLINE).returncode == 0

    def test_masters_link_goes_down(self):
        """Nobody hears of anything any more: everyone's deadline holds, and says whom it could not reach."""
        ranks = [self.member(space, r, 4, "init", timeout=2500) for r, space in enumerate("abc")]
        wait_until(lambda: all(self.has_joined(r) for r in range(3)), "all three have joined")
        try:
            self.spaces.ip("hub", "link set a0 down")
            step = ranks[0].step("init")
            self.assert_failed(step, "MST_ERR_MISSING_RANK", r"missing: rank 3\b")
            self.assert_within(step, 2500 + 3000)
            for rank in ranks[1:]:
                step = rank.step("init")
                self.assertIn(step.status, ("MST_ERR_STORE_LOST", "MST_ERR_UNREACHABLE", "MST_ERR_TIMEOUT"), step)
                self.assertIn(f"10.77.0.1:{PORT}", step.message)
                self.assert_within(step, 2500 + 3000)
        finally:
            self.spaces.ip("hub", "link set a0 up")

    def test_link_that_comes_up_late(self):
        """A master that is there but cannot be reached yet is waited for."""
        self.spaces.ip("hub", "link set b0 down")
        try:
            log = self.path("log")
            with open(log, "wb") as err:
                ranks = [self.member("a", 0, 2, *self.usual, timeout=15000)]
                env = {"MUSTER_LOG": "os=debug"}
                ranks.append(self.member("b", 1, 2, *self.usual, timeout=15000, env=env, stderr=err))
            wait_until(lambda: self.has_joined(0), "rank 0 has joined")
        finally:
            self.spaces.ip("hub", "link set b0 up")
        self.assertEqual(len(self.places(ranks)), 2)


class Processes(NetnsTest):
    """Process namespaces: ranks cannot see each other's /proc, so they share no memory and count as hosts."""

    unshare = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")

    def setUp(self):
        super().setUp()
        if subprocess.run([*self.unshare, "true"], capture_output=True, timeout=DEADLINE).returncode:
            self.skipTest("no process namespaces here")

    def test_each_in_its_own(self):
        url = f"tcp://127.0.0.1:{self.free_port()}"
        ranks = [self.tcp(r, 3, url, *self.usual, prefix=self.unshare) for r in range(3)]
        places = self.places(ranks)
        self.assertEqual([p.host for p in places], [0, 1, 2])
        self.assertEqual([(p.local_rank, p.local_size) for p in places], [(0, 1)] * 3)

    def test_two_together(self):
        port = self.free_port()
        url = f"tcp://127.0.0.1:{port}"
        outside = self.tcp(0, 3, url, *self.usual)
        both = "; ".join(
            f"'{WORLD}' 'method={url}?rank={r}&world_size=3' {' '.join(self.usual)} >/dev/null & p{r}=$!" for r in (1, 2)
        ).replace("& p1=$!;", "& p1=$!\n")
        inside = self.popen(*self.unshare, "sh", "-c", f"{both}\nwait $p1 && wait $p2")
        places = self.places([outside])
        self.assertEqual([p.host for p in places], [0, 1, 1])
        self.assertEqual([p.local_rank for p in places], [0, 0, 1])
        self.assertEqual(inside.wait(DEADLINE), 0)

    def test_proc_of_another_namespace(self):
        """With the wrong /proc mounted a rank cannot prove anything, and must not map what happens to be there."""
        url = f"tcp://127.0.0.1:{self.free_port()}"
        prefix = self.unshare[:-1]
        places = self.places([self.tcp(r, 3, url, *self.usual, prefix=prefix) for r in range(3)])
        self.assertEqual([p.host for p in places], [0, 1, 2])

    def test_other_user(self):
        """Ranks of different users share no memory."""
        if any(not p.stat().st_mode & 0o001 for p in WORLD.parents):
            self.skipTest("other users cannot reach the build directory")
        url = f"tcp://127.0.0.1:{self.free_port()}"
        os.chmod(self.directory, 0o755)
        files = [self.path(f"secret{user}") for user in (0, 65534)]
        for user, path in zip((0, 65534), files):  # each needs a file of its own
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
                file.write("the secret of both users")
            os.chown(path, user, user)
        other = {"user": 65534, "group": 65534, "extra_groups": []}
        ranks = [
            self.tcp(0, 2, url, *self.usual, env={"MUSTER_SECRET_FILE": files[0]}),
            self.tcp(1, 2, url, *self.usual, env={"MUSTER_SECRET_FILE": files[1]}, **other),
        ]
        self.assertEqual([p.host for p in self.places(ranks)], [0, 1])


if __name__ == "__main__":
    main()
