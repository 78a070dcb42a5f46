/* nproc.h - how many ranks to start, from a number or from what the host has. */
#ifndef MUSTER_TOOL_RUN_RANKS_NPROC_H
#define MUSTER_TOOL_RUN_RANKS_NPROC_H

#include <stddef.h>

enum { NPROC_MAX = 16384 };

/*
 * Reads a number from 1 to NPROC_MAX, or counts: "cpu" the processors that this process may use, "gpu" the
 * NVIDIA devices that CUDA_VISIBLE_DEVICES leaves, "auto" the devices, or the processors where there are
 * none. 0, or -1 with why set.
 */
int nproc_read(const char *text, int *n, char *why, size_t why_size);

/* How many devices dir, which is /dev, has and visible, the value of CUDA_VISIBLE_DEVICES or NULL, leaves. */
int nproc_gpus(const char *dir, const char *visible);

#endif
