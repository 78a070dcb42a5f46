"""An sshd of the test's own: a key, a host key and a configuration in a temporary directory, on a free port of loopback.

Every address of 127.0.0.0/8 leads to it, so 127.0.0.2, 127.0.0.3 and so on can play several hosts. It ends with the test.
Its sessions have the temporary directory for their home: what the user's start-up files do, or say, is not the test's.
"""

import ctypes
import getpass
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from harness import MARK, ToolTest, wait_until

CONFIGURATION = """\
ListenAddress 0.0.0.0:{port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserRC no
SetEnv HOME={directory}
MaxStartups 1000
MaxSessions 1000
LogLevel VERBOSE
"""


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Sshd:
    """One sshd for each of places, which are words in front of its command and may lead into a namespace."""

    def __init__(self, places=((),)):
        self.temporary = tempfile.TemporaryDirectory(prefix="muster-sshd-")
        self.directory = self.temporary.name
        self.port = free_port()
        for name in ("key", "host_key", "strange_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)], check=True, timeout=60
            )
        with open(self.path("host_key.pub"), encoding="utf-8") as key:
            self.host_key = " ".join(key.read().split()[:2])
        with open(self.path("known_hosts"), "w", encoding="utf-8") as known:
            known.write(f"* {self.host_key}\n")
        with open(self.path("config"), "w", encoding="utf-8") as config:
            config.write(CONFIGURATION.format(port=self.port, directory=self.directory))
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        self.processes = [self.start(place, f"log{i}") for i, place in enumerate(places)]

    def start(self, place, log):
        program = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin")
        with open(self.path(log), "wb") as file:
            return subprocess.Popen(
                [*place, program, "-D", "-e", "-f", self.path("config")],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=die_with_parent, start_new_session=True,
            )  # fmt: skip

    def path(self, name):
        return os.path.join(self.directory, name)

    def await_listening(self):
        for i, process in enumerate(self.processes):
            wait_until(lambda: self.listens(process, self.path(f"log{i}")), "sshd listens")

    @staticmethod
    def listens(process, log):
        with open(log, encoding="utf-8", errors="replace") as file:
            said = file.read()
        if process.poll() is not None:
            raise unittest.SkipTest(f"sshd does not run here: {said}")
        return "Server listening" in said

    def command(self, key="key", known="known_hosts", *more):
        """What --ssh is to be."""
        words = [
            "ssh", "-F", "none", "-p", str(self.port), "-i", self.path(key), "-o", "IdentitiesOnly=yes",
            "-o", f"UserKnownHostsFile={self.path(known)}", "-o", "GlobalKnownHostsFile=/dev/null",
            "-o", "StrictHostKeyChecking=yes", "-l", getpass.getuser(), *more,
        ]  # fmt: skip
        return shlex.join(words)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.temporary.cleanup()


def require_ssh():
    """Skips the test where there is no ssh or no sshd."""
    for program in ("ssh", "ssh-keygen", "sshd"):
        if not shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"):
            raise unittest.SkipTest(f"needs {program} (openssh-client and openssh-server)")


class SshTest(ToolTest):
    @classmethod
    def setUpClass(cls):
        require_ssh()
        cls.sshd = Sshd()
        try:
            cls.sshd.await_listening()
        except BaseException:
            cls.sshd.close()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.sshd.close()

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def words(self, hosts, *options, ssh=None):
        """All hosts are reached through ssh."""
        return ("run", "--ssh", ssh or self.sshd.command(), "--ssh-local", "--hosts", hosts, *self.travels(), *options)

    @staticmethod
    def travels():
        """What runs elsewhere carries the test's mark, and a sanitizer does there what it does here."""
        names = [MARK, *(name for name in os.environ if re.fullmatch("[A-Z]+SAN_OPTIONS", name))]
        return [word for name in names for word in ("--env", name)]
