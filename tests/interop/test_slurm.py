"""Programs under a real Slurm: munged, slurmctld and slurmd of this test's own, on loopback, in a directory of its own."""

import ctypes
import os
import pathlib
import re
import shutil
import socket
import subprocess
import unittest

from harness import BUILD, PROGRAMS, Process, RanksTest, listens, main, wait_until

DISCOVER = PROGRAMS / "discover"
EXAMPLE = BUILD / "bin/examples/05_data_parallel"
DAEMONS = ("munged", "slurmctld", "slurmd")

CONF = """ClusterName=muster
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.sock
SlurmctldPort={controller}
SlurmdPort={daemon}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:8 MaxTime=5 State=UP
"""


class Slurm(RanksTest):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root to run slurmd")
        for tool in (*DAEMONS, "srun", "sbatch", "sinfo"):
            if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin"):
                raise unittest.SkipTest(f"{tool} is not installed (Debian: slurm-wlm, munge)")
        PR_SET_CHILD_SUBREAPER = 36  # slurmd leaves its step daemons to whoever takes orphans: here, this process
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)  # munge wants to be sure that nobody else can write there, not that none can read
        for name in ("state", "spool"):
            os.mkdir(self.path(name))
        pathlib.Path(self.path("munge.key")).write_bytes(os.urandom(64))
        os.chmod(self.path("munge.key"), 0o600)
        self.host = socket.gethostname().split(".")[0]
        conf = CONF.format(
            host=self.host, directory=self.directory, cpus=os.cpu_count(), controller=self.free_port(), daemon=self.free_port()
        )
        pathlib.Path(self.path("slurm.conf")).write_text(conf)
        for holder in self.reserved:
            holder.close()
        self.start_daemons()

    def daemon(self, name, *arguments):
        with open(self.path(f"{name}.log"), "wb") as log:
            program = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
            env = {"SLURM_CONF": self.path("slurm.conf")}
            return self.popen(program, *arguments, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_daemons(self):
        sock, conf = self.path("munge.sock"), self.path("slurm.conf")
        files = [f"--{kind}-file={self.path('munge.' + kind)}" for kind in ("key", "pid", "log", "seed")]
        self.daemon("munged", "-F", f"--socket={sock}", *files)
        wait_until(lambda: os.path.exists(sock), "munged listens")
        self.daemon("slurmctld", "-D", "-f", conf)
        self.daemon("slurmd", "-D", "-f", conf)
        wait_until(lambda: "idle" in self.command("sinfo", "-h", "-o", "%T")[1], "the node is idle")

    def start(self, *command, env=None):
        env = {"SLURM_CONF": self.path("slurm.conf"), **(env or {})}
        return Process(self.popen(*command, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT))

    def command(self, *command, **options):
        return self.start(*command, **options).finish()

    def srun(self, n, *command, **options):
        status, out = self.command("srun", "--overcommit", "-n", n, *command, **options)
        self.assertEqual(status, 0, out)
        return out.splitlines()

    def tearDown(self):
        for process in reversed(self.processes[:3]):  # slurmd, slurmctld, munged
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        ports = self.ports
        super().tearDown()
        wait_until(self.no_child_left, "no child is left", 10)
        wait_until(lambda: not any(map(listens, ports)), "no port is left", 10)

    @staticmethod
    def no_child_left():
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        return False

    def test_srun(self):
        models = [line for line in self.srun(4, EXAMPLE) if "my model" in line]
        self.assertEqual(len(models), 4)
        self.assertEqual(len({line.split("my model")[1] for line in models}), 1)
        lines = self.srun(3, DISCOVER, "find", "init", "sum", "destroy")
        for r in range(3):
            self.assertIn(f"init {r} 3 1", lines)
            self.assertEqual(sum(line.startswith(f"find slurm {r} 3 {r} 3 '127.0.0.1' ") for line in lines), 1, lines)
        self.assertEqual(lines.count("sum 6"), 3)
        self.steps_at_the_same_time()
        self.batch()
        self.pmi2()

    def steps_at_the_same_time(self):
        jobs = [self.start("srun", "--overcommit", "-n", 2, DISCOVER, "init", *["sum"] * 200, "destroy") for _ in range(3)]
        for job in jobs:
            status, out = job.finish()
            self.assertEqual(status, 0, out)
            self.assertEqual(out.splitlines().count("sum 3"), 400, out)

    def batch(self):
        """In the script itself nobody was launched; its two steps, at the same time, are two worlds."""
        script, out = self.path("script"), self.path("out")
        step = f"srun --overcommit --overlap -n 2 {DISCOVER} find init sum destroy"
        pathlib.Path(script).write_text(f"#!/bin/sh\n{DISCOVER} find init destroy\n{step} &\n{step} &\nwait\n")
        status, said = self.command("sbatch", "--wait", "--overcommit", "-n", 2, "-o", out, script)
        text = pathlib.Path(out).read_text()
        self.assertEqual(status, 0, said + text)
        lines = text.splitlines()
        self.assertRegex(lines[0], "^find none 0 1 0 1 ")
        self.assertEqual(lines[1], "init 0 1 1")
        self.assertEqual(lines.count("sum 3"), 4, text)
        self.assertEqual(len(set(re.findall(r"'127\.0\.0\.1' (\d+)", text))), 2, text)

    def pmi2(self):
        """Slurm's own PMI is not asked: Slurm's variables say more."""
        lines = self.srun(2, "--mpi=pmi2", DISCOVER, "find", "init", "sum", "destroy")
        self.assertEqual(lines.count("sum 3"), 2, lines)
        self.assertEqual(sum(line.startswith("find slurm ") for line in lines), 2, lines)


if __name__ == "__main__":
    main()
