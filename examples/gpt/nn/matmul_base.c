/* matmul_base.c - tiles for the baseline: 24 of NEON's 32 registers hold sums, 12 of SSE2's 16. */
#define KERNEL    base
#define LANES     4
#define TILE_ROWS 6
#ifdef __aarch64__
#define TILE_VECTORS 4
#else
#define TILE_VECTORS 2
#endif
#include "nn/matmul_kernel.h"
