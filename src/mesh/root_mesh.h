/*
 * root_mesh.h - meshes as programs have them: a whole mesh, what was cut from it, and the groups along their dimensions.
 *
 *  1. A mesh and all that was cut from it are a root: they have one grid, one list of ranks and one set of groups. The root
 *     owns its members and groups and ends with the whole mesh.
 *  2. A world may end before its meshes do, and takes their groups with it; so the root keeps handles of them, not the groups.
 *  3. The lock guards what grows: groups, flattened names and members; and the scratch. It is held while a group is made, which then
 *     is made once, and may be held for as long as the store takes to answer. All else stays as it was made, a member's axes too,
 *     and is read without the lock.
 *  4. Whoever calls these functions has named the public call, knows that the mesh is alive, and holds the lock where they want it.
 */
#ifndef MSI_MESH_ROOT_MESH_H
#define MSI_MESH_ROOT_MESH_H

#include "group/world.h"
#include "mesh/axes.h"

#include <muster/mesh.h>

/* A group that was asked for. */
struct msi_mesh_group {
    int n, *dims; /* along which dimensions */
    mst_group *handle;
};

struct msi_root_mesh {
    struct msi_grid grid;
    int *ranks;           /* by position */
    int rank, position;   /* of this process; position -1: it is not in the mesh */
    mst_group *world;     /* a handle */
    mst_group *whole;     /* the handle of the group of all its ranks; NULL outside of the mesh */
    char id[64];          /* that group's, by which ranks know the mesh */
    mst_group_options of; /* its groups */
    char *backend;        /* NULL: the world's */
    const mst_mesh *all;  /* the whole mesh */
    pthread_mutex_t lock; /* of what follows */
    int *dims;            /* scratch, one for each dimension of the grid */
    mst_group **found;    /* likewise, one for each axis that a mesh can have */
    struct msi_mesh_group *groups;
    int n_groups;
    struct msi_axes flat; /* that flattening made */
    mst_mesh **members;   /* the first is the whole mesh */
    int n_members;
};

struct mst_mesh {
    struct msi_root_mesh *root;
    struct msi_axes axes;
    mst_mesh *handle;
};

/* root_mesh.c: making and ending. */

/* Makes a whole mesh and, on the ranks that are in it, the group of them all; options->world does not count here. */
mst_status msi_mesh_make(struct msi_world *world, const int *shape, int ndim, const char *const *names,
                         const mst_mesh_options *options, mst_mesh **whole);
/* Adds a member with these axes, which are taken over also if it fails. Locked, or before others know the root. */
mst_status msi_mesh_adopt(struct msi_root_mesh *root, struct msi_axes *axes, mst_mesh **member);
/* Ends the groups and frees everything; fails, and leaves all as it is, in a forked child. Nobody may use the root any more. */
mst_status msi_mesh_end(struct msi_root_mesh *root);

/* meet.c: makes the group of all ranks of the mesh, and compares with those who came before what they make. */
mst_status msi_mesh_meet(struct msi_root_mesh *root, struct msi_world *world, const struct msi_axes *axes);

/* groups.c: this rank's group along a list of dimensions, and one for each axis of the mesh. Locked. */
mst_status msi_mesh_find_group(const mst_mesh *mesh, const char *list, mst_group **handle);
mst_status msi_mesh_find_groups(const mst_mesh *mesh, mst_group **handles);

/* slices.c: the member that has some of the mesh's axes, or all of them as one; name NULL or "": theirs, joined. Locked. */
mst_status msi_mesh_slice(mst_mesh *mesh, const char *list, mst_mesh **slice);
mst_status msi_mesh_flatten(mst_mesh *mesh, const char *name, mst_mesh **flat);

/* places.c: who is where. */

/* The dimensions that a list of names stands for, in root->dims. Locked. */
mst_status msi_mesh_dims(const mst_mesh *mesh, const char *list, int *n);
/* Fails with MST_ERR_NOT_MEMBER where this rank is not in the mesh. */
mst_status msi_mesh_check_member(const struct msi_root_mesh *root);
/* How many ranks there are along the i-th axis, in the whole mesh, and along a list of dimensions (locked; -1: it failed). */
int msi_mesh_axis_size(const mst_mesh *mesh, int i);
int msi_mesh_total_size(const mst_mesh *mesh);
int msi_mesh_list_size(const mst_mesh *mesh, const char *list);
/*
 * A position that has the coordinates which a slice holds fixed: this rank's, or any where none are. -1, with the failure recorded,
 * where there is none.
 */
int msi_mesh_origin(const mst_mesh *mesh);
/* The global rank at an index in row-major order, and at some coordinates; the others as in the origin. -1: there are no such. */
int msi_mesh_rank_by_index(const mst_mesh *mesh, int origin, int index);
int msi_mesh_rank_by_coordinate(const mst_mesh *mesh, int origin, const int *coordinate);
/* This rank's coordinate along the i-th axis; its rank in the group along a list of dimensions (locked; -1: it failed). */
int msi_mesh_coordinate(const mst_mesh *mesh, int i);
int msi_mesh_local_rank(const mst_mesh *mesh, const char *list);

#endif
