/*
 * comm.h - communication among the ranks of a group: the operations of torch.distributed for C.
 *
 *  1. All ranks of a group call each of its operations, in the same order and with matching arguments. If
 *     calls do not match, or a rank rejects its call, the ranks get MST_ERR_MISMATCH with a rank that differs
 *     and its call. Point-to-point calls involve only their two ranks.
 *  2. Calls borrow buffers until they return or, with .work, until the work is done. Buffers need no
 *     alignment. The other ranks of the host read and reduce buffers from mst_alloc in place, which is
 *     faster.
 *  3. Threads may send and receive on one group concurrently, and make collectives on different groups. A
 *     thread that calls a collective while another thread is in one of the same group gets MST_ERR_STATE with
 *     both call sites. One thread destroys a group, after the others' calls on it have returned.
 *  4. count is in elements and may be 0. Outputs come first, then inputs, then the count, then the dtype,
 *     then the peer of a message. Other arguments are named:
 *     mst_all_reduce(grad, n, MST_F32, .op = MST_AVG, .group = dp). In C++20 they must be in the order of
 *     struct mst_call.
 *  5. Roots and peers are ranks in the call's group. mst_get_group_rank and mst_get_global_rank translate.
 *  6. All calls block until the operation is complete, unless .work or .stream is given, and return a status
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

enum {
    MST_ANY_SOURCE = -1, /* src: of any rank */
    MST_ANY_TAG = -1,    /* .tag of a receive or a probe */
    MST_NO_RANK = -2     /* mst_send_recv: no source, or no destination */
};

/* A message that was received or found. */
typedef struct mst_message {
    int sender; /* rank in the group */
    int tag;
    size_t bytes; /* of its body */
} mst_message;

/*
 * A user-defined reduction of count elements: inout[i] = in[i] op inout[i], where in is from lower ranks than
 * inout. op must be associative; muster combines in rank order, so it need not be commutative. Any thread of
 * the process may call it, several at a time. It must not call muster.
 */
typedef void (*mst_reduce_fn)(void *inout, const void *in, size_t count, mst_dtype dtype, void *arg);

#define mst_op_options_fields                                                                                \
    MST_OPTIONS_HEAD                                                                                         \
    /* Elements that fn treats as one item, such as {value, index}: at most 64; default 1. The counts of */  \
    /* calls must be multiples of it, and every count that fn gets is one. */                                \
    MST_OPTION(size_t unit);
typedef struct mst_op_options {
    mst_op_options_fields
} mst_op_options;
/*
 * Sets *op to an operation for .op of any reduction and scan, with any dtype; also before mst_init. Ranks
 * compare operations by the order of their creation, so all ranks create them in the same order. Rank 0 of an
 * exscan gets an undefined result. MST_ERR_LIMIT: there are 64 already.
 */
mst_status mst_op_create_with(mst_reduce_fn fn, void *arg, mst_op *op, const mst_op_options *options);
/* Frees an operation. Works that use it complete, so that fn and arg must be valid until then. */
mst_status mst_op_free(mst_op op);

/*
 * .quantize of mst_all_reduce: less precision for less traffic between hosts. MST_Q8 sends 8 bits for each
 * value and a scale for each block of 32 values, 3.5 times fewer bytes than f32.
 *
 *  1. It is for f32, f16 and bf16, MST_SUM and MST_AVG, the backend native, and not with .deterministic. All
 *     ranks give it or none does. All ranks get the same bits.
 *  2. The ranks of a host add in full precision, and only sums of hosts are quantised. A group on one host,
 *     or of one rank, gets the result without .quantize.
 *  3. Let a be the sum, over the hosts, of the largest magnitude in a block of the host's sum, and b the
 *     largest magnitude in the block of the exact result. A result differs from the exact one by at most
 *     (a + b) / 252, or by 2^-127 for each host and once more if that is larger. MST_AVG divides both by the
 *     number of ranks. f16 and bf16 are rounded once more.
 *  4. If an input is infinite or NaN on any rank, or the sum in f32 overflows, all 32 results of its block
 *     are NaN. A block of zeros stays zero. Blocks begin at multiples of 32 in the tensor.
 */
typedef enum mst_quantize { MST_Q8 = 1 } mst_quantize;

/* Options of the communication calls. A call rejects those of the first part that it does not use. */
#define mst_call_fields                                                                                      \
    MST_OPTIONS_HEAD                                                                                         \
    /* Of single calls. */                                                                                   \
    MST_OPTION(mst_op op); /* reductions; default MST_SUM */                                                 \
    MST_OPTION(int root);  /* broadcast, reduce, gather, scatter: a rank of the group; default 0 */          \
    MST_OPTION(int tag);   /* messages: a receive matches only its tag, or all with MST_ANY_TAG */           \
    /* Reductions: the result depends on the inputs alone, bit for bit, not on the algorithm. */             \
    MST_OPTION(bool deterministic);                                                                          \
    MST_OPTION(bool wait_all_ranks);     /* monitored_barrier: name all missing ranks, not only the first */ \
    MST_OPTION(double factor);           /* of PREMUL_SUM; 0 stands for 1 */                                 \
    MST_OPTION(const void *in);          /* calls with buf: the input, if it is not buf */                   \
    MST_OPTION(const size_t *counts);    /* list forms, gather, scatter: elements of each rank */            \
    MST_OPTION(const size_t *in_splits); /* all_to_all: elements to each rank */                             \
    MST_OPTION(const size_t *out_splits); /* all_to_all: elements from each rank */                          \
    MST_OPTION(int *sender);              /* recv: set to the sender's rank in the group */                  \
    MST_OPTION(mst_message *message);     /* recv: set to the sender, the tag and the length */              \
    /* Of all calls. */                                                                                      \
    MST_OPTION(mst_group *group); /* NULL: the default world */                                              \
    MST_OPTION(int timeout_ms);   /* 0: the group's */                                                       \
    MST_OPTION(mst_cancel *cancel);                                                                          \
    MST_OPTION(mst_work **work); /* not NULL: do not block, and return a work to wait for */                 \
    /* A cudaStream_t on which to enqueue the operation. The call returns once enqueued, like a kernel */    \
    /* launch; a work is done when the device has executed it. NULL: the operation uses an internal */       \
    /* stream, and the call blocks as usual. */                                                              \
    MST_OPTION(void *stream);                                                                                \
    MST_OPTION(bool prof);               /* record this call while profiling is enabled; see prof.h */       \
    MST_OPTION(const char *log_name);    /* the name in the profile; default: the call without mst_ */       \
    MST_OPTION(const mst_dtype *dtypes); /* coalesced calls: of each tensor; dtype is not used then */       \
    MST_OPTION(mst_quantize quantize);   /* all_reduce: MST_Q8 sends fewer bytes; default: exact */
typedef struct mst_call {
    mst_call_fields
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
 * In place, or out of place with .in. After reduce only .root has the result; the other buffers are
 * unchanged.
 */
mst_status mst_broadcast_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
/*
 * Prefix reductions: rank r gets the reduction of the buffers of ranks 0 to r; with exscan of ranks 0 to r-1,
 * and rank 0 gets the identity of .op: 0 for SUM, 1 for PRODUCT, the largest value or infinity for MIN, the
 * smallest for MAX, all bits for BAND. In place, or with .in. AVG is not supported.
 */
mst_status mst_scan_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_exscan_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);
/* An all_reduce that is optimized for small tensors, as in tensor-parallel inference. */
mst_status mst_inference_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call);

/*
 * count is one rank's share. The smaller buffer may be this rank's block of the larger one. If the blocks of
 * a gather or scatter differ in length, all ranks give the same .counts, and count is this rank's own block;
 * the blocks are contiguous, in rank order.
 */
mst_status mst_all_gather_into_tensor_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                           const mst_call *call);
mst_status mst_reduce_scatter_tensor_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                          const mst_call *call);
mst_status mst_gather_with(void *out, const void *in, size_t count, mst_dtype dtype, const mst_call *call);
mst_status mst_scatter_with(void *out, const void *in, size_t count, mst_dtype dtype, const mst_call *call);
/* Sends count elements to each rank, or .in_splits[r] to rank r, and receives .out_splits[r] from it. */
mst_status mst_all_to_all_single_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *call);

/* List forms: one buffer for each rank of the group. .counts, the same on all ranks, replaces count. */
mst_status mst_all_gather_with(void *const *outs, const void *in, size_t count, mst_dtype dtype,
                               const mst_call *call);
mst_status mst_reduce_scatter_with(void *out, const void *const *ins, size_t count, mst_dtype dtype,
                                   const mst_call *call);
/*
 * The same for gather and scatter, where only the root has a list; the others give NULL. count is this rank's
 * own block also with .counts. A rank may call mst_gather where the root calls mst_gather_list.
 */
mst_status mst_gather_list_with(void *const *outs, const void *in, size_t count, mst_dtype dtype,
                                const mst_call *call);
mst_status mst_scatter_list_with(void *out, const void *const *ins, size_t count, mst_dtype dtype,
                                 const mst_call *call);
/* .out_splits and .in_splits replace count if lengths differ. */
mst_status mst_all_to_all_with(void *const *outs, const void *const *ins, size_t count, mst_dtype dtype,
                               const mst_call *call);

/* n tensors in one call, with one work; counts has n entries, and .dtypes too if the dtypes differ. */
mst_status mst_all_reduce_coalesced_with(void *const *bufs, const size_t *counts, size_t n, mst_dtype dtype,
                                         const mst_call *call);
mst_status mst_broadcast_coalesced_with(void *const *bufs, const size_t *counts, size_t n, mst_dtype dtype,
                                        const mst_call *call);
mst_status mst_all_gather_coalesced_with(void *const *outs, const void *const *ins, const size_t *counts,
                                         size_t n, mst_dtype dtype, const mst_call *call);
mst_status mst_reduce_scatter_coalesced_with(void *const *outs, const void *const *ins, const size_t *counts,
                                             size_t n, mst_dtype dtype, const mst_call *call);

/*
 * DeepSpeed's names of mst_reduce_scatter_tensor and mst_all_gather_into_tensor. The mst_has_ functions tell
 * whether the backend of the default world has an operation itself; muster composes what it lacks.
 */
mst_status mst_reduce_scatter_fn_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *call);
mst_status mst_allgather_fn_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                 const mst_call *call);
bool mst_has_reduce_scatter_tensor(void);
bool mst_has_all_gather_into_tensor(void);
bool mst_has_all_reduce_coalesced(void);

/*
 * Point to point. A message matches the first posted receive of the same group that names its sender or
 * MST_ANY_SOURCE, and its tag or MST_ANY_TAG. A receive matches the first such message that has arrived. dst
 * and src have no default. The counts must be equal, else MST_ERR_MISMATCH. isend and irecv do not block and
 * require .work. If a rank dies, messages with it fail with MST_ERR_PEER_LOST, and the native backend still
 * transfers messages between the others.
 */
mst_status mst_send_with(const void *buf, size_t count, mst_dtype dtype, int dst, const mst_call *call);
mst_status mst_recv_with(void *buf, size_t count, mst_dtype dtype, int src, const mst_call *call);
mst_status mst_isend_with(const void *buf, size_t count, mst_dtype dtype, int dst, const mst_call *call);
mst_status mst_irecv_with(void *buf, size_t count, mst_dtype dtype, int src, const mst_call *call);

/*
 * Sends in to dst and receives out from src at once, without deadlock. Both messages have .tag. MST_NO_RANK
 * as dst or src leaves that half out. out and in must not overlap. Always blocks.
 */
mst_status mst_send_recv_with(void *out, size_t out_count, int src, const void *in, size_t in_count, int dst,
                              mst_dtype dtype, const mst_call *call);

/*
 * Waits for a message that a receive from src (or MST_ANY_SOURCE) with .tag (or MST_ANY_TAG) would match, and
 * describes it. A receive from message->sender with message->tag then gets it, unless another thread is
 * first. Fails as a receive does. mst_iprobe does not wait: *found tells whether there is one. It makes
 * progress; message may be NULL in both.
 */
mst_status mst_probe_with(int src, mst_message *message, const mst_call *call);
mst_status mst_iprobe_with(int src, bool *found, mst_message *message, const mst_call *call);

/* One message of a batch. */
typedef struct mst_p2p {
    void *buf; /* only read if send is true */
    size_t count;
    mst_dtype dtype;
    int peer;  /* rank in the group */
    int tag;   /* as .tag */
    bool send; /* false: receive */
} mst_p2p;
/* Starts all messages without deadlock; fills in n works. Its options are those of all calls but .work. */
mst_status mst_batch_isend_irecv_with(const mst_p2p *ops, size_t n, mst_work **works, const mst_call *call);

/*
 * Byte strings of unknown length. Inputs are borrowed. Outputs are allocated, also on the root; free them
 * with mst_bytes_free. Only the root of a broadcast reads data and len. These calls always block.
 */
mst_status mst_broadcast_bytes_with(mst_bytes *out, const void *data, size_t len, const mst_call *call);
mst_status mst_all_gather_bytes_with(mst_bytes *outs, const void *data, size_t len, const mst_call *call);
mst_status mst_gather_bytes_with(mst_bytes *outs, const void *data, size_t len, const mst_call *call);
mst_status mst_scatter_bytes_with(mst_bytes *out, const mst_bytes *ins, const mst_call *call);
mst_status mst_send_bytes_with(const void *data, size_t len, int dst, const mst_call *call);
mst_status mst_recv_bytes_with(mst_bytes *out, int src, const mst_call *call);

/*
 * Works. The caller releases each work exactly once, also after a failure: with mst_wait, which waits for
 * completion and returns the result, or with mst_work_free, after which the operation completes by itself.
 * With .keep a wait does not release the work: any number of threads may wait for it, any number of times,
 * until it is freed. Later calls with the work return MST_ERR_STATE. Destroying a group ends its works; until
 * then they may write to their buffers.
 */
#define mst_wait_options_fields                                                                              \
    MST_OPTIONS_HEAD                                                                                         \
    /* 0: the deadline of the operation. MST_NOW: do not wait. MST_ERR_TIMEOUT leaves the work valid. */     \
    MST_OPTION(int timeout_ms);                                                                              \
    MST_OPTION(mst_cancel *cancel);                                                                          \
    MST_OPTION(bool keep); /* do not release the work */
typedef struct mst_wait_options {
    mst_wait_options_fields
} mst_wait_options;
mst_status mst_wait_with(mst_work *work, const mst_wait_options *options);
/*
 * For n works, which may belong to several groups. Entries that are NULL are skipped. MST_ERR_TIMEOUT and
 * MST_ERR_CANCELLED of the wait release no work, and the call may be repeated.
 * mst_wait_all waits until all works are done, releases them and sets the entries to NULL. Returns the first
 * failure in the order of the array.
 * mst_wait_any waits until one work is done, releases it, sets its entry to NULL and *index to its index, and
 * returns its result. *index is -1 if all entries are NULL.
 * With .keep they release no work and leave the entries.
 */
mst_status mst_wait_all_with(mst_work **works, size_t n, const mst_wait_options *options);
mst_status mst_wait_any_with(mst_work **works, size_t n, int *index, const mst_wait_options *options);
/* Makes progress and tells in *done whether all works are done. Does not block, and releases no work. */
mst_status mst_test_all(mst_work *const *works, size_t n, bool *done);
/* Makes progress and sets *done. Does not block. */
mst_status mst_test(mst_work *work, bool *done);
/*
 * Returns the result of a completed work, and sets mst_error() if it failed; MST_ERR_STATE before completion.
 */
mst_status mst_work_result(mst_work *work);
/*
 * Makes one work of n works, which may belong to several groups: it is done when all are done, and its result
 * is the first failure in the order of the array. Sets the entries to NULL; NULL entries are skipped, and no
 * work may be there twice. After an error the works are as before. The handles of the n works are not used
 * any more.
 */
mst_status mst_work_combine(mst_work **works, size_t n, mst_work **work);

#define mst_done_options_fields                                                                              \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(bool may_wait); /* the callback gets a thread of its own, on which it may block */
typedef struct mst_done_options {
    mst_done_options_fields
} mst_done_options;
/*
 * Calls a function when the work is done, or at once if it is. A work may have several callbacks; they are
 * called in the order in which they were set. In a callback after a failure, mst_error() describes it.
 *
 * Without .may_wait it runs on the thread that completes the work, before any wait for the work returns. It
 * may start operations with .work, if no thread is in a collective of the group, and release works, including
 * its own. Calls that block return MST_ERR_STATE there.
 * With .may_wait it runs on a thread of its own, after the work is done, and may block. Destroying the group
 * waits for it; of a combined work, the group of the operation that ended last. No callback may destroy a
 * group.
 */
typedef void (*mst_done_fn)(mst_status status, void *arg);
mst_status mst_work_on_done_with(mst_work *work, mst_done_fn callback, void *arg,
                                 const mst_done_options *options);
void mst_work_free(mst_work *work);

/*
 * Allocates page-aligned, zeroed memory that the other ranks of the host access in place: inputs of more than
 * a few KiB are not copied, and a large all_reduce on such memory needs no other buffers. Free it with
 * mst_free when no operation uses it. After a failed call, another rank may still write into the call's
 * tensors for a short time. memory is the address of a pointer to any type: float *x; mst_alloc(bytes, &x).
 */
mst_status mst_alloc_with(size_t bytes, void **memory, const mst_call *call);
void mst_free(void *memory);

#ifdef __cplusplus
}
#endif

MST_WRAP_3(mst_op_create, mst_op_options, mst_reduce_fn, void *, mst_op *)
MST_WRAP_0(mst_barrier, mst_call)
MST_WRAP_0(mst_monitored_barrier, mst_call)
MST_WRAP_3(mst_broadcast, mst_call, void *, size_t, mst_dtype)
MST_WRAP_3(mst_all_reduce, mst_call, void *, size_t, mst_dtype)
MST_WRAP_3(mst_reduce, mst_call, void *, size_t, mst_dtype)
MST_WRAP_3(mst_scan, mst_call, void *, size_t, mst_dtype)
MST_WRAP_3(mst_exscan, mst_call, void *, size_t, mst_dtype)
MST_WRAP_3(mst_inference_all_reduce, mst_call, void *, size_t, mst_dtype)
MST_WRAP_4(mst_all_gather_into_tensor, mst_call, void *, const void *, size_t, mst_dtype)
MST_WRAP_4(mst_reduce_scatter_tensor, mst_call, void *, const void *, size_t, mst_dtype)
MST_WRAP_4(mst_gather, mst_call, void *, const void *, size_t, mst_dtype)
MST_WRAP_4(mst_scatter, mst_call, void *, const void *, size_t, mst_dtype)
MST_WRAP_4(mst_all_to_all_single, mst_call, void *, const void *, size_t, mst_dtype)
MST_WRAP_4(mst_all_gather, mst_call, void *const *, const void *, size_t, mst_dtype)
MST_WRAP_4(mst_reduce_scatter, mst_call, void *, const void *const *, size_t, mst_dtype)
MST_WRAP_4(mst_gather_list, mst_call, void *const *, const void *, size_t, mst_dtype)
MST_WRAP_4(mst_scatter_list, mst_call, void *, const void *const *, size_t, mst_dtype)
MST_WRAP_4(mst_all_to_all, mst_call, void *const *, const void *const *, size_t, mst_dtype)
MST_WRAP_4(mst_all_reduce_coalesced, mst_call, void *const *, const size_t *, size_t, mst_dtype)
MST_WRAP_4(mst_broadcast_coalesced, mst_call, void *const *, const size_t *, size_t, mst_dtype)
MST_WRAP_5(mst_all_gather_coalesced, mst_call, void *const *, const void *const *, const size_t *, size_t,
           mst_dtype)
MST_WRAP_5(mst_reduce_scatter_coalesced, mst_call, void *const *, const void *const *, const size_t *, size_t,
           mst_dtype)
MST_WRAP_4(mst_reduce_scatter_fn, mst_call, void *, const void *, size_t, mst_dtype)
MST_WRAP_4(mst_allgather_fn, mst_call, void *, const void *, size_t, mst_dtype)
MST_WRAP_4(mst_send, mst_call, const void *, size_t, mst_dtype, int)
MST_WRAP_4(mst_recv, mst_call, void *, size_t, mst_dtype, int)
MST_WRAP_4(mst_isend, mst_call, const void *, size_t, mst_dtype, int)
MST_WRAP_4(mst_irecv, mst_call, void *, size_t, mst_dtype, int)
MST_WRAP_7(mst_send_recv, mst_call, void *, size_t, int, const void *, size_t, int, mst_dtype)
MST_WRAP_2(mst_probe, mst_call, int, mst_message *)
MST_WRAP_3(mst_iprobe, mst_call, int, bool *, mst_message *)
MST_WRAP_3(mst_batch_isend_irecv, mst_call, const mst_p2p *, size_t, mst_work **)
MST_WRAP_3(mst_broadcast_bytes, mst_call, mst_bytes *, const void *, size_t)
MST_WRAP_3(mst_all_gather_bytes, mst_call, mst_bytes *, const void *, size_t)
MST_WRAP_3(mst_gather_bytes, mst_call, mst_bytes *, const void *, size_t)
MST_WRAP_2(mst_scatter_bytes, mst_call, mst_bytes *, const mst_bytes *)
MST_WRAP_3(mst_send_bytes, mst_call, const void *, size_t, int)
MST_WRAP_2(mst_recv_bytes, mst_call, mst_bytes *, int)
MST_WRAP_3(mst_work_on_done, mst_done_options, mst_work *, mst_done_fn, void *)
MST_WRAP_1(mst_wait, mst_wait_options, mst_work *)
MST_WRAP_2(mst_wait_all, mst_wait_options, mst_work **, size_t)
MST_WRAP_3(mst_wait_any, mst_wait_options, mst_work **, size_t, int *)

#define mst_op_create(...)                MST_CALL_3(mst_op_create, mst_op_options, __VA_ARGS__)
#define mst_barrier(...)                  MST_CALL_0(mst_barrier, mst_call, __VA_ARGS__)
#define mst_monitored_barrier(...)        MST_CALL_0(mst_monitored_barrier, mst_call, __VA_ARGS__)
#define mst_broadcast(...)                MST_CALL_3(mst_broadcast, mst_call, __VA_ARGS__)
#define mst_all_reduce(...)               MST_CALL_3(mst_all_reduce, mst_call, __VA_ARGS__)
#define mst_reduce(...)                   MST_CALL_3(mst_reduce, mst_call, __VA_ARGS__)
#define mst_scan(...)                     MST_CALL_3(mst_scan, mst_call, __VA_ARGS__)
#define mst_exscan(...)                   MST_CALL_3(mst_exscan, mst_call, __VA_ARGS__)
#define mst_inference_all_reduce(...)     MST_CALL_3(mst_inference_all_reduce, mst_call, __VA_ARGS__)
#define mst_all_gather_into_tensor(...)   MST_CALL_4(mst_all_gather_into_tensor, mst_call, __VA_ARGS__)
#define mst_reduce_scatter_tensor(...)    MST_CALL_4(mst_reduce_scatter_tensor, mst_call, __VA_ARGS__)
#define mst_gather(...)                   MST_CALL_4(mst_gather, mst_call, __VA_ARGS__)
#define mst_scatter(...)                  MST_CALL_4(mst_scatter, mst_call, __VA_ARGS__)
#define mst_all_to_all_single(...)        MST_CALL_4(mst_all_to_all_single, mst_call, __VA_ARGS__)
#define mst_all_gather(...)               MST_CALL_4(mst_all_gather, mst_call, __VA_ARGS__)
#define mst_reduce_scatter(...)           MST_CALL_4(mst_reduce_scatter, mst_call, __VA_ARGS__)
#define mst_gather_list(...)              MST_CALL_4(mst_gather_list, mst_call, __VA_ARGS__)
#define mst_scatter_list(...)             MST_CALL_4(mst_scatter_list, mst_call, __VA_ARGS__)
#define mst_all_to_all(...)               MST_CALL_4(mst_all_to_all, mst_call, __VA_ARGS__)
#define mst_all_reduce_coalesced(...)     MST_CALL_4(mst_all_reduce_coalesced, mst_call, __VA_ARGS__)
#define mst_broadcast_coalesced(...)      MST_CALL_4(mst_broadcast_coalesced, mst_call, __VA_ARGS__)
#define mst_all_gather_coalesced(...)     MST_CALL_5(mst_all_gather_coalesced, mst_call, __VA_ARGS__)
#define mst_reduce_scatter_coalesced(...) MST_CALL_5(mst_reduce_scatter_coalesced, mst_call, __VA_ARGS__)
#define mst_reduce_scatter_fn(...)        MST_CALL_4(mst_reduce_scatter_fn, mst_call, __VA_ARGS__)
#define mst_allgather_fn(...)             MST_CALL_4(mst_allgather_fn, mst_call, __VA_ARGS__)
#define mst_send(...)                     MST_CALL_4(mst_send, mst_call, __VA_ARGS__)
#define mst_recv(...)                     MST_CALL_4(mst_recv, mst_call, __VA_ARGS__)
#define mst_isend(...)                    MST_CALL_4(mst_isend, mst_call, __VA_ARGS__)
#define mst_irecv(...)                    MST_CALL_4(mst_irecv, mst_call, __VA_ARGS__)
#define mst_send_recv(...)                MST_CALL_7(mst_send_recv, mst_call, __VA_ARGS__)
#define mst_probe(...)                    MST_CALL_2(mst_probe, mst_call, __VA_ARGS__)
#define mst_iprobe(...)                   MST_CALL_3(mst_iprobe, mst_call, __VA_ARGS__)
#define mst_batch_isend_irecv(...)        MST_CALL_3(mst_batch_isend_irecv, mst_call, __VA_ARGS__)
#define mst_broadcast_bytes(...)          MST_CALL_3(mst_broadcast_bytes, mst_call, __VA_ARGS__)
#define mst_all_gather_bytes(...)         MST_CALL_3(mst_all_gather_bytes, mst_call, __VA_ARGS__)
#define mst_gather_bytes(...)             MST_CALL_3(mst_gather_bytes, mst_call, __VA_ARGS__)
#define mst_scatter_bytes(...)            MST_CALL_2(mst_scatter_bytes, mst_call, __VA_ARGS__)
#define mst_send_bytes(...)               MST_CALL_3(mst_send_bytes, mst_call, __VA_ARGS__)
#define mst_recv_bytes(...)               MST_CALL_2(mst_recv_bytes, mst_call, __VA_ARGS__)
#define mst_work_on_done(...)             MST_CALL_3(mst_work_on_done, mst_done_options, __VA_ARGS__)
#define mst_wait(...)                     MST_CALL_1(mst_wait, mst_wait_options, __VA_ARGS__)
#define mst_wait_all(...)                 MST_CALL_2(mst_wait_all, mst_wait_options, __VA_ARGS__)
#define mst_wait_any(...)                 MST_CALL_3(mst_wait_any, mst_wait_options, __VA_ARGS__)
#define mst_alloc(bytes, ...)                                                                                \
    mst_alloc_with(bytes, MST_POINTER_ADDRESS(MST_FIRST(__VA_ARGS__, )),                                     \
                   MST_OPTIONS(mst_call, MST_REST(__VA_ARGS__, )))
#endif
