/* matmul_set.h - what matmul.c needs of an instruction set. */
#ifndef GPT_MATMUL_SET_H
#define GPT_MATMUL_SET_H

#include <stdbool.h>
#include <stddef.h>

struct matmul_set {
    size_t rows, columns; /* of a tile */
    void (*tile)(size_t k, const float *restrict a, const float *restrict b, float *restrict c, size_t stride,
                 bool fresh);
    void (*row)(size_t n, size_t k, const float *restrict a, const float *restrict b, size_t stride,
                float *restrict c, bool fresh);
    double (*peak)(size_t rounds);
};

enum { MATMUL_ROWS_MOST = 12, MATMUL_COLUMNS_MOST = 64 };

extern const struct matmul_set gpt_matmul_base;
#ifdef __x86_64__
extern const struct matmul_set gpt_matmul_avx2, gpt_matmul_avx512;
#endif

#endif
