/* groups.c - the groups along the dimensions of a mesh, made at their first use. See root_mesh.h. */
#include "base/error.h"
#include "mesh/root_mesh.h"

#include <stdlib.h>

/* The ranks along n of root->dims, in row-major order. */
static int *gather_ranks(const struct msi_root_mesh *root, int n, int *count) {
    const struct msi_grid *grid = &root->grid;
    *count = msi_line_size(grid, root->dims, n);
    int *ranks = malloc((size_t)*count * sizeof *ranks);
    for (int i = 0; ranks && i < *count; i++)
        ranks[i] = root->ranks[msi_line_at(grid, root->dims, n, root->position, i)];
    return ranks;
}

/* The name "dp_tp" for messages, and the label "MESH/0,2", which is the same on all ranks. */
static void name_group(const struct msi_root_mesh *root, int n, struct msi_buf *name, struct msi_buf *label) {
    const struct msi_axes *axes = &root->meshes[0]->axes;
    msi_buf_add_format(label, "%s/", root->id);
    for (int i = 0; i < n; i++) {
        msi_buf_add_format(name, "%s%s", i ? "_" : "", axes->at[root->dims[i]].name);
        msi_buf_add_format(label, "%s%d", i ? "," : "", root->dims[i]);
    }
}

/* Makes the group along n of root->dims. */
static mst_status make_group(const struct msi_root_mesh *root, int n, mst_group **handle) {
    mst_group *made, *world = msi_group_of(root->world);
    mst_status st = msi_group_check_use(world);
    if (st != MST_OK) return st;
    struct msi_buf name = {0}, label = {0};
    int count, *ranks = gather_ranks(root, n, &count);
    name_group(root, n, &name, &label);
    st = ranks && !name.failed && !label.failed ? MST_OK : msi_fail_memory();
    if (st == MST_OK) st = msi_group_check_ranks(ranks, count, world->world->size);
    if (st == MST_OK) {
        mst_group_options options = root->of;
        options.name = (const char *)name.data;
        struct msi_group_label once = {.text = (const char *)label.data, .once = true};
        struct msi_group_spec spec = {ranks, count, &once, NULL, &options};
        st = msi_group_make(world->world, &spec, &made);
    }
    if (st == MST_OK) *handle = made->handle;
    free(ranks);
    msi_buf_free(&name);
    msi_buf_free(&label);
    return st;
}

/* Makes the group along n of root->dims and stores it in the root. */
static mst_status add_group(struct msi_root_mesh *root, int n, mst_group **handle) {
    struct msi_mesh_group *groups =
        realloc(root->groups, ((size_t)root->n_groups + 1) * sizeof *root->groups);
    if (groups) root->groups = groups;
    struct msi_mesh_group added = {.n = n, .dims = malloc((size_t)n * sizeof *added.dims)};
    mst_status st = groups && added.dims ? make_group(root, n, &added.handle) : msi_fail_memory();
    if (st != MST_OK) {
        free(added.dims);
        return st;
    }
    memcpy(added.dims, root->dims, (size_t)n * sizeof *added.dims);
    groups[root->n_groups++] = added;
    *handle = added.handle;
    return MST_OK;
}

/* The group along n of root->dims. */
static mst_status find_group(struct msi_root_mesh *root, int n, mst_group **handle) {
    mst_group *found = NULL;
    for (int i = 0; i < root->n_groups && !found; i++) {
        const struct msi_mesh_group *g = &root->groups[i];
        if (g->n == n && !memcmp(g->dims, root->dims, (size_t)n * sizeof *g->dims)) found = g->handle;
    }
    if (!found && n == root->grid.ndim) found = root->whole;
    if (!found) return add_group(root, n, handle);
    if (!msi_handle_alive(found))
        return msi_fail(MST_ERR_STATE,
                        "let mst_mesh_free end the groups of a mesh, and free the mesh before its world ends",
                        "that group of the mesh was destroyed, alone or with its world");
    *handle = found;
    return MST_OK;
}

mst_status msi_mesh_find_group(const mst_mesh *mesh, const char *list, mst_group **handle) {
    int n;
    mst_status st = msi_mesh_dims(mesh, list, &n);
    if (st == MST_OK) st = msi_mesh_check_member(mesh->root);
    return st == MST_OK ? find_group(mesh->root, n, handle) : st;
}

mst_status msi_mesh_find_groups(const mst_mesh *mesh, mst_group **handles) {
    struct msi_root_mesh *root = mesh->root;
    mst_status st = MST_OK;
    for (int i = 0; i < mesh->axes.n && st == MST_OK; i++) {
        const struct msi_axis *a = &mesh->axes.at[i];
        memcpy(root->dims, a->dims, (size_t)a->n * sizeof *a->dims);
        st = find_group(root, a->n, &root->found[i]);
    }
    if (st == MST_OK) memcpy(handles, root->found, (size_t)mesh->axes.n * sizeof *handles);
    return st;
}
