/*
 * matmul.h - products of f32 matrices, which take most of the time.
 *
 * Without BLAS each element of C is the sum over k in order, with fused multiply-add where the processor has
 * it. Its bits depend neither on m and n nor on its position in the matrix, so a product whose rows or
 * columns are split over processes has the same bits as the whole product. One thread at a time may multiply.
 */
#ifndef GPT_NN_MATMUL_H
#define GPT_NN_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

/* A factor: rows of `stride` floats; or the transpose of these rows. */
struct gpt_matrix {
    const float *data;
    size_t stride;
    bool transposed;
};

/* C = A B, or with add C += A B: A is m by k, B is k by n, C is m by n with rows of `stride` floats. */
void gpt_matmul(size_t m, size_t n, size_t k, struct gpt_matrix a, struct gpt_matrix b, float *c,
                size_t stride, bool add);

/* The instruction set in use, such as "neon" or "avx2"; or "blas". */
const char *gpt_matmul_kind(void);

/*
 * Runs a loop of multiply-adds that accesses no memory, to measure the processor's peak; returns the
 * operations done.
 */
double gpt_matmul_peak(size_t rounds);

#endif
