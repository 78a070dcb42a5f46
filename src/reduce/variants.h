/*
 * variants.h - the kernel tables, one per instruction set of this architecture. Each is kernels.inc compiled
 * with other flags (see cmake/kernels.cmake).
 */
#ifndef MSI_REDUCE_VARIANTS_H
#define MSI_REDUCE_VARIANTS_H

#include "reduce/q8.h"
#include "reduce/reduce.h"

struct msi_reduce_table {
    const struct msi_reducer *at[MST_DTYPE_COUNT][MST_OP_COUNT];
    struct msi_q8 q8;
};

/* Sanitizer builds leave the variants for AVX-512 out. */
#if defined __x86_64__ && !defined MSI_WITHOUT_AVX512
#define MSI_AVX512
#endif

/* Does the compiler support AVX512-FP16? */
#if defined MSI_AVX512 && (defined __clang__ ? __clang_major__ >= 14 : __GNUC__ >= 12)
#define MSI_AVX512FP16
#endif

extern const struct msi_reduce_table msi_reduce_scalar; /* one element at a time */
#ifdef __x86_64__
extern const struct msi_reduce_table msi_reduce_avx2; /* and F16C */
#ifdef MSI_AVX512
extern const struct msi_reduce_table msi_reduce_avx512;
#endif
#ifdef MSI_AVX512FP16
extern const struct msi_reduce_table msi_reduce_avx512fp16;
#endif
#endif
#ifdef __aarch64__
extern const struct msi_reduce_table msi_reduce_neon;
extern const struct msi_reduce_table msi_reduce_bf16; /* with f16 and bf16 arithmetic */
#endif

#endif
