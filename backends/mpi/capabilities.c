/* capabilities.c - see capabilities.h. engine_types.c explains which reductions are missing. */
#include "capabilities.h"

#include <stdlib.h>

#define BIT(name) (1u << MST_KIND_##name)
#define FLOATS    (1u << MST_F64 | 1u << MST_F32)
#define HALVES    (1u << MST_F16 | 1u << MST_BF16)
#define INTEGERS                                                                                             \
    (1u << MST_I8 | 1u << MST_U8 | 1u << MST_I16 | 1u << MST_U16 | 1u << MST_I32 | 1u << MST_U32 |           \
     1u << MST_I64 | 1u << MST_U64 | 1u << MST_BOOL)
#define ARITHMETIC  (1u << MST_SUM | 1u << MST_PRODUCT | 1u << MST_MIN | 1u << MST_MAX)
#define BITWISE     (1u << MST_BAND | 1u << MST_BOR | 1u << MST_BXOR)
#define COMPARISONS (1u << MST_MIN | 1u << MST_MAX)
#define REDUCTIONS  (BIT(ALL_REDUCE) | BIT(REDUCE))
#define PARTS       (MST_FORM_UNEVEN | MST_FORM_IN_PLACE)

const mst_backend_capability msm_capabilities[] = {
    {.kinds = BIT(BARRIER)},
    {.kinds = BIT(BROADCAST) | BIT(ALL_GATHER) | BIT(ALL_TO_ALL) | BIT(GATHER) | BIT(SCATTER),
     .forms = MST_FORM_IN_PLACE},
    {.kinds = BIT(ALL_GATHER), .forms = MST_FORM_UNEVEN | MST_FORM_IN_PLACE},
    /* In place, MPI requires the same counts in both directions. */
    {.kinds = BIT(ALL_TO_ALL), .forms = MST_FORM_UNEVEN},
    {.kinds = REDUCTIONS, .dtypes = FLOATS, .ops = ARITHMETIC, .forms = MST_FORM_IN_PLACE},
    {.kinds = REDUCTIONS, .dtypes = HALVES, .ops = COMPARISONS, .forms = MST_FORM_IN_PLACE},
    {.kinds = REDUCTIONS, .dtypes = INTEGERS, .ops = ARITHMETIC | BITWISE, .forms = MST_FORM_IN_PLACE},
    {.kinds = BIT(REDUCE_SCATTER), .dtypes = FLOATS, .ops = ARITHMETIC, .forms = PARTS},
    {.kinds = BIT(REDUCE_SCATTER), .dtypes = HALVES, .ops = COMPARISONS, .forms = PARTS},
    {.kinds = BIT(REDUCE_SCATTER), .dtypes = INTEGERS, .ops = ARITHMETIC | BITWISE, .forms = PARTS},
    {.kinds = BIT(SEND), .forms = MST_FORM_TAG},
    {.kinds = BIT(RECV), .forms = MST_FORM_TAG | MST_FORM_ANY_SOURCE},
    {.kinds = 0},
};

bool msm_wants_blocking(void) {
    const char *value = getenv("MUSTER_MPI_BLOCKING");
    return value && *value && *value != '0';
}
