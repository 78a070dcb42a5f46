/* kernels_avx512fp16.c - for x86-64 processors with AVX-512 and AVX512-FP16. */
#include "reduce/variants.h"

#ifdef MSI_AVX512FP16
#define VARIANT avx512fp16
#define WIDTH   64
#include "reduce/kernels.inc"
#endif
