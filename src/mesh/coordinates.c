/* coordinates.c - sizes, coordinates and ranks of a mesh. See root_mesh.h. */
#include "base/error.h"
#include "mesh/root_mesh.h"

mst_status msi_mesh_dims(const mst_mesh *mesh, const char *list, int *n) {
    struct msi_axes_names from = {&mesh->axes, &mesh->root->flat};
    return msi_axes_dims(&from, list, mesh->root->dims, n);
}

mst_status msi_mesh_check_member(const struct msi_root_mesh *root) {
    if (root->position >= 0) return MST_OK;
    return msi_fail(MST_ERR_NOT_MEMBER, "call it only on ranks whose mst_mesh_get_coordinate is not -1",
                    "rank %d is not in the mesh, whose %d ranks begin with %d", root->rank, root->grid.size,
                    root->ranks[0]);
}

int msi_mesh_axis_size(const mst_mesh *mesh, int i) {
    return msi_line_size(&mesh->root->grid, mesh->axes.at[i].dims, mesh->axes.at[i].n);
}

int msi_mesh_total_size(const mst_mesh *mesh) {
    int size = 1;
    for (int i = 0; i < mesh->axes.n; i++) size *= msi_mesh_axis_size(mesh, i);
    return size;
}

int msi_mesh_list_size(const mst_mesh *mesh, const char *list) {
    int n;
    if (msi_mesh_dims(mesh, list, &n) != MST_OK) return -1;
    return msi_line_size(&mesh->root->grid, mesh->root->dims, n);
}

int msi_mesh_origin(const mst_mesh *mesh) {
    if (mesh->root->position >= 0) return mesh->root->position;
    if (msi_mesh_total_size(mesh) == mesh->root->grid.size) return 0;
    msi_mesh_check_member(mesh->root);
    return -1;
}

int msi_mesh_rank_by_index(const mst_mesh *mesh, int origin, int index) {
    int position = origin;
    for (int i = mesh->axes.n - 1; i >= 0; i--) {
        const struct msi_axis *a = &mesh->axes.at[i];
        int size = msi_mesh_axis_size(mesh, i);
        position = msi_line_at(&mesh->root->grid, a->dims, a->n, position, index % size);
        index /= size;
    }
    return mesh->root->ranks[position];
}

int msi_mesh_rank_by_coordinate(const mst_mesh *mesh, int origin, const int *coordinate) {
    int index = 0;
    for (int i = 0; i < mesh->axes.n; i++) {
        int size = msi_mesh_axis_size(mesh, i);
        if (coordinate[i] < 0 || coordinate[i] >= size) {
            msi_fail(MST_ERR_INVALID, "coordinates go from 0 to the dimension's size less 1",
                     "coordinate %d is not in dimension '%.80s' of the mesh, whose size is %d", coordinate[i],
                     mesh->axes.at[i].name, size);
            return -1;
        }
        index = index * size + coordinate[i];
    }
    return msi_mesh_rank_by_index(mesh, origin, index);
}

int msi_mesh_coordinate(const mst_mesh *mesh, int i) {
    const struct msi_axis *a = &mesh->axes.at[i];
    return msi_line_index(&mesh->root->grid, a->dims, a->n, mesh->root->position);
}

/* Groups order their ranks ascending, independent of the mesh's order: counts the ranks below this one. */
int msi_mesh_local_rank(const mst_mesh *mesh, const char *list) {
    const struct msi_root_mesh *root = mesh->root;
    int n, below = 0;
    if (msi_mesh_dims(mesh, list, &n) != MST_OK || msi_mesh_check_member(root) != MST_OK) return -1;
    /* The ranks of given groups are the coordinates. */
    if (n == 1 && root->n_groups && root->groups[0].borrowed)
        return msi_grid_coordinate(&root->grid, root->position, root->dims[0]);
    int size = msi_line_size(&root->grid, root->dims, n);
    for (int i = 0; i < size; i++)
        below += root->ranks[msi_line_at(&root->grid, root->dims, n, root->position, i)] < root->rank;
    return below;
}
