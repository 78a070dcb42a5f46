/* mesh.c - the public calls on meshes: check the arguments and take the lock. See mesh/root_mesh.h. */
#include "api/api.h"
#include "base/error.h"
#include "base/options.h"
#include "bootstrap/report.h"
#include "mesh/root_mesh.h"
#include "mesh/spec.h"

#include <muster/recovery.h>

/* The mesh of a handle, or NULL with the failure recorded. Names the call. */
static mst_mesh *find(const char *name, const mst_mesh *handle) {
    mst_mesh *mesh = handle && msi_handle_alive(handle) ? msi_handle_memory(handle) : NULL;
    msi_call_begin(name, NULL, mesh ? mesh->root->rank : -1);
    if (!handle)
        msi_fail(MST_ERR_INVALID, "create one with mst_init_device_mesh", "mesh is NULL");
    else if (!mesh)
        msi_fail(MST_ERR_STATE, "use a mesh after it was created and before it is freed",
                 "the mesh was freed, or the handle is invalid");
    return mesh;
}

/* The same, and locks the root mesh; leave unlocks it. */
static mst_mesh *enter(const char *name, const mst_mesh *handle) {
    mst_mesh *mesh = find(name, handle);
    if (mesh) pthread_mutex_lock(&mesh->root->lock);
    return mesh;
}
static void leave(mst_mesh *mesh) {
    pthread_mutex_unlock(&mesh->root->lock);
}

/* Takes the options and finds the world. */
static mst_status begin(const char *name, const mst_mesh_options *given, mst_mesh *const *mesh,
                        mst_mesh_options *options, mst_group **world) {
    mst_status st = msi_options_begin(name, options, sizeof *options, given);
    if (st == MST_OK) st = msi_check_timeout(options->timeout_ms);
    if (st != MST_OK) return st;
    *world = msi_call_group(name, &options->site, options->world);
    if (!*world) return MST_ERR_STATE;
    return mesh ? MST_OK : msi_fail(MST_ERR_INVALID, NULL, "mesh is NULL");
}

static mst_status make(const mst_group *world, const int *shape, int ndim, const char *const *names,
                       const mst_mesh_options *options, mst_mesh **mesh) {
    mst_mesh *whole;
    uint64_t entered = msi_call_enter(world->size, 0, 0);
    mst_status st = msi_mesh_make(world->world, shape, ndim, names, options, &whole);
    if (st == MST_OK) *mesh = whole->handle;
    return msi_call_leave(entered, st);
}

mst_status mst_init_device_mesh_with(const int *shape, int ndim, const char *const *names, mst_mesh **mesh,
                                     const mst_mesh_options *given) {
    mst_mesh_options options;
    mst_group *world;
    mst_status st = begin("mst_init_device_mesh", given, mesh, &options, &world);
    return st == MST_OK ? make(world, shape, ndim, names, &options, mesh) : st;
}

mst_status mst_init_device_mesh_from_with(const char *text, mst_mesh **mesh, const mst_mesh_options *given) {
    mst_mesh_options options;
    mst_group *world;
    struct msi_mesh_spec spec;
    mst_status st = begin("mst_init_device_mesh_from", given, mesh, &options, &world);
    if (st == MST_OK && !text) st = msi_fail(MST_ERR_INVALID, "write it as in \"dp=2,tp=2\"", "text is NULL");
    if (st == MST_OK) st = msi_mesh_parse(text, &spec);
    if (st != MST_OK) return st;
    st = make(world, spec.sizes, spec.ndim, (const char *const *)spec.names, &options, mesh);
    msi_mesh_spec_free(&spec);
    return st;
}

mst_status mst_mesh_free(mst_mesh *handle) {
    if (!handle) return MST_OK;
    mst_mesh *mesh = find("mst_mesh_free", handle);
    if (!mesh) return MST_ERR_STATE;
    if (mesh != mesh->root->all) return MST_OK;
    if (msi_comm_in_any_callback())
        return msi_fail(MST_ERR_STATE, "free it after the callback has returned",
                        "a callback of a work cannot free a mesh");
    return msi_mesh_end(mesh->root);
}

mst_status mst_mesh_get_group(mst_mesh *handle, const char *dims, mst_group **group) {
    mst_mesh *mesh = enter("mst_mesh_get_group", handle);
    if (!mesh) return mst_last_error()->status;
    mst_status st = group ? MST_OK : msi_fail(MST_ERR_INVALID, NULL, "group is NULL");
    if (st == MST_OK) st = msi_mesh_find_group(mesh, dims, group);
    leave(mesh);
    return st;
}

mst_status mst_mesh_get_all_groups(mst_mesh *handle, mst_group **groups, int capacity) {
    mst_mesh *mesh = enter("mst_mesh_get_all_groups", handle);
    if (!mesh) return mst_last_error()->status;
    int n = mesh->axes.n;
    mst_status st = msi_mesh_check_member(mesh->root);
    if (st == MST_OK && (!groups || capacity < n))
        st = msi_fail(MST_ERR_INVALID, "give an array of mst_mesh_ndim(mesh) groups",
                      "the array has %d groups, but the mesh has %d dimensions", groups ? capacity : 0, n);
    if (st == MST_OK) st = msi_mesh_find_groups(mesh, groups);
    leave(mesh);
    return st;
}

mst_status mst_mesh_slice(mst_mesh *handle, const char *dims, mst_mesh **slice) {
    mst_mesh *mesh = enter("mst_mesh_slice", handle), *member;
    if (!mesh) return mst_last_error()->status;
    mst_status st = MST_OK;
    if (!slice || !dims) st = msi_fail(MST_ERR_INVALID, NULL, "%s is NULL", slice ? "dims" : "slice");
    if (st == MST_OK) st = msi_mesh_slice(mesh, dims, &member);
    if (st == MST_OK) *slice = member->handle;
    leave(mesh);
    return st;
}

mst_status mst_mesh_flatten(mst_mesh *handle, const char *name, mst_mesh **flat) {
    mst_mesh *mesh = enter("mst_mesh_flatten", handle), *member;
    if (!mesh) return mst_last_error()->status;
    mst_status st = flat ? MST_OK : msi_fail(MST_ERR_INVALID, NULL, "flat is NULL");
    if (st == MST_OK) st = msi_mesh_flatten(mesh, name, &member);
    if (st == MST_OK) *flat = member->handle;
    leave(mesh);
    return st;
}

int mst_mesh_ndim(const mst_mesh *handle) {
    const mst_mesh *mesh = find("mst_mesh_ndim", handle);
    return mesh ? mesh->axes.n : -1;
}

int mst_mesh_size(const mst_mesh *handle, const char *dims) {
    mst_mesh *mesh = enter("mst_mesh_size", handle);
    if (!mesh) return -1;
    int size = dims ? msi_mesh_list_size(mesh, dims) : msi_mesh_total_size(mesh);
    leave(mesh);
    return size;
}

int mst_mesh_shape(const mst_mesh *handle, int *shape, int capacity) {
    const mst_mesh *mesh = find("mst_mesh_shape", handle);
    if (!mesh) return -1;
    for (int i = 0; shape && i < mesh->axes.n && i < capacity; i++) shape[i] = msi_mesh_axis_size(mesh, i);
    return mesh->axes.n;
}

const char *mst_mesh_dim_name(const mst_mesh *handle, int dim) {
    const mst_mesh *mesh = find("mst_mesh_dim_name", handle);
    if (mesh && dim >= 0 && dim < mesh->axes.n) return mesh->axes.at[dim].name;
    if (mesh)
        msi_fail(MST_ERR_INVALID, "dimensions are numbered from 0",
                 "the mesh has %d dimension%s; dimension %d does not exist", mesh->axes.n,
                 mesh->axes.n == 1 ? "" : "s", dim);
    return NULL;
}

mst_status mst_check_mesh(const mst_mesh *handle) {
    const mst_mesh *mesh = find("mst_check_mesh", handle);
    if (!mesh) return mst_last_error()->status;
    mst_group *all = msi_group_of(mesh->root->world);
    int origin = msi_mesh_origin(mesh), size = msi_mesh_total_size(mesh);
    if (origin < 0) return mst_last_error()->status;
    mst_status st = msi_group_check_use(all);
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    if (st == MST_OK) st = msi_world_read_events(all->world, &wait);
    for (int i = 0; i < size && st == MST_OK; i++) {
        int rank = msi_mesh_rank_by_index(mesh, origin, i);
        char event = msi_world_rank_event(all->world, rank);
        if (event) st = msi_group_fail_lost(all, rank, event);
    }
    return st;
}

int mst_mesh_ranks(const mst_mesh *handle, int *ranks, int capacity) {
    const mst_mesh *mesh = find("mst_mesh_ranks", handle);
    int origin = mesh ? msi_mesh_origin(mesh) : -1;
    if (origin < 0) return -1;
    int size = msi_mesh_total_size(mesh);
    for (int i = 0; ranks && i < size && i < capacity; i++)
        ranks[i] = msi_mesh_rank_by_index(mesh, origin, i);
    return size;
}

int mst_mesh_rank_at(const mst_mesh *handle, const int *coordinate) {
    const mst_mesh *mesh = find("mst_mesh_rank_at", handle);
    int origin = mesh ? msi_mesh_origin(mesh) : -1;
    if (origin < 0) return -1;
    if (coordinate) return msi_mesh_rank_by_coordinate(mesh, origin, coordinate);
    msi_fail(MST_ERR_INVALID, NULL, "coordinate is NULL");
    return -1;
}

int mst_mesh_get_coordinate(const mst_mesh *handle, int *coordinate, int capacity) {
    const mst_mesh *mesh = find("mst_mesh_get_coordinate", handle);
    if (!mesh || msi_mesh_check_member(mesh->root) != MST_OK) return -1;
    for (int i = 0; coordinate && i < mesh->axes.n && i < capacity; i++)
        coordinate[i] = msi_mesh_coordinate(mesh, i);
    return mesh->axes.n;
}

int mst_mesh_get_local_rank(const mst_mesh *handle, const char *dims) {
    mst_mesh *mesh = enter("mst_mesh_get_local_rank", handle);
    if (!mesh) return -1;
    int rank = msi_mesh_local_rank(mesh, dims);
    leave(mesh);
    return rank;
}
