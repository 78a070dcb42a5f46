/* slices.c - slices and flattened meshes. See root_mesh.h. */
#include "base/error.h"
#include "mesh/root_mesh.h"

/* Finds or adds the mesh with these axes, and takes ownership of them. */
static mst_status find_mesh(struct msi_root_mesh *root, struct msi_axes *axes, mst_mesh **mesh) {
    for (int i = 0; i < root->n_meshes; i++)
        if (msi_axes_equal(&root->meshes[i]->axes, axes)) {
            msi_axes_free(axes);
            *mesh = root->meshes[i];
            return MST_OK;
        }
    return msi_mesh_add(root, axes, mesh);
}

mst_status msi_mesh_slice(mst_mesh *mesh, const char *list, mst_mesh **slice) {
    struct msi_root_mesh *root = mesh->root;
    bool whole = mesh == root->meshes[0];
    struct msi_axes_names from = {&mesh->axes, whole ? &root->flat : NULL};
    struct msi_axes picked;
    int n;
    mst_status st = msi_axes_dims(&from, list, root->dims, &n); /* checks the list */
    if (st == MST_OK) st = msi_axes_pick(&from, list, &picked);
    return st == MST_OK ? find_mesh(root, &picked, slice) : st;
}

/* Fails if the name is taken by another dimension; *known: it already names these dimensions. */
static mst_status check_flat_name(const mst_mesh *mesh, const struct msi_axis *flat, bool *known) {
    const struct msi_root_mesh *root = mesh->root;
    const struct msi_axis *before = msi_axes_find(&root->flat, msi_cstr(flat->name));
    mst_status st = msi_axis_check_name(flat->name);
    if (st != MST_OK) return st;
    *known = before != NULL;
    if (msi_axes_find(&root->meshes[0]->axes, msi_cstr(flat->name)))
        return msi_fail(MST_ERR_INVALID, "give the flattened dimension another name",
                        "'%.80s' is already a dimension of the mesh", flat->name);
    if (before && !msi_axis_equal(before, flat))
        return msi_fail(MST_ERR_INVALID, "give the flattened dimension another name",
                        "'%.80s' already names other flattened dimensions of the mesh", flat->name);
    return MST_OK;
}

/* Flattens all axes of the mesh into one with that name. */
static mst_status flatten(mst_mesh *mesh, char *name, mst_mesh **flat) {
    struct msi_root_mesh *root = mesh->root;
    struct msi_axis joined = {name, 0, root->dims};
    struct msi_axes axes = {0};
    bool known;
    for (int i = 0; i < mesh->axes.n; i++) {
        const struct msi_axis *a = &mesh->axes.at[i];
        memcpy(joined.dims + joined.n, a->dims, (size_t)a->n * sizeof *a->dims);
        joined.n += a->n;
    }
    if (mesh->axes.n == 1 && !strcmp(mesh->axes.at[0].name, name)) {
        *flat = mesh;
        return MST_OK;
    }
    mst_status st = check_flat_name(mesh, &joined, &known);
    if (st == MST_OK) st = msi_axes_add(&axes, name, joined.dims, joined.n);
    if (st == MST_OK) st = find_mesh(root, &axes, flat);
    if (st == MST_OK && !known) st = msi_axes_add(&root->flat, name, joined.dims, joined.n);
    return st;
}

mst_status msi_mesh_flatten(mst_mesh *mesh, const char *name, mst_mesh **flat) {
    struct msi_buf own = {0};
    if (name && *name)
        msi_buf_add(&own, name, strlen(name));
    else
        msi_axes_join(&mesh->axes, '_', &own);
    msi_buf_add_u8(&own, '\0');
    mst_status st = own.failed ? msi_fail_memory() : flatten(mesh, (char *)own.data, flat);
    msi_buf_free(&own);
    return st;
}
