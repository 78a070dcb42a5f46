/*
 * fuzz_mesh.c - a mesh as text, which people type; and lists of its dimensions, behind the first newline.
 * What is taken makes a grid whose lines are as long as they say, or is refused with a reason.
 */
#include "mesh/axes.h"
#include "mesh/spec.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void choose(const struct msi_grid *grid, const struct msi_axes *axes, const char *list) {
    int *dims = malloc((size_t)grid->ndim * sizeof *dims), n;
    struct msi_axes_names names = {axes, NULL};
    assert(dims);
    if (msi_axes_dims(&names, list, dims, &n) == MST_OK) {
        int length = msi_line_size(grid, dims, n), position = grid->size - 1;
        assert(n >= 1 && n <= grid->ndim && length >= 1 && grid->size % length == 0);
        assert(msi_line_index(grid, dims, n, position) == length - 1);
        assert(msi_line_at(grid, dims, n, position, length - 1) == position);
        struct msi_axes picked;
        if (list && msi_axes_pick(&names, list, &picked) == MST_OK) msi_axes_free(&picked);
    } else {
        assert(mst_error()[0]);
    }
    free(dims);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size);
    struct msi_mesh_spec spec;
    assert(text);
    char *list = strchr(text, '\n');
    if (list) *list++ = '\0';
    if (msi_mesh_parse(text, &spec) == MST_OK) {
        struct msi_grid grid = {0};
        struct msi_axes axes = {0};
        if (msi_grid_make(spec.sizes, spec.ndim, &grid) == MST_OK &&
            msi_axes_make((const char *const *)spec.names, spec.ndim, &axes) == MST_OK)
            choose(&grid, &axes, list);
        msi_axes_free(&axes);
        msi_grid_free(&grid);
        msi_mesh_spec_free(&spec);
    } else {
        assert(mst_error()[0]);
    }
    free(text);
    return 0;
}
