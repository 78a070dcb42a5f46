/* module.c - the table of the backend "nccl". */
#include "engine.h"

static const mst_backend table = {
    .version = MST_BACKEND_VERSION,
    .size = sizeof table,
    .name = "nccl",
    .title = "NVIDIA's NCCL, on GPUs",
    .probe = mnc_probe,
    .rows = mnc_capabilities,
    .open = mnc_open,
    .submit = mnc_submit,
    .progress = mnc_progress,
    .abort = mnc_abort,
    .close = mnc_close,
    .memory_of = mnc_memory_of,
    .alloc = mnc_alloc,
    .release = mnc_release,
    .copy = mnc_copy,
    .group_begin = mnc_group_begin,
    .group_end = mnc_group_end,
    .elapsed = mnc_elapsed,
};

__attribute__((visibility("default"))) const mst_backend *mst_backend_module(unsigned version) {
    return version == MST_BACKEND_VERSION ? &table : NULL;
}
