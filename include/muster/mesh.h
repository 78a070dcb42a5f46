/*
 * mesh.h - ranks arranged in several dimensions, and the groups along them: PyTorch's DeviceMesh.
 *
 *     mst_mesh *mesh;
 *     mst_init_device_mesh_from("dp=2,tp=4", &mesh);     ranks 0 1 2 3    tp: the ranks of a row
 *     mst_group *tp;                                           4 5 6 7    dp: those of a column
 *     mst_mesh_get_group(mesh, "tp", &tp);
 *
 * Where a call takes dims, that is the name of a dimension, or of several in the mesh's order with commas between them
 * ("dp,tp"). A number that is no name stands for a place among the mesh's dimensions, from 0 up; where dimensions were given no
 * names, "1" is the name of one, in slices too. NULL stands for the only dimension of a mesh that has just one.
 *
 * Lifetimes and threads
 *  1. A mesh owns its groups, its slices and what was flattened from it. mst_mesh_free ends them all, the end of the world ends
 *     the groups. Slices share the groups of their mesh.
 *  2. Each rank of the mesh makes it; the others need not. Ranks pair up the first, second, … mesh that they make of the same
 *     ranks, and who makes it differently from the first to come is told so with MST_ERR_MISMATCH.
 *  3. Nothing here waits for other ranks. A group is made when it is first asked for, in whatever order a rank likes, and its
 *     ranks meet in its first operation.
 *  4. A mesh may be used by several threads at once.
 */
#ifndef MUSTER_MESH_H
#define MUSTER_MESH_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mst_mesh mst_mesh;

typedef struct mst_mesh_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(mst_group *world);    /* NULL: the default world */
    MST_OPTION(const int *ranks);    /* which rank sits where, in row-major order; NULL: 0, 1, 2, … */
    MST_OPTION(int timeout_ms);      /* default deadline of calls on its groups; 0: the world's */
    MST_OPTION(const char *backend); /* of its groups; NULL: the world's */
} mst_mesh_options;

/*
 * Arranges ranks in ndim dimensions of these sizes, the last one running fastest. The product of the sizes is the number of
 * ranks in the world; with .ranks, which names so many of them, it may be less. names are distinct, or NULL: then dimensions
 * are called "0", "1", …, and keep these names in slices.
 */
mst_status mst_init_device_mesh_with(const int *shape, int ndim, const char *const *names, mst_mesh **mesh,
                                     const mst_mesh_options *options);
/* The same from text, as in "dp=2,pp=2,tp=2" or "2,2,2". */
mst_status mst_init_device_mesh_from_with(const char *text, mst_mesh **mesh, const mst_mesh_options *options);
/* Ends the mesh and all that it owns. A slice is left alone: it ends with its mesh, which a slice of all its dimensions is itself. NULL is
   fine. */
mst_status mst_mesh_free(mst_mesh *mesh);

/*
 * The group of this rank along dims: those ranks that have the other coordinates in common with it. It is the mesh's; do not
 * destroy it. Its ranks are in ascending order, as in every group. A rank outside of the mesh gets MST_ERR_NOT_MEMBER.
 */
mst_status mst_mesh_get_group(mst_mesh *mesh, const char *dims, mst_group **group);
/* The groups of all dimensions, one by one; groups has room for capacity of them, at least ndim. */
mst_status mst_mesh_get_all_groups(mst_mesh *mesh, mst_group **groups, int capacity);

/*
 * The mesh of some dimensions: what is left of it when this rank's coordinates along the others are held fixed. The same
 * slice is the same mesh. Of a whole mesh, names that flattening gave can be named too.
 */
mst_status mst_mesh_slice(mst_mesh *mesh, const char *dims, mst_mesh **slice);
/* One dimension made of all that the mesh has. name NULL: the names joined, as in "dp_cp". The same again is the same mesh. */
mst_status mst_mesh_flatten(mst_mesh *mesh, const char *name, mst_mesh **flat);

/* The calls below return -1, or NULL, where there is no answer; mst_error() then says why. */
int mst_mesh_ndim(const mst_mesh *mesh);
/* How many ranks there are along dims; NULL: in all. */
int mst_mesh_size(const mst_mesh *mesh, const char *dims);
/* Writes at most capacity sizes, and returns how many dimensions there are. */
int mst_mesh_shape(const mst_mesh *mesh, int *shape, int capacity);
/* Lives as long as the mesh. */
const char *mst_mesh_dim_name(const mst_mesh *mesh, int dim);
/* Writes at most capacity global ranks in row-major order, and returns how many the mesh has. */
int mst_mesh_ranks(const mst_mesh *mesh, int *ranks, int capacity);
/* The global rank with these coordinates, ndim of them. */
int mst_mesh_rank_at(const mst_mesh *mesh, const int *coordinate);
/* Where this rank is: writes at most capacity coordinates, and returns how many dimensions there are; -1: not in the mesh. */
int mst_mesh_get_coordinate(const mst_mesh *mesh, int *coordinate, int capacity);
/*
 * This rank in its group along dims. That is its coordinate, unless .ranks put ranks in another order: groups are in ascending
 * order all the same.
 */
int mst_mesh_get_local_rank(const mst_mesh *mesh, const char *dims);

#ifdef __cplusplus
}
inline mst_status mst_init_device_mesh(const int *shape, int ndim, const char *const *names, mst_mesh **mesh,
                                       mst_mesh_options options = {}, MST_SITE_PARAMETERS) {
    return mst_init_device_mesh_with(shape, ndim, names, mesh, MST_FILL_OPTIONS(options));
}
inline mst_status mst_init_device_mesh_from(const char *text, mst_mesh **mesh, mst_mesh_options options = {},
                                            MST_SITE_PARAMETERS) {
    return mst_init_device_mesh_from_with(text, mesh, MST_FILL_OPTIONS(options));
}
#else
#define mst_init_device_mesh(shape, ndim, names, ...)                                                        \
    mst_init_device_mesh_with(shape, ndim, names, MST_LAST_POSITIONAL(__VA_ARGS__),                          \
                              MST_OPTIONS_AFTER(mst_mesh_options, __VA_ARGS__))
#define mst_init_device_mesh_from(text, ...)                                                                 \
    mst_init_device_mesh_from_with(text, MST_LAST_POSITIONAL(__VA_ARGS__),                                   \
                                   MST_OPTIONS_AFTER(mst_mesh_options, __VA_ARGS__))
#endif
/* DeepSpeed's name for it. */
#define mst_initialize_mesh_device mst_init_device_mesh
#endif
