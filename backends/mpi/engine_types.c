/*
 * engine_types.c - the MPI datatypes and operations for muster's dtypes and ops.
 *
 * MPI's operations are used where they do what muster promises. Signed sums and products use the unsigned
 * types, which have the same bits and wrap. muster's kernels, as user-defined operations, reduce the
 * following:
 *  - MIN and MAX of floats: a NaN must propagate
 *  - bool: any value but 0 is 1
 *  - MIN and MAX of unsigned integers: MPICH 4.0 compares them as signed
 *  - sums and products of 8 and 16 bits: Open MPI's AVX code saturates instead of wrapping
 * The core of muster composes sums and products of floats smaller than f32: MPI would round at every step.
 */
#include "engine.h"

#include <limits.h>
#include <stddef.h>

/* MPI passes no context to user-defined operations, so this is global. */
static bool (*combine)(mst_dtype dtype, mst_op op, void *out, const void *a, const void *b, size_t count);

/* X(dtype, op): reduced by muster's kernels. */
#define MIN_MAX(X, dtype)     X(dtype, MIN) X(dtype, MAX)
#define SUM_PRODUCT(X, dtype) X(dtype, SUM) X(dtype, PRODUCT)
#define OWN_TABLE(X)                                                                                         \
    MIN_MAX(X, F16)                                                                                          \
    MIN_MAX(X, BF16)                                                                                         \
    MIN_MAX(X, F32)                                                                                          \
    MIN_MAX(X, F64)                                                                                          \
    SUM_PRODUCT(X, I8)                                                                                       \
    SUM_PRODUCT(X, U8)                                                                                       \
    SUM_PRODUCT(X, I16)                                                                                      \
    SUM_PRODUCT(X, U16)                                                                                      \
    MIN_MAX(X, U8)                                                                                           \
    MIN_MAX(X, U16)                                                                                          \
    MIN_MAX(X, U32)                                                                                          \
    MIN_MAX(X, U64)                                                                                          \
    SUM_PRODUCT(X, BOOL)                                                                                     \
    MIN_MAX(X, BOOL)                                                                                         \
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

static MPI_Datatype integer_type(size_t bytes, bool is_signed) {
    const MPI_Datatype types[2][4] = {{MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T},
                                      {MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T}};
    return types[is_signed][__builtin_ctzll(bytes)];
}

static size_t bytes_of(mst_dtype dtype) {
#define BYTES(number, name, bytes, text) [number] = (bytes),
    static const size_t sizes[] = {MST_DTYPE_TABLE(BYTES)};
    return sizes[dtype];
}

/* A user-defined operation knows its dtype, so any MPI type of the right size serves. */
static MPI_Datatype type_of(mst_dtype dtype, bool own, bool compares) {
    if (dtype == MST_F32) return MPI_FLOAT;
    if (dtype == MST_F64) return MPI_DOUBLE;
    if (dtype == MST_C64) return MPI_C_FLOAT_COMPLEX;
    if (dtype == MST_C128) return MPI_C_DOUBLE_COMPLEX;
    return integer_type(bytes_of(dtype), compares && !own);
}

void msm_reducer(mst_dtype dtype, mst_op op, MPI_Datatype *type, MPI_Op *mpi_op) {
    const MPI_Op builtin[MST_OP_COUNT] = {
        [MST_SUM] = MPI_SUM,   [MST_PRODUCT] = MPI_PROD, [MST_MIN] = MPI_MIN,  [MST_MAX] = MPI_MAX,
        [MST_BAND] = MPI_BAND, [MST_BOR] = MPI_BOR,      [MST_BXOR] = MPI_BXOR};
    bool own = owns[dtype][op].function;
    *type = type_of(dtype, own, op == MST_MIN || op == MST_MAX);
    *mpi_op = own ? owns[dtype][op].op : builtin[op];
}

/* A struct of GiB pieces and a rest: no count exceeds an int, and the extent equals the size. */
int msm_type_bytes_at(size_t start, size_t bytes, MPI_Datatype *type) {
    const size_t piece = (size_t)1 << 30;
    MPI_Datatype parts[2] = {MPI_DATATYPE_NULL, MPI_BYTE};
    int counts[2] = {(int)(bytes / piece), (int)(bytes % piece)};
    MPI_Aint offsets[2] = {(MPI_Aint)start, (MPI_Aint)(start + bytes / piece * piece)};
    int rc = MPI_Type_contiguous((int)piece, MPI_BYTE, &parts[0]);
    if (rc != MPI_SUCCESS) return rc;
    rc = MPI_Type_create_struct(2, counts, offsets, parts, type);
    MPI_Type_free(&parts[0]);
    if (rc == MPI_SUCCESS) rc = MPI_Type_commit(type);
    return rc;
}
