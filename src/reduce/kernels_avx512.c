/* kernels_avx512.c - for x86-64 processors with AVX-512 F, BW, DQ and VL. */
#include "reduce/variants.h"

#ifdef MSI_AVX512
#define VARIANT avx512
#define WIDTH   64
#include "reduce/kernels.inc"
#endif
