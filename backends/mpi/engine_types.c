/*
 * engine_types.c - dtypes and operations of muster as MPI's.
 *
 * MPI's own are used where they promise what muster does. Signed sums and products go as unsigned ones, which have the same bits and wrap.
 * Floating MIN and MAX (NaN must pass), bool (any value but 0 is 1) and the half floats are reduced by muster's
 * kernels, as operations that we define. f8, AVG and PREMUL_SUM are left to the core.
 */
#include "engine.h"

#include <limits.h>
#include <stddef.h>

/* MPI gives these functions no context, so what they call is the process's. */
static bool (*combine)(mst_dtype dtype, mst_op op, void *out, const void *a, const void *b, size_t count);

/* X(dtype, op, MPI's type): reduced by muster's kernels. */
#define OWN_TABLE(X)                                                                                         \
    X(F16, SUM, MPI_UINT16_T)                                                                                \
    X(F16, PRODUCT, MPI_UINT16_T)                                                                            \
    X(F16, MIN, MPI_UINT16_T)                                                                                \
    X(F16, MAX, MPI_UINT16_T)                                                                                \
    X(BF16, SUM, MPI_UINT16_T)                                                                               \
    X(BF16, PRODUCT, MPI_UINT16_T)                                                                           \
    X(BF16, MIN, MPI_UINT16_T)                                                                               \
    X(BF16, MAX, MPI_UINT16_T)                                                                               \
    X(F32, MIN, MPI_FLOAT)                                                                                   \
    X(F32, MAX, MPI_FLOAT)                                                                                   \
    X(F64, MIN, MPI_DOUBLE)                                                                                  \
    X(F64, MAX, MPI_DOUBLE)                                                                                  \
    X(BOOL, SUM, MPI_UINT8_T)                                                                                \
    X(BOOL, PRODUCT, MPI_UINT8_T)                                                                            \
    X(BOOL, MIN, MPI_UINT8_T)                                                                                \
    X(BOOL, MAX, MPI_UINT8_T)                                                                                \
    X(BOOL, BAND, MPI_UINT8_T)                                                                               \
    X(BOOL, BOR, MPI_UINT8_T)                                                                                \
    X(BOOL, BXOR, MPI_UINT8_T)

#define OWN_FUNCTION(dtype, op, type)                                                                        \
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
#define OWN_ENTRY(dtype, operation, type)                                                                    \
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

static MPI_Datatype own_type(mst_dtype dtype) {
    switch (dtype) {
    case MST_F64:
        return MPI_DOUBLE;
    case MST_F32:
        return MPI_FLOAT;
    case MST_BOOL:
        return MPI_UINT8_T;
    default:
        return MPI_UINT16_T;
    }
}

/* Where order does not matter, all integers of a width are one type. */
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

static MPI_Datatype ordered_type(mst_dtype dtype) {
    switch (dtype) {
    case MST_I8:
        return MPI_INT8_T;
    case MST_U8:
        return MPI_UINT8_T;
    case MST_I16:
        return MPI_INT16_T;
    case MST_U16:
        return MPI_UINT16_T;
    case MST_I32:
        return MPI_INT32_T;
    case MST_U32:
        return MPI_UINT32_T;
    case MST_I64:
        return MPI_INT64_T;
    default:
        return MPI_UINT64_T;
    }
}

static size_t integer_bytes(mst_dtype dtype) {
    switch (dtype) {
    case MST_I8:
    case MST_U8:
        return 1;
    case MST_I16:
    case MST_U16:
        return 2;
    case MST_I32:
    case MST_U32:
        return 4;
    case MST_I64:
    case MST_U64:
        return 8;
    default:
        return 0;
    }
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
    if (owns[dtype][op].function) {
        *type = own_type(dtype);
        *mpi_op = owns[dtype][op].op;
        return true;
    }
    size_t bytes = integer_bytes(dtype);
    bool compares = op == MST_MIN || op == MST_MAX;
    if (dtype == MST_F32 || dtype == MST_F64)
        *type = own_type(dtype);
    else if (bytes)
        *type = compares ? ordered_type(dtype) : unsigned_type(bytes);
    else
        return false;
    return builtin_op(op, mpi_op);
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
