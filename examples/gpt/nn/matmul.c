/*
 * matmul.c - products in blocks that fit the caches, after Goto and van de Geijn, "Anatomy of
 * high-performance matrix multiplication": packs a block of B into panels as wide as a tile and a block of A
 * into panels as high as a tile, then computes C tile by tile in registers.
 */
#include "nn/matmul.h"

#include "nn/matmul_isa.h"

#include <string.h>

/* Sizes of packed blocks: a block of A fits the L2 cache, a panel of B the L1 cache. */
enum { DEEP = 256, HIGH = 96, WIDE = 768 };
/* Up to so many rows, packing B takes longer than it saves. */
enum { FEW_ROWS = 32 };

static float packed_a[(HIGH + MATMUL_MAX_ROWS) * DEEP] __attribute__((aligned(64)));
static float packed_b[(WIDE + MATMUL_MAX_COLUMNS) * DEEP] __attribute__((aligned(64)));

static const struct matmul_isa *chosen;

static const struct matmul_isa *set(void) {
    if (chosen) return chosen;
    chosen = &gpt_matmul_base;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) chosen = &gpt_matmul_avx2;
    if (__builtin_cpu_supports("avx512f")) chosen = &gpt_matmul_avx512;
#endif
    return chosen;
}

const char *gpt_matmul_kind(void) {
#ifdef __x86_64__
    return set() == &gpt_matmul_avx512 ? "avx512" : set() == &gpt_matmul_avx2 ? "avx2" : "sse2";
#elif defined(__aarch64__)
    return "neon";
#else
    return "plain";
#endif
}

double gpt_matmul_peak(size_t rounds) {
    return set()->peak(rounds);
}

/*
 * Packs `count` lines of a factor, each `deep` long, into panels of `high` lines: first element 0 of the
 * panel's lines, then element 1, and so on. Pads the last panel with zeros. `line` is the stride between
 * lines, `step` that between elements.
 */
static void pack(const float *restrict from, size_t line, size_t step, size_t count, size_t deep, size_t high,
                 float *restrict to) {
    for (size_t at = 0; at < count; at += high, to += high * deep) {
        size_t n = count - at < high ? count - at : high;
        const float *panel = from + at * line;
        if (line == 1 && n == high) {
            for (size_t p = 0; p < deep; p++) memcpy(to + p * high, panel + p * step, high * sizeof *to);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            for (size_t p = 0; p < deep; p++) to[p * high + i] = panel[i * line + p * step];
        for (size_t i = n; i < high; i++)
            for (size_t p = 0; p < deep; p++) to[p * high + i] = 0;
    }
}

/* Computes a tile at the edge of C in a buffer, because the kernel writes whole tiles. */
static void edge(const struct matmul_isa *s, size_t m, size_t n, size_t k, const float *a, const float *b,
                 float *c, size_t stride, bool overwrite) {
    float whole[MATMUL_MAX_ROWS * MATMUL_MAX_COLUMNS] = {0};
    for (size_t i = 0; i < m && !overwrite; i++)
        memcpy(whole + i * s->columns, c + i * stride, n * sizeof *c);
    s->tile(k, a, b, whole, s->columns, overwrite);
    for (size_t i = 0; i < m; i++) memcpy(c + i * stride, whole + i * s->columns, n * sizeof *c);
}

/* Adds the product of the packed blocks to C, or overwrites C. */
static void tiles(const struct matmul_isa *s, size_t m, size_t n, size_t k, float *c, size_t stride,
                  bool overwrite) {
    for (size_t j = 0; j < n; j += s->columns)
        for (size_t i = 0; i < m; i += s->rows) {
            const float *a = packed_a + i * k, *b = packed_b + j * k;
            float *at = c + i * stride + j;
            if (m - i >= s->rows && n - j >= s->columns)
                s->tile(k, a, b, at, stride, overwrite);
            else
                edge(s, m - i < s->rows ? m - i : s->rows, n - j < s->columns ? n - j : s->columns, k, a, b,
                     at, stride, overwrite);
        }
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static void blocks(const struct matmul_isa *s, size_t m, size_t n, size_t k, struct gpt_matrix a,
                   struct gpt_matrix b, float *c, size_t stride, bool add) {
    size_t a_line = a.transposed ? 1 : a.stride, a_step = a.transposed ? a.stride : 1;
    size_t b_line = b.transposed ? b.stride : 1, b_step = b.transposed ? 1 : b.stride;
    size_t wide = WIDE / s->columns * s->columns, high = HIGH / s->rows * s->rows;
    for (size_t j = 0; j < n; j += wide)
        for (size_t p = 0; p < k; p += DEEP) {
            size_t nb = least(wide, n - j), kb = least(DEEP, k - p);
            pack(b.data + j * b_line + p * b_step, b_line, b_step, nb, kb, s->columns, packed_b);
            for (size_t i = 0; i < m; i += high) {
                size_t mb = least(high, m - i);
                pack(a.data + i * a_line + p * a_step, a_line, a_step, mb, kb, s->rows, packed_a);
                tiles(s, mb, nb, kb, c + i * stride + j, stride, !add && p == 0);
            }
        }
}

void gpt_matmul(size_t m, size_t n, size_t k, struct gpt_matrix a, struct gpt_matrix b, float *c,
                size_t stride, bool add) {
    if (k == 0 && !add)
        for (size_t i = 0; i < m; i++) memset(c + i * stride, 0, n * sizeof *c);
    if (m <= FEW_ROWS && !a.transposed && !b.transposed)
        set()->few_rows(m, n, k, a, b, c, stride, !add);
    else
        blocks(set(), m, n, k, a, b, c, stride, add);
}
