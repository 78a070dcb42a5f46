/* device.h - buffers on a GPU for the ranks of "muster bench". Loads the CUDA runtime on demand. */
#ifndef MUSTER_TOOL_BENCH_DEVICE_H
#define MUSTER_TOOL_BENCH_DEVICE_H

#include <muster/status.h>
#include <stddef.h>

/* Loads the CUDA runtime and selects the device of this rank. Call it first. */
mst_status device_open(int local_rank);

void *device_alloc(size_t bytes); /* NULL: out of memory */
void device_free(void *memory);
/*
 * Copies between host and device in either direction after all earlier work. Aborts on failure. Returns to.
 */
void *device_copy(void *to, const void *from, size_t bytes);

#endif
