"""The failures of test_torch_faults.py between simulated hosts."""

import test_torch_faults
from torch_backends import run


class SimulatedHostsTest(test_torch_faults.FaultsTest):
    hosts = "abc"


if __name__ == "__main__":
    run()
