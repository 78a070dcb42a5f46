"""A script of torch.distributed runs under muster run as it does under torchrun, restarts included."""

import socket
import subprocess
import sys
import tempfile
import unittest

from harness import DEADLINE, ToolTest, lines_of

SCRIPT = """
import datetime, os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=40))
rank, size = dist.get_rank(), dist.get_world_size()
assert rank == int(os.environ["RANK"]) and size == int(os.environ["WORLD_SIZE"])
tensor = torch.full((1000,), float(rank + 1))
dist.all_reduce(tensor)
print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], "sum", tensor[999].item(), flush=True)
if len(sys.argv) > 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] < sys.argv[1] and rank == 1:
    sys.exit(3)
dist.barrier()
dist.destroy_process_group()
"""


def why_not():
    """The reason why this Python cannot run the script; empty if it can."""
    check = "import torch.distributed as d, sys; sys.exit(0 if d.is_available() else 'it has no torch.distributed')"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, timeout=DEADLINE, check=False)
    return "" if result.returncode == 0 else result.stderr.decode().strip().rsplit("\n", 1)[-1]


REASON = why_not()


@unittest.skipIf(REASON, f"{sys.executable} cannot: {REASON}")
class Torch(ToolTest):
    def script(self, *words, options=()):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(SCRIPT)
            file.flush()
            rc, out, err = self.muster("run", "--open-store", "-n", 2, *options, sys.executable, file.name, *words)
        return rc, sorted(lines_of(out)), err.decode()

    def test_gloo(self):
        rc, out, err = self.script()
        self.assertEqual((rc, out), (0, ["[0] attempt 0 sum 3.0", "[1] attempt 0 sum 3.0"]), err)

    def test_restarts_meet_in_the_same_store(self):
        rc, out, err = self.script("1", options=("--max-restarts", 2))
        self.assertEqual(rc, 0, err)
        self.assertEqual(out, [f"[{r}] attempt {a} sum 3.0" for r in range(2) for a in range(2)])
        self.assertEqual(err.count("root cause"), 1)

    def test_two_nodes_through_a_restart(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(SCRIPT)
            file.flush()
            place = ("--open-store", "--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{port}", "--max-restarts", 1)
            nodes = [self.popen("run", *place, sys.executable, file.name, "1") for _ in range(2)]
            results = [node.communicate(timeout=DEADLINE) for node in nodes]
        self.assertEqual([node.returncode for node in nodes], [0, 0], results)
        lines = sorted(line for out, _ in results for line in lines_of(out))
        self.assertEqual(lines, [f"[{r}] attempt {a} sum 3.0" for r in range(2) for a in range(2)])


if __name__ == "__main__":
    unittest.main()
