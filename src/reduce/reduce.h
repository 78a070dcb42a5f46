/*
 * reduce.h - combining arrays: one table, dtype x op, each entry the best kernel for this processor.
 *
 *  1. Everything here is pure: no I/O, no allocation, no state but the table that is chosen once.
 *  2. Kernels fold from left to right, in the accumulation type (f32 for f16, bf16 and f8, else the type itself), and
 *     round once, at the end. Every variant of a kernel gives the same bits as the scalar one, except that a NaN may be
 *     any NaN. Of two equal values (0 and -0 too) MIN and MAX keep the first.
 *  3. Arrays may be unaligned. An output may be exactly one of the inputs; partial overlap is not allowed.
 */
#ifndef MSI_REDUCE_REDUCE_H
#define MSI_REDUCE_REDUCE_H

#include <muster/dtype.h>
#include <stdbool.h>

/* What an operation needs besides the arrays. AVG and PREMUL_SUM read it; for all others it may be NULL. */
struct msi_reduce_scale {
    double factor; /* PREMUL_SUM: every input is multiplied by it first */
    int ranks;     /* AVG: the result is divided by it; at least 1 */
};

struct msi_reducer {
    /*
     * out = in[0] op in[1] op … op in[n-1], rounded, n >= 1; with n == 1 scaling and rounding still happen. Where copy is
     * not NULL it gets the result too; it may not be an input. One pass: every array is read or written once.
     */
    void (*reduce_local)(void *out, void *copy, const void *const *in, int n, size_t count,
                         const struct msi_reduce_scale *scale);

    /* The same in pieces, for partial results that travel; acc is an array of the accumulation type. */
    void (*begin)(void *acc, const void *in, size_t count, const struct msi_reduce_scale *scale);
    void (*add)(void *acc, const void *in, size_t count, const struct msi_reduce_scale *scale);
    void (*merge)(void *acc, const void *other, size_t count); /* acc = acc op other */
    void (*end)(void *out, const void *acc, size_t count,
                const struct msi_reduce_scale *scale); /* out may be acc */
    size_t acc_size;                                   /* bytes of an element of acc */
};

/* The reducer for a pair; NULL where the pair has no meaning. Cheap: a table look-up. */
const struct msi_reducer *msi_reducer_get(mst_dtype dtype, mst_op op);

/* Variants, for tests and for `muster info`: the names of those that this processor can run, best first, NULL last. */
const char *const *msi_reduce_variants(void);
/* As msi_reducer_get, of the named variant ("scalar" always exists). */
const struct msi_reducer *msi_reducer_variant(const char *variant, mst_dtype dtype, mst_op op);

#endif
