/* dtype.h - data types of tensors and reduction operations. */
#ifndef MUSTER_DTYPE_H
#define MUSTER_DTYPE_H

#include <muster/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*  X(number, name, bytes, text). Numbers never change. */
#define MST_DTYPE_TABLE(X)                                                                                   \
    X(1, F64, 8, "f64")                                                                                      \
    X(2, F32, 4, "f32")                                                                                      \
    X(3, F16, 2, "f16")                                                                                      \
    X(4, BF16, 2, "bf16")                                                                                    \
    X(5, F8E4M3, 1, "f8e4m3")                                                                                \
    X(6, F8E5M2, 1, "f8e5m2")                                                                                \
    X(7, I8, 1, "i8")                                                                                        \
    X(8, U8, 1, "u8")                                                                                        \
    X(9, I16, 2, "i16")                                                                                      \
    X(10, U16, 2, "u16")                                                                                     \
    X(11, I32, 4, "i32")                                                                                     \
    X(12, U32, 4, "u32")                                                                                     \
    X(13, I64, 8, "i64")                                                                                     \
    X(14, U64, 8, "u64")                                                                                     \
    X(15, BOOL, 1, "bool")                                                                                   \
    X(16, C64, 8, "c64")                                                                                     \
    X(17, C128, 16, "c128")                                                                                  \
    X(18, BITS8, 1, "bits8")                                                                                 \
    X(19, BITS16, 2, "bits16")                                                                               \
    X(20, BITS32, 4, "bits32")                                                                               \
    X(21, BITS64, 8, "bits64")                                                                               \
    X(22, BITS128, 16, "bits128")

#define MST_DTYPE_ENTRY(number, name, bytes, text) MST_##name = (number),
typedef enum mst_dtype { MST_DTYPE_TABLE(MST_DTYPE_ENTRY) MST_DTYPE_COUNT } mst_dtype;
#undef MST_DTYPE_ENTRY

/*
 * f8e4m3 is the variant without infinities (OCP E4M3, torch's float8_e4m3fn): overflow becomes NaN.
 * A bool is one byte, 0 or 1; any other value counts as 1. A c64 is two f32, a c128 two f64: the real and the
 * imaginary part, as complex float and complex double of C. The bits types are opaque: muster moves them, and
 * only operations of mst_op_create reduce them.
 */

/*  X(number, name, text) */
#define MST_OP_TABLE(X)                                                                                      \
    X(0, SUM, "SUM")                                                                                         \
    X(1, AVG, "AVG")                                                                                         \
    X(2, PRODUCT, "PRODUCT")                                                                                 \
    X(3, MIN, "MIN")                                                                                         \
    X(4, MAX, "MAX")                                                                                         \
    X(5, BAND, "BAND")                                                                                       \
    X(6, BOR, "BOR")                                                                                         \
    X(7, BXOR, "BXOR")                                                                                       \
    X(8, PREMUL_SUM, "PREMUL_SUM")

#define MST_OP_ENTRY(number, name, text) MST_##name = (number),
typedef enum mst_op {
    MST_OP_TABLE(MST_OP_ENTRY) MST_OP_COUNT,
    MST_OP_USER = 1 << 16, /* the operations of mst_op_create (comm.h) have numbers from here on */
} mst_op;
#undef MST_OP_ENTRY

/*
 * Reductions of f16, bf16 and the f8 types compute in f32 and round once, to nearest even. Integers wrap. MIN
 * and MAX propagate NaN. AVG is SUM divided by the number of ranks; for integers it rounds toward zero.
 * PREMUL_SUM multiplies each rank's input by .factor first and supports floats and complex numbers only. The
 * bitwise operations support integers and bool. For bool, SUM and MAX are "or", PRODUCT and MIN are "and",
 * and AVG is not supported. Complex numbers support SUM, AVG, PRODUCT and PREMUL_SUM.
 */

/* Returns the bytes of an element; 0 for an invalid dtype. */
size_t mst_dtype_size(mst_dtype dtype);
/* Return "f32", "SUM", "user-defined"; "?" for an invalid number. */
const char *mst_dtype_name(mst_dtype dtype);
const char *mst_op_name(mst_op op);

#ifdef __cplusplus
}
#endif
#endif
