/* matmul_avx512.c - tiles for AVX-512: 24 of 32 registers hold sums. */
#ifdef __x86_64__
#define KERNEL       avx512
#define LANES        16
#define TILE_ROWS    8
#define TILE_VECTORS 3
#include "nn/matmul_kernel.h"
#else
typedef int nothing_here;
#endif
