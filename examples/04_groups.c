/*
 * 04_groups.c - ranks in a grid: each rank sums over the group of its row and over the group of its column.
 *
 *   muster run -n 6 build/bin/examples/04_groups
 *
 * Training of large models uses such groups: tensor parallelism in the rows, data parallelism in the columns.
 * 08_mesh.c does the same with a mesh.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

/* The group of n ranks first, first + step, ... Only its members call this function. */
static mst_group *make_group(int first, int step, int n, const char *name) {
    int *ranks = malloc((size_t)n * sizeof *ranks);
    if (!ranks) exit(1);
    for (int i = 0; i < n; i++) ranks[i] = first + i * step;
    mst_group *group;
    check(mst_new_group(ranks, n, &group, .name = name));
    free(ranks);
    return group;
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    int columns = size % 2 == 0 ? 2 : 1, rows = size / columns;
    int row = rank / columns, column = rank % columns;
    mst_group *in_row = make_group(row * columns, 1, columns, "row");
    mst_group *in_column = make_group(column, columns, rows, "column");

    int sums[2] = {rank, rank};
    check(mst_all_reduce(&sums[0], 1, MST_I32, .group = in_row));
    check(mst_all_reduce(&sums[1], 1, MST_I32, .group = in_column));

    /* Rank 0 gathers the results and prints them. */
    int *all = rank == 0 ? malloc((size_t)size * sizeof sums) : NULL;
    if (rank == 0 && !all) exit(1);
    check(mst_gather(all, sums, 2, MST_I32));
    for (int r = 0; r < size && rank == 0; r++) printf("rank %d%s", r, (r + 1) % columns ? "   " : "\n");
    for (int r = 0; r < size && rank == 0; r++)
        printf("rank %d in row %d, column %d: sum of the row %d, sum of the column %d\n", r, r / columns,
               r % columns, all[2 * r], all[2 * r + 1]);
    fflush(stdout);
    free(all);
    check(mst_destroy_process_group(NULL)); /* frees the groups, too */
    return 0;
}
