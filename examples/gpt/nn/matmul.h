/*
 * matmul.h - products of f32 matrices, the one thing that takes the time.
 *
 * What always holds (without BLAS): each element of C is the sum over k in order, with fused multiply-add where the
 * processor has it. Its bits depend neither on m and n nor on where it lies in the matrix, so a product whose rows or
 * columns are split over processes gives the bits of the whole one. One thread at a time may multiply.
 */
#ifndef GPT_NN_MATMUL_H
#define GPT_NN_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

/* A factor: rows of `stride` floats. Flipped, it is the transpose of what lies there. */
struct gpt_matrix {
    const float *data;
    size_t stride;
    bool flip;
};

/* C = A B, or C += A B where add is set: A is m by k, B is k by n, C is m by n with rows of `stride` floats. */
void gpt_matmul(size_t m, size_t n, size_t k, struct gpt_matrix a, struct gpt_matrix b, float *c,
                size_t stride, bool add);

/* The instruction set that is used here, or the BLAS: "neon", "avx2", "blas" and the like. */
const char *gpt_matmul_kind(void);

/* What the processor's multiply-add units can do, by a loop that touches no memory: operations done in `rounds`. */
double gpt_matmul_peak(size_t rounds);

#endif
