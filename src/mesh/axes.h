/*
 * axes.h - the named dimensions of a mesh, of a slice of it, or of what flattening made.
 *
 * An axis runs along one dimension of the grid, or along several that were flattened into one. The axes of a mesh run along
 * different dimensions, in ascending order: that is what slicing must keep, and why a line of all of them is in row-major order.
 */
#ifndef MSI_MESH_AXES_H
#define MSI_MESH_AXES_H

#include "base/buf.h"
#include "mesh/grid.h"

struct msi_axis {
    char *name; /* its number as text, where it was given none */
    int n;      /* how many dimensions of the grid it runs along */
    int *dims;  /* which, ascending */
};

struct msi_axes {
    int n;
    struct msi_axis *at;
};

/* One axis for each dimension; names may be NULL. Fails on names that are empty, repeated, numbers, or have ',', '=' or spaces. */
mst_status msi_axes_make(const char *const *names, int ndim, struct msi_axes *axes);
/* Copies one more to the end. */
mst_status msi_axes_add(struct msi_axes *axes, const char *name, const int *dims, int n);
void msi_axes_free(struct msi_axes *axes);

bool msi_axis_equal(const struct msi_axis *a, const struct msi_axis *b);
bool msi_axes_equal(const struct msi_axes *a, const struct msi_axes *b);
/* The axis of that name; NULL for none. */
const struct msi_axis *msi_axes_find(const struct msi_axes *axes, struct msi_str name);

/* What a name must be. */
mst_status msi_axis_check_name(const char *name);

/* Where names are looked up: the axes of a mesh, then those that flattening made (NULL: they do not count). */
struct msi_axes_names {
    const struct msi_axes *own, *flat;
};

/* The first axis of a list such as "dp,tp", which is shortened by it; numbers that are no names name own axes by their place. */
mst_status msi_axes_take(const struct msi_axes_names *names, struct msi_str *list,
                         const struct msi_axis **axis);

/*
 * The dimensions of the grid that a list of names stands for, which must come in ascending order; dims has room for all of the grid's.
 * NULL stands for the only axis.
 */
mst_status msi_axes_dims(const struct msi_axes_names *names, const char *list, int *dims, int *n);
/* The axes themselves, copied; the list is not NULL. */
mst_status msi_axes_pick(const struct msi_axes_names *names, const char *list, struct msi_axes *picked);

/* "dp=2,tp=4" */
void msi_axes_show(const struct msi_axes *axes, const struct msi_grid *grid, struct msi_buf *out);
/* "dp_tp": the names with a separator between them. */
void msi_axes_join(const struct msi_axes *axes, char separator, struct msi_buf *out);

#endif
