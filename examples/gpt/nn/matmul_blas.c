/* matmul_blas.c - products by a BLAS; replaces matmul.c with cmake -DGPT_BLAS=ON. */
#include "nn/matmul.h"

#include <cblas.h>

#include "nn/matmul_isa.h"

void gpt_matmul(size_t m, size_t n, size_t k, struct gpt_matrix a, struct gpt_matrix b, float *c,
                size_t stride, bool add) {
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                b.transposed ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1, a.data, (int)a.stride,
                b.data, (int)b.stride, add ? 1 : 0, c, (int)stride);
}

const char *gpt_matmul_kind(void) {
    return "blas";
}

double gpt_matmul_peak(size_t rounds) {
    return gpt_matmul_base.peak(rounds);
}
