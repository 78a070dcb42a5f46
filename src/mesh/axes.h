/*
 * axes.h - the named dimensions of a mesh, a slice or a flattened mesh.
 *
 * An axis covers one dimension of the grid, or several that were flattened into one. The axes of a mesh cover
 * different dimensions in ascending order. Slicing keeps that order, so a line along all axes is in row-major
 * order.
 */
#ifndef MSI_MESH_AXES_H
#define MSI_MESH_AXES_H

#include "base/buf.h"
#include "mesh/grid.h"

struct msi_axis {
    char *name; /* without a name: its number as text */
    int n;      /* number of dimensions of the grid that it covers */
    int *dims;  /* ascending */
};

struct msi_axes {
    int n;
    struct msi_axis *at;
};

/* One axis for each dimension; names may be NULL. Fails on invalid or repeated names. */
mst_status msi_axes_make(const char *const *names, int ndim, struct msi_axes *axes);
/* Appends a copy. */
mst_status msi_axes_add(struct msi_axes *axes, const char *name, const int *dims, int n);
void msi_axes_free(struct msi_axes *axes);

bool msi_axis_equal(const struct msi_axis *a, const struct msi_axis *b);
bool msi_axes_equal(const struct msi_axes *a, const struct msi_axes *b);
/* The axis of that name; NULL for none. */
const struct msi_axis *msi_axes_find(const struct msi_axes *axes, struct msi_str name);

/* Fails if the name is invalid. */
mst_status msi_axis_check_name(const char *name);

/*
 * Where names are looked up: the axes of a mesh, then flattened axes (NULL: none). A number is the index of
 * an axis of the mesh.
 */
struct msi_axes_names {
    const struct msi_axes *own, *flat;
};

/*
 * The dimensions of the grid that a list of names covers; they must be in ascending order. dims has space for
 * all dimensions of the grid. NULL stands for the only axis.
 */
mst_status msi_axes_dims(const struct msi_axes_names *names, const char *list, int *dims, int *n);
/* The axes themselves, copied; the list is not NULL. */
mst_status msi_axes_pick(const struct msi_axes_names *names, const char *list, struct msi_axes *picked);

/* "dp=2,tp=4" */
void msi_axes_show(const struct msi_axes *axes, const struct msi_grid *grid, struct msi_buf *out);
/* "dp_tp": the names with a separator between them. */
void msi_axes_join(const struct msi_axes *axes, char separator, struct msi_buf *out);

#endif
