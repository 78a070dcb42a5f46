/* kernels_avx512fp16.c - for x86-64 processors with AVX-512 that add f16 as they are, too. */
#include "reduce/variants.h"

#ifdef MSI_AVX512FP16
#define VARIANT avx512fp16
#define WIDTH   64
#include "reduce/kernels.inc"
#endif
