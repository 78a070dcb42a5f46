"""Discovery under each launcher from recorded variables; contradictory variables; worlds that use them."""

import json
import subprocess

from harness import DEADLINE, PROGRAMS, TESTS, Process, RanksTest, main

DISCOVER = PROGRAMS / "discover"
LAUNCHERS = TESTS / "multi/launchers"
FIXTURES = sorted(LAUNCHERS.glob("*.env"))


def read_fixture(path):
    """The variables of a fixture, and its expectation: launcher, rank, size, local rank and size, master."""
    env, expect = {}, None
    for line in path.read_text().splitlines():
        if line.startswith("# expect "):
            expect = line.split()[2:]
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            env[name] = value
    return env, expect


class DiscoveryTest(RanksTest):
    def discover(self, *actions, env=None, **options):
        """Runs tests/multi/discover.c to its end: exit status and lines."""
        status, out = Process(self.popen(DISCOVER, *actions, env=env, stdin=subprocess.DEVNULL, **options)).finish()
        return status, out.splitlines()

    def found(self, env, action="find"):
        """The result of mst_discover as a list, followed by the variables that it used."""
        status, lines = self.discover(action, env=env)
        self.assertEqual(status, 0, lines)
        values, *sources = lines[0].split(" | ")
        return values.replace("''", "-").replace("'", "").split()[1:], sources

    def refused(self, env, *parts, actions=("find",)):
        status, lines = self.discover(*actions, env=env)
        self.assertEqual(status, 1, lines)
        self.assertIn("MST_ERR_CONFIG", lines[-1])
        for part in parts:
            self.assertIn(part, lines[-1])


class Fixtures(DiscoveryTest):
    def test_each(self):
        self.assertGreaterEqual(len(FIXTURES), 20)
        for path in FIXTURES:
            with self.subTest(path.stem):
                self.assertIn("# Source: ", path.read_text())
                env, expect = read_fixture(path)
                values, sources = self.found(env)
                if expect[6] == "derived":
                    self.assertTrue(20000 <= int(values[6]) < 32768, values)
                    self.assertEqual(sources[5], "the job's number")
                    expect[6] = values[6]
                self.assertEqual(values, expect)
                for source in sources[:4]:
                    self.assertTrue(source in env or " " in source, source)

    def test_tool_prints_the_same(self):
        for path in FIXTURES:
            with self.subTest(path.stem):
                env, expect = read_fixture(path)
                status, out = self.run_tool("info", "--json", env=env)
                self.assertEqual(status, 0)
                shown = json.loads(out)["discovery"]
                self.assertEqual(shown["launcher"], expect[0])
                self.assertEqual([str(shown[n]) for n in ("rank", "world_size", "local_rank", "local_size")], expect[1:5])
                self.assertEqual(shown.get("master_addr", "-"), expect[5])
                values, sources = self.found(env)
                self.assertEqual(list(shown["from"].values()), sources)
                for name, value in shown["variables"].items():
                    self.assertEqual(env[name], value)
                if expect[0] != "none":
                    self.assertIn(shown["from"]["rank"], shown["variables"])

    def test_tool_prints_text(self):
        env, _ = read_fixture(LAUNCHERS / "slurm.env")
        _, out = self.run_tool("info", env=env)
        self.assertRegex(out, r"started by +Slurm's srun\n")
        self.assertRegex(out, r"rank +\d of \d+ \(SLURM_PROCID, SLURM_STEP_NUM_TASKS\)")

    def test_explicit_master_wins(self):
        for path in FIXTURES:
            env, expect = read_fixture(path)
            if expect[0] == "none":
                continue
            with self.subTest(path.stem):
                values, sources = self.found({**env, "MASTER_ADDR": "10.9.8.7", "MASTER_PORT": "4321"})
                self.assertEqual(values[5:], ["10.9.8.7", "4321"])
                self.assertEqual(sources[4:], ["MASTER_ADDR", "MASTER_PORT"])

    def test_disabled(self):
        for path in FIXTURES:
            env, expect = read_fixture(path)
            if expect[0] in ("torchrun", "env") or path.stem in ("kubeflow", "kubernetes"):
                continue
            with self.subTest(path.stem):
                alone = ["none", "0", "1", "0", "1"]
                self.assertEqual(self.found(env, "find_alone")[0][:5], alone)
                self.assertEqual(self.found({**env, "MUSTER_DISCOVERY": "0"})[0][:5], alone)
                self.assertEqual(self.discover("init_alone", "destroy", env=env), (0, ["init 0 1 1"]))

    def test_clouds(self):
        for name, answer in (("azureml-node", "in 1 0 0"), ("sagemaker", "in 0 1 0"), ("azureml-dlts", "in 1 0 1")):
            env, _ = read_fixture(LAUNCHERS / f"{name}.env")
            self.assertEqual(self.discover("in", env=env)[1], [answer])

    def test_jobs_and_steps_have_different_ports(self):
        env, _ = read_fixture(LAUNCHERS / "slurm.env")
        ports = {
            self.found({**env, "SLURM_JOB_ID": job, "SLURM_STEP_ID": step})[0][6] for job in range(100, 110) for step in (0, 1)
        }
        self.assertGreaterEqual(len(ports), 19)

    def test_variables_are_set(self):
        env, _ = read_fixture(LAUNCHERS / "sagemaker-mpi.env")
        self.assertEqual(self.discover("find", "env", env=env)[1][1], "env - - - - - - -")
        self.assertEqual(self.discover("find_set", "env", env=env)[1][1], "env 9 16 1 8 algo-1 29500 -")
        env, _ = read_fixture(LAUNCHERS / "azureml-nodes.env")
        self.assertEqual(self.discover("find_set", "env", env=env)[1][1], "env 3 4 1 2 10.0.0.4 6105 ^docker0,lo")
        env["NCCL_SOCKET_IFNAME"] = "eth1"
        self.assertEqual(self.discover("find_set", "env", env=env)[1][1], "env 3 4 1 2 10.0.0.4 6105 eth1")


class Contradictions(DiscoveryTest):
    OMPI = {
        "OMPI_COMM_WORLD_RANK": 1, "OMPI_COMM_WORLD_SIZE": 4,
        "OMPI_COMM_WORLD_LOCAL_RANK": 1, "OMPI_COMM_WORLD_LOCAL_SIZE": 4,
    }  # fmt: skip

    def test_rank_beyond_the_world(self):
        self.refused({"RANK": 4, "WORLD_SIZE": 4}, "RANK=4", "WORLD_SIZE=4")
        self.refused({**self.OMPI, "OMPI_COMM_WORLD_RANK": 4}, "OMPI_COMM_WORLD_RANK=4", "OMPI_COMM_WORLD_SIZE=4")
        self.refused(
            {**self.OMPI, "OMPI_COMM_WORLD_LOCAL_RANK": 4}, "OMPI_COMM_WORLD_LOCAL_RANK=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4"
        )
        self.refused({**self.OMPI, "OMPI_COMM_WORLD_LOCAL_SIZE": 5}, "OMPI_COMM_WORLD_LOCAL_SIZE=5", "OMPI_COMM_WORLD_SIZE=4")

    def test_stale_variables_beside_a_launcher(self):
        listed = ("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "Open MPI")
        for actions in (("find",), ("init",), ("mpi=0",)):
            self.refused({**self.OMPI, "RANK": 0, "WORLD_SIZE": 4}, "RANK=0 WORLD_SIZE=4", *listed, actions=actions)
        self.refused({**self.OMPI, "RANK": 0, "WORLD_SIZE": 1}, "RANK=0 WORLD_SIZE=1", *listed)
        self.refused({**self.OMPI, "RANK": 0}, "RANK=0 contradicts OMPI_COMM_WORLD_RANK=1")
        self.refused({**self.OMPI, "WORLD_SIZE": 2}, "WORLD_SIZE=2 contradicts OMPI_COMM_WORLD_SIZE=4")

    def test_two_launchers(self):
        self.refused({**self.OMPI, "PMI_RANK": 0, "PMI_SIZE": 4}, "OMPI_COMM_WORLD_RANK=1", "PMI_RANK=0", "PMI_SIZE=4")

    def test_launchers_that_agree(self):
        values, sources = self.found({**self.OMPI, "RANK": 1, "WORLD_SIZE": 4, "OMPI_MCA_ess_base_jobid": "7"})
        self.assertEqual(values[:6], ["env", "1", "4", "1", "4", "127.0.0.1"])
        self.assertEqual(sources[3:5], ["OMPI_COMM_WORLD_LOCAL_SIZE", "all ranks are on this host"])

    def test_launchers_in_launchers(self):
        agent = {"RANK": 0, "WORLD_SIZE": 2, "TORCHELASTIC_RUN_ID": "x", "MASTER_ADDR": "h", "MASTER_PORT": 5}
        self.assertEqual(self.found({**self.OMPI, **agent})[0][:3], ["torchrun", "0", "2"])
        spawned = {"RANK": 5, "WORLD_SIZE": 8, "MASTER_ADDR": "h", "MASTER_PORT": 5}  # two from each of the four launchers
        self.assertEqual(self.found({**self.OMPI, **spawned})[0][:3], ["env", "5", "8"])

    def test_malformed(self):
        slurm, _ = read_fixture(LAUNCHERS / "slurm.env")
        for name, value in (
            ("SLURM_PROCID", "x"), ("SLURM_PROCID", "-1"), ("SLURM_STEP_NUM_TASKS", "0"), ("SLURM_NODEID", "9"),
            ("SLURM_STEP_TASKS_PER_NODE", "2(x"), ("SLURM_STEP_NODELIST", "n[01-"), ("SLURM_LOCALID", "99999999999"),
        ):  # fmt: skip
            with self.subTest(name=name, value=value):
                self.refused({**slurm, name: value}, value)
        sagemaker, _ = read_fixture(LAUNCHERS / "sagemaker.env")
        self.refused({**sagemaker, "SM_HOSTS": '["algo-1"'}, "SM_HOSTS")
        self.refused({**sagemaker, "SM_CURRENT_HOST": "algo-3"}, "SM_HOSTS", "algo-3")

    def test_malformed_but_not_needed(self):
        slurm, _ = read_fixture(LAUNCHERS / "slurm.env")
        broken = {**slurm, "SLURM_STEP_NODELIST": "n[01-"}
        self.assertEqual(self.found({**broken, "MASTER_ADDR": "n1"})[0][5], "n1")
        agent, _ = read_fixture(LAUNCHERS / "torchrun.env")
        self.assertEqual(self.found({**broken, "SLURM_PROCID": "x", **agent})[0][:3], ["torchrun", "3", "4"])

    def test_missing_variables_are_named(self):
        self.refused({"JOB_COMPLETION_INDEX": 1}, "Kubernetes indexed Job", "WORLD_SIZE", "JOB-0.SERVICE")
        self.refused({"JOB_COMPLETION_INDEX": 1, "WORLD_SIZE": 2}, "MASTER_ADDR", "JOB-0.SERVICE", actions=("init",))
        spans = {**self.OMPI, "OMPI_COMM_WORLD_LOCAL_SIZE": 2}
        self.refused(spans, "Open MPI", "MASTER_ADDR", "mpirun -x MASTER_ADDR=HOST", actions=("init",))
        self.refused(spans, "mpirun -x MASTER_ADDR=HOST", actions=("mpi=0",))
        self.refused({"PMI_RANK": 0, "PMI_SIZE": 2, "PMI_FD": 0}, "PMI_FD=0", "MASTER_ADDR", actions=("init",))


class Worlds(DiscoveryTest):
    """Ranks that have only the variables of one launcher."""

    def assert_world(self, envs, *actions):
        ranks = [Process(self.popen(DISCOVER, *(actions or ("init", "sum", "destroy")), env=env)) for env in envs]
        total = len(envs) * (len(envs) + 1) // 2
        for r, rank in enumerate(ranks):
            status, out = rank.finish()
            self.assertEqual(status, 0, out)
            self.assertIn(f"init {r} {len(envs)} 1\nsum {total}\n", out)
        self.assert_nothing_left()

    def template(self, name, size, **variables):
        env, _ = read_fixture(LAUNCHERS / f"{name}.env")
        return [{**env, **{key: value.format(r=r, n=size) for key, value in variables.items()}} for r in range(size)]

    def test_slurm(self):
        job = str(self.free_port() + 1000000)  # a job number that is unique on this machine
        self.assert_world(self.template(
            "slurm", 3, SLURM_JOB_ID=job, SLURM_PROCID="{r}", SLURM_NODEID="0", SLURM_LOCALID="{r}",
            SLURM_STEP_NUM_TASKS="{n}", SLURM_STEP_TASKS_PER_NODE="{n}", SLURM_STEP_NODELIST="n1"))  # fmt: skip

    def test_torchrun(self):
        port = str(self.free_port())
        self.assert_world(self.template(
            "torchrun", 3, RANK="{r}", WORLD_SIZE="{n}", LOCAL_RANK="{r}", LOCAL_WORLD_SIZE="{n}",
            MASTER_ADDR="127.0.0.1", MASTER_PORT=port))  # fmt: skip

    def test_kubernetes(self):
        port = str(self.free_port())
        self.assert_world(self.template(
            "kubernetes", 2, JOB_COMPLETION_INDEX="{r}", WORLD_SIZE="{n}", MASTER_ADDR="localhost", MASTER_PORT=port))  # fmt: skip

    def test_one_process_joins_two_worlds_in_sequence(self):
        port = str(self.free_port())
        envs = self.template("deepspeed", 2, RANK="{r}", WORLD_SIZE="{n}", LOCAL_RANK="{r}", LOCAL_SIZE="{n}",
                             MASTER_ADDR="127.0.0.1", MASTER_PORT=port)  # fmt: skip
        self.assert_world(envs, "init", "sum", "destroy", "init", "sum", "destroy")

    def test_two_jobs_in_one_store_are_separate(self):
        """Jobs with different numbers may share a port: each has its own keys."""
        _, port = self.serve()
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
        shape = {"SLURM_PROCID": "{r}", "SLURM_NODEID": "0", "SLURM_LOCALID": "{r}", "SLURM_STEP_NUM_TASKS": "{n}"}
        shape["SLURM_STEP_TASKS_PER_NODE"] = "{n}"
        first, second = (
            [{**env, **common, "TORCHELASTIC_RUN_ID": job} for env in self.template("slurm", 2, SLURM_JOB_ID=job, **shape)]
            for job in ("1", "2")
        )
        ranks = [Process(self.popen(DISCOVER, "init", "sum", "destroy", env=env)) for env in (*first, *second)]
        for rank in ranks:
            status, out = rank.finish()
            self.assertEqual(status, 0, out)
            self.assertIn("sum 3\n", out)

    def test_verbose_line(self):
        env = self.template("openmpi-5", 1, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1",
                            OMPI_COMM_WORLD_LOCAL_RANK="0", OMPI_COMM_WORLD_LOCAL_SIZE="1")[0]  # fmt: skip
        for actions, lines in ((("init_loud",), 1), (("init",), 0), (("mpi=0",), 1), (("find",), 0)):
            process = self.popen(DISCOVER, *actions, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            _, err = process.communicate(timeout=DEADLINE)
            self.assertEqual(err.decode().count("\n"), lines, err)
            if lines:
                self.assertIn(b"discovered Open MPI: world_rank=0, local_rank=0, world_size=1", err)

    def test_mpi_discovery_sets_the_variables(self):
        env = self.template("openmpi-5", 1)[0]
        self.assertEqual(self.discover("mpi=0", "env", env=env, stderr=subprocess.DEVNULL)[1][0][:20], "env 1 2 1 2 127.0.0.")
        quiet = {"env": env, "stderr": subprocess.DEVNULL}
        self.assertEqual(self.discover("mpi=4242", "env", **quiet)[1], ["env 1 2 1 2 127.0.0.1 4242 -"])
        alone = {"stderr": subprocess.DEVNULL}
        self.assertEqual(self.discover("mpi=0", "env", "init", "destroy", **alone)[1], ["env 0 1 0 1 127.0.0.1 29500 -", "init 0 1 1"])
        self.assertIn("MST_ERR_INVALID", self.discover("mpi=65536")[1][0])

    def test_port_in_use_is_reported(self):
        _, port = self.serve()
        env = self.template("openmpi-5", 2, OMPI_COMM_WORLD_RANK="{r}", OMPI_COMM_WORLD_LOCAL_RANK="{r}", MASTER_PORT=str(port))[0]
        status, lines = self.discover("init", env=env)
        self.assertEqual(status, 1)
        self.assertIn("MST_ERR_PORT_TAKEN", lines[0])
        self.assertIn("MASTER_PORT", lines[0])


if __name__ == "__main__":
    main()
