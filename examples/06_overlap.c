/*
 * 06_overlap.c - communication while the program computes: first with works, then with a reducer.
 *
 *   muster run -n 4 build/bin/examples/06_overlap
 *
 * As in training, the gradients of a layer are averaged while those of the layer before it are computed.
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
static void backward(int layer) {
    for (int i = 0; i < WEIGHTS; i++) gradients[layer][i] = (float)(10 * layer + mst_get_rank(NULL));
}

static void print_gradients(const char *title) {
    mst_printf("%s:", title);
    for (int layer = 0; layer < LAYERS; layer++) mst_printf(" %g", (double)gradients[layer][WEIGHTS - 1]);
    mst_printf("\n");
}

/* With .work a call returns at once. Do not touch its buffer until mst_wait has returned. */
static void with_works(void) {
    mst_work *works[LAYERS];
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        backward(layer);
        check(mst_all_reduce(gradients[layer], WEIGHTS, MST_F32, .op = MST_AVG, .work = &works[layer]));
    }
    for (int layer = 0; layer < LAYERS; layer++)
        check(mst_wait(works[layer])); /* in any order; frees the work */
}

/* The reducer starts the collectives itself, and joins small tensors to larger messages. */
static void with_reducer(void) {
    mst_tensor tensors[LAYERS];
    for (int layer = 0; layer < LAYERS; layer++)
        tensors[layer] = (mst_tensor){gradients[layer], WEIGHTS, MST_F32, NULL};
    mst_bucket_reducer *reducer;
    check(mst_bucket_create(tensors, LAYERS, &reducer));
    for (int step = 0; step < 3; step++) {
        for (int layer = LAYERS - 1; layer >= 0; layer--) {
            backward(layer);
            check(mst_bucket_ready(reducer, (size_t)layer));
        }
        check(mst_bucket_wait(reducer)); /* now all gradients are averages */
    }
    check(mst_bucket_free(reducer));
}

int main(void) {
    check(mst_init());
    with_works();
    print_gradients("averages with works");
    with_reducer();
    print_gradients("averages with a reducer");
    check(mst_destroy_process_group(NULL));
    return 0;
}
