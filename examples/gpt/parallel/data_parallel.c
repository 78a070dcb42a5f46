/*
 * data_parallel.c - sums gradients over the replicas, in buckets. The backward pass computes gradients from
 * the last layer to the first; the all-reduce of a bucket overlaps with the layers that follow. Losses are
 * divided by the tokens of all replicas, so the sum of the gradients is their mean.
 */
#include "base/fail.h"
#include "parallel/mesh.h"

#include <stdlib.h>

/* Elements: enough that latency does not matter, few enough that the first all-reduce starts early. */
enum { BUCKET = 64 * 1024 };

static int begin_bucket(struct gpt_mesh *mesh) {
    struct gpt_buckets *b = &mesh->buckets;
    if (b->n == b->capacity) {
        size_t capacity = b->capacity ? 2 * b->capacity : 16;
        mst_work **works = realloc(b->works, capacity * sizeof *works);
        if (!works) return gpt_fail("no memory");
        b->works = works;
        b->capacity = capacity;
    }
    double begin = gpt_now();
    mst_status st =
        mst_all_reduce(b->model->gradients + b->begin, b->end - b->begin, MST_F32, .group = mesh->replicas,
                       .deterministic = mesh->deterministic, .work = &b->works[b->n], .log_name = "gradient");
    mesh->comm_seconds += gpt_now() - begin;
    if (gpt_check(st)) return -1;
    b->n++;
    b->end = b->begin;
    return 0;
}

void gpt_dp_begin(struct gpt_mesh *mesh, struct gpt_model *model) {
    mesh->buckets.model = model;
    mesh->buckets.begin = mesh->buckets.end = model->count;
}

int gpt_dp_gradient_ready(void *context, size_t offset, size_t count) {
    struct gpt_mesh *mesh = context;
    (void)count;
    mesh->buckets.begin = offset;
    return offset == 0 || mesh->buckets.end - offset >= BUCKET ? begin_bucket(mesh) : 0;
}

int gpt_dp_wait(struct gpt_mesh *mesh) {
    struct gpt_buckets *b = &mesh->buckets;
    double begin = gpt_now();
    int st = 0;
    for (size_t i = 0; i < b->n; i++)
        if (st == 0)
            st = gpt_check(mst_wait(b->works[i]));
        else
            mst_work_free(b->works[i]);
    b->n = 0;
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
    free(mesh->buckets.works);
    mesh->buckets = (struct gpt_buckets){0};
}
