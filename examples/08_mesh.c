/*
 * 08_mesh.c - a mesh: ranks in two dimensions, the weights of a layer split over one (tensor parallelism) and the batch over
 * the other (data parallelism). Each rank multiplies its part; sums along one dimension make the layer whole, sums along the
 * other bring the copies of the weights together. The numbers are the same for any number of ranks.
 *
 *   muster run -n 8 build/bin/examples/08_mesh
 *   muster info --mesh dp=4,tp=2                  draws who is where
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

/* The weight that input i has in the output, and the i-th input of a sample. */
static float weight(int i) {
    return 1.0f / (float)(i + 1);
}
static float input(int sample, int i) {
    return (float)((sample * 3 + i) % 5);
}

int main(void) {
    check(mst_init());
    int size = mst_get_world_size(NULL), parts = size % 2 == 0 ? 2 : 1;
    int shape[] = {size / parts, parts}, at[2];
    const char *const names[] = {"dp", "tp"};
    mst_mesh *mesh;
    mst_group *dp, *tp;
    check(mst_init_device_mesh(shape, 2, names, &mesh));
    check(mst_mesh_get_group(mesh, "dp", &dp));
    check(mst_mesh_get_group(mesh, "tp", &tp));
    mst_mesh_get_coordinate(mesh, at, 2);

    /* Forward: the tp group has the same samples and the weights in parts; their parts of the output add up. */
    int from = WIDTH * at[1] / shape[1], to = WIDTH * (at[1] + 1) / shape[1];
    int begin = SAMPLES * at[0] / shape[0], end = SAMPLES * (at[0] + 1) / shape[0];
    float out[SAMPLES] = {0}, gradient[WIDTH] = {0}, loss = 0;
    for (int s = begin; s < end; s++)
        for (int i = from; i < to; i++) out[s] += weight(i) * input(s, i);
    check(mst_all_reduce(out, SAMPLES, MST_F32, .group = tp));

    /* Backward: the loss is half of the output squared. The dp group has the same weights, and its gradients add up. */
    for (int s = begin; s < end; s++) {
        loss += out[s] * out[s] / 2 / SAMPLES;
        for (int i = from; i < to; i++) gradient[i] += out[s] * input(s, i) / SAMPLES;
    }
    check(mst_all_reduce(gradient + from, (size_t)(to - from), MST_F32, .group = dp));
    check(mst_all_reduce(&loss, 1, MST_F32, .group = dp));

    /* Who comes first in its row collects the gradient of all weights; rank 0 shows it. */
    float whole[WIDTH];
    int first = mst_mesh_rank_at(mesh, (int[]){at[0], 0});
    check(mst_gather(whole, gradient + from, (size_t)(to - from), MST_F32, .group = tp, .dst = first));
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
