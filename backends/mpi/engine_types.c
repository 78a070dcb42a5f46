/*
 * engine_types.c - dtypes and operations of muster as MPI's.
 *
 * MPI's own are used where they do what muster promises. Signed sums and products go as unsigned ones, which have the same bits and wrap.
 * Floating MIN and MAX (NaN must pass), bool (any value but 0 is 1), MIN and MAX of unsigned integers (which MPICH 4.0 takes for signed) and sums
 * and products of 8 and 16 bits (which Open MPI's AVX code does not let wrap) are reduced by muster's kernels, as operations that we define. Sums and products of floats that are smaller than f32 are left to the core:
 * MPI would round at every step, and muster promises to round once.
 */
#include "engine.h"

#include <limits.h>
#include <stddef.h>

/* MPI gives these functions no context, so what they call is the process's. */
static bool (*combine)(mst_dtype dtype, mst_op op, void *out, const void *a, const void *b, size_t count);

/* X(dtype, op): reduced by muster's kernels. */
#define OWN_TABLE(X)                                                                                         \
    X(F16, MIN)                                                                                              \
    X(F16, MAX)                                                                                              \
    X(BF16, MIN)                                                                                             \
    X(BF16, MAX)                                                                                             \
    X(F32, MIN)                                                                                              \
    X(F32, MAX)                                                                                              \
    X(F64, MIN)                                                                                              \
    X(F64, MAX)                                                                                              \
    X(I8, SUM)                                                                                               \
    X(I8, PRODUCT)                                                                                           \
    X(U8, SUM)                                                                                               \
    X(U8, PRODUCT)                                                                                           \
    X(I16, SUM)                                                                                              \
    X(I16, PRODUCT)                                                                                          \
    X(U16, SUM)                                                                                              \
    X(U16, PRODUCT)                                                                                          \
    X(U8, MIN)                                                                                               \
    X(U8, MAX)                                                                                               \
    X(U16, MIN)                                                                                              \
    X(U16, MAX)                                                                                              \
    X(U32, MIN)                                                                                              \
    X(U32, MAX)                                                                                              \
    X(U64, MIN)                                                                                              \
    X(U64, MAX)                                                                                              \
    X(BOOL, SUM)                                                                                             \
    X(BOOL, PRODUCT)                                                                                         \
    X(BOOL, MIN)                                                                                             \
    X(BOOL, MAX)                                                                                             \
    X(BOOL, BAND)                                                                                            \
    X(BOOL, BOR)                                                                                             \
    X(BOOL, BXOR)

#define OWN_FUNCTION(dtype, op)                                                                              \
    static void reduce_##dtype##_##op(void *in, void *inout, int *n, MPI_Datatype *given) {                  \
        (void)given;                                                                                         \
        combine(MST_##dtype, MST_##op, inout, in, inout, (size_t)*n);                                        \
    }
OWN_TABLE(OWN_FUNCTION)

struct own {
    MPI_User_function *function;
    MPI_Op op;
};
static struct own owns[MST_DTYPE_COUNT][MST_OP_COUNT] = {
#define OWN_ENTRY(dtype, operation)                                                                          \
    [MST_##dtype][MST_##operation] = {.function = reduce_##dtype##_##operation},
    OWN_TABLE(OWN_ENTRY)};

int msm_types_init(const mst_backend_host *host) {
    combine = host->combine;
    for (int d = 0; d < MST_DTYPE_COUNT; d++)
        for (int o = 0; o < MST_OP_COUNT; o++) {
            if (!owns[d][o].function) continue;
            int rc = MPI_Op_create(owns[d][o].function, true, &owns[d][o].op);
            if (rc != MPI_SUCCESS) return rc;
        }
    return MPI_SUCCESS;
}

/* Integers of a width are one type where order does not matter. */
static MPI_Datatype unsigned_type(size_t bytes) {
    switch (bytes) {
    case 1:
        return MPI_UINT8_T;
    case 2:
        return MPI_UINT16_T;
    case 4:
        return MPI_UINT32_T;
    default:
        return MPI_UINT64_T;
    }
}

static MPI_Datatype signed_type(size_t bytes) {
    switch (bytes) {
    case 1:
        return MPI_INT8_T;
    case 2:
        return MPI_INT16_T;
    case 4:
        return MPI_INT32_T;
    default:
        return MPI_INT64_T;
    }
}

static size_t bytes_of(mst_dtype dtype) {
#define BYTES(number, name, bytes, text) [number] = (bytes),
    static const size_t sizes[] = {MST_DTYPE_TABLE(BYTES)};
    return sizes[dtype];
}

/* How the elements are called in messages: own operations know better, so any type of the size does for them. */
static MPI_Datatype type_of(mst_dtype dtype, bool own, bool compares) {
    if (dtype == MST_F32) return MPI_FLOAT;
    if (dtype == MST_F64) return MPI_DOUBLE;
    return compares && !own ? signed_type(bytes_of(dtype)) : unsigned_type(bytes_of(dtype));
}

static bool builtin_op(mst_op op, MPI_Op *mpi_op) {
    switch (op) {
    case MST_SUM:
        *mpi_op = MPI_SUM;
        return true;
    case MST_PRODUCT:
        *mpi_op = MPI_PROD;
        return true;
    case MST_MIN:
        *mpi_op = MPI_MIN;
        return true;
    case MST_MAX:
        *mpi_op = MPI_MAX;
        return true;
    case MST_BAND:
        *mpi_op = MPI_BAND;
        return true;
    case MST_BOR:
        *mpi_op = MPI_BOR;
        return true;
    case MST_BXOR:
        *mpi_op = MPI_BXOR;
        return true;
    default:
        return false;
    }
}

bool msm_reducer(mst_dtype dtype, mst_op op, MPI_Datatype *type, MPI_Op *mpi_op) {
    bool own = owns[dtype][op].function;
    *type = type_of(dtype, own, op == MST_MIN || op == MST_MAX);
    if (!own) return builtin_op(op, mpi_op);
    *mpi_op = owns[dtype][op].op;
    return true;
}

/* Pieces of a GiB and a rest: no count is large then, and the extent is the size. */
int msm_type_bytes_at(size_t start, size_t bytes, MPI_Datatype *type) {
    const size_t piece = (size_t)1 << 30;
    MPI_Datatype parts[2] = {MPI_DATATYPE_NULL, MPI_BYTE};
    int counts[2] = {(int)(bytes / piece), (int)(bytes % piece)};
    MPI_Aint places[2] = {(MPI_Aint)start, (MPI_Aint)(start + bytes / piece * piece)};
    int rc = MPI_Type_contiguous((int)piece, MPI_BYTE, &parts[0]);
    if (rc != MPI_SUCCESS) return rc;
    rc = MPI_Type_create_struct(2, counts, places, parts, type);
    MPI_Type_free(&parts[0]);
    if (rc == MPI_SUCCESS) rc = MPI_Type_commit(type);
    return rc;
}

int msm_type_bytes(size_t bytes, MPI_Datatype *type) {
    return msm_type_bytes_at(0, bytes, type);
}
