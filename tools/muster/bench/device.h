/* device.h - buffers on a GPU for the ranks of "muster bench", through a CUDA runtime that is loaded when it is needed. */
#ifndef MUSTER_TOOL_BENCH_DEVICE_H
#define MUSTER_TOOL_BENCH_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* Chooses the device of this rank; false with the reason. Before the others. */
bool device_open(int local_rank, char *why, size_t size);

void *device_alloc(size_t bytes); /* NULL: there is none */
void device_free(void *memory);
/* Between host and device in either direction, behind all that was begun before; ends the process if it fails. Returns to. */
void *device_copy(void *to, const void *from, size_t bytes);

#endif
