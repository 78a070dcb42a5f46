"""The backend mpi: under the real mpirun of Open MPI and of MPICH, without either, in programs that start MPI themselves,
where a library is missing, and where a rank dies."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import BUILD, MUSTER, PROGRAMS, SANITIZED, SOURCE, Process, Rank, RanksTest, main

MODULES = BUILD / "lib/muster"
COLLECTIVE = PROGRAMS / "collective"
FAULTS = PROGRAMS / "faults"
PATIENCE = 100  # seconds for a run of the suite, on a busy machine
SOON = 2.0  # seconds within which survivors know of a death
SLOW = "instrumented code would take too long"
# What MPI keeps is its own business, and UCX's patches of the C library do not go with ThreadSanitizer's.
SANITIZER = {"ASAN_OPTIONS": "detect_leaks=0", "UCX_MEM_EVENTS": "n"}
LAUNCHERS = {
    "openmpi": ("mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n"),
    "mpich": ("mpirun.mpich", "-n"),
    "alone": (MUSTER, "run", "-n"),
}


class BackendTest(RanksTest):
    def need(self, flavour):
        if not (MODULES / f"muster_mpi_{flavour}.so").exists():
            self.skipTest(f"the backend mpi was not built for {flavour}")

    def settings(self, env=None):
        os.makedirs(self.path("tmp"), exist_ok=True)
        session = tempfile.mkdtemp(dir=self.path("tmp"))  # jobs of Open MPI that share one may race
        return {
            "TMPDIR": session, "OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1,
            "OMPI_MCA_plm_rsh_agent": "/bin/false", "MUSTER_BACKEND": "mpi", "MUSTER_BACKEND_PATH": MODULES,
            "MUSTER_LOG": "error", **(SANITIZER if SANITIZED else {}), **(env or {}),
        }  # fmt: skip

    def launch(self, launcher, n, *command, env=None):
        """Exit status and output of n ranks."""
        command = [*LAUNCHERS[launcher], n, *command]
        if not shutil.which(command[0]):
            self.skipTest(f"{command[0]} is not installed")
        process = self.popen(*command, env=self.settings(env), stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        out, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, out.decode(errors="replace")

    def succeed(self, launcher, n, *command, **options):
        status, out = self.launch(launcher, n, *command, **options)
        self.assertEqual(status, 0, out)
        return out

    def refused(self, launcher, *parts, n=2, command=(PROGRAMS / "discover", "init", "sum"), **options):
        """It must fail with these words."""
        status, out = self.launch(launcher, n, *command, **options)
        self.assertNotEqual(status, 0, out)
        for part in parts:
            self.assertIn(part, out)
        return out


class Launched:
    """The conformance suite; subclasses say under which launcher."""

    def setUp(self):
        super().setUp()
        self.need(self.flavour)

    def suite(self, n, **env):
        self.assertIn("collective: ok", self.succeed(self.launcher, n, COLLECTIVE, "--quick", env=env))

    def test_two(self):
        self.suite(2)

    @unittest.skipIf(SANITIZED, SLOW)
    def test_four(self):
        self.suite(4)

    @unittest.skipIf(SANITIZED, SLOW)
    def test_blocking_calls(self):
        self.suite(2, MUSTER_MPI_BLOCKING=1)

    def test_large_ways(self):
        """The ways of counts beyond an int, taken by small ones."""
        self.suite(3, MUSTER_MPI_LIMIT=50)

    def test_probes(self):
        for n in (1, 3):
            self.succeed(self.launcher, n, PROGRAMS / "probes", "calls")

    def test_groups_alone(self):
        """Groups of all kinds, and never the world."""
        self.succeed(self.launcher, 4, PROGRAMS / "groups", 40)

    def test_pipelines(self):
        """Messages go all the way round: ranks that open their groups in another order than their neighbours wait in a circle."""
        for words in (("stream", 4, 3, 2, 2), ("train", "interleaved", 3, 2, 2), ("ring_of_launcher",)):
            self.succeed(self.launcher, 3, PROGRAMS / "pipeline", *words)

    def test_aborts(self):
        """The world uses another backend, since the process makes no MPI calls after an abort. It does not finalize MPI then
        either, about which mpirun complains."""
        env = {"MUSTER_BACKEND": "native", "ABORTS_BACKEND": "mpi"}
        for words in (("others", "all_reduce"), ("own", "recv_any", "cold")):
            _, out = self.launch(self.launcher, 3, PROGRAMS / "aborts", *words, env=env)
            self.assertEqual(out.count("done\n"), 3, out)

    def test_reducers(self):
        for words in (("train", 1), ("threads", 2), ("sum", 1), ("two",)):
            self.succeed(self.launcher, 3, PROGRAMS / "buckets", *words)

    def test_example(self):
        out = self.succeed(self.launcher, 4, BUILD / "bin/examples/05_data_parallel")
        self.assertEqual(out.count("my model: y = 2.99"), 4, out)

    def test_beyond_an_int(self):
        if not os.environ.get("RANKS_TEST_LARGE"):
            self.skipTest("takes minutes and 13 GiB: set RANKS_TEST_LARGE=1")
        self.succeed(self.launcher, 2, PROGRAMS / "large")


class Started:
    """A program that has started MPI itself; subclasses say which."""

    def build(self):
        compiler = shutil.which(f"mpicc.{self.flavour}")
        if not compiler:
            self.skipTest(f"mpicc.{self.flavour} is not installed")
        if SANITIZED:
            self.skipTest("the library needs a sanitizer's runtime, which a plain program lacks")
        program = self.path("backend_mpi")
        build = [compiler, "-std=c11", "-o", program, SOURCE / "tests/interop/mpi/backend_mpi.c", f"-I{SOURCE}/include"]
        build += [f"-L{BUILD}/lib", "-lmuster", "-lpthread", f"-Wl,-rpath,{BUILD}/lib"]
        done = subprocess.run(build, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def test_started_by_the_program(self):
        program = self.build()
        for level in ("single", "funneled", "serialized", "multiple"):
            with self.subTest(level=level):
                self.assertEqual(self.succeed(self.launcher, 3, program, level).count("ok with"), 3)

    def test_used_from_another_thread(self):
        program = self.build()
        for level in ("serialized", "multiple"):
            self.assertEqual(self.succeed(self.launcher, 2, program, level, "thread").count("ok with"), 2)
        self.refused(self.launcher, "main thread only", "MPI_THREAD_MULTIPLE", command=(program, "funneled", "thread"))

    def test_the_other_is_asked_for(self):
        other = {"openmpi": "mpich", "mpich": "openmpi"}[self.flavour]
        self.refused(
            self.launcher, f"MUSTER_MPI={other}", "unset MUSTER_MPI", command=(self.build(), "multiple"), env={"MUSTER_MPI": other}
        )


class UnderOpenMpi(Launched, Started, BackendTest):
    launcher = flavour = "openmpi"


class UnderMpich(Launched, Started, BackendTest):
    launcher = flavour = "mpich"


class Alone(Launched, BackendTest):
    """muster run: MPICH is started by muster's own PMI."""

    launcher, flavour = "alone", "mpich"

    @unittest.skipIf(SANITIZED, SLOW)
    def test_several_hosts(self):
        script = 'MUSTER_FORCE_HOST=$((RANK / 2)) exec "$0" --quick'
        self.assertIn("collective: ok", self.succeed("alone", 4, "sh", "-c", script, COLLECTIVE))

    def test_inside_mpirun(self):
        """The inner launcher is right, and the outer one's PMI is not touched."""
        for outer in ("openmpi", "mpich"):
            if shutil.which(LAUNCHERS[outer][0]):
                out = self.succeed(outer, 2, MUSTER, "run", "-n", 2, PROGRAMS / "discover", "init", "sum", "destroy")
                self.assertEqual(out.count("sum 3"), 4, out)

    def ranks(self, n, *command):
        store, port = self.serve()
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True", "WORLD_SIZE": n}
        return [Rank(self.popen(*command, env=self.settings({"RANK": r, **place}))) for r in range(n)], store

    def end(self, ranks, store):
        for rank in ranks:
            rank.process.communicate(timeout=20)
        store.kill()

    def die(self, operation):
        ranks, store = self.ranks(3, FAULTS, "loop", operation)
        for rank in ranks:
            rank.begins("loop")
        died = ranks[1].kill()
        for rank in (ranks[0], ranks[2]):
            step = rank.step("loop")
            self.assert_failed(step, "MST_ERR_PEER_LOST", "rank 1")
            self.assert_soon(step, died, SOON)
        self.end(ranks, store)

    def test_a_rank_dies(self):
        for operation in ("barrier", "all_reduce", "all_to_all_single", "ring", "waited"):
            with self.subTest(operation=operation):
                self.die(operation)


class Mixed(BackendTest):
    """Ranks of several jobs that met as one world of muster."""

    def mix(self, *launchers):
        """What each rank says."""
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port(), "WORLD_SIZE": len(launchers)}
        processes = []
        for r, launcher in enumerate(launchers):
            self.need(launcher)
            command = [*LAUNCHERS[launcher], 1, "env", f"RANK={r}", f"LOCAL_RANK={r}", PROGRAMS / "discover", "init", "sum"]
            if not shutil.which(command[0]):
                self.skipTest(f"{command[0]} is not installed")
            processes.append(self.popen(*command, env=self.settings(place), stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT))
        return [process.communicate(timeout=PATIENCE)[0].decode(errors="replace") for process in processes]

    def test_jobs(self):
        for launcher in ("openmpi", "mpich"):
            with self.subTest(launcher=launcher):
                self.assertIn("one mpirun of the same MPI", self.mix(launcher, launcher)[1])

    def test_libraries(self):
        out = self.mix("mpich", "openmpi")[1]
        self.assertIn("rank 0 of the group uses MPICH", out)
        self.assertIn("rank 1 Open MPI", out)


class Missing(BackendTest):
    """What is not there is named, and what to install."""

    def modules(self, *names):
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        for name in names:
            shutil.copy(MODULES / name, directory)
        return directory

    def setUp(self):
        super().setUp()
        if not (MODULES / "mst_backend_mpi.so").exists():
            self.skipTest("the backend mpi was not built")

    def test_engines(self):
        path = {"MUSTER_BACKEND_PATH": self.modules("mst_backend_mpi.so")}
        self.refused("alone", "built without MPICH", "libmpich-dev", env=path)
        self.refused("alone", "built without Open MPI", "libopenmpi-dev", env={"MUSTER_MPI": "openmpi", **path})

    def test_library(self):
        self.need("openmpi")
        directory = self.modules("mst_backend_mpi.so", "muster_mpi_openmpi.so")
        engine = directory / "muster_mpi_openmpi.so"
        engine.write_bytes(engine.read_bytes().replace(b"libmpi.so.40\0", b"libmpi.so.no\0"))
        env = {"MUSTER_MPI": "openmpi", "MUSTER_BACKEND_PATH": directory}
        self.refused("alone", "cannot load Open MPI", "libopenmpi3", "libmpi.so.no", env=env)

    def test_launcher(self):
        self.need("openmpi")
        self.refused("alone", "Open MPI cannot join ranks", "mpirun", "MUSTER_MPI=mpich", env={"MUSTER_MPI": "openmpi"})

    def test_name(self):
        self.refused("alone", "MUSTER_MPI=lam", "openmpi or mpich", env={"MUSTER_MPI": "lam"})

    def test_native_still_works(self):
        path = {"MUSTER_BACKEND_PATH": self.modules("mst_backend_mpi.so"), "MUSTER_BACKEND": "native"}
        self.assertEqual(self.succeed("alone", 2, PROGRAMS / "discover", "init", "sum", "destroy", env=path).count("sum 3"), 2)


if __name__ == "__main__":
    main()
