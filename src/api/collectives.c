/* comm.c - the public collectives: check the arguments, describe the exchange, hand it on. */
#include "base/error.h"
#include "group/call.h"

/*
 * Up to so many bytes each rank folds all of an all_reduce by itself, which takes one meeting of the ranks instead of four, but
 * work that grows with their number. Measured: 128 KiB with 2 ranks, and a quarter with twice as many.
 */
static size_t flat_most(int ranks) {
    return ((size_t)512 << 10) / ((size_t)ranks * (size_t)ranks);
}

static mst_status through_store(struct msi_call *call, const struct msi_wait *wait) {
    struct msi_op_trace mark = {0};
    uint64_t entered = msi_call_enter(call->group->size, 0, 0);
    unsigned watch = msi_watch_on();
    call->group->operations++;
    if (watch) msi_call_trace(call, watch, &mark);
    mst_status st = msi_group_barrier(call->group, wait);
    if (st != MST_OK)
        msi_op_trace_failed(&mark, st);
    else
        msi_op_trace_end(&mark, st);
    return msi_call_leave(entered, st);
}

static mst_status barrier(enum msi_kind kind, const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(kind, given, &call);
    bool monitored = kind == MSI_KIND_MONITORED_BARRIER;
    if (st == MST_OK && monitored && !call.group->one_host && !call.options.work) {
        int timeout_ms = call.options.timeout_ms ? call.options.timeout_ms : call.group->timeout_ms;
        struct msi_wait wait = {msi_deadline(timeout_ms), call.options.cancel};
        return through_store(&call, &wait);
    }
    if (st == MST_OK) st = msi_call_alloc(&call, NULL, 0, 0);
    if (st != MST_OK) return st;
    call.work->host.nothing = true;
    call.work->name_first = monitored && !call.options.wait_all_ranks;
    return msi_call_submit(&call);
}

mst_status mst_barrier_with(const mst_call *given) {
    return barrier(MSI_KIND_BARRIER, given);
}

mst_status mst_monitored_barrier_with(const mst_call *given) {
    return barrier(MSI_KIND_MONITORED_BARRIER, given);
}

/* Sets the block that a rank has for itself. */
static void set_single(struct msi_blocks *blocks, const void *base, size_t bytes) {
    *blocks = (struct msi_blocks){.base = (char *)(uintptr_t)base, .each = bytes};
}

/* The same tensor, or one apart from it. */
static mst_status check_in(const struct msi_call *call, const void *buf, size_t count) {
    uintptr_t in = (uintptr_t)call->options.in, out = (uintptr_t)buf;
    size_t bytes = count * call->element;
    if (in == 0 || in == out || in + bytes <= out || out + bytes <= in) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "leave .in out to work in place, or give another tensor",
                    ".in and buf overlap in part");
}

mst_status mst_broadcast_with(void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_BROADCAST, given, &call);
    if (st == MST_OK) st = msi_call_tensor(&call, 1, count, dtype);
    if (st == MST_OK) st = msi_call_buffer("buf", buf, count);
    if (st == MST_OK) st = check_in(&call, buf, count);
    if (st == MST_OK) st = msi_call_root(&call, true);
    if (st == MST_OK) st = msi_call_alloc(&call, buf, count, 0);
    if (st != MST_OK) return st;
    size_t bytes = count * call.element;
    call.work->host.publisher = call.root;
    set_single(&call.work->host.in, call.options.in ? call.options.in : buf, bytes);
    set_single(&call.work->host.out, buf, bytes);
    return msi_call_submit(&call);
}

/* all_reduce and, with a root, reduce. */
static mst_status reduce(struct msi_call *call, void *buf, size_t count, mst_dtype dtype, bool rooted) {
    mst_status st = msi_call_tensor(call, 1, count, dtype);
    if (st == MST_OK) st = msi_call_buffer("buf", buf, count);
    if (st == MST_OK) st = check_in(call, buf, count);
    if (st == MST_OK && rooted) st = msi_call_root(call, false);
    if (st == MST_OK) st = msi_call_reducer(call);
    if (st == MST_OK) st = msi_call_alloc(call, buf, count, 0);
    if (st != MST_OK) return st;
    struct msi_shm_coll *host = &call->work->host;
    size_t bytes = count * call->element;
    host->reader = call->root;
    set_single(&host->in, call->options.in ? call->options.in : buf, bytes);
    set_single(&host->out, buf, bytes);
    if (call->group->size > 1 && bytes > flat_most(call->group->size)) call->work->begin = msi_shm_all_reduce;
    return msi_call_submit(call);
}

mst_status mst_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_ALL_REDUCE, given, &call);
    return st == MST_OK ? reduce(&call, buf, count, dtype, false) : st;
}

mst_status mst_inference_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_INFERENCE_ALL_REDUCE, given, &call);
    return st == MST_OK ? reduce(&call, buf, count, dtype, false) : st;
}

mst_status mst_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_REDUCE, given, &call);
    return st == MST_OK ? reduce(&call, buf, count, dtype, true) : st;
}

/* Apart from each other, or the smaller is its rank's own block in the larger. */
static mst_status check_pair(const struct msi_call *call, enum msi_kind kind, const void *out, const void *in,
                             size_t bytes) {
    size_t all = bytes * (size_t)call->group->size, own = bytes * (size_t)call->group->rank;
    bool gathers = kind == MSI_KIND_GATHER || kind == MSI_KIND_ALL_GATHER_INTO_TENSOR;
    uintptr_t small = (uintptr_t)(gathers ? in : out), large = (uintptr_t)(gathers ? out : in);
    if (small + bytes <= large || large + all <= small || small == large + own) return MST_OK;
    return msi_fail(MST_ERR_INVALID,
                    "give tensors that lie apart, or this rank's own block of the larger one",
                    "in and out overlap in part");
}

/* What the calls below have in common: an input and an output of which one has a block for each rank. */
static mst_status open_pair(enum msi_kind kind, void *out, const void *in, size_t count, mst_dtype dtype,
                            const mst_call *given, struct msi_call *call) {
    mst_status st = msi_call_open(kind, given, call);
    if (st == MST_OK) st = msi_call_tensor(call, (size_t)call->group->size, count, dtype);
    bool gather = kind == MSI_KIND_GATHER, scatter = kind == MSI_KIND_SCATTER;
    if (st == MST_OK && (gather || scatter)) st = msi_call_root(call, scatter);
    bool rooted_elsewhere = call->root >= 0 && call->root != call->group->rank;
    if (st == MST_OK && !(gather && rooted_elsewhere)) st = msi_call_buffer("out", out, count);
    if (st == MST_OK && !(scatter && rooted_elsewhere)) st = msi_call_buffer("in", in, count);
    if (st == MST_OK && kind == MSI_KIND_REDUCE_SCATTER_TENSOR) st = msi_call_reducer(call);
    if (st == MST_OK && !rooted_elsewhere) st = check_pair(call, kind, out, in, count * call->element);
    if (st == MST_OK) st = msi_call_alloc(call, scatter ? out : in, count, 0);
    if (st != MST_OK) return st;
    set_single(&call->work->host.in, in, count * call->element);
    set_single(&call->work->host.out, out, count * call->element);
    return MST_OK;
}

mst_status mst_all_gather_into_tensor_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                           const mst_call *given) {
    struct msi_call call;
    mst_status st = open_pair(MSI_KIND_ALL_GATHER_INTO_TENSOR, out, in, count, dtype, given, &call);
    return st == MST_OK ? msi_call_submit(&call) : st;
}

mst_status mst_reduce_scatter_tensor_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                          const mst_call *given) {
    struct msi_call call;
    mst_status st = open_pair(MSI_KIND_REDUCE_SCATTER_TENSOR, out, in, count, dtype, given, &call);
    if (st != MST_OK) return st;
    call.work->host.parts = true;
    return msi_call_submit(&call);
}

mst_status mst_gather_with(void *out, const void *in, size_t count, mst_dtype dtype, const mst_call *given) {
    struct msi_call call;
    mst_status st = open_pair(MSI_KIND_GATHER, out, in, count, dtype, given, &call);
    if (st != MST_OK) return st;
    call.work->host.reader = call.root;
    return msi_call_submit(&call);
}

mst_status mst_scatter_with(void *out, const void *in, size_t count, mst_dtype dtype, const mst_call *given) {
    struct msi_call call;
    mst_status st = open_pair(MSI_KIND_SCATTER, out, in, count, dtype, given, &call);
    if (st != MST_OK) return st;
    call.work->host.parts = true;
    call.work->host.publisher = call.root;
    return msi_call_submit(&call);
}

mst_status mst_reduce_scatter_fn_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *given) {
    return mst_reduce_scatter_tensor_with(out, in, count, dtype, given);
}

mst_status mst_allgather_fn_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                 const mst_call *given) {
    return mst_all_gather_into_tensor_with(out, in, count, dtype, given);
}
