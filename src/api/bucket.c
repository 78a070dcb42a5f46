/* bucket.c - the public calls on reducers: check the arguments. See bucket/bucket.h. */
#include "bucket/bucket.h"
#include "api/api.h"
#include "base/handles.h"
#include "base/options.h"

#include <stdint.h>

/* The reducer of a handle, or NULL with the failure recorded. Names the call. */
static mst_bucket_reducer *find(const char *name, const mst_site *site, const mst_bucket_reducer *handle) {
    mst_bucket_reducer *r = handle && msi_handle_alive(handle) ? msi_handle_memory(handle) : NULL;
    msi_call_begin(name, site, r ? r->rank : msi_call_get_rank());
    if (!handle)
        msi_fail(MST_ERR_INVALID, "create one with mst_bucket_create", "reducer is NULL");
    else if (!r)
        msi_fail(MST_ERR_STATE, "use a reducer after it was created and before it is freed",
                 "the reducer was freed, or the handle is invalid");
    else if (!msi_handle_alive(r->group))
        msi_fail(MST_ERR_STATE, "free the reducer, and create another one in a new world",
                 "the world of the reducer has ended");
    else if (msi_group_check_use(msi_handle_memory(r->group)) == MST_OK)
        return r;
    return NULL;
}

mst_status mst_bucket_create_with(const mst_tensor *tensors, size_t n, mst_bucket_reducer **reducer,
                                  const mst_bucket_options *given) {
    static const char name[] = "mst_bucket_create";
    mst_bucket_options o;
    mst_status st = msi_options_begin(name, &o, sizeof o, given);
    if (st == MST_OK && msi_comm_in_callback()) st = msi_comm_refuse_waiting();
    if (st != MST_OK) return st;
    mst_group *group = msi_call_group(name, &o.site, o.group);
    if (!group) return MST_ERR_STATE;
    if (group->rank < 0) return msi_fail_not_member(group);
    uint64_t entered = msi_call_enter(group->size, 0, 0);
    return msi_call_leave(entered, msi_bucket_create(group, tensors, n, &o, reducer));
}

mst_status mst_bucket_ready(mst_bucket_reducer *reducer, size_t index) {
    mst_bucket_reducer *r = find("mst_bucket_ready", NULL, reducer);
    return r ? msi_bucket_ready(r, index) : mst_last_error()->status;
}

mst_status mst_bucket_wait_with(mst_bucket_reducer *reducer, const mst_wait_options *given) {
    static const char name[] = "mst_bucket_wait";
    mst_wait_options o;
    mst_status st = msi_options_begin(name, &o, sizeof o, given);
    if (st == MST_OK) st = msi_check_wait_timeout(o.timeout_ms);
    if (st == MST_OK && o.keep)
        st = msi_fail(MST_ERR_INVALID, "leave it out", "a reducer has no work to release; .keep is set");
    if (st == MST_OK && msi_comm_in_callback()) st = msi_comm_refuse_waiting();
    if (st != MST_OK) return st;
    mst_bucket_reducer *r = find(name, &o.site, reducer);
    if (!r) return mst_last_error()->status;
    struct msi_wait wait = msi_wait_of(o.timeout_ms, INT64_MAX, o.cancel);
    uint64_t entered = msi_call_enter(0, 0, 0);
    return msi_call_leave(entered, msi_bucket_wait(r, &wait));
}

mst_status mst_bucket_free(mst_bucket_reducer *reducer) {
    mst_bucket_reducer *r = reducer && msi_handle_alive(reducer) ? msi_handle_memory(reducer) : NULL;
    msi_call_begin("mst_bucket_free", NULL, r ? r->rank : msi_call_get_rank());
    if (!reducer) return MST_OK;
    if (!r)
        return msi_fail(MST_ERR_STATE, "free a reducer once",
                        "the reducer was freed, or the handle is invalid");
    if (msi_comm_in_any_callback())
        return msi_fail(MST_ERR_STATE, "free it after the callback has returned",
                        "a callback of a work cannot free a reducer");
    const mst_group *group = msi_group_of(r->group);
    if (group && msi_group_check_use(group) != MST_OK) return MST_ERR_STATE; /* it belongs to the parent */
    if (atomic_load_explicit(&r->waiting,
                             memory_order_relaxed)) /* of a thread that may be anywhere in the wait */
        return msi_fail(MST_ERR_STATE, "free it after mst_bucket_wait has returned",
                        "another thread is in mst_bucket_wait");
    msi_bucket_free(r);
    return MST_OK;
}
