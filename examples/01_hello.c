/*
 * 01_hello.c - starts a world, prints where each rank runs, and makes a group.
 *
 *   muster run -n 4 build/bin/examples/01_hello
 *
 * Without a launcher it is a world of one rank.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

static void print_table(void) {
    printf("%4s  %4s  %6s  %7s  %-20s %s\n", "rank", "host", "local", "pid", "name", "address");
    for (int rank = 0; rank < mst_get_world_size(NULL); rank++) {
        mst_rank_info info;
        check(mst_get_rank_info(NULL, rank, &info));
        printf("%4d  %4d  %d of %d  %7d  %-20s %s\n", info.rank, info.host, info.local_rank, info.local_size,
               info.pid, info.host_name, info.address);
    }
    fflush(stdout);
}

int main(void) {
    check(mst_init()); /* reads rank and world size from the launcher's environment */

    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    if (rank == 0) print_table();
    check(mst_barrier()); /* no rank continues before the table is printed */

    /* A group of the even ranks. Only its members call mst_new_group. */
    if (rank % 2 == 0) {
        int *evens = malloc((size_t)size * sizeof *evens), n = 0;
        if (!evens) exit(1);
        for (int r = 0; r < size; r += 2) evens[n++] = r;
        mst_group *even;
        check(mst_new_group(evens, n, &even, .name = "even"));
        free(evens);
        check(mst_barrier(.group = even, .timeout_ms = 10000));
        mst_printf_all("%d of %d in the group of even ranks\n", mst_get_rank(even), mst_get_world_size(even));
    }
    check(mst_barrier());
    mst_printf("all %d ranks met on %d host%s\n", size, mst_get_host_count(NULL),
               mst_get_host_count(NULL) == 1 ? "" : "s");
    check(mst_destroy_process_group(NULL));
    return 0;
}
