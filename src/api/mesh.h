/*
 * mesh.h - what the files of calls on meshes share.
 *
 * A mesh and all that was cut from it are a family: they have one grid, one list of ranks and one set of groups. The lock
 * guards what grows: groups, names and members.
 */
#ifndef MSI_API_MESH_H
#define MSI_API_MESH_H

#include "api/api.h"
#include "mesh/axes.h"

#include <muster/mesh.h>

/* A group that was asked for. */
struct msi_mesh_group {
    int n, *dims; /* along which dimensions */
    mst_group *handle;
};

struct msi_mesh_family {
    struct msi_grid grid;
    int *ranks;           /* by position */
    int rank, position;   /* of this process; position -1: it is not in the mesh */
    mst_group *world;     /* a handle */
    mst_group *whole;     /* the handle of the group of all its ranks; NULL outside of the mesh */
    char id[64];          /* that group's, by which ranks know the mesh */
    mst_group_options of; /* its groups */
    char *backend;        /* NULL: the world's */
    pthread_mutex_t lock; /* of what follows */
    int *dims;            /* scratch, one for each dimension of the grid */
    struct msi_mesh_group *groups;
    int n_groups;
    struct msi_axes flat; /* that flattening made */
    mst_mesh **members;   /* the first is the whole mesh */
    int n_members;
};

struct mst_mesh {
    struct msi_mesh_family *family;
    struct msi_axes axes;
    mst_mesh *handle;
};

/* The mesh of a handle, or NULL with the failure recorded. Names the call. */
mst_mesh *msi_api_mesh(const char *name, const mst_mesh *mesh);

/* The same with its family locked, and the end of that. */
static inline mst_mesh *msi_mesh_enter(const char *name, const mst_mesh *handle) {
    mst_mesh *mesh = msi_api_mesh(name, handle);
    if (mesh) pthread_mutex_lock(&mesh->family->lock);
    return mesh;
}
static inline void msi_mesh_leave(mst_mesh *mesh) {
    pthread_mutex_unlock(&mesh->family->lock);
}

/* Adds a mesh with these axes to the family, which takes them over also if it fails. With the lock held, or before others know it. */
mst_status msi_mesh_adopt(struct msi_mesh_family *family, struct msi_axes *axes, mst_mesh **member);

/* The dimensions that a list of names stands for, in family->dims. With the lock held. */
mst_status msi_mesh_dims(const mst_mesh *mesh, const char *names, int *n);
/* Fails with MST_ERR_NOT_MEMBER where this rank is not in the mesh. */
mst_status msi_mesh_check_member(const struct msi_mesh_family *family);

#endif
