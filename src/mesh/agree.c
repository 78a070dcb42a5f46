/* agree.c - the ranks of a new mesh form its group and compare the mesh. See root_mesh.h. */
#include "base/error.h"
#include "base/hash.h"
#include "mesh/root_mesh.h"

#include <stdio.h>

enum { RANKS_SHOWN = 16 };

/* What the ranks must agree on, as text. */
static void describe(const struct msi_root_mesh *root, const struct msi_axes *axes, struct msi_buf *out) {
    static const uint64_t seed[2] = {5, 6};
    const int *ranks = root->ranks;
    int n = root->grid.size;
    msi_buf_add_format(out, "the mesh ");
    msi_axes_show(axes, &root->grid, out);
    if (!memcmp(ranks, root->sorted, (size_t)n * sizeof *ranks)) return;
    for (int i = 0; i < n && i < RANKS_SHOWN; i++)
        msi_buf_add_format(out, "%s%d", i ? "," : " of ranks ", ranks[i]);
    msi_buf_add_format(out, "%s (order %016llx)", n > RANKS_SHOWN ? ",…" : "",
                       (unsigned long long)msi_hash(ranks, (size_t)n * sizeof *ranks, seed));
}

/* Makes the group of all ranks; its id identifies the mesh. */
static mst_status make_whole(struct msi_root_mesh *root, struct msi_world *world, const char *name,
                             mst_group **whole) {
    const struct msi_group_label label = {.text = "mesh"};
    mst_group_options options = root->of;
    options.name = name;
    struct msi_group_spec spec = {root->sorted, root->grid.size, &label, NULL, &options};
    return msi_group_make(world, &spec, whole);
}

mst_status msi_mesh_agree(struct msi_root_mesh *root, struct msi_world *world, const struct msi_axes *axes) {
    struct msi_buf name = {0}, what = {0};
    mst_group *whole = NULL;
    msi_axes_join(axes, '_', &name);
    describe(root, axes, &what);
    const char *name_text = msi_buf_text(&name), *text = msi_buf_text(&what);
    mst_status st = !name.failed && !what.failed ? MST_OK : msi_fail_memory();
    if (st == MST_OK) st = make_whole(root, world, name_text, &whole);
    if (st == MST_OK) {
        struct msi_wait wait = {msi_deadline(msi_group_timeout(whole)), NULL};
        root->whole = whole->handle; /* the root ends it, also if the ranks do not agree */
        snprintf(root->id, sizeof root->id, "%s", whole->id);
        st = msi_group_declare(whole, text, &wait);
    }
    msi_buf_free(&name);
    msi_buf_free(&what);
    return st;
}
