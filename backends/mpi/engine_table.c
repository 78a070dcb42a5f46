/* engine_table.c - what the engine can do, and the table that the picker takes. */
#include "engine.h"
#include "launcher.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const mst_backend_row msm_rows[] = {
    {.kinds = BIT(BARRIER)},
    {.kinds = BIT(BROADCAST) | BIT(ALL_GATHER) | BIT(ALL_TO_ALL) | BIT(GATHER) | BIT(SCATTER),
     .forms = MST_FORM_IN_PLACE},
    {.kinds = BIT(ALL_GATHER), .forms = MST_FORM_UNEVEN | MST_FORM_IN_PLACE},
    /* In place MPI wants the same counts in both directions. */
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

static const mst_backend_row *rows(void) {
    return msm_rows;
}

/* The library is here, or this module would not have been loaded. Its version may be asked for before MPI_Init. */
static bool probe(char *text, size_t size) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized) {
        snprintf(text, size, "MPI_Finalize was called in this process; call it at its end");
        return false;
    }
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    const char *number = strpbrk(version, "0123456789");
    snprintf(text, size, MSM_FLAVOUR " %s", number ? number : "");
    return true;
}

/* Blocking calls are faster in some MPIs, but neither a deadline nor the death of a rank ends them. */
static bool wants_blocking(void) {
    const char *value = getenv("MUSTER_MPI_BLOCKING");
    return value && *value && *value != '0';
}

size_t msm_limit = INT_MAX;

static void read_limit(void) {
    const char *value = getenv("MUSTER_MPI_LIMIT");
    long long limit = value ? strtoll(value, NULL, 10) : 0;
    if (limit > 0 && limit < INT_MAX) msm_limit = (size_t)limit;
}

static mst_backend table = {
    .version = MST_BACKEND_VERSION,
    .size = sizeof table,
    .name = "mpi",
    .title = MSM_FLAVOUR,
    .probe = probe,
    .rows = rows,
    .open = msm_open,
    .submit = msm_submit,
    .progress = msm_progress,
    .cancel = msm_cancel,
    .abort = msm_abort,
    .close = msm_close,
};

__attribute__((visibility("default"))) const mst_backend *mst_backend_module(unsigned version) {
    if (version != MST_BACKEND_VERSION) return NULL;
    read_limit();
    if (wants_blocking()) table.run = msm_run;
    return &table;
}
