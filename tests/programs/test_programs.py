"""The programs of users on one machine: with the launcher, on simulated hosts, and without the launcher."""

from harness import SANITIZED, main
from programs_kit import (
    DIRECTORY,
    NAMES,
    ONE_HOST,
    SEVERAL_HOSTS,
    ProgramsTest,
    add_tests,
    run_command,
    with_simulated_hosts,
)

# The call whose data is falsified, for each program.
CORRUPTED = {
    "jacobi": "isend",
    "mesh_matmul": "all_reduce",
    "parameter_server": "recv",
    "ring_pipeline": "isend",
    "sample_sort": "all_to_all_single",
    "sgd": "all_reduce",
}


@add_tests(ONE_HOST)
class OneHost(ProgramsTest):
    def start_job(self, command, hosts):
        return [self.start(*run_command(len(hosts), command))]


@add_tests(SEVERAL_HOSTS)
class SimulatedHosts(ProgramsTest):
    def start_job(self, command, hosts):
        return [self.start(*run_command(len(hosts), with_simulated_hosts(command, hosts)))]


@add_tests(ONE_HOST)
class WithoutLauncher(ProgramsTest):
    """The variables of torch's env:// are all that the ranks know."""

    def start_job(self, command, hosts):
        place = {"WORLD_SIZE": len(hosts), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port()}
        return [self.start(*command, env={**place, "RANK": rank}) for rank in range(len(hosts))]


class WrongResults(ProgramsTest):
    """A program that gets falsified data fails: its checks are effective."""

    def test_each_program(self):
        if SANITIZED:
            self.skipTest("a sanitizer must be the first library")
        self.assertEqual(sorted(CORRUPTED), NAMES)
        for name, call in CORRUPTED.items():
            with self.subTest(name), self.ended():
                env = {"LD_PRELOAD": DIRECTORY / "corrupt.so", "CORRUPT": call}
                statuses, out = self.finish([self.start(*run_command(4, [DIRECTORY / name]), env=env)])
                self.assertEqual(statuses, [1], out)
                self.assertRegex(out, r"rank \d: wrong result: ")
                self.assertNotIn(f"{name}: ok", out)
                self.assert_nothing_left()


if __name__ == "__main__":
    main()
