/*
 * reduce.h - reduction of arrays: a table of dtype x op with the best kernel for this processor.
 *
 *  1. All functions are pure: no I/O, no allocation, no state but the table, which is selected once.
 *  2. Kernels reduce from left to right in the accumulation type (f32 for f16, bf16 and f8, else the type
 *     itself) and round once at the end. Every variant gives the same bits as the scalar one, except that a
 *     NaN may be any NaN. Of two equal values (also 0 and -0), MIN and MAX keep the first.
 *  3. Arrays may be unaligned. An output may be one of the inputs; partial overlap is not allowed.
 */
#ifndef MSI_REDUCE_REDUCE_H
#define MSI_REDUCE_REDUCE_H

#include <muster/dtype.h>
#include <stdbool.h>

/* Parameters of AVG, PREMUL_SUM and user-defined operations; may be NULL for other operations. */
struct msi_reduce_scale {
    double factor;                  /* PREMUL_SUM: multiplies every input */
    int ranks;                      /* AVG: divides the result; at least 1 */
    mst_dtype dtype;                /* of a user-defined operation */
    const struct msi_user_op *user; /* NULL: it is none */
};

struct msi_reducer {
    /*
     * out = in[0] op in[1] op … op in[n-1], rounded, n >= 1; n == 1 only scales and rounds. copy, if not
     * NULL, gets the result too; it must not be an input. One pass: every array is read or written once.
     */
    void (*reduce_local)(void *out, void *copy, const void *const *in, int n, size_t count,
                         const struct msi_reduce_scale *scale);

    /* The same in steps, for partial results. acc is an array of the accumulation type. */
    void (*begin)(void *acc, const void *in, size_t count, const struct msi_reduce_scale *scale);
    void (*add)(void *acc, const void *in, size_t count, const struct msi_reduce_scale *scale);
    void (*merge)(void *acc, const void *other, size_t count); /* acc = acc op other */
    /* out may be acc. */
    void (*end)(void *out, const void *acc, size_t count, const struct msi_reduce_scale *scale);
    size_t acc_size; /* bytes of an element of acc */
};

/* Returns the reducer, or NULL if the dtype does not support op. Cheap: a table look-up. */
const struct msi_reducer *msi_reducer_get(mst_dtype dtype, mst_op op);
/* The one that is fastest for so few elements. */
const struct msi_reducer *msi_reducer_for(mst_dtype dtype, mst_op op, size_t count);
/* Fills out with the identity of op: x op identity = x. dtype must support op. User-defined: does nothing. */
void msi_reduce_identity(mst_dtype dtype, mst_op op, void *out, size_t count);

/* A scan of arrays. op is not AVG. */
struct msi_prefix {
    const struct msi_reducer *reducer;
    mst_dtype dtype;
    mst_op op;
    bool exclusive;
    const struct msi_reduce_scale *scale;
};
/* Array r becomes the reduction of the arrays 0 … r; exclusive: of 0 … r-1, and array 0 the identity. */
void msi_reduce_scan(const struct msi_prefix *scan, void *const *arrays, int n, size_t count);

/*
 * For tests and `muster info`: the names of the variants that this processor supports, best first, NULL last.
 */
const char *const *msi_reduce_variants(void);
/* The same for the named variant. "scalar" always exists. */
const struct msi_reducer *msi_reducer_variant(const char *variant, mst_dtype dtype, mst_op op);

#endif
