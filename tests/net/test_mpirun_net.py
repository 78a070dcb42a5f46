"""mpirun of Open MPI and of MPICH over network namespaces: hosts that reach each other by their addresses alone."""

import ctypes.util
import os
import pathlib
import shutil
import subprocess
import time
import unittest

import test_netns
from harness import PROGRAMS, SLOWER, Process, main

DISCOVER = PROGRAMS / "discover"
FAR = "10.77.0.2:2,10.77.0.1:2"  # where rank 0 is on b
STAY = "if [ $OMPI_COMM_WORLD_RANK = 3 ]; then exec sleep 30; fi"
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

needs_pmix = unittest.skipUnless(ctypes.util.find_library("pmix"), "libpmix.so.2 is not installed")


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

    def orte(self, head, hosts, *actions, options=(), before="", env=None):
        """before is a shell command that each rank runs first."""
        command = ("sh", "-c", f'{before}; exec "$0" "$@"', DISCOVER) if before else (DISCOVER,)
        return self.launch(
            head, "mpirun.openmpi", "--mca", "plm_rsh_agent", self.path("remote"), "--mca", "rtc", "^hwloc", "--bind-to", "none",
            "--mca", "oob_tcp_if_include", "10.77.0.0/24", "--host", hosts, *options, "-n", 4, *command, *actions, env=env,
        )  # fmt: skip

    def refused(self, *parts, head="c", before=":", actions=("init",), env=None):
        """What ranks say before they end is not always passed on: each says it into a file. The first to end ends all."""
        said = pathlib.Path(self.path("said"))
        said.mkdir()
        before = f'exec >"{said}/$OMPI_COMM_WORLD_RANK" 2>&1; {before}'
        status, out = self.orte(head, FAR, *actions, before=before, env=env)
        self.assertNotEqual(status, 0, out)
        out = "".join(file.read_text() for file in said.iterdir())
        shutil.rmtree(said)
        for part in parts:
            self.assertRegex(out, part)

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

    @needs_pmix
    def test_openmpi_from_a_host_without_ranks(self):
        """Nothing in the environment tells where rank 0 is; PMIx does. Telling it goes as well."""
        status, out = self.orte("c", FAR, "find", *self.usual)
        self.assert_met(status, out, "10.77.0.2")
        self.assertEqual(out.count("| agreed by all ranks through PMIx |"), 4, out)
        status, out = self.orte("c", FAR, "find", *self.usual, options=("-x", "MASTER_ADDR=10.77.0.2"))
        self.assert_met(status, out, "10.77.0.2")
        self.assertEqual(out.count("| MASTER_ADDR |"), 4, out)

    @needs_pmix
    def test_openmpi_with_rank_0_on_another_host(self):
        """mpirun is on a host with ranks, but its address is not rank 0's."""
        hosts = "10.77.0.2,10.77.0.2,10.77.0.1,10.77.0.1"
        status, out = self.orte("a", hosts, *self.usual, options=("--mca", "rmaps", "seq"))
        self.assert_met(status, out, "10.77.0.2")

    @needs_pmix
    def test_openmpi_meets_again(self):
        """A child that ends does not try to take leave for its parent."""
        status, out = self.orte("c", FAR, *(part for n in range(3) for part in (f"port=400{n}", *self.usual, "fork")))
        self.assertEqual(status, 0, out)
        self.assertEqual(out.count("sum 10"), 12, out)
        self.assertEqual(out.count("fork 0"), 12, out)

    @needs_pmix
    def test_openmpi_discovery(self):
        """It sets the variables; the port is the caller's if it names one."""
        status, out = self.orte("c", FAR, "mpi=0", "env", "init_alone", "sum", "destroy")
        self.assertEqual(status, 0, out)
        self.assertEqual(out.count("sum 10"), 4, out)
        status, out = self.orte("c", FAR, "mpi=4321", "env", "init_alone", "sum", "destroy")
        self.assertEqual(out.count(" 10.77.0.2 4321 -\n"), 4, out)

    @needs_pmix
    def test_openmpi_without_its_own_variables(self):
        """As with Open MPI 5."""
        status, out = self.orte("a", FAR, *self.usual, before="unset OMPI_MCA_orte_hnp_uri")
        self.assertEqual(status, 0, out)
        self.assertEqual(out.count("sum 10"), 4, out)
        env = {"MUSTER_PMIX_LIBRARY": "libnone.so.2"}
        why = "rank 0's address is only known through the launcher's PMIx, but: libnone.so.2:.*mpirun -x MASTER_ADDR=HOST"
        self.refused(why, before="unset OMPI_MCA_orte_hnp_uri", env=env)

    def test_openmpi_without_libpmix(self):
        """Its own address is taken instead, which is right if rank 0 is there, and else says what to do."""
        env = {"MUSTER_PMIX_LIBRARY": "libnone.so.2"}
        status, out = self.orte("a", "10.77.0.1:2,10.77.0.2:2", "find", *self.usual, env=env)
        self.assert_met(status, out, "10.77.0.1")
        self.assertEqual(out.count("| OMPI_MCA_orte_hnp_uri | the job's number"), 4, out)
        self.refused("mpirun -x MASTER_ADDR=HOST", "OMPI_MCA_orte_hnp_uri", env={**env, "MUSTER_INIT_TIMEOUT_MS": 2000})

    def test_openmpi_with_a_library_that_is_not_pmix(self):
        env = {"MUSTER_PMIX_LIBRARY": "libm.so.6"}
        self.refused("undefined symbol: PMIx_Init", before="unset OMPI_MCA_orte_hnp_uri", env=env)

    @needs_pmix
    def test_openmpi_whose_server_is_gone(self):
        for uri in ("garbage", "1.0;tcp4://127.0.0.1:9"):
            names = " ".join(f"PMIX_SERVER_URI{n}='{uri}'" for n in ("", 2, 21, 3, 4, 41, 5))
            said = "connecting to the launcher's PMIx: it answered UNREACHABLE.*mpirun -x MASTER_ADDR=HOST"
            self.refused(said, before=f"export {names}")

    @needs_pmix
    def test_variables_of_another_pmix(self):
        """A rank that PMIx knows by another number is not one of its ranks."""
        status, out = self.orte("c", FAR, "find", before="export PMIX_RANK=$((3 - PMIX_RANK))")
        self.assertEqual(status, 0, out)
        self.assertEqual(out.count("| OMPI_MCA_orte_hnp_uri |"), 4, out)
        self.refused("rank (.) of 5, but rank \\1 of 4 in PMIx", before="export OMPI_COMM_WORLD_SIZE=5")

    @needs_pmix
    def test_a_rank_that_does_not_come(self):
        began = time.monotonic()
        said = "MST_ERR_TIMEOUT.*waiting in the launcher's PMIx for all ranks to call mst_init"
        self.refused(said, before=STAY, env={"MUSTER_INIT_TIMEOUT_MS": 1500})
        self.assertLess(time.monotonic() - began, 10 * SLOWER)

    @needs_pmix
    def test_a_meeting_that_is_cancelled(self):
        """PMIx is still at it: it is not asked again."""
        said = "cancelled MST_ERR_CANCELLED.*waiting in the launcher's PMIx", "failed init MST_ERR_STATE.* has failed"
        self.refused(*said, before=STAY, actions=("cancelled", "init"))

    @needs_pmix
    def test_a_rank_that_is_killed(self):
        """While the others wait for it: the launcher ends them."""
        name = self.path("there")
        die = f'if [ $OMPI_COMM_WORLD_RANK = 3 ]; then while [ $(cat {name}* | wc -l) != 3 ]; do :; done; kill -9 $$; fi'
        env = {"MUSTER_INIT_TIMEOUT_MS": 60000}  # more than the test has patience for
        status, out = self.orte("c", FAR, "init", before=f"{die}; echo >{name}$OMPI_COMM_WORLD_RANK", env=env)
        self.assertNotEqual(status, 0, out)

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
