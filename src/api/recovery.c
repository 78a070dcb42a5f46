/* recovery.c - the public calls that go on after a death: check the arguments. See <muster/recovery.h>. */
#include "api/api.h"
#include "base/error.h"
#include "base/options.h"
#include "group/recover.h"

#include <muster/recovery.h>

static struct msi_wait wait_of(const mst_group *group, int timeout_ms, mst_cancel *cancel) {
    return (struct msi_wait){msi_deadline(timeout_ms ? timeout_ms : msi_group_timeout(group)), cancel};
}

/* The group of a handle, of which this rank is a member; NULL with the failure recorded. */
static mst_group *find_group(const char *name, const mst_site *site, const mst_group *handle) {
    mst_group *found = msi_call_group(name, site, handle);
    if (found && found->rank < 0) {
        msi_fail_not_member(found);
        return NULL;
    }
    if (found && msi_comm_in_callback()) {
        msi_comm_refuse_waiting();
        return NULL;
    }
    return found;
}

mst_status mst_agree_with(uint64_t *flags, const mst_agree_options *given) {
    mst_agree_options o;
    mst_status st = msi_options_begin("mst_agree", &o, sizeof o, given);
    if (st == MST_OK) st = msi_check_timeout(o.timeout_ms);
    if (st == MST_OK && !flags) st = msi_fail(MST_ERR_INVALID, NULL, "flags is NULL");
    if (st != MST_OK) return st;
    mst_group *group = find_group("mst_agree", &o.site, o.group);
    if (!group) return mst_last_error()->status;
    struct msi_wait wait = wait_of(group, o.timeout_ms, o.cancel);
    uint64_t entered = msi_call_enter(group->size, 0, 0);
    return msi_call_leave(entered, msi_group_agree_flags(group, &wait, flags));
}

mst_status mst_shrink_group_with(mst_group *handle, mst_group **survivors, const mst_shrink_options *given) {
    mst_shrink_options o;
    mst_group *made = NULL;
    mst_status st = msi_options_begin("mst_shrink_group", &o, sizeof o, given);
    if (st == MST_OK) st = msi_check_timeout(o.timeout_ms);
    if (st == MST_OK && !survivors) st = msi_fail(MST_ERR_INVALID, NULL, "survivors is NULL");
    if (st != MST_OK) return st;
    mst_group *group = find_group("mst_shrink_group", &o.site, handle);
    if (!group) return mst_last_error()->status;
    struct msi_wait wait = wait_of(group, o.timeout_ms, o.cancel);
    const mst_group_options options = {
        .size = sizeof options, .site = o.site, .timeout_ms = o.timeout_ms, .name = o.name};
    uint64_t entered = msi_call_enter(group->size, 0, 0);
    st = msi_group_shrink(group, &wait, &options, &made);
    if (st == MST_OK) *survivors = made->handle;
    return msi_call_leave(entered, st);
}

/* added as in msi_world_reform. */
static mst_status reform(const char *name, int added, const mst_reform_options *given) {
    mst_reform_options o;
    mst_status st = msi_options_begin(name, &o, sizeof o, given);
    if (st == MST_OK) st = msi_check_timeout(o.timeout_ms);
    if (st != MST_OK) return st;
    mst_group *all = find_group(name, &o.site, o.world ? *o.world : NULL), *reformed;
    if (!all) return mst_last_error()->status;
    if (all->world->continued)
        return msi_fail(MST_ERR_STATE, "use the world that the last call has returned",
                        "a later world continues this one");
    if (all->ranks)
        return msi_fail(MST_ERR_INVALID, "use mst_shrink_group for a part of a world",
                        ".world is a group, not a world");
    struct msi_wait wait = wait_of(all, o.timeout_ms, o.cancel);
    uint64_t entered = msi_call_enter(all->size, 0, 0);
    bool is_default = all == msi_default_world();
    st = msi_world_reform(all->world, added, &o.site, &wait, &reformed);
    if (st == MST_OK && is_default) msi_set_default_world(reformed);
    if (st == MST_OK && o.world) *o.world = reformed->handle;
    return msi_call_leave(entered, st);
}

mst_status mst_shrink_world_with(const mst_reform_options *options) {
    return reform("mst_shrink_world", -1, options);
}

mst_status mst_grow_world_with(int n, const mst_reform_options *options) {
    if (n < 0) return msi_fail(MST_ERR_INVALID, "give the number of new ranks to wait for", "n is %d", n);
    return reform("mst_grow_world", n, options);
}

mst_status mst_check_group(mst_group *handle) {
    mst_group *group = msi_call_group("mst_check_group", NULL, handle);
    if (!group) return MST_ERR_STATE;
    return group->rank < 0 ? msi_fail_not_member(group) : msi_group_check_usable(group);
}
