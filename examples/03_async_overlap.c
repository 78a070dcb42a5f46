/*
 * 03_async_overlap.c - overlaps computation and communication: with .work a call returns at once, and
 * mst_wait waits for its result.
 *
 *   muster run -n 4 build/bin/examples/03_async_overlap
 *
 * As in training, the gradients of a layer are summed while those of the layer before it are computed.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 4, WEIGHTS = 50000 };

static float gradients[LAYERS][WEIGHTS];

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

/* Stands for the backward pass of a layer. */
static void compute(int layer, int rank) {
    for (int i = 0; i < WEIGHTS; i++) gradients[layer][i] = (float)(layer + rank);
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    mst_work *works[LAYERS] = {NULL};

    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        compute(layer, rank);
        /* Starts the sum over all ranks. Do not touch the buffer until the work is done. */
        check(mst_all_reduce(gradients[layer], WEIGHTS, MST_F32, .work = &works[layer]));
        bool done;
        check(mst_test(works[LAYERS - 1], &done)); /* does not block; also advances all works */
        mst_printf("layer %d has started; the last layer %s\n", layer, done ? "is done" : "is not done yet");
    }

    for (int layer = 0; layer < LAYERS; layer++) {
        check(mst_wait(works[layer])); /* in any order; also frees the work */
        float expected = (float)(layer * size) + (float)(size * (size - 1)) / 2;
        mst_printf("layer %d: every gradient is %g, expected %g\n", layer,
                   (double)gradients[layer][WEIGHTS - 1], (double)expected);
    }
    check(mst_destroy_process_group(NULL));
    return 0;
}
