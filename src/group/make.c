/* make.c - groups as programs have them: made with options, known by a handle, ended by it. See world.h. */
#include "base/error.h"
#include "group/world.h"

/* Who gives it a backend of its own says so to the others, and is told if they chose another. */
mst_status msi_group_make(struct msi_world *world, const int *ranks, int n,
                          const struct msi_group_label *label, const mst_group_options *options,
                          mst_group **group) {
    struct msi_backends backends;
    mst_group *made;
    mst_status st = MST_OK;
    if (options->backend) st = msi_backends_parse(options->backend, world->backend_path, &backends);
    if (st != MST_OK) return st;
    st = msi_group_new(world, ranks, n, label, options, options->backend ? &backends : NULL, &made);
    if (st != MST_OK) return st;
    struct msi_wait wait = {msi_deadline(made->timeout_ms), NULL};
    if (options->backend) st = msi_group_agree(made, &wait);
    if (st == MST_OK)
        *group = made;
    else
        msi_group_free(made);
    return st;
}

mst_status msi_group_refuse(const mst_group *group) {
    if (!group)
        return msi_fail(MST_ERR_STATE, "use a group after it was made and before it is destroyed",
                        "the group was destroyed, or is none");
    return msi_fail(MST_ERR_STATE, "only the parent may use it; start more ranks with `muster run`",
                    "this process was forked after the world was opened, and is no rank of it");
}

void msi_group_end(mst_group **handle) {
    mst_group *group = *handle ? msi_group_of(*handle) : NULL;
    if (group) {
        msi_group_forget(group);
        msi_group_free(group);
    }
    *handle = NULL;
}
