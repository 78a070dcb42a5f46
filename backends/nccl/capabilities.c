/*
 * capabilities.c - what NCCL supports.
 *
 * NCCL differs from muster in two points: MIN and MAX of floats lose a NaN that only some ranks have (fmin
 * and fmax), and sums of f8 saturate where muster's go to infinity or NaN. MUSTER_NCCL_STRICT=1 leaves these
 * to muster. Never included: reductions of bool, whose bytes need not be 0 or 1; bitwise operations, i16 and
 * u16, which NCCL lacks. f16 and bf16 are included although NCCL rounds at each step, and AVG of floats
 * although it may multiply by 1/n: the error is at most n roundings.
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

/* Indices of the first row. Optional rows come first. */
enum { ALL, WITHOUT_F8 = 2, STRICT = 4 };
static const mst_backend_capability rows[] = {
    {WHOLE, EIGHTS, EIGHT_OPS, DEVICE, IN_PLACE}, /* NCCL 2.24 and GPUs of capability 9.0 */
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

/* May be called before NCCL is loaded. Later calls may return more rows. */
const mst_backend_capability *mnc_capabilities(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_strict);
    if (strict) return rows + STRICT;
    return mnc_found.nccl >= 22400 && mnc_found.capability >= 9 ? rows + ALL : rows + WITHOUT_F8;
}
