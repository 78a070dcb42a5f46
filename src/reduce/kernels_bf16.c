/* kernels_bf16.c - for ARM processors with FP16, FHM and BF16 instructions. */
#include "reduce/variants.h"

#ifdef __aarch64__
#define VARIANT bf16
#define WIDTH   16
#include "reduce/kernels.inc"
#endif
