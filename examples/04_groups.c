/*
 * 04_groups.c - collectives among some of the ranks: a group from a list of ranks, and the groups of a mesh.
 *
 *   muster run -n 6 build/bin/examples/04_groups
 *   muster info --mesh dp=3,tp=2                  draws the mesh
 *
 * Training of large models uses such meshes: tensor parallelism in the rows, data parallelism in the columns.
 * 10_mesh.c is a small model that does both.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

/* A group of the ranks 0, 2, 4, ... Only its members call this function. */
static void add_even_ranks(int rank, int size) {
    int *evens = malloc((size_t)size * sizeof *evens), n = 0, sum = rank;
    if (!evens) exit(1);
    for (int r = 0; r < size; r += 2) evens[n++] = r;
    mst_group *even;
    check(mst_new_group(evens, n, &even, .name = "even"));
    free(evens);
    check(mst_all_reduce(&sum, 1, MST_I32, .group = even));
    mst_printf_all("I am rank %d of the %d even ranks; their sum is %d\n", mst_get_rank(even), n, sum);
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    if (rank % 2 == 0) add_even_ranks(rank, size);

    /* Rows of two ranks, and as many columns: tp is the group of my row, dp that of my column. */
    int columns = size % 2 == 0 ? 2 : 1, shape[] = {size / columns, columns};
    const char *const names[] = {"dp", "tp"};
    mst_mesh *mesh;
    mst_group *dp, *tp;
    check(mst_init_device_mesh(shape, 2, names, &mesh));
    check(mst_mesh_get_group(mesh, "dp", &dp));
    check(mst_mesh_get_group(mesh, "tp", &tp));

    int row_sum = rank, column_sum = rank;
    check(mst_all_reduce(&row_sum, 1, MST_I32, .group = tp));
    check(mst_all_reduce(&column_sum, 1, MST_I32, .group = dp));
    mst_printf_all("the sum of my row is %d, the sum of my column is %d\n", row_sum, column_sum);

    check(mst_mesh_free(mesh));
    check(mst_destroy_process_group(NULL)); /* frees the groups, too */
    return 0;
}
