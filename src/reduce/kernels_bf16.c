/* kernels_bf16.c - for ARM processors that add halves and round to bf16 in hardware. */
#include "reduce/variants.h"

#ifdef __aarch64__
#define VARIANT bf16
#define WIDTH   16
#include "reduce/kernels.inc"
#endif
