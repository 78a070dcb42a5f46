/* nproc.h - how many ranks to start: a number, or the processors or devices of the host. */
#ifndef MUSTER_TOOL_RUN_RANKS_NPROC_H
#define MUSTER_TOOL_RUN_RANKS_NPROC_H

#include <muster/status.h>

enum { NPROC_MAX = 16384 };

/*
 * Reads a number from 1 to NPROC_MAX, or counts: "cpu" the processors that this process may use, "gpu" the
 * NVIDIA devices that CUDA_VISIBLE_DEVICES allows, "auto" the devices, or the processors if there are no
 * devices.
 */
mst_status nproc_read(const char *text, int *n);

/* How many devices dir (/dev) has and visible, the value of CUDA_VISIBLE_DEVICES or NULL, allows. */
int nproc_gpus(const char *dir, const char *visible);

#endif
