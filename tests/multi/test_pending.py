"""A correct program whose rank 0 is ahead: all ranks reject the same calls, and rank 0 leaves barriers."""

from harness import MUSTER, PROGRAMS, RanksTest, main

PENDING = PROGRAMS / "pending"
CASES = ("first_calls", "behind_works", "deadlines", "left_barriers", "monitored", "many_signatures", "first_barrier")
LAYOUTS = ("aa", "aaa", "ab", "abc", "aabb")  # the simulated host of each rank
LIMIT = 120.0  # seconds for one run; reached only when something is wrong


class Pending(RanksTest):
    def finish(self, processes):
        for process in processes:
            out = process.communicate(timeout=LIMIT)[0].decode(errors="replace")
            self.assertEqual(process.returncode, 0, out)

    def run_case(self, case):
        for hosts in LAYOUTS:
            with self.subTest(hosts=hosts):
                pick = " ".join(f"{rank}) host={host};;" for rank, host in enumerate(hosts))
                script = f'case $RANK in {pick} esac; MUSTER_FORCE_HOST=$host exec "$0" "$@"'
                run = [MUSTER, "run", "-n", len(hosts), "sh", "-c", script, PENDING, case]
                self.finish([self.popen(*run)])
        with self.subTest(hosts="abc", launcher=False):
            place = {"WORLD_SIZE": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.free_port()}
            places = [{**place, "RANK": rank, "MUSTER_FORCE_HOST": host} for rank, host in enumerate("abc")]
            self.finish([self.popen(PENDING, case, env=env) for env in places])
        self.assert_nothing_left()


def add_test(case):
    setattr(Pending, f"test_{case}", lambda self: self.run_case(case))


for name in CASES:
    add_test(name)


if __name__ == "__main__":
    main()
