"""muster as a backend of torch.distributed: import muster_torch; init_process_group("muster")."""

import atexit
import math

import torch
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


def empty(*size, dtype=None, group=None):
    """A tensor of zeros in memory that the other ranks of the host access in place, which spares copies in collectives.

    For large tensors that are used often, such as gradients. Each has a file descriptor. The group's backend is muster; default: all ranks.
    """
    shape = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    backend = (group or dist.group.WORLD)._get_backend(torch.device("cpu"))
    return backend.allocate_tensor(math.prod(shape), dtype=dtype or torch.get_default_dtype(), device=torch.device("cpu")).view(shape)


register()
