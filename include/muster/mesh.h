/*
 * mesh.h - ranks arranged in several dimensions, and groups along the dimensions, like PyTorch's DeviceMesh.
 *
 *     mst_mesh *mesh;
 *     mst_init_device_mesh_from("dp=2,tp=4", &mesh);     ranks 0 1 2 3    tp: the ranks of a row
 *     mst_group *tp;                                           4 5 6 7    dp: those of a column
 *     mst_mesh_get_group(mesh, "tp", &tp);
 *
 * The argument dims is the name of a dimension, or of several in the mesh's order, separated by commas
 * ("dp,tp"). A number that is not a name is the index of a dimension, from 0. Unnamed dimensions are named
 * "0", "1", …, also in slices. NULL stands for the only dimension of a one-dimensional mesh.
 *
 * Lifetimes and threads
 *  1. A mesh owns its groups, its slices and its flattened meshes; mst_mesh_free frees them. The groups also
 *     end with the world. Slices share the groups of their mesh.
 *  2. Every rank of the mesh creates it; other ranks need not. The ranks' first, second, … meshes of the same
 *     ranks belong together. A rank whose mesh differs from that of the first rank gets MST_ERR_MISMATCH.
 *  3. No call but mst_mesh_from_groups waits for other ranks. A group is created on first use, in any order;
 *     its ranks connect in its first operation.
 *  4. Several threads may use a mesh concurrently.
 */
#ifndef MUSTER_MESH_H
#define MUSTER_MESH_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mst_mesh mst_mesh;

#define mst_mesh_options_fields                                                                              \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(mst_group *world);    /* NULL: the default world */                                           \
    MST_OPTION(const int *ranks);    /* the ranks in row-major order; NULL: 0, 1, 2, … */                  \
    MST_OPTION(int timeout_ms);      /* default deadline of calls on its groups; 0: the world's */           \
    MST_OPTION(const char *backend); /* of its groups; NULL: the world's */
typedef struct mst_mesh_options {
    mst_mesh_options_fields
} mst_mesh_options;

/*
 * Arranges ranks in ndim dimensions of these sizes; the last dimension varies fastest. The product of the
 * sizes is the world size, or with .ranks the number of these ranks. names are distinct, or NULL for "0",
 * "1", ….
 */
mst_status mst_init_device_mesh_with(const int *shape, int ndim, const char *const *names, mst_mesh **mesh,
                                     const mst_mesh_options *options);
/* The same from text such as "dp=2,pp=2,tp=2" or "2,2,2". */
mst_status mst_init_device_mesh_from_with(const char *text, mst_mesh **mesh, const mst_mesh_options *options);
#define mst_mesh_groups_options_fields                                                                       \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(const char *const *dim_names); /* NULL: "0", "1", … */                                      \
    MST_OPTION(int timeout_ms); /* of this call and of groups that the mesh creates; 0: that of the groups */
typedef struct mst_mesh_groups_options {
    mst_mesh_groups_options_fields
} mst_mesh_groups_options;
/*
 * A mesh from existing groups, like DeviceMesh.from_group: groups[d] is this rank's group along dimension d.
 * Its size is the size of the dimension, and this rank's rank in it is the coordinate. All ranks of the mesh
 * call it; unlike the calls above it waits for them, through collectives on the groups. MST_ERR_MISMATCH
 * names a rank if the groups do not form a mesh: each combination of coordinates must have one rank. The
 * caller still owns the groups, which mst_mesh_get_group returns. Do not destroy them before the mesh.
 */
mst_status mst_mesh_from_groups_with(mst_group *const *groups, int ndim, mst_mesh **mesh,
                                     const mst_mesh_groups_options *options);
/*
 * Frees the mesh and all that it owns. Does nothing for a slice, which is freed with its mesh. Accepts NULL.
 */
mst_status mst_mesh_free(mst_mesh *mesh);

/*
 * Returns the group of this rank along dims: the ranks with the same coordinates in all other dimensions, in
 * ascending order. The mesh owns it; do not destroy it. A rank outside the mesh gets MST_ERR_NOT_MEMBER.
 */
mst_status mst_mesh_get_group(mst_mesh *mesh, const char *dims, mst_group **group);
/* Returns the groups of all dimensions. groups has capacity entries, at least ndim. */
mst_status mst_mesh_get_all_groups(mst_mesh *mesh, mst_group **groups, int capacity);

/*
 * Returns the mesh of some dimensions, with this rank's coordinates fixed in the others. Repeated calls
 * return the same mesh. For a mesh that is not a slice, dims may also be the name of a flattened mesh.
 */
mst_status mst_mesh_slice(mst_mesh *mesh, const char *dims, mst_mesh **slice);
/* Returns a mesh with one dimension for all of this mesh. name NULL: the joined names, such as "dp_cp". */
mst_status mst_mesh_flatten(mst_mesh *mesh, const char *name, mst_mesh **flat);

/* The calls below return -1, or NULL, and set mst_error() on failure. */
int mst_mesh_ndim(const mst_mesh *mesh);
/* Returns the number of ranks along dims; NULL: of the mesh. */
int mst_mesh_size(const mst_mesh *mesh, const char *dims);
/* Writes at most capacity sizes. Returns the number of dimensions. */
int mst_mesh_shape(const mst_mesh *mesh, int *shape, int capacity);
/* The name is valid until the mesh is freed. */
const char *mst_mesh_dim_name(const mst_mesh *mesh, int dim);
/* Writes at most capacity global ranks in row-major order. Returns the number of ranks. */
int mst_mesh_ranks(const mst_mesh *mesh, int *ranks, int capacity);
/* Returns the global rank with these ndim coordinates. */
int mst_mesh_rank_at(const mst_mesh *mesh, const int *coordinate);
/* Writes at most capacity coordinates of this rank. Returns the number of dimensions; -1: not in the mesh. */
int mst_mesh_get_coordinate(const mst_mesh *mesh, int *coordinate, int capacity);
/* Returns this rank's group rank along dims: its coordinate, unless .ranks are not ascending. */
int mst_mesh_get_local_rank(const mst_mesh *mesh, const char *dims);

#ifdef __cplusplus
}
#endif

MST_WRAP_4(mst_init_device_mesh, mst_mesh_options, const int *, int, const char *const *, mst_mesh **)
MST_WRAP_2(mst_init_device_mesh_from, mst_mesh_options, const char *, mst_mesh **)
MST_WRAP_3(mst_mesh_from_groups, mst_mesh_groups_options, mst_group *const *, int, mst_mesh **)

#define mst_init_device_mesh(...)      MST_CALL_4(mst_init_device_mesh, mst_mesh_options, __VA_ARGS__)
#define mst_init_device_mesh_from(...) MST_CALL_2(mst_init_device_mesh_from, mst_mesh_options, __VA_ARGS__)
#define mst_mesh_from_groups(...)      MST_CALL_3(mst_mesh_from_groups, mst_mesh_groups_options, __VA_ARGS__)
/* DeepSpeed's name. */
#define mst_initialize_mesh_device mst_init_device_mesh
#endif
