/* collectives.c - the public collectives: check the arguments and describe the operation. */
#include "api/api.h"
#include "base/error.h"
#include "group/prepared.h"

static mst_status through_store(struct msi_call *call, const struct msi_wait *wait) {
    struct msi_op_trace trace = {0};
    uint64_t entered = msi_call_enter(call->group->size, 0, 0);
    unsigned watch = msi_sinks_on();
    msi_count_up(&call->group->operations);
    if (watch) msi_call_trace(call, watch, &trace);
    struct msi_op_call shown = {call->name, call->options->site};
    mst_status st = msi_group_barrier(call->group, wait, &shown);
    if (st != MST_OK)
        msi_op_trace_failed(&trace, st);
    else
        msi_op_trace_end(&trace, st);
    return msi_call_leave(entered, st);
}

static mst_status barrier(enum msi_kind kind, const mst_call *given) {
    struct msi_call call;
    mst_status st;
    if (msi_prepared_run(&(struct msi_args){.kind = kind}, given, &st)) return st;
    st = msi_call_open(kind, given, &call);
    bool monitored = kind == MSI_KIND_MONITORED_BARRIER;
    if (st == MST_OK && monitored && !call.group->one_host && !call.options->work) {
        int timeout_ms = call.options->timeout_ms ? call.options->timeout_ms : msi_group_timeout(call.group);
        struct msi_wait wait = {msi_deadline(timeout_ms), call.options->cancel};
        st = msi_gate_enter(call.group);
        if (st != MST_OK) return st;
        st = through_store(&call, &wait);
        msi_gate_leave(call.group);
        return st;
    }
    if (st == MST_OK && !monitored && msi_call_now(&call, &(struct msi_args){.kind = kind}, &st)) return st;
    if (st == MST_OK) st = msi_call_alloc(&call, NULL);
    if (st != MST_OK) return msi_call_reject(&call, st);
    if (monitored) call.work->op.flags = MSI_SIGNED_MONITORED;
    call.work->op.name_first = monitored && !call.options->wait_all_ranks;
    return msi_call_submit(&call);
}

mst_status mst_barrier_with(const mst_call *given) {
    return barrier(MSI_KIND_BARRIER, given);
}

mst_status mst_monitored_barrier_with(const mst_call *given) {
    return barrier(MSI_KIND_MONITORED_BARRIER, given);
}

/* Completes the description and runs the operation. */
static mst_status submit(struct msi_call *call, void *out, const void *in, size_t count) {
    mst_backend_op *desc = &call->work->op.desc;
    desc->in = in;
    desc->out = out;
    desc->count = count;
    return msi_call_submit(call);
}

/* Describes the operation, whose arguments are checked, and runs it. */
static mst_status run(struct msi_call *call, void *buf, const void *in, size_t count) {
    mst_status st;
    if (msi_call_now(call, &(struct msi_args){call->kind, buf, in, count, call->dtype}, &st)) return st;
    st = msi_call_alloc(call, buf);
    return st == MST_OK ? submit(call, buf, in, count) : msi_call_reject(call, st);
}

/* .in must be buf or must not overlap with it. */
static mst_status check_in(const struct msi_call *call, const void *buf, size_t count) {
    uintptr_t in = (uintptr_t)call->options->in, out = (uintptr_t)buf;
    size_t bytes = count * call->element;
    if (in == 0 || in == out || in + bytes <= out || out + bytes <= in) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "leave .in out to work in place, or give a tensor that does not overlap",
                    ".in and buf overlap partially");
}

mst_status mst_broadcast_with(void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    struct msi_args args = {MSI_KIND_BROADCAST, buf, buf, count, dtype};
    struct msi_call call;
    mst_status st;
    if (msi_prepared_run(&args, given, &st)) return st;
    st = msi_call_open(MSI_KIND_BROADCAST, given, &call);
    if (st == MST_OK) st = msi_call_tensor(&call, 1, count, dtype);
    if (st == MST_OK) st = msi_call_buffer("buf", buf, count);
    if (st == MST_OK) st = check_in(&call, buf, count);
    if (st == MST_OK) st = msi_call_root(&call);
    if (st != MST_OK) return msi_call_reject(&call, st);
    bool is_root = call.root == call.group->rank;
    return run(&call, buf, is_root && call.options->in ? call.options->in : buf, count);
}

/* all_reduce and, with a root, reduce. */
static mst_status reduce(struct msi_call *call, void *buf, size_t count, mst_dtype dtype, bool rooted) {
    mst_status st = msi_call_tensor(call, 1, count, dtype);
    if (st == MST_OK) st = msi_call_buffer("buf", buf, count);
    if (st == MST_OK) st = check_in(call, buf, count);
    if (st == MST_OK && rooted) st = msi_call_root(call);
    if (st == MST_OK) st = msi_call_reducer(call, NULL, count);
    if (st != MST_OK) return msi_call_reject(call, st);
    return run(call, buf, call->options->in ? call->options->in : buf, count);
}

__attribute__((noinline)) static mst_status open_reduce(const struct msi_args *args, const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(args->kind, given, &call);
    bool rooted = args->kind == MSI_KIND_REDUCE;
    return st == MST_OK ? reduce(&call, args->out, args->count, args->dtype, rooted)
                        : msi_call_reject(&call, st);
}

static inline mst_status run_reduce(enum msi_kind kind, void *buf, size_t count, mst_dtype dtype,
                                    const mst_call *given) {
    struct msi_args args = {kind, buf, buf, count, dtype};
    mst_status st;
    return msi_prepared_run(&args, given, &st) ? st : open_reduce(&args, given);
}

mst_status mst_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    return run_reduce(MSI_KIND_ALL_REDUCE, buf, count, dtype, given);
}

mst_status mst_inference_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    return run_reduce(MSI_KIND_INFERENCE_ALL_REDUCE, buf, count, dtype, given);
}

mst_status mst_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    return run_reduce(MSI_KIND_REDUCE, buf, count, dtype, given);
}

static mst_status scan(enum msi_kind kind, void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(kind, given, &call);
    if (st == MST_OK && call.options->op == MST_AVG)
        st = msi_fail(MST_ERR_INVALID, "use MST_SUM and divide the result", "AVG is not defined for scans");
    return st == MST_OK ? reduce(&call, buf, count, dtype, false) : msi_call_reject(&call, st);
}

mst_status mst_scan_with(void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    return scan(MSI_KIND_SCAN, buf, count, dtype, given);
}

mst_status mst_exscan_with(void *buf, size_t count, mst_dtype dtype, const mst_call *given) {
    return scan(MSI_KIND_EXSCAN, buf, count, dtype, given);
}

/* Bytes of the blocks of the first n ranks; each has count elements, or .counts says how many. */
static size_t blocks_end(const struct msi_call *call, int n, size_t count) {
    const size_t *counts = call->options->counts;
    size_t elements = counts ? 0 : (size_t)n * count;
    for (int r = 0; counts && r < n; r++) elements += counts[r];
    return elements * call->element;
}

mst_status msi_check_pair(const struct msi_call *call, enum msi_kind kind, const void *out, const void *in,
                          size_t count) {
    size_t bytes = count * call->element, all = blocks_end(call, call->group->size, count),
           own = blocks_end(call, call->group->rank, count);
    bool gathers = kind == MSI_KIND_GATHER || kind == MSI_KIND_ALL_GATHER_INTO_TENSOR;
    uintptr_t small = (uintptr_t)(gathers ? in : out), large = (uintptr_t)(gathers ? out : in);
    if (small + bytes <= large || large + all <= small || small == large + own) return MST_OK;
    return msi_fail(MST_ERR_INVALID,
                    "give tensors that do not overlap, or this rank's own block of the larger one",
                    "in and out overlap partially");
}

/* The buffers of a call of which one has a block for each rank. */
struct pair {
    const char *name;  /* of the call; NULL: that of its kind */
    const char *alias; /* the name in error messages; NULL: the same */
    void *out;
    const void *in;
    size_t count;
    mst_dtype dtype;
};

mst_status msi_check_own_count(const struct msi_call *call, size_t count) {
    const size_t *counts = call->options->counts;
    int me = call->group->rank;
    if (!counts || counts[me] == count) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "count is the length of this rank's own block",
                    "count is %zu, but .counts[%d] of this rank is %zu", count, me, counts[me]);
}

static mst_status submit_pair(struct msi_call *call, enum msi_kind kind, const struct pair *p) {
    mst_backend_op *desc = &call->work->op.desc;
    if (kind == MSI_KIND_GATHER) desc->out_counts = call->options->counts;
    if (kind == MSI_KIND_SCATTER) desc->in_counts = call->options->counts;
    if (call->options->counts) msi_comm_copy_arrays(call->work);
    return submit(call, p->out, p->in, p->count);
}

__attribute__((noinline)) static mst_status open_pair(enum msi_kind kind, const struct pair *p,
                                                      const mst_call *given) {
    struct msi_call call;
    const char *name = p->name ? p->name : msi_kind_names[kind];
    mst_status st = msi_call_open_as(p->alias ? p->alias : name, kind, given, &call);
    if (st == MST_OK) st = msi_call_blocks(&call, call.options->counts, p->count, p->dtype);
    if (st == MST_OK) st = msi_check_own_count(&call, p->count);
    bool gather = kind == MSI_KIND_GATHER, scatter = kind == MSI_KIND_SCATTER;
    if (st == MST_OK && (gather || scatter)) st = msi_call_root(&call);
    bool rooted_elsewhere = st == MST_OK && call.root >= 0 && call.root != call.group->rank;
    size_t all = st == MST_OK ? blocks_end(&call, call.group->size, p->count) : 0;
    if (st == MST_OK && !(gather && rooted_elsewhere))
        st = msi_call_buffer("out", p->out, gather ? all : p->count);
    if (st == MST_OK && !(scatter && rooted_elsewhere))
        st = msi_call_buffer("in", p->in, scatter ? all : p->count);
    if (st == MST_OK && kind == MSI_KIND_REDUCE_SCATTER_TENSOR) st = msi_call_reducer(&call, NULL, p->count);
    if (st == MST_OK && !rooted_elsewhere) st = msi_check_pair(&call, kind, p->out, p->in, p->count);
    if (st != MST_OK) return msi_call_reject(&call, st);
    call.name = name; /* in the profile */
    struct msi_args args = {kind, p->out, p->in, p->count, p->dtype};
    if (!call.options->counts && !p->name && !p->alias && msi_call_now(&call, &args, &st)) return st;
    st = msi_call_alloc(&call, scatter ? p->out : p->in);
    return st == MST_OK ? submit_pair(&call, kind, p) : msi_call_reject(&call, st);
}

static mst_status run_pair(enum msi_kind kind, const struct pair *p, const mst_call *given) {
    struct msi_args args = {kind, p->out, p->in, p->count, p->dtype};
    mst_status st;
    return !p->name && !p->alias && msi_prepared_run(&args, given, &st) ? st : open_pair(kind, p, given);
}

mst_status mst_all_gather_into_tensor_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                           const mst_call *given) {
    return run_pair(MSI_KIND_ALL_GATHER_INTO_TENSOR, &(struct pair){NULL, NULL, out, in, count, dtype},
                    given);
}

mst_status msi_all_gather_as(const char *name, void *out, const void *in, size_t count, mst_dtype dtype,
                             const mst_call *call) {
    return run_pair(MSI_KIND_ALL_GATHER_INTO_TENSOR, &(struct pair){name, NULL, out, in, count, dtype}, call);
}

mst_status mst_reduce_scatter_tensor_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                          const mst_call *given) {
    return run_pair(MSI_KIND_REDUCE_SCATTER_TENSOR, &(struct pair){NULL, NULL, out, in, count, dtype}, given);
}

mst_status mst_gather_with(void *out, const void *in, size_t count, mst_dtype dtype, const mst_call *given) {
    return run_pair(MSI_KIND_GATHER, &(struct pair){NULL, NULL, out, in, count, dtype}, given);
}

mst_status mst_scatter_with(void *out, const void *in, size_t count, mst_dtype dtype, const mst_call *given) {
    return run_pair(MSI_KIND_SCATTER, &(struct pair){NULL, NULL, out, in, count, dtype}, given);
}

mst_status mst_reduce_scatter_fn_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *given) {
    return run_pair(MSI_KIND_REDUCE_SCATTER_TENSOR,
                    &(struct pair){NULL, "mst_reduce_scatter_fn", out, in, count, dtype}, given);
}

mst_status mst_allgather_fn_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                 const mst_call *given) {
    return run_pair(MSI_KIND_ALL_GATHER_INTO_TENSOR,
                    &(struct pair){NULL, "mst_allgather_fn", out, in, count, dtype}, given);
}
