/*
 * matmul_kernel.h - one tile of a product, compiled once for each instruction set: a file sets KERNEL to its name,
 * LANES, TILE_ROWS and TILE_VECTORS (the tile fills most of the vector registers) and includes this.
 *
 * Both factors come packed: for each of k steps TILE_ROWS elements of A and TILE_COLUMNS of B.
 */
#include "matmul_set.h"

#include <string.h>

#define TILE_COLUMNS     (TILE_VECTORS * LANES)
#define JOIN_AGAIN(a, b) a##b
#define JOIN(a, b)       JOIN_AGAIN(a, b)
#define UNROLLED         _Pragma("GCC unroll 16")

typedef float lanes __attribute__((vector_size(4 * LANES)));

static inline lanes load(const float *from) {
    lanes v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* C += A B for a whole tile; with `fresh`, C = A B. */
static void tile(size_t k, const float *restrict a, const float *restrict b, float *restrict c, size_t stride,
                 bool fresh) {
    lanes sum[TILE_ROWS][TILE_VECTORS];
    UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] =
        fresh ? (lanes){0} : load(c + (size_t)i * stride + (size_t)j * LANES);
    for (; k; k--, a += TILE_ROWS, b += TILE_COLUMNS) {
        lanes row[TILE_VECTORS];
        UNROLLED for (int j = 0; j < TILE_VECTORS; j++) row[j] = load(b + (size_t)j * LANES);
        UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++)
            sum[i][j] += a[i] * row[j];
    }
    UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++)
        memcpy(c + (size_t)i * stride + (size_t)j * LANES, &sum[i][j], sizeof(lanes));
}

/* One row times an unpacked B, four vectors of columns at a time, in the order of the tile. */
static void row(size_t n, size_t k, const float *restrict a, const float *restrict b, size_t stride,
                float *restrict c, bool fresh) {
    enum { WIDE = 4 * LANES };
    size_t j = 0;
    for (; j + WIDE <= n; j += WIDE) {
        lanes sum[4];
        UNROLLED for (int v = 0; v < 4; v++) sum[v] = fresh ? (lanes){0} : load(c + j + (size_t)v * LANES);
        for (size_t p = 0; p < k; p++)
            UNROLLED for (int v = 0; v < 4; v++) sum[v] +=
                a[p] * load(b + p * stride + j + (size_t)v * LANES);
        UNROLLED for (int v = 0; v < 4; v++) memcpy(c + j + (size_t)v * LANES, &sum[v], sizeof(lanes));
    }
    for (; j < n; j++) {
        float sum = fresh ? 0 : c[j];
        for (size_t p = 0; p < k; p++) sum += a[p] * b[p * stride + j];
        c[j] = sum;
    }
}

/* As many chains of multiply-adds as a tile has, with nothing to load; of equal chains the compiler would keep one. */
static double peak(size_t rounds) {
    lanes sum[TILE_ROWS][TILE_VECTORS], by = {rounds > 1 ? 1e-20f : 1};
    UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] =
        (lanes){(float)(i * TILE_VECTORS + j)};
    for (size_t r = 0; r < rounds; r++)
        UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++)
            sum[i][j] += sum[i][j] * by;
    float all = 0; /* what nobody reads the compiler would leave out */
    UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++) all +=
        sum[i][j][0];
    return all >= 0 ? 2.0 * TILE_ROWS * TILE_COLUMNS * (double)rounds : 0;
}

const struct matmul_set JOIN(gpt_matmul_, KERNEL) = {
    .rows = TILE_ROWS, .columns = TILE_COLUMNS, .tile = tile, .row = row, .peak = peak};
