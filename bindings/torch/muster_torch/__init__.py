"""muster as a backend of torch.distributed: import muster_torch; init_process_group("muster")."""

import atexit

import torch.distributed as dist

from . import _C

__version__ = _C.version()


def _create(options, _backend_options=None):
    """Creates the backend of a process group; PyTorch calls it."""
    size = options.group_size
    ranks = list(options.global_ranks_in_group)  # of the default group: none
    timeout_ms = min(int(options.timeout.total_seconds() * 1000), 2**31 - 1)
    return _C.create(options.store, options.group_rank, size, timeout_ms, options.group_id, ranks or list(range(size)), not ranks)


def register():
    """Adds the backend "muster". Importing this module does it; more calls do nothing."""
    if not hasattr(dist.Backend, "MUSTER"):
        dist.Backend.register_backend("muster", _create, extended_api=True, devices=["cpu"])
        atexit.register(_C.begin_exit)


register()
