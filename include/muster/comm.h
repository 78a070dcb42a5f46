/*
 * comm.h - communication among the ranks of a group: torch.distributed's operations for C.
 *
 *  1. Every operation of a group is called by all its ranks, in the same order, with arguments that fit together; ranks
 *     that disagree get an error that says who called what. Point-to-point calls involve only their two ranks.
 *  2. Buffers are borrowed until the call returns or, with .work, until the work is done. They need no alignment. Those
 *     from mst_alloc are read and reduced in place by the other ranks of the host, which is faster.
 *  3. A group is used by one thread at a time; different groups by different threads at once.
 *  4. count is in elements and may be 0. Outputs come first, then inputs, then the count, then the dtype; the rest by
 *     name: mst_all_reduce(grad, n, MST_F32, .op = MST_AVG, .group = dp).
 */
#ifndef MUSTER_COMM_H
#define MUSTER_COMM_H

#include <muster/dtype.h>
#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mst_work mst_work; /* an operation under way */

enum { MST_ANY_SOURCE = -1 };

/* Options of a communication call; each call takes those that it names. */
typedef struct mst_call {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(mst_group *group); /* NULL: the default world */
    MST_OPTION(int timeout_ms);   /* 0: the group's */
    MST_OPTION(mst_cancel *cancel);
    MST_OPTION(mst_work **work); /* not NULL: return at once, and give back the work to wait for */
    MST_OPTION(mst_op op);
    MST_OPTION(double factor);  /* of PREMUL_SUM; 0: 1 */
    MST_OPTION(const void *in); /* broadcast, all_reduce, reduce: read this, apart from buf, instead */
    MST_OPTION(int src);        /* the root, or the sender: a global rank */
    MST_OPTION(int dst);        /* the root, or the receiver: a global rank */
    /* The same as group ranks; 0: not given (group rank 0 is what src and dst reach by default wherever the group has global rank 0). */
    MST_OPTION(int group_src);
    MST_OPTION(int group_dst);
    MST_OPTION(int tag);                  /* messages with different tags do not meet */
    MST_OPTION(int *sender);              /* recv: where to put the sender's global rank */
    MST_OPTION(const size_t *counts);     /* list forms: elements of each group rank, where they differ */
    MST_OPTION(const size_t *out_splits); /* all_to_all: elements from each group rank */
    MST_OPTION(const size_t *in_splits);  /* all_to_all: elements to each group rank */
    /* The bits of the result depend on the inputs alone, not on size or algorithm. */
    MST_OPTION(bool deterministic);
    MST_OPTION(bool wait_all_ranks); /* monitored_barrier: name all missing ranks, not only the first */
    /*
     * A stream of the device (cudaStream_t): the operation is ordered on it, behind what is there and before what comes. Without
     * .work the call returns once it is enqueued, as a kernel's launch does. NULL: a stream of the group's own, and as usual.
     */
    MST_OPTION(void *stream);
    MST_OPTION(bool prof); /* record this call while profiling is enabled, whatever else is: prof.h */
    MST_OPTION(const char *log_name); /* record it under this name; default: that of the call, without mst_ */
} mst_call;

/*
 * Returns once every rank of the group has called it. If one of them dies or leaves instead, the others get
 * MST_ERR_PEER_LOST at once; if one is late, MST_ERR_STALLED names it at the deadline, and the barrier counts all the same.
 */
mst_status mst_barrier_with(const mst_call *call);
/*
 * The same; meant to be given a .timeout_ms, at which it names the first missing rank, or all of them. In a group that spans
 * hosts it goes through the store, where it learns of them all; with .work it is a barrier like the other, which knows only
 * whom it waits for itself, and all ranks must call the same form.
 */
mst_status mst_monitored_barrier_with(const mst_call *call);

/* The whole buffer; .in makes them out of place. After reduce only .dst has the result; other bufs are unchanged. */
mst_status mst_broadcast_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
/* An all_reduce for small tensors in a hurry, as between the layers of a model that is split over ranks. */
mst_status mst_inference_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);

/* count is one rank's share; the other side has size x count. in may be its place in out, out its place in in. */
mst_status mst_all_gather_into_tensor_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                           const mst_call *call);
mst_status mst_reduce_scatter_tensor_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                          const mst_call *call);
mst_status mst_gather_with(void *out, const void *in, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_scatter_with(void *out, const void *in, size_t count, mst_dtype dtype, const mst_call *call);
/* count goes to each rank, or .in_splits[r] to rank r and .out_splits[r] from it; blocks lie one behind the other. */
mst_status mst_all_to_all_single_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *call);

/* List forms: a buffer for each group rank; .counts, the same on all ranks, where they differ (then count is ignored). */
mst_status mst_all_gather_with(void *const *outs, const void *in, size_t count, mst_dtype dtype,
                               const mst_call *call);
mst_status mst_reduce_scatter_with(void *out, const void *const *ins, size_t count, mst_dtype dtype,
                                   const mst_call *call);
/* .out_splits and .in_splits where blocks differ. */
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
 * DeepSpeed's pair: the single-buffer form where the backend has it, else the list form. The mst_has_ functions say
 * whether this library's backend has an operation of its own.
 */
mst_status mst_reduce_scatter_fn_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *call);
mst_status mst_allgather_fn_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                 const mst_call *call);
bool mst_has_reduce_scatter_tensor(void);
bool mst_has_all_gather_into_tensor(void);
bool mst_has_all_reduce_coalesced(void);

/*
 * Point to point. A message meets the first receive of the same group and tag that names its sender or
 * MST_ANY_SOURCE; the two counts must be equal. isend and irecv are send and recv that insist on .work.
 */
mst_status mst_send_with(const void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_recv_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_isend_with(const void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_irecv_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);

/* One of several messages that are begun together. */
typedef struct mst_p2p {
    void *buf; /* read only, if it is sent */
    size_t count;
    mst_dtype dtype;
    int peer; /* global rank */
    int tag;
    bool send; /* else receive */
} mst_p2p;
/* Begins them all, in an order in which they cannot block one another; works has n entries. Takes .group alone. */
mst_status mst_batch_isend_irecv_with(const mst_p2p *ops, size_t n, mst_work **works, const mst_call *call);

/* Byte strings whose length the receivers do not know. What is received is freed with mst_bytes_free. Blocking. */
mst_status mst_broadcast_bytes_with(mst_bytes *bytes, const mst_call *call); /* in at .src, out elsewhere */
mst_status mst_all_gather_bytes_with(mst_bytes *outs, const void *data, size_t len, const mst_call *call);
mst_status mst_gather_bytes_with(mst_bytes *outs, const void *data, size_t len, const mst_call *call);
mst_status mst_scatter_bytes_with(mst_bytes *out, const mst_bytes *ins, const mst_call *call);
mst_status mst_send_bytes_with(const void *data, size_t len, const mst_call *call);
mst_status mst_recv_bytes_with(mst_bytes *out, const mst_call *call);

/*
 * Work. Whatever becomes of it, each is given back once: by mst_wait, which waits for its end and returns how it went, or by
 * mst_work_free, which lets it run on by itself; from then on it is refused with MST_ERR_STATE. Destroying a group ends its
 * works, whose buffers may be written until then.
 */
typedef struct mst_wait_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    /* 0: the call's own deadline; at the end MST_ERR_TIMEOUT, and the work lives on. */
    MST_OPTION(int timeout_ms);
    MST_OPTION(mst_cancel *cancel);
} mst_wait_options;
mst_status mst_wait_with(mst_work *work, const mst_wait_options *options);
/* Looks whether it is done, and helps it along. */
mst_status mst_test(mst_work *work, bool *done);
/* How it went, once it is done; MST_ERR_STATE before. Fills in mst_error() for this thread if it failed. */
mst_status mst_work_result(mst_work *work);
/*
 * Calls back when it is done, or at once if it is: on the thread that completed it. A callback may begin operations with .work,
 * on groups that no other thread uses then, and give back works, its own too; what would wait, or end a group, is refused there
 * with MST_ERR_STATE.
 */
mst_status mst_work_on_done(mst_work *work, void (*callback)(mst_status status, void *arg), void *arg);
void mst_work_free(mst_work *work);

/*
 * Memory that the other ranks of this host read and reduce in place: no copy is made of an input of more than some KiB, and a
 * large all_reduce whose tensors all lie in such memory works on nothing else. Page-aligned and zeroed. Free it when no
 * operation on it is under way. Where a call failed, another rank may for a moment still write into the tensors it was given.
 */
mst_status mst_alloc_with(size_t bytes, void **memory, const mst_call *call);
void mst_free(void *memory);

#ifdef __cplusplus
}
#define MST_CPP_CALL(name, parameters, ...)                                                                  \
    inline mst_status name(MST_UNPACK parameters, mst_call call = {}, MST_SITE_PARAMETERS) {                 \
        return name##_with(__VA_ARGS__, MST_FILL_OPTIONS(call));                                             \
    }
#define MST_UNPACK(...) __VA_ARGS__
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
#undef MST_UNPACK
#else
#define MST_CALL_AFTER(...)        MST_OPTIONS_AFTER(mst_call, __VA_ARGS__)

#define mst_barrier(...)           mst_barrier_with(MST_OPTIONS(mst_call, __VA_ARGS__))
#define mst_monitored_barrier(...) mst_monitored_barrier_with(MST_OPTIONS(mst_call, __VA_ARGS__))
#define mst_wait(...)                                                                                        \
    mst_wait_with(MST_LAST_POSITIONAL(__VA_ARGS__), MST_OPTIONS_AFTER(mst_wait_options, __VA_ARGS__))

#define mst_broadcast(buf, count, ...)                                                                       \
    mst_broadcast_with(buf, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_all_reduce(buf, count, ...)                                                                      \
    mst_all_reduce_with(buf, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_reduce(buf, count, ...)                                                                          \
    mst_reduce_with(buf, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_inference_all_reduce(buf, count, ...)                                                            \
    mst_inference_all_reduce_with(buf, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_all_gather_into_tensor(out, in, count, ...)                                                      \
    mst_all_gather_into_tensor_with(out, in, count, MST_LAST_POSITIONAL(__VA_ARGS__),                        \
                                    MST_CALL_AFTER(__VA_ARGS__))
#define mst_reduce_scatter_tensor(out, in, count, ...)                                                       \
    mst_reduce_scatter_tensor_with(out, in, count, MST_LAST_POSITIONAL(__VA_ARGS__),                         \
                                   MST_CALL_AFTER(__VA_ARGS__))
#define mst_gather(out, in, count, ...)                                                                      \
    mst_gather_with(out, in, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_scatter(out, in, count, ...)                                                                     \
    mst_scatter_with(out, in, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_all_to_all_single(out, in, count, ...)                                                           \
    mst_all_to_all_single_with(out, in, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_all_gather(outs, in, count, ...)                                                                 \
    mst_all_gather_with(outs, in, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_reduce_scatter(out, ins, count, ...)                                                             \
    mst_reduce_scatter_with(out, ins, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_all_to_all(outs, ins, count, ...)                                                                \
    mst_all_to_all_with(outs, ins, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_all_reduce_coalesced(bufs, counts, n, ...)                                                       \
    mst_all_reduce_coalesced_with(bufs, counts, n, MST_LAST_POSITIONAL(__VA_ARGS__),                         \
                                  MST_CALL_AFTER(__VA_ARGS__))
#define mst_all_gather_coalesced(outs, ins, counts, n, ...)                                                  \
    mst_all_gather_coalesced_with(outs, ins, counts, n, MST_LAST_POSITIONAL(__VA_ARGS__),                    \
                                  MST_CALL_AFTER(__VA_ARGS__))
#define mst_reduce_scatter_coalesced(outs, ins, counts, n, ...)                                              \
    mst_reduce_scatter_coalesced_with(outs, ins, counts, n, MST_LAST_POSITIONAL(__VA_ARGS__),                \
                                      MST_CALL_AFTER(__VA_ARGS__))
#define mst_reduce_scatter_fn(out, in, count, ...)                                                           \
    mst_reduce_scatter_fn_with(out, in, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_allgather_fn(out, in, count, ...)                                                                \
    mst_allgather_fn_with(out, in, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_send(buf, count, ...)                                                                            \
    mst_send_with(buf, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_recv(buf, count, ...)                                                                            \
    mst_recv_with(buf, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_isend(buf, count, ...)                                                                           \
    mst_isend_with(buf, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_irecv(buf, count, ...)                                                                           \
    mst_irecv_with(buf, count, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_batch_isend_irecv(ops, n, ...)                                                                   \
    mst_batch_isend_irecv_with(ops, n, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_broadcast_bytes(...)                                                                             \
    mst_broadcast_bytes_with(MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_all_gather_bytes(outs, data, ...)                                                                \
    mst_all_gather_bytes_with(outs, data, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_gather_bytes(outs, data, ...)                                                                    \
    mst_gather_bytes_with(outs, data, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_scatter_bytes(out, ...)                                                                          \
    mst_scatter_bytes_with(out, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_send_bytes(data, ...)                                                                            \
    mst_send_bytes_with(data, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_recv_bytes(...) mst_recv_bytes_with(MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#define mst_alloc(bytes, ...)                                                                                \
    mst_alloc_with(bytes, MST_LAST_POSITIONAL(__VA_ARGS__), MST_CALL_AFTER(__VA_ARGS__))
#endif
#endif
