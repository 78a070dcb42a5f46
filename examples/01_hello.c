/*
 * 01_hello.c - each rank says who it is, and all ranks compute an average.
 *
 *   muster run -n 4 build/bin/examples/01_hello
 *
 * Without a launcher it is a world of one rank.
 */
#include <muster/muster.h>
#include <stdio.h>

static int fail(void) {
    fprintf(stderr, "%s\n", mst_error());
    return 1;
}

int main(void) {
    if (mst_init() != MST_OK) return fail(); /* reads rank and world size from the launcher's environment */

    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    float gradient[3] = {(float)rank, 1, 2};

    /* Replaces the three numbers by their averages over all ranks. */
    if (mst_all_reduce(gradient, 3, MST_F32, .op = MST_AVG) != MST_OK) return fail();
    printf("hello from rank %d of %d: the average is %g\n", rank, size, gradient[0]);

    mst_destroy_process_group(NULL);
    return 0;
}
