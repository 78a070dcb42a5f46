"""How ranks find each other, and the errors if they cannot."""

import itertools
import os
import pathlib
import re
import resource
import select
import socket
import subprocess
import threading
import time
import unittest

from harness import MUSTER, SLOWER, WORLD, RanksTest, listens, main, segments, wait_until

SHORT = 1500  # milliseconds: timeout of ranks that are expected to time out
LONG = 30000  # milliseconds: timeout of ranks that are expected to fail at once, however slow the machine is


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


class Listener:
    """Another program on a port: sends a greeting to each client, answers its first data with reply, and then
    closes the connection if hang_up is set."""

    def __init__(self, greeting=b"", reply=b"", hang_up=False):
        self.greeting, self.reply, self.hang_up = greeting, reply, hang_up
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.url = f"tcp://127.0.0.1:{self.port}"
        self.end, self.ended = os.pipe()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        open_ones = []
        while True:
            ready, _, _ = select.select([self.server, self.end, *open_ones], [], [])
            if self.end in ready:
                break
            for one in ready:
                try:
                    if one is self.server:
                        open_ones.append(one.accept()[0])
                        open_ones[-1].sendall(self.greeting)
                        continue
                    data = one.recv(65536)
                    if data and self.reply:
                        one.sendall(self.reply)
                    if not data or self.hang_up:
                        open_ones.remove(one)
                        one.close()
                except OSError:
                    open_ones.remove(one)
                    one.close()
        for one in open_ones:
            one.close()

    def close(self):
        os.write(self.ended, b"x")
        self.thread.join()
        self.server.close()
        os.close(self.end)
        os.close(self.ended)


class Rendezvous(RanksTest):
    def assert_world(self, ranks, size):
        """All ranks form one world on this host, and leave it."""
        for r, rank in enumerate(ranks):
            self.assert_ok(rank.step("topology"))
            self.assertEqual(rank.me, (r, size, r, size, 1))
            self.assertEqual([p.rank for p in rank.rank_infos], list(range(size)))
            self.assertEqual([p.pid for p in rank.rank_infos], [other.pid for other in ranks])
            self.assertEqual(rank.rank_infos, ranks[0].rank_infos)
        self.assert_ends(*ranks)

    def form_world(self, url, size=3):
        self.assert_world([self.tcp(r, size, url, "init", "topology", "barrier", "destroy") for r in range(size)], size)
        self.assert_nothing_left()

    def test_ipv4(self):
        self.form_world(f"tcp://127.0.0.1:{self.free_port()}")

    @unittest.skipUnless(has_ipv6(), "no IPv6 here")
    def test_ipv6(self):
        self.form_world(f"tcp://[::1]:{self.free_port('::1')}")

    def test_host_name(self):
        self.form_world(f"tcp://localhost:{self.free_port()}")

    def test_file(self):
        self.form_world(f"file://{self.path('meet')}")

    def test_explicit_rank_and_size_win(self):
        url = f"tcp://127.0.0.1:{self.free_port()}?rank=7&world_size=8"
        env = {"RANK": 5, "WORLD_SIZE": 6}
        ranks = [
            self.rank(f"method={url}", f"rank={r}", "size=2", "init", "topology", "destroy", env=env) for r in range(2)
        ]
        self.assert_world(ranks, 2)

    def test_url_beside_environment(self):
        url = f"tcp://127.0.0.1:{self.free_port()}"
        ranks = [
            self.rank(f"method={url}?rank={r}", "init", "topology", "destroy", env={"RANK": 9, "WORLD_SIZE": 2})
            for r in range(2)
        ]
        self.assert_world(ranks, 2)

    def test_environment(self):
        for host in ("127.0.0.1", "localhost"):
            env = {"WORLD_SIZE": 2, "MASTER_ADDR": host, "MASTER_PORT": self.free_port()}
            for method in ([], ["method=env://"]):
                ranks = [
                    self.rank(*method, "init", "topology", "barrier", "destroy", env={**env, "RANK": r})
                    for r in range(2)
                ]
                self.assert_world(ranks, 2)

    def test_environment_with_an_external_store(self):
        _, port = self.serve()
        env = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        ranks = [self.rank("init", "topology", "barrier", "destroy", env={**env, "RANK": r}) for r in range(2)]
        self.assert_world(ranks, 2)

    def test_open_as_object(self):
        url = f"tcp://127.0.0.1:{self.free_port()}"
        self.assert_world([self.tcp(r, 2, url, "open", "topology", "barrier", "destroy") for r in range(2)], 2)

    def test_segments_are_closed_after_forming(self):
        url = f"tcp://127.0.0.1:{self.free_port()}"
        ranks = [self.tcp(r, 3, url, "init", "barrier", "hold", "destroy") for r in range(3)]
        for rank in ranks:
            self.assert_ok(rank.step("barrier"))
        for rank in ranks:
            self.assertEqual(segments(rank.pid, "muster-host"), 0)
            rank.resume()
        self.assert_ends(*ranks)

    def test_late_but_in_time(self):
        url = f"tcp://127.0.0.1:{self.free_port()}"
        early = [self.tcp(r, 3, url, "init", "topology", "destroy") for r in range(2)]
        self.joined(url, 0, 1)
        self.assert_world([*early, self.tcp(2, 3, url, "init", "topology", "destroy")], 3)

    def test_master_starts_last(self):
        url = f"tcp://127.0.0.1:{self.free_port()}"
        log = self.path("log")
        with open(log, "wb") as err:
            early = [
                self.tcp(r, 3, url, "init", "topology", "destroy", env={"MUSTER_LOG": "os=debug"}, stderr=err)
                for r in (1, 2)
            ]
        refused = "trying again in"
        wait_until(lambda: pathlib.Path(log).read_text().count(refused) >= 6, "six refused attempts")
        self.assert_world([self.tcp(0, 3, url, "init", "topology", "destroy"), *early], 3)
        self.assert_nothing_left("log")


class Alone(RanksTest):
    def alone(self, *actions, **env):
        rank = self.rank(*actions, "init", "topology", "barrier", "destroy", env=env)
        self.assert_ok(rank.step("topology"))
        self.assertEqual(rank.me, (0, 1, 0, 1, 1))
        self.assert_ends(rank)

    def test_nothing_set(self):
        self.alone()

    def test_empty_variables_count_as_not_set(self):
        self.alone(RANK="", WORLD_SIZE="", MASTER_ADDR="", MASTER_PORT="")

    def test_world_of_one_needs_no_store(self):
        self.alone(RANK=0, WORLD_SIZE=1)
        self.alone("rank=0", "size=1")
        self.alone(RANK=0, WORLD_SIZE=1, MASTER_ADDR="nowhere.invalid", MASTER_PORT=1)

    def test_any_free_port(self):
        self.alone("method=tcp://127.0.0.1:0?rank=0&world_size=1")

    def test_init_twice(self):
        rank = self.rank("init", "init", "topology", "destroy", "~topology", "~destroy")
        self.assert_ok(rank.step("init"))
        self.assert_ok(rank.step("init"))
        self.assert_ok(rank.step("topology"))
        self.assert_ok(rank.step("destroy"))
        self.assertEqual(rank.step("topology").status, "MST_OK")
        self.assertEqual(rank.me, (-1, -1, -1, -1, -1))
        self.assert_failed(rank.step("destroy"), "MST_ERR_STATE", "there is no world")
        self.assert_ends(rank, status=0)

    def test_barrier_without_a_world(self):
        rank = self.rank("barrier")
        self.assert_failed(rank.step("barrier"), "MST_ERR_STATE", "mst_init")
        self.assert_ends(rank, status=1)


class Settings(RanksTest):
    def refused(self, *parts, status="MST_ERR_CONFIG", actions=(), **env):
        rank = self.rank(*actions, "init", env=env)
        self.assert_failed(rank.step("init"), status, *parts)
        self.assert_ends(rank, status=1)

    def test_partial_variables(self):
        full = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        for n in range(1, len(full)):
            for names in itertools.combinations(full, n):
                with self.subTest(names=names):
                    rank = self.rank("init", env={name: full[name] for name in names})
                    step = rank.step("init")
                    self.assert_failed(step, "MST_ERR_CONFIG")
                    listed = re.search(r"not set:((?: [A-Z_]+)+)", step.message)
                    self.assertIsNotNone(listed, step)
                    self.assertEqual(set(listed[1].split()), set(full) - set(names))

    def test_rank_outside_the_world(self):
        master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}
        for rank in (2, 3, 2147483647):
            self.refused(f"rank {rank}\\b.*world of 2", RANK=rank, WORLD_SIZE=2, **master)
        self.refused("rank 1\\b.*world of 1", RANK=1, WORLD_SIZE=1, **master)
        self.refused("rank 4\\b.*world of 4", actions=["method=tcp://127.0.0.1:1?rank=4&world_size=4"])
        self.refused("-1", actions=["method=tcp://127.0.0.1:1", "rank=-1", "size=2"])
        self.refused("-2", actions=["method=tcp://127.0.0.1:1", "rank=0", "size=-2"])

    def test_malformed_numbers(self):
        good = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
            for value in ("x", "1x", "-1", "1.5", "0x1", "99999999999999999999", "2147483648", "1 1"):
                with self.subTest(name=name, value=value):
                    self.refused(f"{name}='{re.escape(value)}'", **{**good, name: value})
        self.refused("WORLD_SIZE='0'", **{**good, "WORLD_SIZE": "0"})
        self.refused("MASTER_PORT='65536'", **{**good, "MASTER_PORT": "65536"})
        self.refused("MASTER_PORT is 0", **{**good, "MASTER_PORT": "0"})

    def test_malformed_methods(self):
        for method in (
            "tcp://", "tcp://host", "tcp://:1", "tcp://host:", "tcp://host:x", "tcp://host:65536", "tcp://::1:1",
            "tcp://[::1:1", "file://", "file://relative", "file:///", "http://host:1", "", "hash://x",
            "tcp://h:1?rank", "tcp://h:1?rank=", "tcp://h:1?rank=-1", "tcp://h:1?rank=1&size=2",
        ):  # fmt: skip
            with self.subTest(method=method):
                self.refused(status="MST_ERR_ADDRESS", actions=[f"method={method}"])

    def test_half_of_rank_and_size(self):
        self.refused("world size", actions=["method=tcp://127.0.0.1:1?rank=0"])
        self.refused("rank", actions=["method=tcp://127.0.0.1:1?world_size=2"])

    def test_malformed_setting(self):
        self.refused("MUSTER_TIMEOUT_MS='soon'", MUSTER_TIMEOUT_MS="soon")
        self.refused("MUSTER_LOG='loud'", MUSTER_LOG="loud")


class NoMaster(RanksTest):
    def test_never_starts(self):
        port = self.free_port()
        rank = self.tcp(1, 2, f"tcp://127.0.0.1:{port}", "init", timeout=SHORT)
        step = rank.step("init")
        self.assert_failed(step, "MST_ERR_UNREACHABLE", f"127.0.0.1:{port}", r"\d+ attempts in \d+\.\d s")
        self.assertGreaterEqual(step.ms, SHORT)
        self.assert_within(step, SHORT + 700)
        self.assert_ends(rank, status=1)

    def test_deadline_from_the_environment(self):
        env = {
            "RANK": 1, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port(),
            "MUSTER_INIT_TIMEOUT_MS": 300,
        }  # fmt: skip
        step = self.rank("init", env=env).step("init")
        self.assert_failed(step, "MST_ERR_UNREACHABLE")
        self.assertGreaterEqual(step.ms, 300)
        self.assert_within(step, 1000)

    def test_name_that_does_not_resolve(self):
        rank = self.tcp(1, 2, "tcp://nowhere.invalid:1", "init", timeout=SHORT)
        self.assert_failed(rank.step("init"), "MST_ERR_UNREACHABLE", "nowhere.invalid:1")
        rank = self.tcp(0, 2, "tcp://nowhere.invalid:1", "init", timeout=LONG)
        self.assert_failed(rank.step("init"), "MST_ERR_ADDRESS", "nowhere.invalid")

    def test_address_of_another_machine(self):
        rank = self.tcp(0, 2, "tcp://192.0.2.77:29500", "init", timeout=LONG)
        self.assert_failed(rank.step("init"), "MST_ERR_ADDRESS", "192.0.2.77:29500")

    def test_taken_port(self):
        listener = Listener()
        self.addCleanup(listener.close)
        rank = self.tcp(0, 2, listener.url, "init")
        self.assert_failed(
            rank.step("init"), "MST_ERR_PORT_TAKEN", f"127.0.0.1:{listener.port}", f"pid {os.getpid()} ", "another port"
        )
        self.assert_ends(rank, status=1)

    def test_cancelled(self):
        rank = self.tcp(1, 2, f"tcp://127.0.0.1:{self.free_port()}", "cancellable", "init")
        rank.begins("init")
        rank.resume()
        step = rank.step("init")
        self.assert_failed(step, "MST_ERR_CANCELLED")
        self.assert_within(step, 2000)

    def listener_is_not_a_store(self, listener, limit_ms=SHORT):
        self.addCleanup(listener.close)
        rank = self.tcp(1, 2, listener.url, "init", timeout=LONG)
        step = rank.step("init")
        self.assert_failed(step, "MST_ERR_PROTOCOL", f"127.0.0.1:{listener.port}", "does not (speak|answer)")
        self.assert_within(step, limit_ms)
        self.assert_ends(rank, status=1)

    def test_web_server(self):
        self.listener_is_not_a_store(Listener(reply=b"HTTP/1.1 400 Bad Request\r\n\r\n", hang_up=True))

    def test_server_with_a_greeting(self):
        self.listener_is_not_a_store(Listener(greeting=b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"))

    def test_server_that_hangs_up(self):
        self.listener_is_not_a_store(Listener(hang_up=True))

    def listener_is_silent(self, listener):
        self.addCleanup(listener.close)
        rank = self.tcp(1, 2, listener.url, "init", timeout=SHORT)
        step = rank.step("init")
        self.assert_failed(
            step, "MST_ERR_TIMEOUT", f"127.0.0.1:{listener.port}", "has not answered like a store", "check the port"
        )
        self.assert_within(step, SHORT + 700)
        self.assert_ends(rank, status=1)

    def test_silent_server(self):
        self.listener_is_silent(Listener())

    def test_server_with_a_short_answer(self):
        self.listener_is_not_a_store(Listener(reply=b"?"))

    def test_server_with_half_an_answer(self):
        self.listener_is_silent(Listener(reply=b"\0\1\1"))


class Disagreement(RanksTest):
    """Each case over a store of rank 0, an external store and a file, where the store matters."""

    def stores(self):
        yield f"tcp://127.0.0.1:{self.free_port()}"
        yield f"file://{self.path(f'store{len(self.processes)}')}"

    def test_missing_ranks(self):
        for url in self.stores():
            with self.subTest(url=url):
                ranks = [self.tcp(r, 5, url, "init", timeout=2 * SHORT) for r in (0, 2)]
                self.joined(url, 0, 2)
                ranks.append(self.tcp(3, 5, url, "init", timeout=SHORT))
                for rank in ranks:
                    step = rank.step("init")
                    self.assert_failed(step, "MST_ERR_MISSING_RANK", "3 of 5 ranks", "missing: ranks 1, 4")
                    self.assertEqual(step.culprit, 1)
                    self.assert_within(step, SHORT + 1000)
                self.assert_ends(*ranks, status=1)
        self.assert_nothing_left()

    def test_rank_0_missing_in_a_file(self):
        rank = self.tcp(1, 2, f"file://{self.path('store')}", "init", timeout=300)
        self.assert_failed(rank.step("init"), "MST_ERR_MISSING_RANK", "missing: rank 0")
        self.assert_ends(rank, status=1)
        self.assert_nothing_left()

    def test_shortest_timeout_ends_all(self):
        url = f"tcp://127.0.0.1:{self.free_port()}"
        ranks = [self.tcp(r, 4, url, "init") for r in range(2)]
        self.joined(url, 0, 1)
        ranks.append(self.tcp(2, 4, url, "init", timeout=500))
        for rank in ranks:
            self.assert_failed(rank.step("init"), "MST_ERR_MISSING_RANK", "missing: rank 3")
        self.assert_ends(*ranks, status=1)

    def test_duplicate_rank_while_forming(self):
        for url in self.stores():
            with self.subTest(url=url):
                present = [self.tcp(r, 3, url, "init") for r in (0, 1)]
                self.joined(url, 0, 1)
                intruder = self.tcp(1, 3, url, "init")
                step = intruder.step("init")
                self.assert_failed(
                    step, "MST_ERR_DUPLICATE_RANK", "rank 1", f"pid {present[1].pid}", f"pid {intruder.pid}", socket.gethostname()
                )
                self.assertEqual(step.culprit, 1)
                for rank in present:
                    self.assert_failed(
                        rank.step("init"), "MST_ERR_DUPLICATE_RANK", "rank 1", f"pid {present[1].pid}",
                        f"pid {intruder.pid}", socket.gethostname(),
                    )  # fmt: skip
                self.assert_ends(*present, intruder, status=1)
        self.assert_nothing_left()

    def test_many_duplicates_at_once(self):
        """All duplicates fail, whichever is first; none of them joins."""
        _, port = self.serve()
        url = f"tcp://127.0.0.1:{port}"
        env = {
            "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": 1,
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }  # fmt: skip
        for attempt in range(1, 5):
            ranks = [self.rank("timeout=700", "init", env=env) for _ in range(4)]
            steps = [rank.step("init") for rank in ranks]
            # A rank that comes after that world has failed is the first of the next one, and alone there.
            self.assertLessEqual({step.status for step in steps}, {"MST_ERR_DUPLICATE_RANK", "MST_ERR_MISSING_RANK"})
            duplicates = [step for step in steps if step.status == "MST_ERR_DUPLICATE_RANK"]
            self.assertGreaterEqual(len(duplicates), 2)
            for step in duplicates:
                self.assert_failed(step, "MST_ERR_DUPLICATE_RANK", "rank 1", "pid")
            self.assert_ends(*ranks, status=1)
            env["TORCHELASTIC_RESTART_COUNT"] = attempt
        # No error is written for worlds that do not exist yet: it would make them fail later.
        keys = self.keys(url)
        for key in keys:
            if key.endswith("/events"):
                self.assertIn(key.replace("/events", "/rank/1"), keys)

    def test_store_without_descriptors(self):
        """Rank 0 cannot accept the connections of all ranks: all learn that, and no rank is taken for two."""
        for limit in (15, 16, 17):
            with self.subTest(limit=limit):
                url = f"tcp://127.0.0.1:{self.free_port()}"
                limited = {"preexec_fn": lambda most=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))}
                ranks = [
                    self.tcp(r, 4, url, "init", timeout=4000, stderr=subprocess.DEVNULL, **({} if r else limited))
                    for r in range(4)
                ]
                steps = [rank.step("init") for rank in ranks]
                self.assertTrue(any(re.search("descriptors|RLIMIT_NOFILE", step.message) for step in steps), steps)
                # A rank that comes after rank 0 has given up does not find it.
                self.assertLessEqual(
                    {step.status for step in steps}, {"MST_ERR_SYSTEM", "MST_ERR_UNREACHABLE", "MST_ERR_STORE_LOST"}, steps
                )
                self.assert_ends(*ranks, status=1)
        self.assert_nothing_left()

    def test_duplicate_of_a_rank_in_a_running_world(self):
        for url in self.stores():
            for size in (3, 2, 4):  # its size may be wrong, too
                with self.subTest(url=url, size=size):
                    ranks = [self.tcp(r, 3, url, "init", "barrier", "hold", "barriers=20", "destroy") for r in range(3)]
                    for rank in ranks:
                        self.assert_ok(rank.step("barrier"))
                    intruder = self.tcp(1, size, url, "init")
                    self.assert_failed(
                        intruder.step("init"), "MST_ERR_DUPLICATE_RANK", "rank 1", f"pid {ranks[1].pid}"
                    )
                    for rank in ranks:
                        rank.resume()
                    for rank in ranks:
                        self.assert_ok(rank.step("barriers"))
                    self.assert_ends(*ranks)
        self.assert_nothing_left()

    def test_rank_outside_of_a_running_world(self):
        for url in self.stores():
            with self.subTest(url=url):
                ranks = [self.tcp(r, 2, url, "init", "barrier", "hold", "barriers=20", "destroy") for r in range(2)]
                for rank in ranks:
                    self.assert_ok(rank.step("barrier"))
                # It may report the size, or wait for another world, which never forms.
                stranger = self.tcp(5, 8, url, "init", timeout=500)
                step = stranger.step("init")
                self.assertIn(step.status, ("MST_ERR_WORLD_SIZE", "MST_ERR_MISSING_RANK"), step)
                for rank in ranks:
                    rank.resume()
                for rank in ranks:
                    self.assert_ok(rank.step("barriers"))
                self.assert_ends(*ranks)
        self.assert_nothing_left()

    def sizes_differ(self, url, sizes, odd):
        """All ranks but one join, then that rank joins with another size."""
        ranks = {r: self.tcp(r, size, url, "init") for r, size in enumerate(sizes) if r != odd}
        self.joined(url, *ranks)
        ranks[odd] = self.tcp(odd, sizes[odd], url, "init")
        usual = sizes[0 if odd else 1]
        for rank in ranks.values():
            self.assert_failed(
                rank.step("init"), "MST_ERR_WORLD_SIZE", rf"rank {odd} expects a world of {sizes[odd]} ranks",
                rf"rank \d expects {usual}",
            )  # fmt: skip
        self.assert_ends(*ranks.values(), status=1)

    def test_different_world_sizes(self):
        for url in self.stores():
            with self.subTest(url=url):
                self.sizes_differ(url, [3, 3, 4], 2)
                self.sizes_differ(url, [4, 4, 3], 2)
        self.assert_nothing_left()

    def test_rank_0_has_another_world_size(self):
        for theirs, own in ((3, 2), (2, 3)):
            url = f"file://{self.path('store')}"
            self.sizes_differ(url, [own, theirs], 0)
            url = f"tcp://127.0.0.1:{self.free_port()}"
            ranks = [self.tcp(r, own if r == 0 else theirs, url, "init") for r in range(2)]
            for rank in ranks:
                self.assert_failed(rank.step("init"), "MST_ERR_WORLD_SIZE", rf"expects .*{own}\b", rf"expects .*{theirs}\b")
            self.assert_ends(*ranks, status=1)
        self.assert_nothing_left()

    def test_other_version(self):
        _, port = self.serve()
        for protocol, version in ((2, "0.3.0"), (0, "0.0.1"), (999, "12.34.56")):
            run = f"v{protocol}"
            env = {
                "WORLD_SIZE": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": run,
            }  # fmt: skip
            params = f"muster/{run}.0/1/params"
            self.assertEqual(self.run_tool("store", "set", "--port", port, params, f"3 {protocol} {version} 2")[0], 0)
            ranks = [self.rank("init", env={**env, "RANK": r}) for r in range(2)]
            for rank in ranks:
                step = rank.step("init")
                self.assert_failed(step, "MST_ERR_VERSION", r"rank \d runs muster 0\.2\.0", f"rank 2 runs {re.escape(version)}")
                self.assertEqual(step.culprit, 2)
            self.assert_ends(*ranks, status=1)

    def test_garbled_parameters(self):
        _, port = self.serve()
        self.run_tool("store", "set", "--port", port, "muster/job.0/1/params", "\x01garbage %s%n")
        env = {
            "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": 1,
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }  # fmt: skip
        self.assert_failed(self.rank("init", env=env).step("init"), "MST_ERR_PROTOCOL", "garbage")

    def test_rank_without_address_ends_the_others(self):
        """If a rank fails after it has reached the store, the others do not wait for it."""
        url = f"tcp://127.0.0.1:{self.free_port()}"
        waiting = self.tcp(0, 2, url, "init")
        self.joined(url, 0)
        failing = self.tcp(1, 2, url, "init", env={"MUSTER_SOCKET_IFNAME": "nosuch0"})
        self.assert_failed(failing.step("init"), "MST_ERR_CONFIG", "nosuch0")
        step = waiting.step("init")
        self.assert_failed(step, "MST_ERR_CONFIG", "rank 1", "nosuch0")

    def test_host_without_address_ends_at_once(self):
        url = f"tcp://127.0.0.1:{self.free_port()}"
        other = self.tcp(1, 2, url, "init", timeout=1000)
        step = self.tcp(0, 2, url, "init", env={"MUSTER_SOCKET_IFNAME": "nosuch0"}).step("init")
        self.assert_failed(step, "MST_ERR_CONFIG", "nosuch0")
        self.assert_within(step, 2000)
        self.assertNotEqual(other.step("init").status, "MST_OK")


class FileLeftOver(RanksTest):
    def test_of_a_crashed_job(self):
        url = f"file://{self.path('store')}"
        ranks = [self.tcp(r, 2, url, "init", "barrier", "hold") for r in range(2)]
        for rank in ranks:
            self.assert_ok(rank.step("barrier"))
        for rank in ranks:
            rank.kill()
        before = pathlib.Path(self.path("store")).read_bytes()
        again = [self.tcp(r, 2, url, "init") for r in range(2)]
        for rank in again:
            step = rank.step("init")
            self.assert_failed(step, "MST_ERR_STALE", re.escape(self.path("store")), "remove it")
            self.assert_within(step, 2000)
        self.assert_ends(*again, status=1)
        self.assertEqual(pathlib.Path(self.path("store")).read_bytes(), before)

    def test_of_a_job_that_crashed_while_forming(self):
        url = f"file://{self.path('store')}"
        rank = self.tcp(0, 2, url, "init")
        self.joined(url, 0)
        rank.kill()
        self.assert_failed(self.tcp(1, 2, url, "init").step("init"), "MST_ERR_STALE")

    def test_of_a_job_that_ended_well(self):
        url = f"file://{self.path('store')}"
        for _ in range(5):
            ranks = [self.tcp(r, 4, url, "init", "barrier", "destroy") for r in range(4)]
            self.assert_ends(*ranks)
            self.assertEqual(os.listdir(self.directory), [])

    def test_empty_file(self):
        pathlib.Path(self.path("store")).touch()
        ranks = [self.tcp(r, 2, f"file://{self.path('store')}", "init", "destroy") for r in range(2)]
        self.assert_ends(*ranks)
        self.assert_nothing_left()

    def refused(self, content, status="MST_ERR_STALE"):
        """A file that is not a store is neither used nor changed."""
        path = pathlib.Path(self.path("meet"))
        path.write_bytes(content)
        rank = self.tcp(0, 2, f"file://{path}", "init", timeout=LONG)
        self.assert_failed(rank.step("init"), status, re.escape(str(path)))
        self.assert_ends(rank, status=1)
        self.assertEqual(path.read_bytes(), content)

    def test_text_file(self):
        self.refused(b"My precious notes.\nSecond line.\n")

    def test_short_text_file(self):
        self.refused(b"no\n")

    def test_half_a_record_of_a_dead_job(self):
        url = f"file://{self.path('store')}"
        rank = self.tcp(0, 2, url, "init")
        self.joined(url, 0)
        rank.kill()
        whole = pathlib.Path(self.path("store")).read_bytes()
        step = None
        for cut in (1, 3, 9):
            pathlib.Path(self.path("store")).write_bytes(whole[:-cut])
            step = self.tcp(0, 2, url, "init", timeout=LONG).step("init")
            self.assert_failed(step, "MST_ERR_STALE")

    def test_half_a_record_in_a_running_job(self):
        """A rank died while it wrote: the others continue."""
        path = self.path("meet")
        ranks = [self.tcp(0, 2, f"file://{path}", "init", "barrier", "destroy")]
        self.joined(f"file://{path}", 0)
        with open(path, "ab") as file:
            file.write(b"\x20\x00\x00\x00/half of a")
        ranks.append(self.tcp(1, 2, f"file://{path}", "init", "barrier", "destroy"))
        self.assert_ends(*ranks)
        self.assert_nothing_left()

    def test_directory(self):
        rank = self.tcp(0, 2, f"file://{self.directory}", "init")
        self.assert_failed(rank.step("init"), "MST_ERR_SYSTEM", re.escape(self.directory), "directory")

    def test_no_directory(self):
        rank = self.tcp(0, 2, f"file://{self.path('no/such')}", "init")
        self.assert_failed(rank.step("init"), "MST_ERR_SYSTEM", re.escape(self.path("no/such")), "No such file")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_not_writable(self):
        if not os.access(WORLD, os.X_OK) or any(not p.stat().st_mode & 0o001 for p in WORLD.parents):
            self.skipTest("other users cannot reach the build directory")
        path = pathlib.Path(self.path("store"))
        path.touch(0o444)
        os.chmod(self.directory, 0o755)
        rank = self.tcp(0, 2, f"file://{path}", "init", user=65534, group=65534, extra_groups=[])
        self.assert_failed(rank.step("init"), "MST_ERR_SYSTEM", re.escape(str(path)), "Permission denied")


class Again(RanksTest):
    """Ranks leave a world and open another one at the same store."""

    rounds = ["init", "barrier", "topology", "destroy"]

    def test_under_the_launcher(self):
        for n in (2, 4):
            status, out = self.run_tool("run", "-n", n, WORLD, *self.rounds * 20)
            self.assertEqual(status, 0, out)
            self.assertEqual(out.count("destroy\tMST_OK"), 20 * n)

    def test_over_tcp(self):
        url = f"tcp://127.0.0.1:{self.free_port()}"
        begin = time.monotonic()
        ranks = [self.tcp(r, 3, url, *self.rounds * 10, timeout=20000) for r in range(3)]
        self.assert_ends(*ranks)
        self.assertLess(time.monotonic() - begin, 15 * SLOWER)
        self.assert_nothing_left()

    def test_over_a_file(self):
        url = f"file://{self.path('store')}"
        for _ in range(3):
            ranks = [self.tcp(r, 3, url, *self.rounds * 10, timeout=20000) for r in range(3)]
            self.assert_ends(*ranks)
        self.assert_nothing_left()

    def fast_before_slow(self, url, slow, size=3):
        """The others are already in the next world when the slow rank leaves the first."""
        fast = ["init", "barrier", "destroy", *self.rounds]
        late = ["init", "barrier", "hold", "destroy", *self.rounds]
        ranks = [self.tcp(r, size, url, *(late if r == slow else fast), timeout=20000) for r in range(size)]
        self.assert_ok(ranks[slow].step("barrier"))
        others = [r for r in range(size) if r != slow]
        for r in others[1:] if url.startswith("tcp") else []:  # the host may wait for the slow rank
            self.assert_ok(ranks[r].step("destroy"))
            ranks[r].begins("init")
        if url.startswith("file"):
            self.joined(url, *others, world=2)
        begin = time.monotonic()
        ranks[slow].resume()
        self.assert_ends(*ranks)
        self.assertLess(time.monotonic() - begin, 10 * SLOWER)

    def test_fast_ranks_over_tcp_before_the_host_has_left(self):
        self.fast_before_slow(f"tcp://127.0.0.1:{self.free_port()}", 0)
        self.assert_nothing_left()

    def test_fast_ranks_over_tcp_before_another_has_left(self):
        self.fast_before_slow(f"tcp://127.0.0.1:{self.free_port()}", 1)
        self.assert_nothing_left()

    def test_fast_ranks_in_a_file(self):
        for slow in (0, 1, 2):
            self.fast_before_slow(f"file://{self.path('store')}", slow)
        self.assert_nothing_left()

    def test_fast_ranks_with_an_external_store(self):
        _, port = self.serve()
        env = {
            "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True",
        }  # fmt: skip
        slow = self.rank("init", "barrier", "hold", "destroy", *self.rounds, env={**env, "RANK": 0})
        fast = self.rank("init", "barrier", "destroy", *self.rounds, env={**env, "RANK": 1})
        self.joined(f"tcp://127.0.0.1:{port}", 1, world=2)
        slow.resume()
        self.assert_ends(slow, fast)

    def test_keys_end_with_their_worlds(self):
        """The numbers of the worlds get a second digit."""
        _, port = self.serve()
        env = {
            "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True",
        }  # fmt: skip
        ranks = [self.rank(*self.rounds * 12, env={**env, "RANK": r}) for r in range(2)]
        self.assert_ends(*ranks)
        self.assertEqual(self.keys(f"tcp://127.0.0.1:{port}"), ["muster/job.0/ended"])

    def test_after_a_failed_attempt(self):
        """Ranks that timed out because one was missing form a world when all try again."""
        _, port = self.serve()
        env = {
            "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True",
        }  # fmt: skip
        early = self.rank("timeout=300", "~init", "timeout=20000", "init", "barrier", "destroy", env={**env, "RANK": 0})
        self.assert_failed(early.step("init"), "MST_ERR_MISSING_RANK", "rank 1")
        late = self.rank("~init", "init", "barrier", "destroy", env={**env, "RANK": 1})
        self.assert_failed(late.step("init"), "MST_ERR_MISSING_RANK", "rank 0")
        self.assert_ends(early, late)

    def test_next_job_in_the_same_store_may_have_another_size(self):
        _, port = self.serve()
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        for size in (2, 4, 1 + 2):
            ranks = [
                self.rank("timeout=5000", "init", "barrier", "destroy", env={**env, "WORLD_SIZE": size, "RANK": r})
                for r in range(size)
            ]
            self.assert_ends(*ranks)

    def test_other_client_on_the_hosts_port_does_not_delay_it(self):
        port = self.free_port()
        url = f"tcp://127.0.0.1:{port}"
        ranks = [self.tcp(r, 2, url, "init", "hold", "barrier", "destroy") for r in range(2)]
        for rank in ranks:
            self.assert_ok(rank.step("init"))
        with socket.create_connection(("127.0.0.1", port)):
            for rank in ranks:
                rank.resume()
            step = ranks[0].step("destroy")
            self.assert_within(step, 5000)
        self.assert_ends(*ranks)
        self.assertFalse(listens(port))


class Launched(RanksTest):
    def test_ranks_of_the_launcher(self):
        for n in (2, 5, 8):
            status, out = self.run_tool("run", "-n", n, "--no-prefix", WORLD, "init", "topology", "barriers=50", "destroy")
            self.assertEqual(status, 0, out)
            seen = {line for line in out.splitlines() if line.startswith("me\t")}
            self.assertEqual(seen, {f"me\t{r}\t{n}\t{r}\t{n}\t1" for r in range(n)})

    def test_launchers_side_by_side(self):
        jobs = [self.popen(MUSTER, "run", "-n", 2, WORLD, "init", "barriers=50", "destroy") for _ in range(4)]
        for job in jobs:
            out, _ = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 0, out)


if __name__ == "__main__":
    main(at_once=4)
