/* matmul_avx2.c - tiles for AVX2 and FMA: 12 of 16 registers hold sums. */
#ifdef __x86_64__
#define KERNEL       avx2
#define LANES        8
#define TILE_ROWS    6
#define TILE_VECTORS 2
#include "nn/matmul_kernel.h"
#else
typedef int nothing_here;
#endif
