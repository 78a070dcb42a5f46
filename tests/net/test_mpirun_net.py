"""mpirun of Open MPI and of MPICH over network namespaces: hosts that reach each other by their addresses alone."""

import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import test_netns  # noqa: E402 (it finds ranks for us)
from ranks import PROGRAMS, Process, main  # noqa: E402

DISCOVER = PROGRAMS / "discover"
# ssh, as far as launchers use it: address command.
REMOTE = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in
%s
*) echo "no host $1" >&2; exit 255 ;;
esac
export TMPDIR="$TMPDIR/$1"
mkdir -p "$TMPDIR"
shift
exec nsenter --net=/proc/$pid/ns/net sh -c "export MUSTER_FORCE_HOST=$pid; $*"
"""


class MpirunNet(test_netns.NetnsTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("tmp"))
        pids = (f"10.77.0.{n}) pid={self.spaces.holders[name].pid} ;;" for n, name in enumerate(test_netns.NAMES, 1))
        pathlib.Path(self.path("remote")).write_text(REMOTE % "\n".join(pids))
        os.chmod(self.path("remote"), 0o755)

    def launch(self, head, *command, env=None):
        """Runs mpirun on one of the hosts: exit status and output."""
        if not shutil.which(command[0]):
            self.skipTest(f"{command[0]} is not installed")
        env = {
            "TMPDIR": self.path("tmp"), "OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1,
            "MUSTER_SOCKET_IFNAME": "eth0", "MUSTER_INIT_TIMEOUT_MS": 8000, **(env or {}),
        }  # fmt: skip
        process = self.popen(
            *self.spaces.inside(head), *command, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        return Process(process).finish()

    def hydra(self, head, address, hosts, *actions):
        return self.launch(
            head, "mpirun.mpich", "-launcher", "ssh", "-launcher-exec", self.path("remote"), "-localhost", address,
            "-hosts", hosts, "-ppn", 2, "-n", 4, DISCOVER, *actions,
        )  # fmt: skip

    def orte(self, head, hosts, *actions, options=()):
        return self.launch(
            head, "mpirun.openmpi", "--mca", "plm_rsh_agent", self.path("remote"), "--mca", "rtc", "^hwloc", "--bind-to", "none",
            "--mca", "oob_tcp_if_include", "10.77.0.0/24", "--host", hosts, *options, "-n", 4, DISCOVER, *actions,
        )  # fmt: skip

    def assert_met(self, status, out, address):
        self.assertEqual(status, 0, out)
        self.assertEqual(out.count("sum 10"), 4, out)
        self.assertEqual(out.count(f"master_addr={address},"), 4, out)
        for r in range(4):
            self.assertIn(f"init {r} 4 2\n", out)

    usual = ("init_loud", "sum", "destroy")

    def test_mpich(self):
        status, out = self.hydra("a", "10.77.0.1", "10.77.0.1,10.77.0.2", *self.usual)
        self.assert_met(status, out, "10.77.0.1")

    def test_mpich_from_a_host_without_ranks(self):
        status, out = self.hydra("c", "10.77.0.3", "10.77.0.2,10.77.0.1", *self.usual)
        self.assert_met(status, out, "10.77.0.2")

    def test_openmpi(self):
        status, out = self.orte("a", "10.77.0.1:2,10.77.0.2:2", *self.usual)
        self.assert_met(status, out, "10.77.0.1")

    def test_openmpi_from_a_host_without_ranks(self):
        """Nothing in the environment tells where rank 0 is: it says so, and what to do, and that helps."""
        hosts = "10.77.0.2:2,10.77.0.1:2"
        status, out = self.orte("c", hosts, *self.usual)
        self.assertNotEqual(status, 0, out)
        self.assertIn("mpirun -x MASTER_ADDR=", out)
        status, out = self.orte("c", hosts, *self.usual, options=("-x", "MASTER_ADDR=10.77.0.2"))
        self.assert_met(status, out, "10.77.0.2")

    def test_a_name_that_is_loopback_on_its_own_host(self):
        """As on Debian, whose /etc/hosts has 127.0.1.1 for the host's own name."""
        lines = [line.split("#")[0].split() for line in pathlib.Path("/etc/hosts").read_text().splitlines()]
        names = [name for line in lines if line and line[0].startswith(("127.", "::1")) for name in line[1:]]
        hidden = [name for name in names if name != "localhost"]
        if not hidden:
            self.skipTest("/etc/hosts has no name but localhost for loopback")
        ranks = []
        for rank, (space, name) in enumerate((("a", hidden[0]), ("b", "10.77.0.1"))):
            env = {
                "SLURM_JOB_ID": 5, "SLURM_STEP_ID": 0, "SLURM_PROCID": rank, "SLURM_NODEID": rank, "SLURM_LOCALID": 0,
                "SLURM_STEP_NUM_TASKS": 2, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NODELIST": f"{name},other",
                "MUSTER_SOCKET_IFNAME": "eth0", "MUSTER_INIT_TIMEOUT_MS": 8000,
            }  # fmt: skip
            ranks.append(Process(self.popen(*self.spaces.inside(space), DISCOVER, "init", "sum", "destroy", env=env)))
        for rank in ranks:
            status, out = rank.finish()
            self.assertEqual(status, 0, out)
            self.assertIn("sum 3", out)


if __name__ == "__main__":
    main()
