"""The programs of users on two hosts, each in a network namespace of its own."""

import test_netns
from harness import main
from programs_kit import TWO_HOSTS, ProgramsTest, add_tests, run_command

ADDRESS = "10.77.0.1"
LAUNCHERS_PORT = 29400


@add_tests(TWO_HOSTS)
class WithoutLauncher(ProgramsTest, test_netns.NetnsTest):
    def start_job(self, command, hosts):
        place = {"WORLD_SIZE": len(hosts), "MASTER_ADDR": ADDRESS, "MASTER_PORT": test_netns.PORT}
        return [
            self.start(*self.spaces.inside(host), *command, env={**place, "RANK": rank, "MUSTER_FORCE_HOST": host})
            for rank, host in enumerate(hosts)
        ]


@add_tests(("ab", "aabb", "aaaabbbb"))
class WithLaunchers(ProgramsTest, test_netns.NetnsTest):
    """One launcher on each host."""

    def start_job(self, command, hosts):
        options = ["--nnodes", 2, "--rdzv-endpoint", f"{ADDRESS}:{LAUNCHERS_PORT}"]
        launcher = run_command(len(hosts) // 2, [*options, *command])
        return [
            self.start(*self.spaces.inside(host), *launcher, env={"MUSTER_FORCE_HOST": host}) for host in "ab"
        ]


if __name__ == "__main__":
    main()
