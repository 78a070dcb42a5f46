/* bucket.c - making and freeing a reducer. See bucket.h. */
#include "bucket/bucket.h"
#include "base/handles.h"
#include "base/options.h"
#include "group/call.h"
#include "reduce/reduce.h"
#include "transport/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKET_BYTES = 25 << 20, FIRST_BUCKET_BYTES = 1 << 20, ALONE_BYTES = 256 << 10, PAGE = 4096 };

static mst_status check_tensor(const mst_bucket_reducer *r, const mst_tensor *t, size_t i) {
    size_t element = mst_dtype_size(t->dtype), bytes;
    if (!element)
        return msi_fail(MST_ERR_INVALID, "give one of MST_F32, MST_BF16, …",
                        "tensor %zu has dtype %d, which is not valid", i, (int)t->dtype);
    if (__builtin_mul_overflow(t->count, element, &bytes) || bytes > SIZE_MAX / 2)
        return msi_fail(MST_ERR_INVALID, NULL,
                        "the count of tensor %zu is %zu, which is more than memory can hold", i, t->count);
    if (t->count && !t->data) return msi_fail(MST_ERR_INVALID, NULL, "the data of tensor %zu is NULL", i);
    mst_op op = r->options.sum ? MST_SUM : MST_AVG;
    if (!msi_reducer_get(t->dtype, op))
        return msi_fail(MST_ERR_INVALID, "give .sum = true, or leave it out",
                        "tensor %zu: %s is not defined for %s", i, mst_op_name(op), mst_dtype_name(t->dtype));
    const mst_bucket_options *o = &r->options;
    return o->quantize ? msi_check_quantize(o->quantize, t->dtype, op, o->deterministic) : MST_OK;
}

static mst_status copy_tensors(mst_bucket_reducer *r, const mst_tensor *tensors, size_t n) {
    if (!tensors || !n) return msi_fail(MST_ERR_INVALID, NULL, tensors ? "n is 0" : "tensors is NULL");
    r->tensors = calloc(n, sizeof *r->tensors);
    if (!r->tensors) return msi_fail_memory();
    r->n = n;
    for (size_t i = 0; i < n; i++) {
        struct msi_bucket_tensor *t = &r->tensors[i];
        mst_status st = check_tensor(r, &tensors[i], i);
        if (st != MST_OK) return st;
        t->user = tensors[i];
        t->bytes = t->user.count * mst_dtype_size(t->user.dtype);
        if (!tensors[i].name) continue;
        t->name = strdup(tensors[i].name);
        if (!t->name) return msi_fail_memory();
        for (char *c = t->name; *c; c++) /* the ranks compare lines */
            if (*c == '\n') *c = ' ';
    }
    return MST_OK;
}

static int compare_data(const void *a, const void *b) {
    const struct msi_bucket_tensor *x = *(struct msi_bucket_tensor *const *)a;
    const struct msi_bucket_tensor *y = *(struct msi_bucket_tensor *const *)b;
    uintptr_t p = (uintptr_t)x->user.data, q = (uintptr_t)y->user.data;
    return (p > q) - (p < q);
}

static mst_status find_overlap(const mst_bucket_reducer *r, struct msi_bucket_tensor **sorted) {
    const struct msi_bucket_tensor *before = NULL;
    for (size_t i = 0; i < r->n; i++) sorted[i] = &r->tensors[i];
    qsort((void *)sorted, r->n, sizeof *sorted, compare_data);
    for (size_t i = 0; i < r->n; i++) {
        if (!sorted[i]->bytes) continue;
        if (before && (uintptr_t)before->user.data + before->bytes > (uintptr_t)sorted[i]->user.data)
            return msi_fail(MST_ERR_INVALID, "register each tensor once", "tensors %zu and %zu overlap",
                            (size_t)(before - r->tensors), (size_t)(sorted[i] - r->tensors));
        before = sorted[i];
    }
    return MST_OK;
}

static mst_status check_overlap(const mst_bucket_reducer *r) {
    struct msi_bucket_tensor **sorted = malloc(r->n * sizeof *sorted);
    mst_status st = sorted ? find_overlap(r, sorted) : msi_fail_memory();
    free((void *)sorted);
    return st;
}

/* Finds the kind of memory, which all tensors have in common, except empty ones. */
static mst_status find_memory(mst_bucket_reducer *r) {
    mst_group *group = msi_handle_memory(r->group);
    bool known = false;
    for (size_t i = 0; i < r->n; i++) {
        struct msi_comm *comm;
        mst_memory memory;
        if (!r->tensors[i].bytes) continue;
        mst_status st = msi_group_comm(group, r->tensors[i].user.data, &comm, &memory);
        if (st != MST_OK) return st;
        if (known && (memory != MST_MEMORY_HOST) != r->device)
            return msi_fail(MST_ERR_INVALID, "create a reducer for each kind of memory",
                            "tensor %zu is in %s memory, but the tensors before it are not", i,
                            r->device ? "host" : "device");
        r->device = memory != MST_MEMORY_HOST;
        known = true;
    }
    return MST_OK;
}

static size_t in_pages(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Gives buckets of several tensors a buffer, unless the tensors are one. Device memory is not copied. */
static mst_status make_buffers(mst_bucket_reducer *r) {
    size_t total = 0;
    for (size_t b = 0; b < r->n_buckets; b++) {
        struct msi_bucket *bucket = &r->buckets[b];
        bucket->reducer = r;
        bucket->missing = bucket->tensors;
        if (r->device) continue;
        bucket->buffer = msi_bucket_find_memory(r->tensors, bucket);
        if (!bucket->buffer) total += in_pages(bucket->bytes);
    }
    mst_status st = total ? msi_arena_alloc(total, &r->arena) : MST_OK;
    char *at = r->arena;
    for (size_t b = 0; b < r->n_buckets && at; b++) {
        struct msi_bucket *bucket = &r->buckets[b];
        if (bucket->buffer) continue;
        bucket->buffer = at;
        for (size_t i = bucket->first; i != MSI_NO_TENSOR; i = r->tensors[i].next) {
            r->tensors[i].copy = at;
            at += r->tensors[i].bytes;
        }
        at = bucket->buffer + in_pages(bucket->bytes);
    }
    return st;
}

/*
 * On one host a large tensor is reduced in place: the copies would take longer than another reduction.
 * Between hosts reductions have a higher latency, so that only the size of the buckets counts.
 */
static struct msi_bucket_limits limits_of(const mst_bucket_reducer *r) {
    const mst_group *group = msi_handle_memory(r->group);
    return (struct msi_bucket_limits){r->options.first_bucket_bytes, r->options.bucket_bytes,
                                      group->one_host ? ALONE_BYTES : SIZE_MAX};
}

static mst_status prepare(mst_bucket_reducer *r, const mst_tensor *tensors, size_t n) {
    mst_status st = copy_tensors(r, tensors, n);
    if (st == MST_OK) st = check_overlap(r);
    if (st == MST_OK) st = find_memory(r);
    struct msi_bucket_limits limits = limits_of(r);
    if (st == MST_OK) st = msi_bucket_divide(r->tensors, n, &limits, &r->buckets, &r->n_buckets);
    return st == MST_OK ? make_buffers(r) : st;
}

/* Connects the ranks now, so that mst_bucket_ready does not wait for them. */
static mst_status join(const mst_bucket_reducer *r, const struct msi_wait *wait) {
    struct msi_comm *comm;
    int left = msi_ms_until(wait->deadline);
    mst_status st =
        msi_group_comm_of(msi_handle_memory(r->group), r->device ? MST_MEMORY_CUDA : MST_MEMORY_HOST, &comm);
    return st == MST_OK ? msi_comm_open(comm, left ? left : 1, wait->cancel) : st;
}

static mst_bucket_reducer *begin(const mst_group *group, const mst_bucket_options *options) {
    static atomic_uint generation; /* must only change; orders nothing */
    mst_bucket_reducer *r = msi_handle_alloc(sizeof *r);
    if (!r) return NULL;
    r->handle = msi_handle_make(r, atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed));
    if (!msi_handle_add(r->handle)) {
        free(r);
        return NULL;
    }
    pthread_mutex_init(&r->lock, NULL);
    r->options = *options;
    if (!r->options.bucket_bytes) r->options.bucket_bytes = BUCKET_BYTES;
    if (!r->options.first_bucket_bytes) r->options.first_bucket_bytes = FIRST_BUCKET_BYTES;
    if (r->options.first_bucket_bytes > r->options.bucket_bytes)
        r->options.first_bucket_bytes = r->options.bucket_bytes;
    r->rank = group->world->rank;
    r->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : msi_group_timeout(group);
    return r;
}

/* Makes the group first, so that a rank with invalid arguments can tell the others. */
static mst_status make(mst_bucket_reducer *r, const mst_group *group, const mst_tensor *tensors, size_t n,
                       bool wanted) {
    struct msi_wait wait = {msi_deadline(r->timeout_ms), NULL};
    mst_status st = msi_group_duplicate(group, "bucket", &r->group);
    if (st != MST_OK) return st;
    st = wanted ? msi_check_timeout(r->options.timeout_ms)
                : msi_fail(MST_ERR_INVALID, NULL, "reducer is NULL");
    if (st == MST_OK) st = prepare(r, tensors, n);
    if (st == MST_OK) st = msi_bucket_compare(r, &wait);
    st = msi_bucket_agree(r, 0, &wait, st);
    return st == MST_OK ? msi_bucket_agree(r, 1, &wait, join(r, &wait)) : st;
}

mst_status msi_bucket_create(const mst_group *group, const mst_tensor *tensors, size_t n,
                             const mst_bucket_options *options, mst_bucket_reducer **reducer) {
    mst_bucket_reducer *made = begin(group, options);
    if (!made) return msi_fail_memory();
    mst_status st = make(made, group, tensors, n, reducer);
    if (st == MST_OK) {
        *reducer = made->handle;
        return MST_OK;
    }
    struct msi_saved_error error;
    msi_error_save(&error, st);
    msi_bucket_free(made);
    return msi_error_restore(&error);
}

/* Ends the group first, which ends the reductions in the buffers. */
void msi_bucket_free(mst_bucket_reducer *r) {
    msi_handle_remove(r->handle);
    msi_group_end(&r->group);
    if (r->arena) msi_arena_free(r->arena);
    for (size_t i = 0; i < r->n; i++) free(r->tensors[i].name);
    pthread_mutex_destroy(&r->lock);
    free(r->tensors);
    free(r->buckets);
    free(r);
}
