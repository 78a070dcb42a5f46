"""Programs without MPI under the real mpirun of Open MPI and of MPICH: they find rank, size and one another."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from harness import BUILD, MUSTER, PROGRAMS, SOURCE, Process, RanksTest, listens, main

DISCOVER = PROGRAMS / "discover"
EXAMPLE = BUILD / "bin/examples/05_data_parallel"
# Runs a command "on" a host, which is this one: the launchers cannot tell.
REMOTE = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
echo "$1" >>"$(dirname "$0")/hosts"
export TMPDIR="$TMPDIR/$1" # two of Open MPI's daemons in one would race
mkdir -p "$TMPDIR"
shift
exec sh -c "$*"
"""


class Launcher:
    """What the tests of both have in common; subclasses say how the launcher is called."""

    def setUp(self):
        if not shutil.which(self.mpirun):
            self.skipTest(f"{self.mpirun} is not installed")
        super().setUp()
        os.mkdir(self.path("tmp"))

    def start(self, n, *command, options=(), env=None):
        session = tempfile.mkdtemp(dir=self.path("tmp"))  # jobs of Open MPI that share one may race
        env = {
            "TMPDIR": session, "OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1,
            "OMPI_MCA_plm_rsh_agent": "/bin/false", **(env or {}),
        }  # fmt: skip
        command = [self.mpirun, *self.options, *options, "-n", n, *command]
        return Process(self.popen(*command, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT))

    def run_ranks(self, n, *command, **options):
        """The lines that all ranks wrote; they must have ended well. MPICH's mpirun itself dies of SIGPIPE now and then: once more."""
        status, out = self.start(n, *command, **options).finish()
        if status == -signal.SIGPIPE:
            status, out = self.start(n, *command, **options).finish()
        self.assertEqual(status, 0, out)
        return out.splitlines()

    def refused(self, *parts, n=2, command=(DISCOVER, "init"), **options):
        """What ranks say before they end at once is not always passed on: each says it into a file."""
        script = 'exec "$@" >"$0.$$" 2>&1'
        status, out = self.start(n, "sh", "-c", script, self.path("said"), *command, **options).finish()
        for file in pathlib.Path(self.directory).glob("said.*"):
            out += file.read_text()
            file.unlink()
        self.assertNotEqual(status, 0, out)
        for part in parts:
            self.assertRegex(out, part)
        return out

    def assert_sums(self, lines, n, times=1, hosts=1):
        for r in range(n):
            self.assertEqual(lines.count(f"init {r} {n} {hosts}"), times, lines)
        self.assertEqual(lines.count(f"sum {n * (n + 1) // 2}"), n * times, lines)

    def test_example(self):
        for n in (2, 3, 4):
            models = [line for line in self.run_ranks(n, EXAMPLE) if "my model" in line]
            self.assertEqual(len(models), n)
            self.assertEqual(len({line.split("my model")[1] for line in models}), 1)
        self.assert_nothing_left("tmp")

    def test_collectives(self):
        job = self.start(3, PROGRAMS / "collective", "--quick", "--max-count", 1000)
        out, _ = job.process.communicate(timeout=100)
        self.assertEqual(job.process.returncode, 0, out.decode(errors="replace"))

    def test_what_is_found(self):
        lines = [line for line in self.run_ranks(2, DISCOVER, "find") if line.startswith("find")]
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertRegex(line, rf"^find {self.name} [01] 2 [01] 2 ")
            self.assertRegex(line, self.rank_variable)

    def test_worlds_one_after_another(self):
        lines = self.run_ranks(3, DISCOVER, *["init", "sum", "destroy"] * 4)
        self.assert_sums(lines, 3, times=4)

    def test_mpi_discovery(self):
        """It sets the variables, and mst_init finds those without asking the launcher again."""
        lines = self.run_ranks(2, DISCOVER, "mpi=0", "env", "init_alone", "sum", "destroy")
        self.assert_sums(lines, 2)
        envs = {line for line in lines if line.startswith("env")}
        self.assertEqual({tuple(line.split()[1:5]) for line in envs}, {("0", "2", "0", "2"), ("1", "2", "1", "2")})
        self.assertEqual(len({tuple(line.split()[5:7]) for line in envs}), 1)
        self.assertEqual(sum("discovered" in line for line in lines), 2)

    def test_mpi_discovery_with_a_port(self):
        port = self.free_port()
        lines = self.run_ranks(2, DISCOVER, f"mpi={port}", "env", "init_alone", "sum", "destroy")
        self.assert_sums(lines, 2)
        self.assertEqual(sum(line.endswith(f" 127.0.0.1 {port} -") for line in lines), 2, lines)

    def test_jobs_at_the_same_time(self):
        jobs = [self.start(2, DISCOVER, "init", *["sum"] * 300, "destroy") for _ in range(4)]
        for job in jobs:
            status, out = job.finish()
            self.assertEqual(status, 0, out)
            self.assertEqual(out.splitlines().count("sum 3"), 600)

    def test_muster_run_inside(self):
        """Two launchers of two ranks each: the inner one is right."""
        lines = self.run_ranks(2, MUSTER, "run", "-n", 2, DISCOVER, "init", "sum", "destroy")
        self.assertEqual(sum("sum 3" in line for line in lines), 4, lines)

    def test_stale_variables(self):
        self.refused("RANK=0 WORLD_SIZE=1", f"{self.rank_variable}=1", "two launchers disagree", env={"RANK": 0, "WORLD_SIZE": 1})

    def test_turned_off(self):
        self.assertEqual(self.run_ranks(2, DISCOVER, "init_alone", "destroy"), ["init 0 1 1"] * 2)
        self.assertEqual(self.run_ranks(2, DISCOVER, "init", "destroy", env={"MUSTER_DISCOVERY": 0}), ["init 0 1 1"] * 2)

    def test_explicit_master(self):
        port = self.free_port()
        env = {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
        self.assert_sums(self.run_ranks(2, DISCOVER, "init", "sum", "destroy", env=env), 2)

    def test_taken_port(self):
        _, port = self.serve()
        self.refused("MST_ERR_PORT_TAKEN", "MASTER_PORT", env={"MASTER_PORT": port, "MUSTER_INIT_TIMEOUT_MS": 3000})

    def write_remote(self):
        remote = self.path("remote")
        pathlib.Path(remote).write_text(REMOTE)
        os.chmod(remote, 0o755)
        return remote

    def test_several_hosts(self):
        """The launcher takes them for two hosts, so nothing but it knows where rank 0 is."""
        command = (DISCOVER, "find", "init_loud", "sum", "destroy")
        lines = self.run_ranks(4, *command, options=self.two_hosts())
        self.assert_sums(lines, 4)
        self.assertEqual(sum("world_size=4, local_size=2" in line for line in lines), 4, lines)
        self.assertFalse(any("master_addr=127." in line for line in lines), lines)
        hosts = pathlib.Path(self.path("hosts")).read_text().split()
        self.assertGreaterEqual(len(set(hosts)), 1)
        self.assert_nothing_left("tmp", "remote", "hosts")

    def build_with_mpi(self):
        compiler = shutil.which(f"mpicc.{self.name}")
        if not compiler:
            self.skipTest(f"mpicc.{self.name} is not installed")
        if b"san_init" in (BUILD / "lib/libmuster.so").read_bytes():
            self.skipTest("the library needs a sanitizer's runtime, which a plain program lacks")
        program = self.path("with_mpi")
        build = [compiler, "-o", program, SOURCE / "tests/interop/mpi/with_mpi.c", f"-I{SOURCE}/include", f"-L{BUILD}/lib"]
        done = subprocess.run([*build, "-lmuster", f"-Wl,-rpath,{BUILD}/lib"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def test_beside_mpi(self):
        program = self.build_with_mpi()
        for first in ("mpi", "muster"):
            for n, options in ((2, ()), (4, self.two_hosts())):
                lines = self.run_ranks(n, program, first, *self.after_mpi, options=options)
                self.assertEqual([line for line in lines if line.startswith("muster")], [f"muster {n}, MPI {n}"] * n, lines)


class OpenMpi(Launcher, RanksTest):
    mpirun, name, rank_variable = "mpirun.openmpi", "openmpi", "OMPI_COMM_WORLD_RANK"
    options = ("--oversubscribe", "--bind-to", "none")
    after_mpi = ("again",)

    def two_hosts(self):
        agent = ("--mca", "rtc", "^hwloc", "--mca", "plm_rsh_agent", self.write_remote())
        return (*agent, "--mca", "btl", "self,tcp", "--host", "hosta:2,hostb:2")  # shared memory of both would have one name

    def test_the_port_goes_with_the_job(self):
        lines = self.run_ranks(2, DISCOVER, "find")
        self.assertEqual(sum("the job's number" in line for line in lines), 2, lines)
        port = int(re.search(r"'127\.0\.0\.1' (\d+)", lines[0])[1])
        self.assertFalse(listens(port))


class Mpich(Launcher, RanksTest):
    mpirun, name, rank_variable = "mpirun.mpich", "mpich", "PMI_RANK"
    options = ()
    after_mpi = ()  # MPI_Finalize takes leave of the launcher

    def two_hosts(self):
        return ("-launcher", "ssh", "-launcher-exec", self.write_remote(), "-hosts", "hosta,hostb", "-ppn", "2")

    def test_ports_instead_of_descriptors(self):
        command = (DISCOVER, "init", "sum", "destroy")
        self.assert_sums(self.run_ranks(2, *command, options=("-pmi-port", "-genv", "WORLD_SIZE", "2")), 2)
        self.refused("MPICH with -pmi-port", "WORLD_SIZE", options=("-pmi-port",))

    def test_a_rank_that_does_not_come(self):
        script = f'if [ $PMI_RANK = 1 ]; then exec sleep 30; fi; exec "{DISCOVER}" init'
        env = {"MUSTER_INIT_TIMEOUT_MS": 1000}
        self.refused("MST_ERR_TIMEOUT", "waiting in the launcher's PMI for all ranks", command=("sh", "-c", script), env=env)

    def test_a_second_program_in_the_same_place(self):
        script = f'"{DISCOVER}" init sum destroy && exec "{DISCOVER}" init'
        out = self.refused("an earlier program of this rank", "MASTER_ADDR", command=("sh", "-c", script))
        self.assertEqual(out.count("sum 3"), 2)


if __name__ == "__main__":
    main()
