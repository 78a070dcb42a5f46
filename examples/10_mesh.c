/*
 * 10_mesh.c - ranks in a mesh of two dimensions: the weights of a layer are split over one (tensor
 * parallelism), the batch over the other (data parallelism). Sums along tp complete the layer's output; sums
 * along dp add up the gradients of equal weights. The printed numbers are the same for any number of ranks.
 *
 *   muster run -n 8 build/bin/examples/10_mesh
 *   muster info --mesh dp=4,tp=2                  draws the mesh
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 8, SAMPLES = 24 };

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

/* The weight of input i, and input i of a sample. */
static float weight(int i) {
    return 1.0f / (float)(i + 1);
}
static float input(int sample, int i) {
    return (float)((sample * 3 + i) % 5);
}

int main(void) {
    check(mst_init());
    int size = mst_get_world_size(NULL), tp_size = size % 2 == 0 ? 2 : 1;
    int shape[] = {size / tp_size, tp_size}, coordinate[2];
    const char *const names[] = {"dp", "tp"};
    mst_mesh *mesh;
    mst_group *dp, *tp;
    check(mst_init_device_mesh(shape, 2, names, &mesh));
    check(mst_mesh_get_group(mesh, "dp", &dp));
    check(mst_mesh_get_group(mesh, "tp", &tp));
    mst_mesh_get_coordinate(mesh, coordinate, 2);

    /* Forward: ranks of a tp group have the same samples, but different weights: sum partial outputs. */
    int from = WIDTH * coordinate[1] / shape[1], to = WIDTH * (coordinate[1] + 1) / shape[1];
    int begin = SAMPLES * coordinate[0] / shape[0], end = SAMPLES * (coordinate[0] + 1) / shape[0];
    float out[SAMPLES] = {0}, gradient[WIDTH] = {0}, loss = 0;
    for (int s = begin; s < end; s++)
        for (int i = from; i < to; i++) out[s] += weight(i) * input(s, i);
    check(mst_all_reduce(out, SAMPLES, MST_F32, .group = tp));

    /* Backward, for a loss of half the squared output: ranks of a dp group have the same weights, but
       different samples: sum their gradients. */
    for (int s = begin; s < end; s++) {
        loss += out[s] * out[s] / 2 / SAMPLES;
        for (int i = from; i < to; i++) gradient[i] += out[s] * input(s, i) / SAMPLES;
    }
    check(mst_all_reduce(gradient + from, (size_t)(to - from), MST_F32, .group = dp));
    check(mst_all_reduce(&loss, 1, MST_F32, .group = dp));

    /* The first rank of each tp group gathers the gradient of all weights; rank 0 prints it. */
    float whole[WIDTH];
    check(mst_gather(whole, gradient + from, (size_t)(to - from), MST_F32, .group = tp));
    if (mst_get_rank(NULL) == 0) {
        printf("%d ranks as dp=%d,tp=%d: loss %.4f, gradient", size, shape[0], shape[1], loss);
        for (int i = 0; i < WIDTH; i++) printf(" %.3f", whole[i]);
        printf("\n");
        fflush(stdout);
    }
    check(mst_mesh_free(mesh));
    check(mst_destroy_process_group(NULL));
    return 0;
}
