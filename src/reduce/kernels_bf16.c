/* kernels_bf16.c - for ARM processors that add f16 and bf16, alone and to f32, and round to bf16. */
#include "reduce/variants.h"

#ifdef __aarch64__
#define VARIANT bf16
#define WIDTH   16
#include "reduce/kernels.inc"
#endif
