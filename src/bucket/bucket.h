/*
 * bucket.h - the reducer of many tensors in buckets (include/muster/bucket.h).
 *
 *  1. The lock protects what is marked and which buckets have started. Reductions are submitted under it, so
 *     that they start in the same order on all ranks. Copies are made without it.
 *  2. A bucket's buffer holds its tensors in the order of registration on all ranks, in place or not.
 *  3. msi_bucket_create allocates everything; an iteration allocates nothing.
 */
#ifndef MSI_BUCKET_BUCKET_H
#define MSI_BUCKET_BUCKET_H

#include "base/error.h"
#include "group/world.h"

#include <muster/bucket.h>

enum msi_mark {
    MSI_MARK_NONE,
    MSI_MARK_COPYING, /* a thread is in mst_bucket_ready with it */
    MSI_MARK_READY,
};

struct msi_bucket_tensor {
    mst_tensor user;
    char *name; /* a copy; NULL: none */
    size_t bytes;
    size_t bucket; /* number of its bucket */
    size_t next;   /* the next tensor of the bucket, in the order of registration; MSI_NO_TENSOR: none */
    char *copy;    /* its place in the bucket's buffer; NULL: it is reduced in place */
    enum msi_mark mark;
};
#define MSI_NO_TENSOR SIZE_MAX

struct msi_bucket {
    size_t first; /* its tensor with the lowest index */
    size_t tensors;
    size_t bytes;
    size_t missing; /* tensors that are not ready */
    char *buffer;   /* NULL: each tensor is reduced in place on its own */
    mst_work *work; /* NULL: not started, or finished */
    bool copied;    /* the callback has copied the result to the tensors */
    struct mst_bucket_reducer *reducer;
};

struct mst_bucket_reducer {
    mst_bucket_options options;
    int rank, timeout_ms;
    mst_group *group; /* handle of its own group */
    struct msi_bucket_tensor *tensors;
    size_t n;
    struct msi_bucket *buckets; /* in the order in which they start */
    size_t n_buckets;
    bool device; /* the tensors are in device memory */
    void *arena; /* the buffers; NULL: none */
    pthread_mutex_t lock;
    size_t ready;         /* tensors that are ready */
    size_t started;       /* buckets that have started */
    size_t finished;      /* buckets that the current wait has finished */
    _Atomic bool waiting; /* a thread is in mst_bucket_wait: it copies results instead of the callback */
    bool failed;          /* … with this error */
    struct msi_saved_error error;
    mst_bucket_reducer *handle; /* what programs use */
};

/* All ranks of the group call it. Checks all arguments but the group, and fails on all ranks or on none. */
mst_status msi_bucket_create(const mst_group *group, const mst_tensor *tensors, size_t n,
                             const mst_bucket_options *options, mst_bucket_reducer **reducer);
void msi_bucket_free(mst_bucket_reducer *reducer);
mst_status msi_bucket_ready(mst_bucket_reducer *reducer, size_t index);
mst_status msi_bucket_wait(mst_bucket_reducer *reducer, const struct msi_wait *wait);

/* Bytes: of the first bucket, of the others, and of a tensor that has a bucket of its own. */
struct msi_bucket_limits {
    size_t first, other, alone;
};
/*
 * layout.c: divides the tensors into buckets: sets the bucket and next of each tensor, and *buckets, which
 * the caller frees. A bucket comes before another one if its lowest index is higher.
 */
mst_status msi_bucket_divide(struct msi_bucket_tensor *tensors, size_t n,
                             const struct msi_bucket_limits *limits, struct msi_bucket **buckets,
                             size_t *n_buckets);
/* The memory of the tensors, if they follow each other there; else NULL. Empty tensors may be anywhere. */
void *msi_bucket_find_memory(const struct msi_bucket_tensor *tensors, const struct msi_bucket *bucket);

/* agree.c: compares the tensors with those of the first rank. */
mst_status msi_bucket_compare(const mst_bucket_reducer *reducer, const struct msi_wait *wait);
/* The barrier with this number, 0 or 1, fails on all ranks or on none. own: this rank's status so far. */
mst_status msi_bucket_agree(const mst_bucket_reducer *reducer, int number, const struct msi_wait *wait,
                            mst_status own);

#endif
