/*
 * rows.c - what NCCL does.
 *
 * Two things it does in its own way: MIN and MAX of floats lose a NaN that only some ranks have (it takes fmin and fmax), and sums of f8
 * stop at the largest number where muster's go on to infinity or NaN. MUSTER_NCCL_STRICT=1 leaves these to muster. Left out always:
 * reductions of bool, whose bytes need not be 0 or 1; bitwise operations, i16 and u16, which NCCL has not.
 * f16 and bf16 are claimed though NCCL rounds them at each step, and AVG of floats though it may multiply by 1/n: no result is
 * further off than n roundings.
 */
#include "engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KIND(name)  (1u << MST_KIND_##name)
#define DTYPE(name) (1u << MST_##name)
#define OP(name)    (1u << MST_##name)

enum {
    DEVICE = 1u << MST_MEMORY_CUDA,
    INTEGERS = DTYPE(I8) | DTYPE(U8) | DTYPE(I32) | DTYPE(U32) | DTYPE(I64) | DTYPE(U64),
    FLOATS = DTYPE(F64) | DTYPE(F32) | DTYPE(F16) | DTYPE(BF16),
    EIGHTS = DTYPE(F8E4M3) | DTYPE(F8E5M2),
    WHOLE = KIND(ALL_REDUCE) | KIND(REDUCE),
    INTEGER_OPS = OP(SUM) | OP(PRODUCT) | OP(MIN) | OP(MAX) | OP(AVG),
    FLOAT_OPS = OP(SUM) | OP(PRODUCT) | OP(AVG) | OP(PREMUL_SUM),
    EXTREMES = OP(MIN) | OP(MAX),
    EIGHT_OPS = OP(SUM) | OP(PRODUCT) | EXTREMES,
    IN_PLACE = MST_FORM_IN_PLACE,
    BLOCKS = MST_FORM_UNEVEN | MST_FORM_LISTS,
    EXACT = MST_FORM_DETERMINISTIC,
};

/* What is not always there comes first, and is skipped. */
enum { ALL, WITHOUT_F8 = 2, STRICT = 4 };
static const mst_backend_capability rows[] = {
    {WHOLE, EIGHTS, EIGHT_OPS, DEVICE, IN_PLACE}, /* since NCCL 2.24, for GPUs of capability 9.0 */
    {KIND(REDUCE_SCATTER), EIGHTS, EIGHT_OPS, DEVICE, IN_PLACE | BLOCKS},
    {WHOLE, FLOATS, EXTREMES, DEVICE, IN_PLACE},
    {KIND(REDUCE_SCATTER), FLOATS, EXTREMES, DEVICE, IN_PLACE | BLOCKS},
    {KIND(BARRIER), 0, 0, DEVICE, 0},
    {KIND(BROADCAST), 0, 0, DEVICE, IN_PLACE},
    {KIND(ALL_GATHER), 0, 0, DEVICE, IN_PLACE | BLOCKS},
    {KIND(ALL_TO_ALL), 0, 0, DEVICE, BLOCKS},
    {KIND(GATHER) | KIND(SCATTER), 0, 0, DEVICE, IN_PLACE | MST_FORM_LISTS},
    {KIND(SEND) | KIND(RECV), 0, 0, DEVICE, 0},
    {WHOLE, INTEGERS, INTEGER_OPS, DEVICE, IN_PLACE | EXACT},
    {KIND(REDUCE_SCATTER), INTEGERS, INTEGER_OPS, DEVICE, IN_PLACE | BLOCKS | EXACT},
    {WHOLE, FLOATS, FLOAT_OPS, DEVICE, IN_PLACE},
    {KIND(REDUCE_SCATTER), FLOATS, FLOAT_OPS, DEVICE, IN_PLACE | BLOCKS},
    {0},
};

static bool strict;

static void read_strict(void) {
    const char *given = getenv("MUSTER_NCCL_STRICT");
    strict = given && !strcmp(given, "1");
}

/* They may be asked for before NCCL is loaded, and again behind that: then there may be more. */
const mst_backend_capability *mnc_rows(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_strict);
    if (strict) return rows + STRICT;
    return mnc_found.nccl >= 22400 && mnc_found.capability >= 9 ? rows + ALL : rows + WITHOUT_F8;
}
