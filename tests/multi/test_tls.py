"""TLS: every collective between simulated hosts, certificates, and ranks whose settings differ."""

import os
import shutil
import subprocess
import unittest

from collective_kit import CollectiveTest
from harness import MUSTER, PROGRAMS, SANITIZED, Process, RanksTest, main

MODULE = os.path.join(os.environ.get("MUSTER_BACKEND_PATH", ""), "mst_tls.so")
ON = {"MUSTER_TLS": 1, "MUSTER_STORE_LOCAL": 0, "MUSTER_BACKEND_PATH": os.path.dirname(MODULE)}


def setUpModule():
    if not os.path.exists(MODULE):
        raise unittest.SkipTest("the module for TLS was not built (libssl-dev)")


class Collectives(CollectiveTest):
    @unittest.skipIf(SANITIZED, "two ranks with several sockets run the same code")
    def test_two_hosts_of_two(self):
        self.run_hosts("aabb", env=ON)

    def test_several_sockets(self):
        self.run_hosts("ab", env={**ON, "MUSTER_TCP_STREAMS": 3})


class TlsTest(RanksTest):
    def world(self, *environments, actions=("init", "barrier", "destroy")):
        """One rank for each environment, each on its own simulated host; rank 0 hosts the store."""
        url = f"tcp://127.0.0.1:{self.free_port()}"
        return [
            self.tcp(rank, len(environments), url, *actions, timeout=20000, env={"MUSTER_FORCE_HOST": rank, **ON, **env})
            for rank, env in enumerate(environments)
        ]

    def works(self, *environments):
        ranks = self.world(*environments)
        for action in ("init", "barrier", "destroy"):
            for rank in ranks:
                self.assert_ok(rank.step(action))
        self.assert_ends(*ranks)

    def refused(self, *parts, server=None, client=None):
        """The second rank cannot use the store of the first one, and says why."""
        # The first one uses its store through a Unix socket, so that it does not refuse itself.
        ranks = self.world({**(server or {}), "MUSTER_STORE_LOCAL": 1}, client or {}, actions=("~init",))
        self.assert_failed(ranks[1].step("init"), "MST_ERR_CONFIG", "the store at 127.0.0.1", *parts)
        ranks[0].kill()
        ranks[1].finish()


class Secrets(TlsTest):
    def test_without_a_launcher(self):
        self.works({}, {}, {})

    def test_the_option(self):
        """.tls of a world and of a store, as a program sets them."""
        env = {"MUSTER_BACKEND_PATH": ON["MUSTER_BACKEND_PATH"], "MUSTER_STORE_LOCAL": 0}
        process = self.popen(PROGRAMS / "tls", env=env, stderr=subprocess.STDOUT)
        status, out = Process(process).finish()
        self.assertEqual((status, out), (0, "right\n"))

    def test_one_end_without(self):
        self.refused("does not use TLS, but this process does", server={"MUSTER_TLS": 0})
        self.refused("uses TLS, but this process does not", "set MUSTER_TLS", client={"MUSTER_TLS": 0})

    def test_without_a_secret(self):
        nobody = {"HOME": "", "XDG_CONFIG_HOME": ""}
        self.refused("this process has none", client=nobody)

    def test_launcher(self):
        command = [MUSTER, "run", "-n", 2, "--tls", PROGRAMS / "sums", 2]
        process = self.popen(*command, env={"MUSTER_BACKEND_PATH": ON["MUSTER_BACKEND_PATH"]}, stderr=subprocess.STDOUT)
        status, out = Process(process).finish()
        self.assertEqual((status, out.count("right")), (0, 2), out)

    def test_an_open_store(self):
        status, out = Process(
            self.popen(MUSTER, "store", "serve", "--open", env=ON, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        ).finish()
        self.assertNotEqual(status, 0)
        self.assertIn("an open store cannot use TLS", out)

    def test_a_rank_dies(self):
        ranks = self.world({}, {}, {}, actions=("init", "barrier", "hold", "~barrier"))
        for rank in ranks:
            self.assert_ok(rank.step("init"))
            self.assert_ok(rank.step("barrier"))
        ranks[1].kill()
        for rank in (ranks[0], ranks[2]):
            rank.resume()
        for rank in (ranks[0], ranks[2]):
            self.assert_failed(rank.step("barrier"), "MST_ERR_PEER_LOST", r"rank 1 \(.*died")


@unittest.skipUnless(shutil.which("openssl"), "needs openssl")
class Certificates(TlsTest):
    def openssl(self, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60, cwd=self.directory)

    def authority(self, name):
        self.openssl("req", "-x509", "-newkey", "ed25519", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem",
                     "-subj", f"/CN={name}", "-days", 2)  # fmt: skip

    def host(self, name, authority, names, days=2):
        """The settings of a host with a certificate for these names."""
        with open(self.path(f"{name}.ext"), "w", encoding="ascii") as extensions:
            extensions.write(f"subjectAltName={names}\n")
        self.openssl("req", "-newkey", "ed25519", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
                     "-CAcreateserial", "-out", f"{name}.pem", "-days", days, "-extfile", f"{name}.ext")  # fmt: skip
        return {
            "MUSTER_TLS_CERT": self.path(f"{name}.pem"),
            "MUSTER_TLS_KEY": self.path(f"{name}.key"),
            "MUSTER_TLS_CA": self.path(f"{authority}.pem"),
        }

    def setUp(self):
        super().setUp()
        self.authority("ca")
        self.good = self.host("good", "ca", "IP:127.0.0.1,DNS:cluster.example")

    def test_good(self):
        self.works(self.good, self.host("second", "ca", "IP:127.0.0.1"))

    def test_one_name_for_all(self):
        named = {**self.host("named", "ca", "DNS:cluster.example"), "MUSTER_TLS_NAME": "cluster.example"}
        self.works(named, named)
        self.refused("the certificate of the other end is not accepted: hostname mismatch",
                     server={**self.host("address", "ca", "IP:127.0.0.1")}, client=named)  # fmt: skip
        # The server expects the name, too. In TLS 1.3 the client learns it after its own part of the handshake.
        self.refused("has failed", server={**self.good, "MUSTER_TLS_NAME": "cluster.example"},
                     client=self.host("other", "ca", "IP:127.0.0.1"))  # fmt: skip

    def test_another_address(self):
        other = self.host("elsewhere", "ca", "IP:10.1.2.3")
        self.refused("the certificate of the other end is not accepted: IP address mismatch", server=other, client=self.good)

    def test_another_authority(self):
        self.authority("stranger")
        stranger = self.host("other", "stranger", "IP:127.0.0.1")
        self.refused("the certificate of the other end is not accepted", server=self.good, client=stranger)
        accepted_here = {**stranger, "MUSTER_TLS_CA": self.good["MUSTER_TLS_CA"]}
        self.refused("the other end refuses it: unknown CA", server=self.good, client=accepted_here)

    def test_expired(self):
        # openssl of Debian 12 has no option for a date in the past, except -days with a negative number.
        try:
            expired = self.host("expired", "ca", "IP:127.0.0.1", days=-1)
        except subprocess.CalledProcessError:
            self.skipTest("this openssl cannot make an expired certificate")
        self.refused("certificate has expired", server=expired, client=self.good)

    def test_only_one_end_has_certificates(self):
        self.refused("has failed", server=self.good)
        self.refused("has failed", client=self.good)

    def test_files(self):
        """What is wrong with the settings of one process."""
        shutil.copy(self.path("good.key"), self.path("open.key"))
        os.chmod(self.path("open.key"), 0o640)
        cases = {
            r"open.key \(MUSTER_TLS_KEY\) can be accessed by other users": {**self.good, "MUSTER_TLS_KEY": self.path("open.key")},
            "MUSTER_TLS_CERT cannot be used": {**self.good, "MUSTER_TLS_CERT": "/no/such/file"},
            "MUSTER_TLS_KEY cannot be used": {**self.good, "MUSTER_TLS_KEY": self.path("ca.key")},
            "MUSTER_TLS_CA cannot be used": {**self.good, "MUSTER_TLS_CA": "/dev/null"},
            "of MUSTER_TLS_CERT, MUSTER_TLS_KEY and MUSTER_TLS_CA 1 is set": {"MUSTER_TLS_CERT": self.path("good.pem")},
        }
        for said, env in cases.items():
            with self.subTest(said):
                (rank,) = self.world(env, actions=("~init",))
                self.assert_failed(rank.step("init"), "MST_ERR_CONFIG", said)
                rank.finish()


if __name__ == "__main__":
    main()
