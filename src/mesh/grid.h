/*
 * grid.h - a mesh as arithmetic: positions 0, 1, 2, … in row-major order along dimensions of given sizes.
 *
 *                      dimension 1
 *   sizes 2, 4:        0 1 2 3          coordinates of 6: 1, 2
 *      dimension 0     4 5 6 7          its line along dimension 1: 4 5 6 7, along dimension 0: 2 6
 *
 * A group consists of a line: the positions that differ from a given one only along some dimensions, in
 * row-major order.
 */
#ifndef MSI_MESH_GRID_H
#define MSI_MESH_GRID_H

#include <muster/status.h>

struct msi_grid {
    int ndim;
    int size; /* number of positions: the product of the sizes */
    int *sizes, *strides;
};

/* Fails unless there is a dimension, all sizes are above 0, and their product is an int. */
mst_status msi_grid_make(const int *sizes, int ndim, struct msi_grid *grid);
void msi_grid_free(struct msi_grid *grid);

static inline int msi_grid_coordinate(const struct msi_grid *grid, int position, int dim) {
    return position / grid->strides[dim] % grid->sizes[dim];
}

/* The line of a position along n dimensions: its length, the index of a position, and vice versa. */
int msi_line_size(const struct msi_grid *grid, const int *dims, int n);
int msi_line_index(const struct msi_grid *grid, const int *dims, int n, int position);
int msi_line_at(const struct msi_grid *grid, const int *dims, int n, int position, int index);

#endif
