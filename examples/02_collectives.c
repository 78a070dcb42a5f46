/*
 * 02_collectives.c - the most common collectives. All ranks of a group call them in the same order.
 *
 *   muster run -n 4 build/bin/examples/02_collectives
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_RANKS = 64 };

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    if (size > MOST_RANKS) exit(1);

    /* One rank to all: the buffer of the root is copied to all ranks. */
    int batch = rank == 0 ? 32 : 0;
    check(mst_broadcast(&batch, 1, MST_I32, .root = 0));
    mst_printf("broadcast: every rank has the batch size %d\n", batch);

    /* All to all, combined: every rank gets the result. The default of .op is a sum. */
    int sum = rank + 1, largest = rank + 1;
    check(mst_all_reduce(&sum, 1, MST_I32));
    check(mst_all_reduce(&largest, 1, MST_I32, .op = MST_MAX));
    mst_printf("all_reduce: the sum is %d, the maximum is %d\n", sum, largest);

    /* All to all, side by side: every rank gets the blocks of all ranks in the order of ranks. */
    int square = rank * rank, squares[MOST_RANKS];
    check(mst_all_gather_into_tensor(squares, &square, 1, MST_I32));
    mst_printf("all_gather: the last of %d squares is %d\n", size, squares[size - 1]);

    /* The sum of the tensors of all ranks is split: each rank gets its own block. */
    int tensor[MOST_RANKS], block;
    for (int i = 0; i < size; i++) tensor[i] = 10 * i + rank;
    check(mst_reduce_scatter_tensor(&block, tensor, 1, MST_I32));
    mst_printf_all("reduce_scatter: my block of the sum is %d\n", block);

    check(mst_barrier()); /* returns after all ranks have called it */
    check(mst_destroy_process_group(NULL));
    return 0;
}
