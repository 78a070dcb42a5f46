/* kernels_neon.c - for every 64-bit ARM processor. */
#include "reduce/variants.h"

#ifdef __aarch64__
#define VARIANT neon
#define WIDTH   16
#include "reduce/kernels.inc"
#endif
