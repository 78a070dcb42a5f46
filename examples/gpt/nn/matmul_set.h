/* matmul_set.h - what matmul.c needs of an instruction set. */
#ifndef GPT_NN_MATMUL_SET_H
#define GPT_NN_MATMUL_SET_H

#include "nn/matmul.h"

struct matmul_set {
    size_t rows, columns; /* of a tile */
    void (*tile)(size_t k, const float *restrict a, const float *restrict b, float *restrict c, size_t stride,
                 bool fresh);
    void (*few)(size_t m, size_t n, size_t k, struct gpt_matrix a, struct gpt_matrix b, float *c,
                size_t stride, bool fresh);
    double (*peak)(size_t rounds);
};

enum { MATMUL_ROWS_MOST = 12, MATMUL_COLUMNS_MOST = 64 };

extern const struct matmul_set gpt_matmul_base;
#ifdef __x86_64__
extern const struct matmul_set gpt_matmul_avx2, gpt_matmul_avx512;
#endif

#endif
