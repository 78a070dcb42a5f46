/* kernels_avx2.c - for x86-64 processors with AVX2 and F16C. */
#include "reduce/variants.h"

#ifdef __x86_64__
#define VARIANT avx2
#define WIDTH   32
#include "reduce/kernels.inc"
#endif
