/*
 * data.c - gradients summed over the processes that have the same parameters, in buckets: the backward pass finishes
 * them from the last layer to the first, and a bucket travels while the layers before it are computed. Losses are scaled by the
 * tokens of all copies, so the sum is the mean.
 */
#include "app/fail.h"
#include "parallel/mesh.h"

#include <stdlib.h>

/* Large enough that a message's fixed cost is small, small enough that the first goes early. */
enum { BUCKET = 64 * 1024 };

static int begin_bucket(struct gpt_parallel *p) {
    struct gpt_buckets *b = &p->buckets;
    if (b->n == b->room) {
        size_t room = b->room ? 2 * b->room : 16;
        mst_work **works = realloc(b->works, room * sizeof *works);
        if (!works) return gpt_fail("no memory");
        b->works = works;
        b->room = room;
    }
    double begin = gpt_now();
    mst_status st =
        mst_all_reduce(b->model->gradients + b->begin, b->end - b->begin, MST_F32, .group = p->copies,
                       .deterministic = p->deterministic, .work = &b->works[b->n], .log_name = "gradient");
    p->waited += gpt_now() - begin;
    if (gpt_check(st)) return -1;
    b->n++;
    b->end = b->begin;
    return 0;
}

void gpt_data_begin(struct gpt_parallel *p, struct gpt_model *model) {
    p->buckets.model = model;
    p->buckets.begin = p->buckets.end = model->count;
}

int gpt_data_ready(void *parallel, size_t offset, size_t count) {
    struct gpt_parallel *p = parallel;
    (void)count;
    p->buckets.begin = offset;
    return offset == 0 || p->buckets.end - offset >= BUCKET ? begin_bucket(p) : 0;
}

int gpt_data_end(struct gpt_parallel *p) {
    struct gpt_buckets *b = &p->buckets;
    double begin = gpt_now();
    int st = 0;
    for (size_t i = 0; i < b->n; i++)
        if (st == 0)
            st = gpt_check(mst_wait(b->works[i]));
        else
            mst_work_free(b->works[i]);
    b->n = 0;
    p->waited += gpt_now() - begin;
    return st;
}

int gpt_data_ends(struct gpt_parallel *p, float *table, size_t count) {
    if (!p->ends || !table) return 0;
    double begin = gpt_now();
    mst_status st = mst_all_reduce(table, count, MST_F32, .group = p->ends, .deterministic = p->deterministic,
                                   .log_name = "embedding");
    p->waited += gpt_now() - begin;
    return gpt_check(st);
}

void gpt_data_free(struct gpt_parallel *p) {
    free(p->buckets.works);
    p->buckets = (struct gpt_buckets){0};
}
