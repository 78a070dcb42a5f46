/*
 * sgd.c - data-parallel training: linear regression by stochastic gradient descent.
 *
 * Each rank computes the gradient of its share of every mini-batch, and all_reduce adds up the shares. First
 * all ranks train one model. Then the even ranks and the odd ranks train one model each, with every second
 * sample. A model must equal the one that a single process trains with whole batches.
 */
#include "program.h"
#include <math.h>
#include <string.h>

enum { FEATURES = 12, BATCH = 30, STEPS = 60 };
#define RATE 0.02

struct model {
    double weight[FEATURES], bias;
};

/* The samples first, first + stride, ... */
struct dataset {
    int first, stride;
};

static double feature(int sample, int k) {
    return sin(1.7 * sample + k * k);
}

static double target(int sample) {
    double sum = 5 + 0.1 * cos(sample);
    for (int k = 0; k < FEATURES; k++) sum += (k - 3) * feature(sample, k);
    return sum;
}

/* The gradient of the squared error, summed over the samples begin to end - 1 of the dataset. */
static struct model gradient(const struct model *model, struct dataset data, int begin, int end) {
    struct model sum = {.bias = 0};
    for (int i = begin; i < end; i++) {
        int sample = data.first + i * data.stride;
        double error = model->bias - target(sample);
        for (int k = 0; k < FEATURES; k++) error += model->weight[k] * feature(sample, k);
        for (int k = 0; k < FEATURES; k++) sum.weight[k] += error * feature(sample, k);
        sum.bias += error;
    }
    return sum;
}

static void update(struct model *model, const struct model *sum) {
    for (int k = 0; k < FEATURES; k++) model->weight[k] -= RATE / BATCH * sum->weight[k];
    model->bias -= RATE / BATCH * sum->bias;
}

static struct model initial_model(void) {
    struct model model = {.bias = 1};
    for (int k = 0; k < FEATURES; k++) model.weight[k] = 0.1 * k;
    return model;
}

static struct model train(mst_group *group, struct dataset data) {
    int rank = mst_get_rank(group), size = mst_get_world_size(group), last = size - 1;
    struct model model = {.bias = NAN};
    if (rank == last) model = initial_model();
    check(mst_broadcast(&model, FEATURES + 1, MST_F64, .root = last, .group = group));
    for (int step = 0; step < STEPS; step++) {
        int begin = BATCH * step + BATCH * rank / size, end = BATCH * step + BATCH * (rank + 1) / size;
        struct model sum = gradient(&model, data, begin, end);
        mst_work *works[2];
        check(mst_all_reduce(sum.weight, FEATURES, MST_F64, .group = group, .work = &works[0]));
        check(mst_all_reduce(&sum.bias, 1, MST_F64, .group = group, .work = &works[1]));
        check(mst_wait(works[0]));
        check(mst_wait(works[1]));
        update(&model, &sum);
    }
    return model;
}

static struct model train_alone(struct dataset data) {
    struct model model = initial_model();
    for (int step = 0; step < STEPS; step++) {
        struct model sum = gradient(&model, data, BATCH * step, BATCH * (step + 1));
        update(&model, &sum);
    }
    return model;
}

/* Trains in the group. The replicas must be equal, and close to the model of one process. */
static void train_and_check(mst_group *group, struct dataset data, const char *name) {
    int rank = mst_get_rank(group), size = mst_get_world_size(group);
    struct model model = train(group, data), alone = train_alone(data);
    double *ours = (double *)&model, *expected = (double *)&alone;
    for (int k = 0; k <= FEATURES; k++)
        expect(fabs(ours[k] - expected[k]) < 1e-9, "%s: parameter %d is %.12g, not %.12g", name, k, ours[k],
               expected[k]);
    struct model *replicas = rank == 0 ? allocate((size_t)size, sizeof *replicas) : NULL;
    check(mst_gather(replicas, &model, FEATURES + 1, MST_F64, .group = group));
    for (int r = 0; r < size && rank == 0; r++)
        expect(!memcmp(&replicas[r], &model, sizeof model), "%s: replicas %d and 0 differ", name, r);
    free(replicas);
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    train_and_check(NULL, (struct dataset){0, 1}, "all ranks");

    int parity = rank % 2, n = 0, *ranks = allocate((size_t)size, sizeof *ranks);
    for (int r = parity; r < size; r += 2) ranks[n++] = r;
    mst_group *half;
    check(mst_new_group(ranks, n, &half, .name = parity ? "odd" : "even"));
    train_and_check(half, (struct dataset){parity, 2}, parity ? "odd ranks" : "even ranks");
    check(mst_destroy_process_group(half));
    free(ranks);
    return finish("sgd");
}
