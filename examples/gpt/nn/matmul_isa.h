/* matmul_isa.h - the kernels of one instruction set; matmul.c selects one at run time. */
#ifndef GPT_NN_MATMUL_ISA_H
#define GPT_NN_MATMUL_ISA_H

#include "nn/matmul.h"

struct matmul_isa {
    size_t rows, columns; /* of a tile */
    void (*tile)(size_t k, const float *restrict a, const float *restrict b, float *restrict c, size_t stride,
                 bool overwrite);
    void (*few_rows)(size_t m, size_t n, size_t k, struct gpt_matrix a, struct gpt_matrix b, float *c,
                     size_t stride, bool overwrite);
    double (*peak)(size_t rounds);
};

/* Of a tile of any instruction set. */
enum { MATMUL_MAX_ROWS = 12, MATMUL_MAX_COLUMNS = 64 };

extern const struct matmul_isa gpt_matmul_base;
#ifdef __x86_64__
extern const struct matmul_isa gpt_matmul_avx2, gpt_matmul_avx512;
#endif

#endif
