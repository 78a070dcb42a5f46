/*
 * comm.h - communication among the ranks of a group: the operations of torch.distributed for C.
 *
 *  1. All ranks of a group call each of its operations, in the same order and with matching arguments. If
 *     calls do not match, the error names the ranks and their calls. Point-to-point calls involve only their
 *     two ranks.
 *  2. Calls borrow buffers until they return or, with .work, until the work is done. Buffers need no
 *     alignment. The other ranks of the host read and reduce buffers from mst_alloc in place, which is
 *     faster.
 *  3. One thread at a time uses a group. Different threads may use different groups concurrently.
 *  4. count is in elements and may be 0. Outputs come first, then inputs, then the count, then the dtype.
 *     Other arguments are named: mst_all_reduce(grad, n, MST_F32, .op = MST_AVG, .group = dp).
 *  5. All calls block until the operation is complete, unless .work or .stream is given, and return a status
 *     of status.h.
 */
#ifndef MUSTER_COMM_H
#define MUSTER_COMM_H

#include <muster/dtype.h>
#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mst_work mst_work; /* an operation in progress */

enum { MST_ANY_SOURCE = -1 };

/* Options of the communication calls. */
typedef struct mst_call {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(mst_group *group); /* NULL: the default world */
    MST_OPTION(int timeout_ms);   /* 0: the group's */
    MST_OPTION(mst_cancel *cancel);
    MST_OPTION(mst_work **work); /* not NULL: do not block, and return a work to wait for */
    MST_OPTION(mst_op op);
    MST_OPTION(double factor);  /* of PREMUL_SUM; 0 stands for 1 */
    MST_OPTION(const void *in); /* broadcast, all_reduce, reduce: the input, if it is not buf */
    MST_OPTION(int src);        /* the root, or the sender: a global rank */
    MST_OPTION(int dst);        /* the root, or the receiver: a global rank */
    /* The same as group ranks; 0: not given. Name group rank 0 by its global rank. */
    MST_OPTION(int group_src);
    MST_OPTION(int group_dst);
    MST_OPTION(int tag);                  /* a message matches only a receive with the same tag */
    MST_OPTION(int *sender);              /* recv: set to the sender's global rank */
    MST_OPTION(const size_t *counts);     /* list forms: elements of each group rank; NULL: count each */
    MST_OPTION(const size_t *out_splits); /* all_to_all: elements from each group rank */
    MST_OPTION(const size_t *in_splits);  /* all_to_all: elements to each group rank */
    /* The result depends on the inputs alone, bit for bit, not on the algorithm. */
    MST_OPTION(bool deterministic);
    MST_OPTION(bool wait_all_ranks); /* monitored_barrier: name all missing ranks, not only the first */
    /*
     * A cudaStream_t: the operation is enqueued on this stream. Without .work the call returns once it is
     * enqueued, like a kernel launch. NULL: the operation uses an internal stream, and the call blocks as
     * usual.
     */
    MST_OPTION(void *stream);
    MST_OPTION(bool prof);            /* record this call while profiling is enabled; see prof.h */
    MST_OPTION(const char *log_name); /* the name in the profile; default: the call without mst_ */
} mst_call;

/*
 * Blocks until every rank of the group has called it. Returns MST_ERR_PEER_LOST as soon as a rank has died or
 * left. At the deadline returns MST_ERR_STALLED with the missing rank; the call still counts for the other
 * ranks.
 */
mst_status mst_barrier_with(const mst_call *call);
/*
 * A barrier for debugging: at .timeout_ms it names the first missing rank, or all with .wait_all_ranks. In a
 * group that spans hosts it uses the store, which knows all missing ranks. With .work it is an ordinary
 * barrier, which knows only the ranks that it waits for. All ranks must use the same form.
 */
mst_status mst_monitored_barrier_with(const mst_call *call);

/*
 * In place, or out of place with .in. After reduce only .dst has the result; the other buffers are unchanged.
 */
mst_status mst_broadcast_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
/* An all_reduce that is optimized for small tensors, as in tensor-parallel inference. */
mst_status mst_inference_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);

/* count is one rank's share. The smaller buffer may be this rank's block of the larger one. */
mst_status mst_all_gather_into_tensor_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                           const mst_call *call);
mst_status mst_reduce_scatter_tensor_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                          const mst_call *call);
mst_status mst_gather_with(void *out, const void *in, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_scatter_with(void *out, const void *in, size_t count, mst_dtype dtype, const mst_call *call);
/* Sends count elements to each rank, or .in_splits[r] to rank r, and receives .out_splits[r] from it. */
mst_status mst_all_to_all_single_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *call);

/* List forms: one buffer for each group rank. .counts, the same on all ranks, replaces count. */
mst_status mst_all_gather_with(void *const *outs, const void *in, size_t count, mst_dtype dtype,
                               const mst_call *call);
mst_status mst_reduce_scatter_with(void *out, const void *const *ins, size_t count, mst_dtype dtype,
                                   const mst_call *call);
/* .out_splits and .in_splits replace count if lengths differ. */
mst_status mst_all_to_all_with(void *const *outs, const void *const *ins, size_t count, mst_dtype dtype,
                               const mst_call *call);

/* n tensors in one operation; counts has n entries. */
mst_status mst_all_reduce_coalesced_with(void *const *bufs, const size_t *counts, size_t n, mst_dtype dtype,
                                         const mst_call *call);
mst_status mst_all_gather_coalesced_with(void *const *outs, const void *const *ins, const size_t *counts,
                                         size_t n, mst_dtype dtype, const mst_call *call);
mst_status mst_reduce_scatter_coalesced_with(void *const *outs, const void *const *ins, const size_t *counts,
                                             size_t n, mst_dtype dtype, const mst_call *call);

/*
 * As in DeepSpeed: the single-buffer form if the backend supports it, else the list form. The mst_has_
 * functions tell whether the backend supports an operation.
 */
mst_status mst_reduce_scatter_fn_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *call);
mst_status mst_allgather_fn_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                 const mst_call *call);
bool mst_has_reduce_scatter_tensor(void);
bool mst_has_all_gather_into_tensor(void);
bool mst_has_all_reduce_coalesced(void);

/*
 * Point to point. A message matches the first posted receive of the same group and tag that names its sender
 * or MST_ANY_SOURCE. The counts must be equal, else MST_ERR_MISMATCH. isend and irecv do not block and
 * require .work.
 */
mst_status mst_send_with(const void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_recv_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_isend_with(const void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_irecv_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);

/* One message of a batch. */
typedef struct mst_p2p {
    void *buf; /* only read if send is true */
    size_t count;
    mst_dtype dtype;
    int peer; /* global rank */
    int tag;
    bool send; /* false: receive */
} mst_p2p;
/* Starts all messages without deadlock; fills in n works. Uses only the option .group. */
mst_status mst_batch_isend_irecv_with(const mst_p2p *ops, size_t n, mst_work **works, const mst_call *call);

/* Byte strings of unknown length. The receiver frees them with mst_bytes_free. These calls always block. */
mst_status mst_broadcast_bytes_with(mst_bytes *bytes,
                                    const mst_call *call); /* input on .src, output on other ranks */
mst_status mst_all_gather_bytes_with(mst_bytes *outs, const void *data, size_t len, const mst_call *call);
mst_status mst_gather_bytes_with(mst_bytes *outs, const void *data, size_t len, const mst_call *call);
mst_status mst_scatter_bytes_with(mst_bytes *out, const mst_bytes *ins, const mst_call *call);
mst_status mst_send_bytes_with(const void *data, size_t len, const mst_call *call);
mst_status mst_recv_bytes_with(mst_bytes *out, const mst_call *call);

/*
 * Works. The caller releases each work exactly once, also after a failure: with mst_wait, which waits for
 * completion and returns the result, or with mst_work_free, after which the operation completes by itself.
 * Later calls with the work return MST_ERR_STATE. Destroying a group ends its works; until then they may
 * write to their buffers.
 */
typedef struct mst_wait_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    /* 0: the deadline of the operation. MST_ERR_TIMEOUT leaves the work valid. */
    MST_OPTION(int timeout_ms);
    MST_OPTION(mst_cancel *cancel);
} mst_wait_options;
mst_status mst_wait_with(mst_work *work, const mst_wait_options *options);
/* Makes progress and sets *done. Does not block. */
mst_status mst_test(mst_work *work, bool *done);
/*
 * Returns the result of a completed work, and sets mst_error() if it failed; MST_ERR_STATE before completion.
 */
mst_status mst_work_result(mst_work *work);
/*
 * Sets a callback for completion; calls it at once if the work is done. It runs on the thread that completes
 * the work. It may start operations with .work on groups that no other thread uses, and release works,
 * including its own. Calls that block or destroy a group return MST_ERR_STATE there.
 */
mst_status mst_work_on_done(mst_work *work, void (*callback)(mst_status status, void *arg), void *arg);
void mst_work_free(mst_work *work);

/*
 * Allocates page-aligned, zeroed memory that the other ranks of the host access in place: inputs of more than
 * a few KiB are not copied, and a large all_reduce on such memory needs no other buffers. Free it with
 * mst_free when no operation uses it. After a failed call, another rank may still write into the call's
 * tensors for a short time.
 */
mst_status mst_alloc_with(size_t bytes, void **memory, const mst_call *call);
void mst_free(void *memory);

#ifdef __cplusplus
}
#define MST_CPP_CALL(name, parameters, ...) MST_CPP_WRAP(mst_call, name, parameters, __VA_ARGS__)
inline mst_status mst_barrier(mst_call call = {}, MST_SITE_PARAMETERS) {
    return mst_barrier_with(MST_FILL_OPTIONS(call));
}
inline mst_status mst_monitored_barrier(mst_call call = {}, MST_SITE_PARAMETERS) {
    return mst_monitored_barrier_with(MST_FILL_OPTIONS(call));
}
inline mst_status mst_wait(mst_work *work, mst_wait_options options = {}, MST_SITE_PARAMETERS) {
    return mst_wait_with(work, MST_FILL_OPTIONS(options));
}
MST_CPP_CALL(mst_broadcast, (void *buf, size_t count, mst_dtype dtype), buf, count, dtype)
MST_CPP_CALL(mst_all_reduce, (void *buf, size_t count, mst_dtype dtype), buf, count, dtype)
MST_CPP_CALL(mst_reduce, (void *buf, size_t count, mst_dtype dtype), buf, count, dtype)
MST_CPP_CALL(mst_inference_all_reduce, (void *buf, size_t count, mst_dtype dtype), buf, count, dtype)
MST_CPP_CALL(mst_all_gather_into_tensor, (void *out, const void *in, size_t count, mst_dtype dtype), out, in,
             count, dtype)
MST_CPP_CALL(mst_reduce_scatter_tensor, (void *out, const void *in, size_t count, mst_dtype dtype), out, in,
             count, dtype)
MST_CPP_CALL(mst_gather, (void *out, const void *in, size_t count, mst_dtype dtype), out, in, count, dtype)
MST_CPP_CALL(mst_scatter, (void *out, const void *in, size_t count, mst_dtype dtype), out, in, count, dtype)
MST_CPP_CALL(mst_all_to_all_single, (void *out, const void *in, size_t count, mst_dtype dtype), out, in,
             count, dtype)
MST_CPP_CALL(mst_reduce_scatter_fn, (void *out, const void *in, size_t count, mst_dtype dtype), out, in,
             count, dtype)
MST_CPP_CALL(mst_allgather_fn, (void *out, const void *in, size_t count, mst_dtype dtype), out, in, count,
             dtype)
MST_CPP_CALL(mst_all_gather, (void *const *outs, const void *in, size_t count, mst_dtype dtype), outs, in,
             count, dtype)
MST_CPP_CALL(mst_reduce_scatter, (void *out, const void *const *ins, size_t count, mst_dtype dtype), out, ins,
             count, dtype)
MST_CPP_CALL(mst_all_to_all, (void *const *outs, const void *const *ins, size_t count, mst_dtype dtype), outs,
             ins, count, dtype)
MST_CPP_CALL(mst_all_reduce_coalesced, (void *const *bufs, const size_t *counts, size_t n, mst_dtype dtype),
             bufs, counts, n, dtype)
MST_CPP_CALL(mst_all_gather_coalesced,
             (void *const *outs, const void *const *ins, const size_t *counts, size_t n, mst_dtype dtype),
             outs, ins, counts, n, dtype)
MST_CPP_CALL(mst_reduce_scatter_coalesced,
             (void *const *outs, const void *const *ins, const size_t *counts, size_t n, mst_dtype dtype),
             outs, ins, counts, n, dtype)
MST_CPP_CALL(mst_send, (const void *buf, size_t count, mst_dtype dtype), buf, count, dtype)
MST_CPP_CALL(mst_recv, (void *buf, size_t count, mst_dtype dtype), buf, count, dtype)
MST_CPP_CALL(mst_isend, (const void *buf, size_t count, mst_dtype dtype), buf, count, dtype)
MST_CPP_CALL(mst_irecv, (void *buf, size_t count, mst_dtype dtype), buf, count, dtype)
MST_CPP_CALL(mst_batch_isend_irecv, (const mst_p2p *ops, size_t n, mst_work **works), ops, n, works)
MST_CPP_CALL(mst_broadcast_bytes, (mst_bytes * bytes), bytes)
MST_CPP_CALL(mst_all_gather_bytes, (mst_bytes * outs, const void *data, size_t len), outs, data, len)
MST_CPP_CALL(mst_gather_bytes, (mst_bytes * outs, const void *data, size_t len), outs, data, len)
MST_CPP_CALL(mst_scatter_bytes, (mst_bytes * out, const mst_bytes *ins), out, ins)
MST_CPP_CALL(mst_send_bytes, (const void *data, size_t len), data, len)
MST_CPP_CALL(mst_recv_bytes, (mst_bytes * out), out)
MST_CPP_CALL(mst_alloc, (size_t bytes, void **memory), bytes, memory)
#undef MST_CPP_CALL
#else
#define MST_CALL_ARGS(...)         MST_LAST_POSITIONAL(__VA_ARGS__), MST_OPTIONS_AFTER(mst_call, __VA_ARGS__)

#define mst_barrier(...)           mst_barrier_with(MST_OPTIONS(mst_call, __VA_ARGS__))
#define mst_monitored_barrier(...) mst_monitored_barrier_with(MST_OPTIONS(mst_call, __VA_ARGS__))
#define mst_wait(...)                                                                                        \
    mst_wait_with(MST_LAST_POSITIONAL(__VA_ARGS__), MST_OPTIONS_AFTER(mst_wait_options, __VA_ARGS__))

#define mst_broadcast(buf, count, ...)  mst_broadcast_with(buf, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_all_reduce(buf, count, ...) mst_all_reduce_with(buf, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_reduce(buf, count, ...)     mst_reduce_with(buf, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_inference_all_reduce(buf, count, ...)                                                            \
    mst_inference_all_reduce_with(buf, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_all_gather_into_tensor(out, in, count, ...)                                                      \
    mst_all_gather_into_tensor_with(out, in, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_reduce_scatter_tensor(out, in, count, ...)                                                       \
    mst_reduce_scatter_tensor_with(out, in, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_gather(out, in, count, ...)  mst_gather_with(out, in, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_scatter(out, in, count, ...) mst_scatter_with(out, in, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_all_to_all_single(out, in, count, ...)                                                           \
    mst_all_to_all_single_with(out, in, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_all_gather(outs, in, count, ...) mst_all_gather_with(outs, in, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_reduce_scatter(out, ins, count, ...)                                                             \
    mst_reduce_scatter_with(out, ins, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_all_to_all(outs, ins, count, ...)                                                                \
    mst_all_to_all_with(outs, ins, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_all_reduce_coalesced(bufs, counts, n, ...)                                                       \
    mst_all_reduce_coalesced_with(bufs, counts, n, MST_CALL_ARGS(__VA_ARGS__))
#define mst_all_gather_coalesced(outs, ins, counts, n, ...)                                                  \
    mst_all_gather_coalesced_with(outs, ins, counts, n, MST_CALL_ARGS(__VA_ARGS__))
#define mst_reduce_scatter_coalesced(outs, ins, counts, n, ...)                                              \
    mst_reduce_scatter_coalesced_with(outs, ins, counts, n, MST_CALL_ARGS(__VA_ARGS__))
#define mst_reduce_scatter_fn(out, in, count, ...)                                                           \
    mst_reduce_scatter_fn_with(out, in, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_allgather_fn(out, in, count, ...)                                                                \
    mst_allgather_fn_with(out, in, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_send(buf, count, ...)          mst_send_with(buf, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_recv(buf, count, ...)          mst_recv_with(buf, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_isend(buf, count, ...)         mst_isend_with(buf, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_irecv(buf, count, ...)         mst_irecv_with(buf, count, MST_CALL_ARGS(__VA_ARGS__))
#define mst_batch_isend_irecv(ops, n, ...) mst_batch_isend_irecv_with(ops, n, MST_CALL_ARGS(__VA_ARGS__))
#define mst_broadcast_bytes(...)           mst_broadcast_bytes_with(MST_CALL_ARGS(__VA_ARGS__))
#define mst_all_gather_bytes(outs, data, ...)                                                                \
    mst_all_gather_bytes_with(outs, data, MST_CALL_ARGS(__VA_ARGS__))
#define mst_gather_bytes(outs, data, ...) mst_gather_bytes_with(outs, data, MST_CALL_ARGS(__VA_ARGS__))
#define mst_scatter_bytes(out, ...)       mst_scatter_bytes_with(out, MST_CALL_ARGS(__VA_ARGS__))
#define mst_send_bytes(data, ...)         mst_send_bytes_with(data, MST_CALL_ARGS(__VA_ARGS__))
#define mst_recv_bytes(...)               mst_recv_bytes_with(MST_CALL_ARGS(__VA_ARGS__))
#define mst_alloc(bytes, ...)             mst_alloc_with(bytes, MST_CALL_ARGS(__VA_ARGS__))
#endif
#endif
