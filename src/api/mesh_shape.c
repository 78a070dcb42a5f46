/* mesh_shape.c - what a mesh is like, and where this rank is in it. See mesh.h. */
#include "api/mesh.h"
#include "base/error.h"

mst_status msi_mesh_dims(const mst_mesh *mesh, const char *names, int *n) {
    struct msi_axes_names from = {&mesh->axes, &mesh->family->flat};
    return msi_axes_dims(&from, names, mesh->family->dims, n);
}

mst_status msi_mesh_check_member(const struct msi_mesh_family *family) {
    if (family->position >= 0) return MST_OK;
    return msi_fail(MST_ERR_NOT_MEMBER, "ask there only where mst_mesh_get_coordinate is not -1",
                    "rank %d is not in the mesh, whose %d ranks begin with %d", family->rank,
                    family->grid.size, family->ranks[0]);
}

int mst_mesh_ndim(const mst_mesh *handle) {
    const mst_mesh *mesh = msi_api_mesh("mst_mesh_ndim", handle);
    return mesh ? mesh->axes.n : -1;
}

static int axis_size(const mst_mesh *mesh, int i) {
    return msi_line_size(&mesh->family->grid, mesh->axes.at[i].dims, mesh->axes.at[i].n);
}

static int whole_size(const mst_mesh *mesh) {
    int size = 1;
    for (int i = 0; i < mesh->axes.n; i++) size *= axis_size(mesh, i);
    return size;
}

int mst_mesh_size(const mst_mesh *handle, const char *dims) {
    int n, size = -1;
    mst_mesh *mesh = msi_mesh_enter("mst_mesh_size", handle);
    if (!mesh) return -1;
    if (!dims)
        size = whole_size(mesh);
    else if (msi_mesh_dims(mesh, dims, &n) == MST_OK)
        size = msi_line_size(&mesh->family->grid, mesh->family->dims, n);
    msi_mesh_leave(mesh);
    return size;
}

int mst_mesh_shape(const mst_mesh *handle, int *shape, int capacity) {
    const mst_mesh *mesh = msi_api_mesh("mst_mesh_shape", handle);
    if (!mesh) return -1;
    for (int i = 0; shape && i < mesh->axes.n && i < capacity; i++) shape[i] = axis_size(mesh, i);
    return mesh->axes.n;
}

const char *mst_mesh_dim_name(const mst_mesh *handle, int dim) {
    const mst_mesh *mesh = msi_api_mesh("mst_mesh_dim_name", handle);
    if (mesh && dim >= 0 && dim < mesh->axes.n) return mesh->axes.at[dim].name;
    if (mesh)
        msi_fail(MST_ERR_INVALID, "count dimensions from 0 up", "the mesh has %d dimension%s, there is no %d",
                 mesh->axes.n, mesh->axes.n == 1 ? "" : "s", dim);
    return NULL;
}

/* The position with these coordinates along the mesh's axes, the others being as in the position given. */
static int position_of(const mst_mesh *mesh, int position, int index) {
    for (int i = mesh->axes.n - 1; i >= 0; i--) {
        const struct msi_axis *a = &mesh->axes.at[i];
        int size = axis_size(mesh, i);
        position = msi_line_at(&mesh->family->grid, a->dims, a->n, position, index % size);
        index /= size;
    }
    return position;
}

/* Where the others coordinates come from: this rank. The whole mesh needs none. -1, with the failure recorded, where there is none. */
static int origin(const mst_mesh *mesh) {
    if (mesh->family->position >= 0) return mesh->family->position;
    if (whole_size(mesh) == mesh->family->grid.size) return 0;
    msi_mesh_check_member(mesh->family);
    return -1;
}

int mst_mesh_ranks(const mst_mesh *handle, int *ranks, int capacity) {
    const mst_mesh *mesh = msi_api_mesh("mst_mesh_ranks", handle);
    int from = mesh ? origin(mesh) : -1;
    if (from < 0) return -1;
    int size = whole_size(mesh);
    for (int i = 0; ranks && i < size && i < capacity; i++)
        ranks[i] = mesh->family->ranks[position_of(mesh, from, i)];
    return size;
}

int mst_mesh_rank_at(const mst_mesh *handle, const int *coordinate) {
    const mst_mesh *mesh = msi_api_mesh("mst_mesh_rank_at", handle);
    int index = 0, from = mesh ? origin(mesh) : -1;
    if (from < 0) return -1;
    if (!coordinate) msi_fail(MST_ERR_INVALID, NULL, "coordinate is NULL");
    for (int i = 0; coordinate && i < mesh->axes.n; i++) {
        int size = axis_size(mesh, i);
        if (coordinate[i] < 0 || coordinate[i] >= size) {
            msi_fail(MST_ERR_INVALID, "coordinates go from 0 to the dimension's size less 1",
                     "coordinate %d is not in dimension '%.80s' of the mesh, whose size is %d", coordinate[i],
                     mesh->axes.at[i].name, size);
            return -1;
        }
        index = index * size + coordinate[i];
    }
    return coordinate ? mesh->family->ranks[position_of(mesh, from, index)] : -1;
}

int mst_mesh_get_coordinate(const mst_mesh *handle, int *coordinate, int capacity) {
    const mst_mesh *mesh = msi_api_mesh("mst_mesh_get_coordinate", handle);
    if (!mesh || msi_mesh_check_member(mesh->family) != MST_OK) return -1;
    const struct msi_mesh_family *family = mesh->family;
    for (int i = 0; coordinate && i < mesh->axes.n && i < capacity; i++)
        coordinate[i] =
            msi_line_place(&family->grid, mesh->axes.at[i].dims, mesh->axes.at[i].n, family->position);
    return mesh->axes.n;
}

int mst_mesh_get_local_rank(const mst_mesh *handle, const char *dims) {
    int n, below = -1;
    mst_mesh *mesh = msi_mesh_enter("mst_mesh_get_local_rank", handle);
    if (!mesh) return -1;
    const struct msi_mesh_family *family = mesh->family;
    if (msi_mesh_dims(mesh, dims, &n) == MST_OK && msi_mesh_check_member(family) == MST_OK) {
        int size = msi_line_size(&family->grid, family->dims, n);
        below = 0;
        for (int i = 0; i < size; i++)
            below += family->ranks[msi_line_at(&family->grid, family->dims, n, family->position, i)] <
                     family->rank;
    }
    msi_mesh_leave(mesh);
    return below;
}
