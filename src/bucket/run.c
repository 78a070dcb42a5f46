/* run.c - marks tensors, starts the reductions of buckets and waits for them. See bucket.h. */
#include "base/handles.h"
#include "bucket/bucket.h"
#include "group/call.h"

#include <stdio.h>
#include <string.h>

enum { NAMED_MOST = 4 };

/* "tensor 3 ('fc.weight')"; returns out. */
static const char *show(const mst_bucket_reducer *r, size_t i, char out[120]) {
    const char *name = r->tensors[i].name;
    snprintf(out, 120, name ? "tensor %zu ('%.80s')" : "tensor %zu", i, name);
    return out;
}

/* Keeps the thread's last failure: later calls fail with it. */
static mst_status keep(mst_bucket_reducer *r, mst_status status) {
    r->failed = true;
    msi_error_save(&r->error, status);
    return status;
}

static void copy_out(const mst_bucket_reducer *r, const struct msi_bucket *bucket) {
    for (size_t i = bucket->first; i != MSI_NO_TENSOR; i = r->tensors[i].next) {
        const struct msi_bucket_tensor *t = &r->tensors[i];
        if (t->copy && t->bytes) memcpy(t->user.data, t->copy, t->bytes);
    }
}

/*
 * The work is done after it returns, so mst_bucket_wait reads copied later. While a thread waits, that thread
 * copies, so that the next reduction goes on meanwhile.
 */
static void on_done(mst_status status, void *arg) {
    struct msi_bucket *bucket = arg;
    bool waiting = atomic_load_explicit(&bucket->reducer->waiting, memory_order_relaxed);
    if (status != MST_OK || waiting) return;
    copy_out(bucket->reducer, bucket);
    bucket->copied = true;
}

static mst_status start_reduction(const mst_bucket_reducer *r, void *data, size_t count, mst_dtype dtype,
                                  mst_work **work) {
    mst_call options = {.size = sizeof options,
                        .site = r->options.site,
                        .op = r->options.sum ? MST_SUM : MST_AVG,
                        .deterministic = r->options.deterministic,
                        .quantize = r->options.quantize,
                        .group = r->group,
                        .timeout_ms = r->timeout_ms,
                        .work = work,
                        .log_name = "bucket"};
    struct msi_call call;
    mst_status st = msi_call_open_as("mst_bucket_ready", MSI_KIND_ALL_REDUCE, &options, &call);
    if (st == MST_OK) st = msi_call_tensor(&call, 1, count, dtype);
    if (st == MST_OK) st = msi_call_reducer(&call, NULL, count);
    if (st == MST_OK) st = msi_call_alloc(&call, data);
    if (st != MST_OK) return st;
    mst_backend_op *desc = &call.work->op.desc;
    desc->in = desc->out = data;
    desc->count = count;
    return msi_call_submit(&call);
}

/* Device memory: a reduction for each tensor. They run in order, so only the last one is waited for. */
static mst_status start_each(const mst_bucket_reducer *r, struct msi_bucket *bucket) {
    mst_status st = MST_OK;
    for (size_t i = bucket->first; i != MSI_NO_TENSOR && st == MST_OK; i = r->tensors[i].next) {
        const mst_tensor *t = &r->tensors[i].user;
        mst_work *work;
        st = start_reduction(r, t->data, t->count, t->dtype, &work);
        if (st != MST_OK) return st;
        if (bucket->work) st = msi_comm_leave(bucket->work);
        bucket->work = work;
    }
    return st;
}

static mst_status start_batch(const mst_bucket_reducer *r, struct msi_bucket *bucket) {
    struct msi_comm *comm;
    mst_status st = msi_group_comm_of(msi_handle_memory(r->group), MST_MEMORY_CUDA, &comm);
    if (st != MST_OK) return st;
    bool batch = bucket->tensors > 1 && msi_comm_batch_begin(comm);
    st = start_each(r, bucket);
    if (batch) msi_comm_batch_end(comm);
    return st;
}

static mst_status start(const mst_bucket_reducer *r, struct msi_bucket *bucket) {
    const struct msi_bucket_tensor *first = &r->tensors[bucket->first];
    mst_dtype dtype = first->user.dtype;
    bucket->copied = false;
    if (r->device) return start_batch(r, bucket);
    mst_status st =
        start_reduction(r, bucket->buffer, bucket->bytes / mst_dtype_size(dtype), dtype, &bucket->work);
    if (st != MST_OK || !first->copy) return st;
    return msi_comm_on_done(bucket->work, on_done, bucket, false);
}

/* Under the lock: starts the buckets that can start. */
static mst_status start_buckets(mst_bucket_reducer *r) {
    mst_status st = MST_OK;
    while (st == MST_OK && r->started < r->n_buckets && !r->buckets[r->started].missing)
        st = start(r, &r->buckets[r->started++]);
    return st == MST_OK ? st : keep(r, st);
}

/* Under the lock: claims the tensor for this thread. */
static mst_status claim(mst_bucket_reducer *r, size_t index) {
    char text[120];
    if (r->failed) return msi_error_restore(&r->error);
    if (index >= r->n)
        return msi_fail(MST_ERR_INVALID, NULL, "index is %zu, but the reducer has %zu tensor%s", index, r->n,
                        r->n == 1 ? "" : "s");
    if (r->tensors[index].mark != MSI_MARK_NONE)
        return msi_fail(MST_ERR_STATE, "mark each tensor once, then call mst_bucket_wait",
                        "%s is already marked as ready in this iteration", show(r, index, text));
    r->tensors[index].mark = MSI_MARK_COPYING;
    return MST_OK;
}

mst_status msi_bucket_ready(mst_bucket_reducer *r, size_t index) {
    pthread_mutex_lock(&r->lock);
    mst_status st = claim(r, index);
    pthread_mutex_unlock(&r->lock);
    if (st != MST_OK) return st;
    struct msi_bucket_tensor *t = &r->tensors[index];
    if (t->copy && t->bytes) memcpy(t->copy, t->user.data, t->bytes);
    pthread_mutex_lock(&r->lock);
    t->mark = MSI_MARK_READY;
    r->ready++;
    r->buckets[t->bucket].missing--;
    st = r->failed ? msi_error_restore(&r->error) : start_buckets(r);
    pthread_mutex_unlock(&r->lock);
    return st;
}

static mst_status fail_missing(const mst_bucket_reducer *r) {
    char list[600] = "", text[120];
    size_t missing = r->n - r->ready, named = 0, used = 0;
    for (size_t i = 0; i < r->n && named < NAMED_MOST; i++) {
        if (r->tensors[i].mark == MSI_MARK_READY) continue;
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", named ? ", " : "", show(r, i, text));
        named++;
    }
    if (missing > named) snprintf(list + used, sizeof list - used, " and %zu more", missing - named);
    return msi_fail(MST_ERR_STATE, "call mst_bucket_ready for every tensor before mst_bucket_wait",
                    "%zu of %zu tensors are not ready: %s", missing, r->n, list);
}

/* Fails unless this thread may wait now. */
static mst_status begin_wait(mst_bucket_reducer *r) {
    mst_status st = MST_OK;
    pthread_mutex_lock(&r->lock);
    if (atomic_load_explicit(&r->waiting, memory_order_relaxed))
        st = msi_fail(MST_ERR_STATE, "let one thread wait", "another thread is in mst_bucket_wait");
    else if (r->failed)
        st = msi_error_restore(&r->error);
    else if (r->ready < r->n)
        st = fail_missing(r);
    /* Orders nothing: a callback that does not see it yet copies. */
    else
        atomic_store_explicit(&r->waiting, true, memory_order_relaxed);
    pthread_mutex_unlock(&r->lock);
    return st;
}

/* Begins the next iteration. */
static void reset(mst_bucket_reducer *r) {
    for (size_t i = 0; i < r->n; i++) r->tensors[i].mark = MSI_MARK_NONE;
    for (size_t b = 0; b < r->n_buckets; b++) r->buckets[b].missing = r->buckets[b].tensors;
    r->ready = r->started = r->finished = 0;
}

mst_status msi_bucket_wait(mst_bucket_reducer *r, const struct msi_wait *wait) {
    mst_status st = begin_wait(r);
    if (st != MST_OK) return st;
    while (r->finished < r->n_buckets && st == MST_OK) {
        struct msi_bucket *bucket = &r->buckets[r->finished];
        st = msi_comm_finish(bucket->work, wait, false);
        if (st != MST_OK) break;
        bucket->work = NULL;
        if (!bucket->copied) copy_out(r, bucket);
        r->finished++;
    }
    pthread_mutex_lock(&r->lock);
    if (st == MST_OK)
        reset(r);
    else if (st != MST_ERR_TIMEOUT && st != MST_ERR_CANCELLED)
        keep(r, st);
    atomic_store_explicit(&r->waiting, false, memory_order_relaxed);
    pthread_mutex_unlock(&r->lock);
    return st;
}
