/* groups.c - the groups along the dimensions of a mesh, each made when it is first asked for. See root_mesh.h. */
#include "base/error.h"
#include "mesh/root_mesh.h"

#include <stdlib.h>

/* The ranks along n of family->dims, in the order of their places. */
static int *gather_ranks(const struct msi_mesh_family *family, int n, int *count) {
    const struct msi_grid *grid = &family->grid;
    *count = msi_line_size(grid, family->dims, n);
    int *ranks = malloc((size_t)*count * sizeof *ranks);
    for (int i = 0; ranks && i < *count; i++)
        ranks[i] = family->ranks[msi_line_at(grid, family->dims, n, family->position, i)];
    return ranks;
}

/* "dp_tp" for people, and the mesh with "/0,2" behind it, by which its ranks know the group. */
static void name_group(const struct msi_mesh_family *family, int n, struct msi_buf *name,
                       struct msi_buf *label) {
    const struct msi_axes *axes = &family->members[0]->axes;
    msi_buf_add_format(label, "%s/", family->id);
    for (int i = 0; i < n; i++) {
        msi_buf_add_format(name, "%s%s", i ? "_" : "", axes->at[family->dims[i]].name);
        msi_buf_add_format(label, "%s%d", i ? "," : "", family->dims[i]);
    }
}

/* Makes the group along n of family->dims. */
static mst_status make_group(const struct msi_mesh_family *family, int n, mst_group **handle) {
    mst_group *made, *world = msi_group_of(family->world);
    mst_status st = msi_group_check_use(world);
    if (st != MST_OK) return st;
    struct msi_buf name = {0}, label = {0};
    int count, *ranks = gather_ranks(family, n, &count);
    name_group(family, n, &name, &label);
    st = ranks && !name.failed && !label.failed ? MST_OK : msi_fail_memory();
    if (st == MST_OK) st = msi_group_check_ranks(ranks, count, world->world->size);
    if (st == MST_OK) {
        mst_group_options options = family->of;
        options.name = (const char *)name.data;
        struct msi_group_label known_as = {(const char *)label.data, true};
        st = msi_group_make(world->world, ranks, count, &known_as, &options, &made);
    }
    if (st == MST_OK) *handle = made->handle;
    free(ranks);
    msi_buf_free(&name);
    msi_buf_free(&label);
    return st;
}

/* Makes the group along n of family->dims and remembers it. */
static mst_status add_group(struct msi_mesh_family *family, int n, mst_group **handle) {
    struct msi_mesh_group *groups =
        realloc(family->groups, ((size_t)family->n_groups + 1) * sizeof *family->groups);
    if (groups) family->groups = groups;
    struct msi_mesh_group added = {.n = n, .dims = malloc((size_t)n * sizeof *added.dims)};
    mst_status st = groups && added.dims ? make_group(family, n, &added.handle) : msi_fail_memory();
    if (st != MST_OK) {
        free(added.dims);
        return st;
    }
    memcpy(added.dims, family->dims, (size_t)n * sizeof *added.dims);
    groups[family->n_groups++] = added;
    *handle = added.handle;
    return MST_OK;
}

/* The group along n of family->dims. */
static mst_status find_group(struct msi_mesh_family *family, int n, mst_group **handle) {
    mst_group *found = n == family->grid.ndim ? family->whole : NULL;
    for (int i = 0; i < family->n_groups && !found; i++) {
        const struct msi_mesh_group *g = &family->groups[i];
        if (g->n == n && !memcmp(g->dims, family->dims, (size_t)n * sizeof *g->dims)) found = g->handle;
    }
    if (!found) return add_group(family, n, handle);
    if (!msi_handle_alive(found))
        return msi_fail(MST_ERR_STATE,
                        "leave the groups of a mesh to mst_mesh_free, and free it before its world ends",
                        "that group of the mesh was destroyed, by itself or with its world");
    *handle = found;
    return MST_OK;
}

mst_status msi_mesh_find_group(const mst_mesh *mesh, const char *list, mst_group **handle) {
    int n;
    mst_status st = msi_mesh_dims(mesh, list, &n);
    if (st == MST_OK) st = msi_mesh_check_member(mesh->family);
    return st == MST_OK ? find_group(mesh->family, n, handle) : st;
}

mst_status msi_mesh_find_groups(const mst_mesh *mesh, mst_group **handles) {
    struct msi_mesh_family *family = mesh->family;
    mst_status st = MST_OK;
    for (int i = 0; i < mesh->axes.n && st == MST_OK; i++) {
        const struct msi_axis *a = &mesh->axes.at[i];
        memcpy(family->dims, a->dims, (size_t)a->n * sizeof *a->dims);
        st = find_group(family, a->n, &family->found[i]);
    }
    if (st == MST_OK) memcpy(handles, family->found, (size_t)mesh->axes.n * sizeof *handles);
    return st;
}
