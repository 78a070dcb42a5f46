/* load.h - NCCL and the CUDA runtime, loaded once and never unloaded. */
#ifndef MNC_LOAD_H
#define MNC_LOAD_H

#include "abi.h"

#include <stdbool.h>

#define MNC_FIELD(result, name, parameters) result(*name) parameters;
extern struct mnc_nccl { MNC_NCCL_CALLS(MNC_FIELD, mnc_id, mnc_config) } mnc_nccl;
extern struct mnc_cuda { MNC_CUDA_CALLS(MNC_FIELD) } mnc_cuda;
#undef MNC_FIELD

/* What mnc_probe has found. */
extern struct mnc_found {
    int nccl, runtime, driver; /* versions, as the libraries number them */
    int devices, capability;   /* capability: the major number of device 0 */
} mnc_found;

/* The probe slot. */
bool mnc_probe(char *text, size_t size);

#endif
