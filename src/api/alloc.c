/* alloc.c - the public calls for memory that ranks of a host share. */
#include "api/api.h"
#include "base/error.h"
#include "base/options.h"
#include "transport/arena.h"

#include <string.h>

mst_status mst_alloc_with(size_t bytes, void **memory, const mst_call *given) {
    mst_call call;
    mst_status st = msi_options_begin("mst_alloc", &call, sizeof call, given);
    if (st != MST_OK) return st;
    mst_group *group = msi_call_group("mst_alloc", &call.site, call.group);
    if (!group) return MST_ERR_STATE;
    st = msi_call_check_options("mst_alloc", MSI_KIND_NONE, &call);
    if (st != MST_OK) return st;
    if (call.work) return msi_fail(MST_ERR_INVALID, "leave it out", "mst_alloc does not use .work");
    if (!memory) return msi_fail(MST_ERR_INVALID, NULL, "memory is NULL");
    void *made;
    st = msi_arena_alloc(bytes, &made);
    if (st == MST_OK) memcpy(memory, &made, sizeof made); /* the pointer may have any type */
    return st;
}

void mst_free(void *memory) {
    if (memory) msi_arena_free(memory);
}
