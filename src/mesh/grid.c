/* grid.c - row-major arithmetic. See grid.h. */
#include "mesh/grid.h"

#include "base/error.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Counts the positions. */
static mst_status multiply(const int *sizes, int ndim, int *product) {
    int size = 1;
    for (int d = 0; d < ndim; d++) {
        if (sizes[d] < 1)
            return msi_fail(MST_ERR_INVALID, "give every dimension a size of 1 or more",
                            "dimension %d of the mesh has size %d", d, sizes[d]);
        if (sizes[d] > INT_MAX / size)
            return msi_fail(MST_ERR_INVALID, "let the product of the sizes be the number of ranks",
                            "the first %d sizes of the mesh alone have a product above %d", d + 1, INT_MAX);
        size *= sizes[d];
    }
    *product = size;
    return MST_OK;
}

mst_status msi_grid_make(const int *sizes, int ndim, struct msi_grid *grid) {
    struct msi_grid made = {.ndim = ndim};
    if (!sizes || ndim < 1)
        return msi_fail(MST_ERR_INVALID, "give the sizes of one or more dimensions",
                        !sizes ? "the mesh has no shape: it is NULL" : "the mesh has %d dimensions", ndim);
    mst_status st = multiply(sizes, ndim, &made.size);
    if (st != MST_OK) return st;
    size_t bytes = (size_t)ndim * sizeof *sizes;
    made.sizes = malloc(2 * bytes);
    if (!made.sizes) return msi_fail_memory();
    made.strides = made.sizes + ndim;
    memcpy(made.sizes, sizes, bytes);
    for (int d = ndim - 1, stride = 1; d >= 0; stride *= sizes[d--]) made.strides[d] = stride;
    *grid = made;
    return MST_OK;
}

void msi_grid_free(struct msi_grid *grid) {
    free(grid->sizes);
    *grid = (struct msi_grid){0};
}

int msi_line_size(const struct msi_grid *grid, const int *dims, int n) {
    int size = 1;
    for (int i = 0; i < n; i++) size *= grid->sizes[dims[i]];
    return size;
}

int msi_line_index(const struct msi_grid *grid, const int *dims, int n, int position) {
    int index = 0;
    for (int i = 0; i < n; i++)
        index = index * grid->sizes[dims[i]] + msi_grid_coordinate(grid, position, dims[i]);
    return index;
}

int msi_line_at(const struct msi_grid *grid, const int *dims, int n, int position, int index) {
    for (int i = n - 1; i >= 0; i--) {
        int size = grid->sizes[dims[i]], step = index % size - msi_grid_coordinate(grid, position, dims[i]);
        position += step * grid->strides[dims[i]];
        index /= size;
    }
    return position;
}
