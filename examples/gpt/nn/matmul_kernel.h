/*
 * matmul_kernel.h - the kernels of a product, compiled once for each instruction set: a file defines KERNEL
 * as its name, LANES, TILE_ROWS and TILE_VECTORS (a tile fills most of the vector registers) and includes
 * this file.
 *
 * A tile reads packed factors: TILE_ROWS elements of A and TILE_COLUMNS elements of B for each of k steps.
 */
#include "nn/matmul_isa.h"

#include <string.h>

#define TILE_COLUMNS     (TILE_VECTORS * LANES)
#define STRIP_ROWS       2
#define STRIP_STEPS      (TILE_ROWS * TILE_VECTORS < 24 ? 4 : 8) /* depends on the number of registers */
#define JOIN_AGAIN(a, b) a##b
#define JOIN(a, b)       JOIN_AGAIN(a, b)
#define UNROLLED         _Pragma("GCC unroll 16")

typedef float lanes __attribute__((vector_size(4 * LANES)));

static inline lanes load(const float *from) {
    lanes v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* C += A B for a whole tile; with `overwrite`, C = A B. */
static void tile(size_t k, const float *restrict a, const float *restrict b, float *restrict c, size_t stride,
                 bool overwrite) {
    lanes sum[TILE_ROWS][TILE_VECTORS];
    UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] =
        overwrite ? (lanes){0} : load(c + (size_t)i * stride + (size_t)j * LANES);
    for (; k; k--, a += TILE_ROWS, b += TILE_COLUMNS) {
        lanes row[TILE_VECTORS];
        UNROLLED for (int j = 0; j < TILE_VECTORS; j++) row[j] = load(b + (size_t)j * LANES);
        UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++)
            sum[i][j] += a[i] * row[j];
    }
    UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++)
        memcpy(c + (size_t)i * stride + (size_t)j * LANES, &sum[i][j], sizeof(lanes));
}

/*
 * C += A B, or with `overwrite` C = A B, for `high` rows and `deep` steps, which are constants after
 * inlining.
 */
static inline __attribute__((always_inline)) void strip(int high, int deep, size_t n, struct gpt_matrix a,
                                                        struct gpt_matrix b, float *restrict c, size_t stride,
                                                        bool overwrite) {
    float by[STRIP_ROWS][STRIP_STEPS];
    size_t j = 0;
    for (int i = 0; i < high; i++)
        for (int p = 0; p < deep; p++) by[i][p] = a.data[(size_t)i * a.stride + (size_t)p];
    for (; j + LANES <= n; j += LANES) {
        lanes sum[STRIP_ROWS];
        UNROLLED for (int i = 0; i < high; i++) sum[i] =
            overwrite ? (lanes){0} : load(c + (size_t)i * stride + j);
        UNROLLED for (int p = 0; p < deep; p++) {
            lanes row = load(b.data + (size_t)p * b.stride + j);
            UNROLLED for (int i = 0; i < high; i++) sum[i] += by[i][p] * row;
        }
        UNROLLED for (int i = 0; i < high; i++) memcpy(c + (size_t)i * stride + j, &sum[i], sizeof(lanes));
    }
    for (; j < n; j++)
        for (int i = 0; i < high; i++) {
            float sum = overwrite ? 0 : c[(size_t)i * stride + j];
            for (int p = 0; p < deep; p++) sum += by[i][p] * b.data[(size_t)p * b.stride + j];
            c[(size_t)i * stride + j] = sum;
        }
}

/*
 * A product with few rows, neither factor transposed, in the summation order of tile(). B is read once, so
 * packing it would take longer than the product. Reads a few rows of B in parallel from left to right, which
 * suits the prefetchers.
 */
static void few_rows(size_t m, size_t n, size_t k, struct gpt_matrix a, struct gpt_matrix b, float *c,
                     size_t stride, bool overwrite) {
    for (size_t p = 0, deep; p < k; p += deep, overwrite = false) {
        struct gpt_matrix down = {b.data + p * b.stride, b.stride, false};
        deep = k - p < STRIP_STEPS ? 1 : STRIP_STEPS;
        for (size_t i = 0, high; i < m; i += high) {
            struct gpt_matrix at = {a.data + i * a.stride + p, a.stride, false};
            high = m - i < STRIP_ROWS ? 1 : STRIP_ROWS;
            if (deep == 1)
                for (size_t r = 0; r < high; r++, at.data += a.stride)
                    strip(1, 1, n, at, down, c + (i + r) * stride, stride, overwrite);
            else if (high == 1)
                strip(1, STRIP_STEPS, n, at, down, c + i * stride, stride, overwrite);
            else
                strip(STRIP_ROWS, STRIP_STEPS, n, at, down, c + i * stride, stride, overwrite);
        }
    }
}

/*
 * As many chains of multiply-adds as a tile, without loads. Chains differ, or the compiler would merge them.
 */
static double peak(size_t rounds) {
    lanes sum[TILE_ROWS][TILE_VECTORS], by = {rounds > 1 ? 1e-20f : 1};
    UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] =
        (lanes){(float)(i * TILE_VECTORS + j)};
    for (size_t r = 0; r < rounds; r++)
        UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++)
            sum[i][j] += sum[i][j] * by;
    float all = 0; /* used below, or the compiler would remove the loop */
    UNROLLED for (int i = 0; i < TILE_ROWS; i++) UNROLLED for (int j = 0; j < TILE_VECTORS; j++) all +=
        sum[i][j][0];
    return all >= 0 ? 2.0 * TILE_ROWS * TILE_COLUMNS * (double)rounds : 0;
}

const struct matmul_isa JOIN(gpt_matmul_, KERNEL) = {
    .rows = TILE_ROWS, .columns = TILE_COLUMNS, .tile = tile, .few_rows = few_rows, .peak = peak};
