/* engine_table.c - the slots of an engine, which picker.c loads and adds to the table of the module. */
#include "engine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MPI_Get_library_version may be called before MPI_Init. */
static bool probe(char *text, size_t size) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    if (!msm_alive()) {
        snprintf(text, size, "MPI_Finalize was called in this process; call it at the end of the process");
        return false;
    }
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    const char *number = strpbrk(version, "0123456789");
    snprintf(text, size, MSM_FLAVOUR " %s", number ? number : "");
    return true;
}

size_t msm_limit = INT_MAX;

static void read_limit(void) {
    const char *value = getenv("MUSTER_MPI_LIMIT");
    long long limit = value ? strtoll(value, NULL, 10) : 0;
    if (limit > 0 && limit < INT_MAX) msm_limit = (size_t)limit;
}

static const mst_backend table = {
    .version = MST_BACKEND_VERSION,
    .size = sizeof table,
    .probe = probe,
    .open = msm_open,
    .submit = msm_submit,
    .progress = msm_progress,
    .run = msm_run,
    .cancel = msm_cancel,
    .abort = msm_abort,
    .close = msm_close,
    .find = msm_find,
};

__attribute__((visibility("default"))) const mst_backend *mst_backend_module(unsigned version) {
    if (version != MST_BACKEND_VERSION) return NULL;
    read_limit();
    return &table;
}
