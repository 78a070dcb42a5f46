/*
 * 04_groups.c - ranks as a grid: each belongs to the group of its row and to that of its column, and sums over both.
 *
 *   muster run -n 6 build/bin/examples/04_groups
 *
 * Large models are split this way: over the columns by tensor, over the rows by data.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

/* The group of first, first + step, …: n ranks. Only its members call. */
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

    /* Rank 0 collects what the others found and shows it. */
    int *all = rank == 0 ? malloc((size_t)size * sizeof sums) : NULL;
    check(mst_gather(all, sums, 2, MST_I32, .dst = 0));
    for (int r = 0; r < size && rank == 0; r++)
        printf("rank %d%s%s", r, (r + 1) % columns ? "   " : "", (r + 1) % columns ? "" : "\n");
    for (int r = 0; r < size && rank == 0; r++)
        printf("rank %d at row %d, column %d: its row adds up to %d, its column to %d\n", r, r / columns,
               r % columns, all[2 * r], all[2 * r + 1]);
    fflush(stdout);
    free(all);
    check(mst_destroy_process_group(NULL)); /* and with the world its groups */
    return 0;
}
