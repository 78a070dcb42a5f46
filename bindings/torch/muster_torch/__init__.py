"""muster as a backend of torch.distributed: init_process_group("muster").

torch before 2.15 calls register() at the end of its own import, also if that import is the one below. So torch is imported after the functions.
"""

import atexit
import functools
import math


@functools.cache
def _extension():
    """The compiled part. Loaded when a process group is made, so that one for another torch does no harm before."""
    from . import _C

    atexit.register(_C.begin_exit)
    return _C


def _create(options, _backend_options=None):
    """Creates the backend of a process group; PyTorch calls it."""
    size = options.group_size
    ranks = list(options.global_ranks_in_group)  # of the default group: none
    timeout_ms = max(1, min(int(options.timeout.total_seconds() * 1000), 2**31 - 1))  # 0 would stand for the default
    waits = getattr(options, "enable_reconfigure", False)
    return _extension().create(
        options.store, options.group_rank, size, timeout_ms, options.group_id, ranks or list(range(size)), not ranks, waits
    )  # fmt: skip


def register():
    """Adds the backend "muster". Importing this module does it, and torch itself where this package is installed; more calls do nothing."""
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, "MUSTER"):
        dist.Backend.register_backend("muster", _create, extended_api=True, devices=["cpu", "cuda"])


def empty(*size, dtype=None, group=None):
    """A tensor of zeros in memory that the other ranks of the host access in place, which spares copies in collectives.

    For large tensors that are used often, such as gradients. Each has a file descriptor. The group's backend is muster; default: all ranks.
    """
    shape = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    backend = (group or torch.distributed.group.WORLD)._get_backend(torch.device("cpu"))
    return backend.allocate_tensor(math.prod(shape), dtype=dtype or torch.get_default_dtype(), device=torch.device("cpu")).view(shape)


import torch  # noqa: E402

register()
