/*
 * root_mesh.h - a mesh, its slices, and the groups along their dimensions.
 *
 *  1. A mesh and its slices share a root: one grid, one list of ranks and one set of groups. The root owns
 *     them and ends with the whole mesh.
 *  2. A world may end before its meshes and ends their groups. So the root keeps handles of groups.
 *  3. The lock protects groups, flattened axes, the list of meshes and scratch space. It is held while a
 *     group is made, which may take a round trip to the store. Everything else is constant and read without
 *     the lock.
 *  4. The callers of these functions have named the public call, have checked that the mesh is alive, and
 *     hold the lock where "locked" is written.
 */
#ifndef MSI_MESH_ROOT_MESH_H
#define MSI_MESH_ROOT_MESH_H

#include "group/world.h"
#include "mesh/axes.h"

#include <muster/mesh.h>

/* A group along some dimensions. */
struct msi_mesh_group {
    int n, *dims;
    mst_group *handle;
    bool borrowed; /* the program owns it */
};

struct msi_root_mesh {
    struct msi_grid grid;
    int *ranks;           /* by position */
    int *sorted;          /* the same ranks, ascending */
    int rank, position;   /* of this process; position -1: it is not in the mesh */
    mst_group *world;     /* a handle */
    mst_group *whole;     /* handle of the group of all its ranks; NULL outside the mesh */
    char id[64];          /* that group's id, which identifies the mesh */
    mst_group_options of; /* of its groups */
    char *backend;        /* NULL: the world's */
    const mst_mesh *all;  /* the whole mesh */
    pthread_mutex_t lock; /* of the following members */
    int *dims;            /* scratch, one for each dimension of the grid */
    mst_group **found;    /* scratch, one for each axis */
    struct msi_mesh_group *groups;
    int n_groups;
    struct msi_axes flat; /* flattened axes */
    mst_mesh **meshes;    /* the whole mesh and its slices */
    int n_meshes;
};

struct mst_mesh {
    struct msi_root_mesh *root;
    struct msi_axes axes;
    mst_mesh *handle;
};

/* root_mesh.c: making and ending. */

/* Makes a whole mesh and, on its ranks, the group of all of them; ignores options->world. */
mst_status msi_mesh_make(struct msi_world *world, const int *shape, int ndim, const char *const *names,
                         const mst_mesh_options *options, mst_mesh **whole);
/* Makes the given groups, one for each dimension, those of a mesh that has no groups yet. */
mst_status msi_mesh_lend_groups(struct msi_root_mesh *root, mst_group *const *groups);
/* Adds a mesh and takes ownership of its axes, also on failure. Locked. */
mst_status msi_mesh_add(struct msi_root_mesh *root, struct msi_axes *axes, mst_mesh **mesh);
/* Ends the groups and frees the root. Fails in a forked child, and then changes nothing. */
mst_status msi_mesh_end(struct msi_root_mesh *root);

/* agree.c: makes the group of all ranks of the mesh, and compares the mesh with the first rank's. */
mst_status msi_mesh_agree(struct msi_root_mesh *root, struct msi_world *world, const struct msi_axes *axes);

/* groups.c: this rank's group along a list of dimensions, and one for each axis of the mesh. Locked. */
mst_status msi_mesh_find_group(const mst_mesh *mesh, const char *list, mst_group **handle);
mst_status msi_mesh_find_groups(const mst_mesh *mesh, mst_group **handles);

/* slices.c: the mesh with some of the axes, or with all as one; name "": joined names. Locked. */
mst_status msi_mesh_slice(mst_mesh *mesh, const char *list, mst_mesh **slice);
mst_status msi_mesh_flatten(mst_mesh *mesh, const char *name, mst_mesh **flat);

/* coordinates.c */

/* Stores the dimensions of a list of names in root->dims. Locked. */
mst_status msi_mesh_dims(const mst_mesh *mesh, const char *list, int *n);
/* MST_ERR_NOT_MEMBER if this rank is not in the mesh. */
mst_status msi_mesh_check_member(const struct msi_root_mesh *root);
/* Number of ranks along the i-th axis, in the mesh, and along a list of dimensions (locked; -1: failure). */
int msi_mesh_axis_size(const mst_mesh *mesh, int i);
int msi_mesh_total_size(const mst_mesh *mesh);
int msi_mesh_list_size(const mst_mesh *mesh, const char *list);
/* A position with the fixed coordinates of a slice: this rank's, or 0 if none are fixed. -1: failure. */
int msi_mesh_origin(const mst_mesh *mesh);
/* The global rank at a row-major index or at coordinates, relative to the origin; -1: failure. */
int msi_mesh_rank_by_index(const mst_mesh *mesh, int origin, int index);
int msi_mesh_rank_by_coordinate(const mst_mesh *mesh, int origin, const int *coordinate);
/* This rank's coordinate on the i-th axis; its rank along a list of dimensions (locked); -1: failure. */
int msi_mesh_coordinate(const mst_mesh *mesh, int i);
int msi_mesh_local_rank(const mst_mesh *mesh, const char *list);

#endif
