/*
 * 07_two_hosts.c - data-parallel training with overlap, on any number of hosts. Nothing in it depends on the
 * hosts: ranks of one host use shared memory, ranks of different hosts use TCP.
 *
 *   muster run -n 4 build/bin/examples/07_two_hosts
 *   muster run --hosts node1:2,node2:2 build/bin/examples/07_two_hosts
 *
 * The model has two layers, y = w2 tanh(w1 x + b1) + b2. It learns sin(2 x). The samples are divided among
 * the ranks, so the loss is the same for any number of ranks that divides SAMPLES.
 */
#include <math.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

enum { HIDDEN = 8, SAMPLES = 240, STEPS = 90 };
enum { W1 = 0, B1 = HIDDEN, W2 = 0, B2 = HIDDEN }; /* places in the two layers */

static float first[2 * HIDDEN], second[HIDDEN + 1]; /* the model */
static float first_gradient[2 * HIDDEN],
    second_gradient[HIDDEN + 1]; /* means over the samples of this rank */
static float hidden[SAMPLES][HIDDEN], error[SAMPLES];

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

static void print_hosts(void) {
    for (int rank = 0; rank < mst_get_world_size(NULL); rank++) {
        mst_rank_info info;
        check(mst_get_rank_info(NULL, rank, &info));
        mst_printf("rank %d is rank %d of %d on host %d\n", rank, info.local_rank, info.local_size,
                   info.host);
    }
}

static float input(int sample) {
    return 4 * (float)sample / SAMPLES - 2;
}

/* Returns the mean squared error over my samples. */
static float forward(int begin, int end) {
    float loss = 0;
    for (int s = begin; s < end; s++) {
        float y = second[B2];
        for (int h = 0; h < HIDDEN; h++) {
            hidden[s][h] = tanhf(first[W1 + h] * input(s) + first[B1 + h]);
            y += second[W2 + h] * hidden[s][h];
        }
        error[s] = y - sinf(2 * input(s));
        loss += error[s] * error[s] / (float)(end - begin);
    }
    return loss;
}

static void backward_second(int begin, int end) {
    for (int k = 0; k <= HIDDEN; k++) second_gradient[k] = 0;
    for (int s = begin; s < end; s++) {
        float g = 2 * error[s] / (float)(end - begin);
        second_gradient[B2] += g;
        for (int h = 0; h < HIDDEN; h++) second_gradient[W2 + h] += g * hidden[s][h];
    }
}

static void backward_first(int begin, int end) {
    for (int k = 0; k < 2 * HIDDEN; k++) first_gradient[k] = 0;
    for (int s = begin; s < end; s++) {
        for (int h = 0; h < HIDDEN; h++) {
            float slope = 1 - hidden[s][h] * hidden[s][h];
            float g = 2 * error[s] / (float)(end - begin) * second[W2 + h] * slope;
            first_gradient[W1 + h] += g * input(s);
            first_gradient[B1 + h] += g;
        }
    }
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    int begin = SAMPLES * rank / size, end = SAMPLES * (rank + 1) / size;
    for (int h = 0; h < HIDDEN; h++) {
        first[W1 + h] = 1 + (float)h / HIDDEN;
        first[B1 + h] = (float)h - (float)(HIDDEN - 1) / 2;
    }
    print_hosts();

    mst_tensor gradients[] = {{first_gradient, 2 * HIDDEN, MST_F32, "first"},
                              {second_gradient, HIDDEN + 1, MST_F32, "second"}};
    mst_bucket_reducer *reducer;
    check(mst_bucket_create(gradients, 2, &reducer, .bucket_bytes = sizeof first_gradient)); /* one each */
    for (int step = 0; step <= STEPS; step++) {
        float loss = forward(begin, end);
        mst_work *mean_loss;
        check(mst_all_reduce(&loss, 1, MST_F32, .op = MST_AVG, .work = &mean_loss));
        backward_second(begin, end);
        check(mst_bucket_ready(reducer, 1)); /* is averaged while the first layer is computed */
        backward_first(begin, end);
        check(mst_bucket_ready(reducer, 0));
        check(mst_wait(mean_loss));
        check(mst_bucket_wait(reducer));
        for (int k = 0; k < 2 * HIDDEN; k++) first[k] -= 0.1f * first_gradient[k];
        for (int k = 0; k <= HIDDEN; k++) second[k] -= 0.1f * second_gradient[k];
        if (step % 30 == 0) mst_printf("step %2d: loss %.4f\n", step, (double)loss);
    }
    check(mst_bucket_free(reducer));
    check(mst_destroy_process_group(NULL));
    return 0;
}
