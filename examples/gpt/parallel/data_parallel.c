/*
 * data_parallel.c - sums gradients over the replicas, in buckets. The backward pass computes gradients from
 * the last layer to the first; the all-reduce of a bucket overlaps with the layers that follow. Losses are
 * divided by the tokens of all replicas, so the sum of the gradients is their mean.
 */
#include "base/fail.h"
#include "parallel/mesh.h"

#include <stdlib.h>

/* Bytes: enough that latency does not matter, few enough that the first all-reduce starts early. */
enum { BUCKET = 256 * 1024 };

static int open_reducer(const struct gpt_mesh *mesh, const struct gpt_model *m, struct gpt_reducer *reducer) {
    mst_tensor *tensors = calloc(m->params, sizeof *tensors);
    if (!tensors) return gpt_fail("no memory");
    for (size_t i = 0; i < m->params; i++)
        tensors[i] =
            (mst_tensor){m->gradients + m->param[i].offset, m->param[i].count, MST_F32, m->param[i].name};
    reducer->model = m;
    int st = gpt_check(mst_bucket_create(tensors, m->params, &reducer->reducer, .bucket_bytes = BUCKET,
                                         .first_bucket_bytes = BUCKET, .sum = true,
                                         .deterministic = mesh->deterministic, .group = mesh->replicas));
    free(tensors);
    return st;
}

int gpt_dp_open(struct gpt_mesh *mesh, struct gpt_model *const *models, size_t n) {
    if (!mesh->replicas) return 0;
    mesh->reducers = calloc(n, sizeof *mesh->reducers);
    if (!mesh->reducers) return gpt_fail("no memory");
    for (; mesh->n_reducers < n; mesh->n_reducers++)
        if (open_reducer(mesh, models[mesh->n_reducers], &mesh->reducers[mesh->n_reducers])) return -1;
    return 0;
}

void gpt_dp_begin(struct gpt_mesh *mesh, size_t model) {
    mesh->reducing = &mesh->reducers[model];
    mesh->reducing->left = mesh->reducing->model->params;
}

int gpt_dp_gradient_ready(void *context, size_t offset, size_t count) {
    struct gpt_mesh *mesh = context;
    struct gpt_reducer *r = mesh->reducing;
    double begin = gpt_now();
    int st = 0;
    (void)count;
    while (!st && r->left > 0 && r->model->param[r->left - 1].offset >= offset)
        st = gpt_check(mst_bucket_ready(r->reducer, --r->left));
    mesh->comm_seconds += gpt_now() - begin;
    return st;
}

int gpt_dp_wait(struct gpt_mesh *mesh) {
    double begin = gpt_now();
    int st = 0;
    for (size_t i = 0; i < mesh->n_reducers && !st; i++)
        st = gpt_check(mst_bucket_wait(mesh->reducers[i].reducer));
    mesh->comm_seconds += gpt_now() - begin;
    return st;
}

int gpt_pp_sum_embedding(struct gpt_mesh *mesh, float *table, size_t count) {
    if (!mesh->embedding_group || !table) return 0;
    double begin = gpt_now();
    mst_status st = mst_all_reduce(table, count, MST_F32, .group = mesh->embedding_group,
                                   .deterministic = mesh->deterministic, .log_name = "embedding");
    mesh->comm_seconds += gpt_now() - begin;
    return gpt_check(st);
}

void gpt_dp_free(struct gpt_mesh *mesh) {
    for (size_t i = 0; i < mesh->n_reducers; i++) mst_bucket_free(mesh->reducers[i].reducer);
    free(mesh->reducers);
    mesh->reducers = NULL;
    mesh->n_reducers = 0;
}
