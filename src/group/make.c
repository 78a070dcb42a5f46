/* make.c - groups that programs make and end. See world.h. */
#include "base/error.h"
#include "group/world.h"

mst_status msi_group_make(struct msi_world *world, const struct msi_group_spec *spec, mst_group **group) {
    struct msi_backends backends;
    struct msi_group_spec own = *spec;
    const char *backend = spec->options->backend;
    mst_group *made;
    mst_status st = backend ? msi_backends_parse(backend, world->backend_path, &backends) : MST_OK;
    if (st != MST_OK) return st;
    own.backends = backend ? &backends : NULL;
    st = msi_group_new(world, &own, &made);
    if (st != MST_OK) return st;
    struct msi_wait wait = {msi_deadline(made->timeout_ms), NULL};
    if (backend) st = msi_group_agree(made, &wait);
    if (st == MST_OK)
        *group = made;
    else
        msi_group_free(made);
    return st;
}

mst_status msi_group_refuse(const mst_group *group) {
    if (!group)
        return msi_fail(MST_ERR_STATE, "use a group after it was made and before it is destroyed",
                        "the group was destroyed, or the handle is invalid");
    return msi_fail(MST_ERR_STATE, "only the parent may use it; start more ranks with `muster run`",
                    "this process was forked after the world was opened; it is not a rank of it");
}

void msi_group_end(mst_group **handle) {
    mst_group *group = *handle ? msi_group_of(*handle) : NULL;
    if (group) {
        msi_group_leave(group);
        msi_group_free(group);
    }
    *handle = NULL;
}
