/*
 * bucket.h - reduces many tensors in buckets while the program still computes: the reducer of PyTorch's
 * DistributedDataParallel for C.
 *
 *     mst_tensor grads[] = {{w1, n1, MST_F32, "fc1"}, {w2, n2, MST_F32, "fc2"}};   in the order of forward
 *     mst_bucket_reducer *reducer;
 *     mst_bucket_create(grads, 2, &reducer);
 *     for (each step) {
 *         backward of fc2; mst_bucket_ready(reducer, 1);     its average is computed in the background
 *         backward of fc1; mst_bucket_ready(reducer, 0);
 *         mst_bucket_wait(reducer);                          all tensors hold the averages over the ranks
 *     }
 *     mst_bucket_free(reducer);
 *
 *  1. All ranks of the group create the reducer with the same tensors: counts, dtypes, names and order.
 *     Creation succeeds on all ranks or on none. Ranks may mark tensors in different orders.
 *  2. Buckets are filled from the last tensor to the first, because a backward pass computes the gradients of
 *     the last layer first. A bucket has one dtype. Its reduction starts when all its tensors are ready and
 *     the buckets before it have started.
 *  3. A bucket of several tensors has a buffer of its own, to which mst_bucket_ready copies. A bucket whose
 *     tensors follow each other in memory in the order of registration is reduced in place, and so is a
 *     tensor that is alone in its bucket. A tensor that is larger than a bucket is alone, and in a group of
 *     one host each tensor of at least 256 KiB. Memory from mst_alloc is the fastest for those.
 *  4. The program must not touch a tensor from mst_bucket_ready until mst_bucket_wait has returned. Tensors
 *     in device memory must be complete when they are marked.
 *  5. Any thread may mark tensors. One thread waits. After a failure the reducer can only be freed.
 *  6. A reducer has a group of its own: other calls on .group do not mix with its reductions. Free it before
 *     its world is closed.
 */
#ifndef MUSTER_BUCKET_H
#define MUSTER_BUCKET_H

#include <muster/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mst_bucket_reducer mst_bucket_reducer;

/* A tensor that is reduced in place. */
typedef struct mst_tensor {
    void *data;
    size_t count;
    mst_dtype dtype;
    const char *name; /* for errors; NULL: its index alone */
} mst_tensor;

#define mst_bucket_options_fields                                                                            \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(size_t bucket_bytes);       /* 0: 25 MiB; a larger tensor has a bucket of its own */          \
    MST_OPTION(size_t first_bucket_bytes); /* 0: 1 MiB, at most bucket_bytes; small, to start early */       \
    MST_OPTION(bool sum);                  /* sums instead of averages */                                    \
    MST_OPTION(bool deterministic);        /* as in mst_call */                                              \
    MST_OPTION(mst_group *group);          /* NULL: the default world */                                     \
    MST_OPTION(int timeout_ms);            /* of creation and of each reduction; 0: the group's */           \
    MST_OPTION(mst_quantize quantize);     /* as in mst_call; all tensors are f32, f16 or bf16 */
typedef struct mst_bucket_options {
    mst_bucket_options_fields
} mst_bucket_options;

/*
 * Creates a reducer of n tensors together with the other ranks of the group: MST_ERR_MISMATCH names the rank
 * and the tensor if ranks differ. Copies the array and the names.
 */
mst_status mst_bucket_create_with(const mst_tensor *tensors, size_t n, mst_bucket_reducer **reducer,
                                  const mst_bucket_options *options);
/*
 * Marks the tensor with this index as ready, once per iteration. Starts reductions; does not wait for other
 * ranks. Works also in the callback of a work.
 */
mst_status mst_bucket_ready(mst_bucket_reducer *reducer, size_t index);
/*
 * Waits until all tensors are reduced; then the next iteration may begin. MST_ERR_STATE names tensors that
 * are not ready. After that, and after MST_ERR_TIMEOUT or MST_ERR_CANCELLED of the wait, it may be repeated.
 */
mst_status mst_bucket_wait_with(mst_bucket_reducer *reducer, const mst_wait_options *options);
/* Accepts NULL. Ends reductions that are under way. Returns MST_ERR_STATE in a callback of a work. */
mst_status mst_bucket_free(mst_bucket_reducer *reducer);

#ifdef __cplusplus
}
#endif

MST_WRAP_3(mst_bucket_create, mst_bucket_options, const mst_tensor *, size_t, mst_bucket_reducer **)
MST_WRAP_1(mst_bucket_wait, mst_wait_options, mst_bucket_reducer *)

#define mst_bucket_create(...) MST_CALL_3(mst_bucket_create, mst_bucket_options, __VA_ARGS__)
#define mst_bucket_wait(...)   MST_CALL_1(mst_bucket_wait, mst_wait_options, __VA_ARGS__)
#endif
