/* backend.c - the public calls that get and set the backend of a group. */
#include "api/api.h"
#include "base/error.h"
#include "base/options.h"

const char *mst_get_backend(const mst_group *group) {
    const mst_group *found = msi_call_group("mst_get_backend", NULL, group);
    return found ? found->backends.text : NULL;
}

/* Does the default world's backend have the kind itself? Without a world: native. */
static bool has(mst_kind kind) {
    const mst_group *world = mst_is_initialized() ? msi_call_group("mst_has", NULL, NULL) : NULL;
    const mst_backend *table = NULL;
    for (int m = 0; world && m < MST_MEMORY_COUNT && !table; m++) table = world->backends.of[m];
    if (!table) table = &msi_native_backend;
    for (int m = 0; m < MST_MEMORY_COUNT; m++)
        if (msi_rows_have(table->rows(), kind, MST_F32, MST_SUM, (mst_memory)m, 0)) return true;
    return false;
}

bool mst_has_reduce_scatter_tensor(void) {
    return has(MST_KIND_REDUCE_SCATTER);
}

bool mst_has_all_gather_into_tensor(void) {
    return has(MST_KIND_ALL_GATHER);
}

bool mst_has_all_reduce_coalesced(void) {
    return has(MST_KIND_ALL_REDUCE);
}

/* For a world: its groups follow, and a backend that must be opened by the world first is opened. */
static mst_status exchange(mst_group *group, const struct msi_backends *backends, int timeout_ms,
                           mst_cancel *cancel) {
    struct msi_wait wait = {msi_deadline(timeout_ms), cancel};
    struct msi_backends before = group->backends;
    mst_status st = msi_group_exchange(group, backends, &wait);
    if (st != MST_OK || group->ranks) return st;
    st = msi_world_open_engine(group->world, timeout_ms, cancel);
    if (st != MST_OK) msi_world_return(group->world, &before);
    return st;
}

mst_status mst_set_backend_with(mst_group *group, const char *backend, const mst_exchange_options *given) {
    struct msi_backends backends;
    mst_exchange_options options;
    mst_status st = msi_options_begin("mst_set_backend", &options, sizeof options, given);
    if (st == MST_OK) st = msi_check_timeout(options.timeout_ms);
    if (st != MST_OK) return st;
    mst_group *found = msi_call_group("mst_set_backend", &options.site, group);
    if (!found) return MST_ERR_STATE;
    if (msi_comm_in_any_callback())
        return msi_fail(MST_ERR_STATE, "set it after the callback has returned",
                        "a callback of a work cannot set a backend");
    if (found->rank < 0) return msi_fail_not_member(found);
    st = backend ? msi_backends_parse(backend, found->world->backend_path, &backends)
                 : msi_fail(MST_ERR_INVALID, "give a name such as \"native\"", "backend is NULL");
    return exchange(found, st == MST_OK ? &backends : NULL,
                    options.timeout_ms ? options.timeout_ms : msi_group_timeout(found), options.cancel);
}
