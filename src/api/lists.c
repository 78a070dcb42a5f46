/* lists.c - the public collectives on lists of buffers, on blocks of different lengths, and on several
 * tensors. */
#include "api/api.h"
#include "base/error.h"
#include "base/options.h"
#include "group/prepared.h"

/* Elements of a rank's block in all_gather and reduce_scatter. */
static size_t count_of(const struct msi_call *call, int rank, size_t count) {
    return call->options->counts ? call->options->counts[rank] : count;
}

static mst_status check_list(const char *name, const void *const *list, const struct msi_call *call,
                             size_t count, const size_t *counts) {
    if (!list) return msi_fail(MST_ERR_INVALID, NULL, "%s is NULL", name);
    for (int r = 0; r < call->group->size; r++)
        if (!list[r] && (counts ? counts[r] : count) > 0)
            return msi_fail(MST_ERR_INVALID, NULL, "%s[%d] is NULL", name, r);
    return MST_OK;
}

/* Runs the operation with copies of the lists and counts, which the program need not keep. */
static mst_status submit(struct msi_call *call) {
    msi_comm_copy_arrays(call->work);
    return msi_call_submit(call);
}

mst_status mst_all_gather_with(void *const *outs, const void *in, size_t count, mst_dtype dtype,
                               const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_ALL_GATHER, given, &call);
    const size_t *counts = call.options->counts;
    if (st == MST_OK) st = msi_call_blocks(&call, counts, count, dtype);
    if (st == MST_OK) st = check_list("outs", (const void *const *)outs, &call, count, counts);
    if (st == MST_OK) st = msi_call_buffer("in", in, count_of(&call, call.group->rank, count));
    if (st == MST_OK) st = msi_call_alloc(&call, in);
    if (st != MST_OK) return msi_call_reject(&call, st);
    mst_backend_op *desc = &call.work->op.desc;
    desc->in = in;
    desc->out_list = outs;
    desc->out_counts = counts;
    desc->count = count_of(&call, call.group->rank, count);
    return submit(&call);
}

mst_status mst_reduce_scatter_with(void *out, const void *const *ins, size_t count, mst_dtype dtype,
                                   const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_REDUCE_SCATTER, given, &call);
    const size_t *counts = call.options->counts;
    if (st == MST_OK) st = msi_call_blocks(&call, counts, count, dtype);
    if (st == MST_OK) st = check_list("ins", ins, &call, count, counts);
    if (st == MST_OK) st = msi_call_buffer("out", out, count_of(&call, call.group->rank, count));
    if (st == MST_OK) st = msi_call_reducer(&call, counts, count);
    if (st == MST_OK) st = msi_call_alloc(&call, out);
    if (st != MST_OK) return msi_call_reject(&call, st);
    mst_backend_op *desc = &call.work->op.desc;
    desc->in_list = ins;
    desc->in_counts = counts;
    desc->out = out;
    desc->count = count_of(&call, call.group->rank, count);
    return submit(&call);
}

/* Only the root has a list; its entry for each rank. */
struct rooted {
    const char *name, *list_name;
    const void *const *list;
    const void *block; /* of this rank */
    size_t count;
    mst_dtype dtype;
};

static mst_status open_rooted(enum msi_kind kind, const struct rooted *r, const mst_call *given,
                              struct msi_call *call) {
    mst_status st = msi_call_open_as(r->name, kind, given, call);
    if (st == MST_OK) st = msi_call_blocks(call, call->options->counts, r->count, r->dtype);
    if (st == MST_OK) st = msi_check_own_count(call, r->count);
    if (st == MST_OK) st = msi_call_root(call);
    if (st == MST_OK && call->root == call->group->rank)
        st = check_list(r->list_name, r->list, call, r->count, call->options->counts);
    if (st == MST_OK) st = msi_call_buffer(kind == MSI_KIND_GATHER ? "in" : "out", r->block, r->count);
    if (st == MST_OK) st = msi_call_alloc(call, r->block);
    if (st == MST_OK) call->work->op.desc.count = r->count;
    return st;
}

mst_status mst_gather_list_with(void *const *outs, const void *in, size_t count, mst_dtype dtype,
                                const mst_call *given) {
    struct msi_call call;
    struct rooted rooted = {"mst_gather_list", "outs", (const void *const *)outs, in, count, dtype};
    mst_status st = open_rooted(MSI_KIND_GATHER, &rooted, given, &call);
    if (st != MST_OK) return msi_call_reject(&call, st);
    mst_backend_op *desc = &call.work->op.desc;
    desc->in = in;
    desc->out_list = call.root == call.group->rank ? outs : NULL;
    desc->out_counts = call.options->counts;
    return submit(&call);
}

mst_status mst_scatter_list_with(void *out, const void *const *ins, size_t count, mst_dtype dtype,
                                 const mst_call *given) {
    struct msi_call call;
    struct rooted rooted = {"mst_scatter_list", "ins", ins, out, count, dtype};
    mst_status st = open_rooted(MSI_KIND_SCATTER, &rooted, given, &call);
    if (st != MST_OK) return msi_call_reject(&call, st);
    mst_backend_op *desc = &call.work->op.desc;
    desc->out = out;
    desc->in_list = call.root == call.group->rank ? ins : NULL;
    desc->in_counts = call.options->counts;
    return submit(&call);
}

static size_t total(const struct msi_call *call, const size_t *counts, size_t count) {
    size_t sum = 0;
    for (int r = 0; r < call->group->size; r++) sum += counts ? counts[r] : count;
    return sum * call->element;
}

/* in and out must be the same tensor or must not overlap. Lists are not checked. */
static mst_status check_apart(const struct msi_call *call, const void *out, const void *in, size_t count) {
    uintptr_t to = (uintptr_t)out, from = (uintptr_t)in;
    if (to == 0 || from == 0 || to == from) return MST_OK;
    if (to + total(call, call->options->out_splits, count) <= from) return MST_OK;
    if (from + total(call, call->options->in_splits, count) <= to) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "give tensors that do not overlap", "in and out overlap partially");
}

/* The buffers of an all_to_all: a tensor and a tensor, or a list and a list. */
struct exchange {
    void *out;
    void *const *outs;
    const void *in;
    const void *const *ins;
    size_t count;
    mst_dtype dtype;
};

static mst_status all_to_all(struct msi_call *call, const struct exchange *x) {
    const size_t *to = call->options->in_splits, *from = call->options->out_splits;
    bool uneven = to || from;
    if (uneven && !(to && from))
        return msi_fail(MST_ERR_INVALID, "give both, or none", "%s is missing",
                        to ? ".out_splits" : ".in_splits");
    int me = call->group->rank;
    if (uneven && to[me] != from[me])
        return msi_fail(MST_ERR_INVALID, NULL,
                        "rank %d sends %zu elements to itself (.in_splits), but receives %zu (.out_splits)",
                        msi_group_global_rank(call->group, me), to[me], from[me]);
    mst_status st = msi_call_blocks(call, to, x->count, x->dtype);
    if (st == MST_OK) st = msi_call_blocks(call, from, x->count, x->dtype);
    if (st == MST_OK) st = check_apart(call, x->out, x->in, x->count);
    struct msi_args args = {call->kind, x->out, x->in, x->count, x->dtype};
    if (st == MST_OK && !uneven && !x->outs && !x->ins && msi_call_now(call, &args, &st)) return st;
    if (st == MST_OK) st = msi_call_alloc(call, x->out ? x->out : x->outs ? x->outs[me] : NULL);
    if (st != MST_OK) return st;
    mst_backend_op *desc = &call->work->op.desc;
    desc->in = x->in;
    desc->in_list = x->ins;
    desc->in_counts = to;
    desc->out = x->out;
    desc->out_list = x->outs;
    desc->out_counts = from;
    desc->count = x->count;
    return submit(call);
}

static bool any(const size_t *counts, int n) {
    for (int i = 0; i < n; i++)
        if (counts[i]) return true;
    return false;
}

mst_status mst_all_to_all_single_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *given) {
    struct msi_args args = {MSI_KIND_ALL_TO_ALL_SINGLE, out, in, count, dtype};
    struct msi_call call;
    mst_status st;
    if (msi_prepared_run(&args, given, &st)) return st;
    st = msi_call_open(MSI_KIND_ALL_TO_ALL_SINGLE, given, &call);
    if (st != MST_OK) return msi_call_reject(&call, st);
    const size_t *to = call.options->in_splits, *from = call.options->out_splits;
    int n = call.group->size;
    st = msi_call_buffer("out", out, from ? any(from, n) : count);
    if (st == MST_OK) st = msi_call_buffer("in", in, to ? any(to, n) : count);
    if (st == MST_OK)
        st = all_to_all(&call, &(struct exchange){.out = out, .in = in, .count = count, .dtype = dtype});
    return msi_call_reject(&call, st);
}

mst_status mst_all_to_all_with(void *const *outs, const void *const *ins, size_t count, mst_dtype dtype,
                               const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_ALL_TO_ALL, given, &call);
    if (st == MST_OK)
        st = check_list("outs", (const void *const *)outs, &call, count, call.options->out_splits);
    if (st == MST_OK) st = check_list("ins", ins, &call, count, call.options->in_splits);
    if (st == MST_OK)
        st = all_to_all(&call, &(struct exchange){.outs = outs, .ins = ins, .count = count, .dtype = dtype});
    return msi_call_reject(&call, st);
}

/*
 * Several tensors are several operations, of which the program waits for the last one only: a group's
 * operations run in order, and when one fails so do those after it.
 */
typedef mst_status (*one_tensor)(void *out, const void *in, size_t count, mst_dtype dtype,
                                 const mst_call *call);

static mst_status one_all_reduce(void *out, const void *in, size_t count, mst_dtype dtype,
                                 const mst_call *call) {
    (void)in;
    return mst_all_reduce_with(out, count, dtype, call);
}

static mst_status one_broadcast(void *out, const void *in, size_t count, mst_dtype dtype,
                                const mst_call *call) {
    (void)in;
    return mst_broadcast_with(out, count, dtype, call);
}

/* The tensors of a coalesced call. */
struct tensors {
    one_tensor run;
    enum msi_kind kind;
    bool in_place; /* there are no ins */
    bool reduces;
    void *const *outs;
    const void *const *ins;
    const size_t *counts;
    size_t n;
};

static mst_dtype dtype_of(const struct msi_whole *whole, size_t i) {
    return whole->options->dtypes ? whole->options->dtypes[i] : whole->dtype;
}

/* Begins a batch in the communicator of a buffer; NULL: its operations cannot begin together. */
static struct msi_comm *begin_batch(mst_group *group, const void *buffer) {
    struct msi_comm *comm;
    mst_memory memory;
    if (group->rank < 0 || msi_group_comm(group, buffer, &comm, &memory) != MST_OK) return NULL;
    return msi_comm_batch_begin(comm) ? comm : NULL;
}

/* Checks one tensor, as the call that runs its operation does. */
static mst_status check_tensor(struct msi_call *call, const struct tensors *t, size_t i, mst_dtype dtype) {
    size_t count = t->counts[i];
    const void *in = t->ins ? t->ins[i] : NULL;
    struct msi_comm *comm;
    mst_memory memory;
    mst_status st = msi_call_tensor(call, t->in_place ? 1 : (size_t)call->group->size, count, dtype);
    if (st == MST_OK && count && !t->outs[i])
        st = msi_fail(MST_ERR_INVALID, NULL, "%s[%zu] is NULL", t->in_place ? "bufs" : "outs", i);
    if (st == MST_OK && count && !t->in_place && !in)
        st = msi_fail(MST_ERR_INVALID, NULL, "ins[%zu] is NULL", i);
    if (st == MST_OK && !t->in_place) st = msi_check_pair(call, t->kind, t->outs[i], in, count);
    if (st == MST_OK && t->reduces) st = msi_call_reducer(call, NULL, count);
    return st == MST_OK ? msi_group_comm(call->group, t->outs[i], &comm, &memory) : st;
}

/* Checks all tensors before the first operation begins. */
static mst_status check_coalesced(const struct msi_whole *whole, const struct tensors *t) {
    struct msi_call call = {.options = whole->options, .group = whole->group, .dtype = whole->dtype};
    mst_status st = msi_call_root(&call);
    if (st != MST_OK || t->n == 0) return st;
    if (!t->outs) return msi_fail(MST_ERR_INVALID, NULL, "%s is NULL", t->in_place ? "bufs" : "outs");
    if (!t->counts) return msi_fail(MST_ERR_INVALID, NULL, "counts is NULL");
    if (!t->in_place && !t->ins) return msi_fail(MST_ERR_INVALID, NULL, "ins is NULL");
    if (whole->group->rank < 0) return msi_fail_not_member(whole->group);
    for (size_t i = 0; i < t->n && st == MST_OK; i++) st = check_tensor(&call, t, i, dtype_of(whole, i));
    return st;
}

/*
 * Ends a call that has begun some operations, the last of which is last. If the next one was refused, these
 * still use the program's buffers, so that a blocking call waits for them.
 */
static mst_status conclude(mst_status st, mst_work *last, mst_work **work, bool on_stream) {
    if (work && st == MST_OK) {
        *work = last;
        return st;
    }
    if (!last) return st;
    if (work || (on_stream && st == MST_OK)) { /* on a stream the operations are ordered, which is enough */
        mst_work_free(last);
        return st;
    }
    mst_status waited = mst_wait(last);
    if (waited == MST_ERR_STATE) mst_work_free(last); /* a callback cannot wait */
    return st == MST_OK ? waited : st;
}

/* The bytes of all tensors, as they are counted for bandwidths. */
static uint64_t all_bytes(const struct msi_whole *whole, const struct tensors *t) {
    uint64_t bytes = 0, ranks = t->in_place ? 1 : (uint64_t)whole->group->size;
    for (size_t i = 0; i < t->n; i++) bytes += t->counts[i] * mst_dtype_size(dtype_of(whole, i));
    return ranks * bytes;
}

/* Runs the operations of all tensors; the last one has the profiler's record. */
static mst_status run_coalesced(struct msi_whole *whole, const struct tensors *t, mst_call *call) {
    mst_status st = MST_OK;
    whole->last = t->n == 0;
    if (t->n == 0) { /* so that there is a work to wait for */
        call->op = MST_SUM;
        call->root = 0;
        call->factor = 0;
        call->deterministic = false;
        return mst_barrier_with(call);
    }
    mst_work **work = call->work, *begun = NULL, *last = NULL;
    struct msi_comm *comm = t->n > 1 ? begin_batch(whole->group, t->outs[0]) : NULL;
    call->work = work || comm ? &begun : NULL;
    for (size_t i = 0; i < t->n && st == MST_OK; i++) {
        whole->last = i + 1 == t->n;
        st = t->run(t->outs[i], t->ins ? t->ins[i] : NULL, t->counts[i], dtype_of(whole, i), call);
        if (st != MST_OK) break;
        if (last) st = msi_comm_leave(last);
        last = begun;
    }
    if (comm) msi_comm_batch_end(comm);
    mst_status awaited = comm && last && call->stream ? msi_comm_await_stream(last) : MST_OK;
    if (!work && st == MST_OK) st = awaited;
    return conclude(st, last, work, call->stream != NULL);
}

/* The options are those of a call with one tensor, except .in, and .dtypes. */
static mst_status check_options(const char *name, enum msi_kind kind, const mst_call *call) {
    mst_call others = *call;
    others.dtypes = NULL;
    mst_status st = msi_call_check_options(name, MSI_KIND_BARRIER, &(mst_call){.in = call->in});
    return st == MST_OK ? msi_call_check_options(name, kind, &others) : st;
}

static mst_status coalesced(const char *name, const struct tensors *t, mst_dtype dtype,
                            const mst_call *given) {
    mst_call call, options;
    mst_status st = msi_options_begin(name, &call, sizeof call, given);
    if (st != MST_OK && given->size == sizeof call) call = *given; /* the group is told */
    call.size = sizeof call;
    options = call;
    call.dtypes = NULL; /* of the calls with one tensor */
    struct msi_whole whole = {.name = name,
                              .kind = msi_kind_family(t->kind),
                              .dtype = options.dtypes ? 0 : dtype, /* 0: several */
                              .form = MSI_SIGNED_COALESCED,
                              .root = t->kind == MSI_KIND_BROADCAST ? call.root : -1,
                              .parts = t->n + 1,
                              .options = &options,
                              .group = msi_call_group(name, &call.site, call.group)};
    if (!whole.group) return MST_ERR_STATE;
    if (st == MST_OK) st = check_options(name, t->kind, &options);
    if (st == MST_OK) st = check_coalesced(&whole, t);
    if (st != MST_OK)
        return msi_group_reject(whole.group, whole.kind, &(struct msi_op_call){name, call.site}, st);
    whole.bytes = all_bytes(&whole, t);
    st = msi_whole_begin(&whole);
    return st == MST_OK ? msi_whole_end(&whole, run_coalesced(&whole, t, &call)) : st;
}

mst_status mst_all_reduce_coalesced_with(void *const *bufs, const size_t *counts, size_t n, mst_dtype dtype,
                                         const mst_call *call) {
    struct tensors t = {one_all_reduce, MSI_KIND_ALL_REDUCE, true, true, bufs, NULL, counts, n};
    return coalesced("mst_all_reduce_coalesced", &t, dtype, call);
}

mst_status mst_broadcast_coalesced_with(void *const *bufs, const size_t *counts, size_t n, mst_dtype dtype,
                                        const mst_call *call) {
    struct tensors t = {one_broadcast, MSI_KIND_BROADCAST, true, false, bufs, NULL, counts, n};
    return coalesced("mst_broadcast_coalesced", &t, dtype, call);
}

mst_status mst_all_gather_coalesced_with(void *const *outs, const void *const *ins, const size_t *counts,
                                         size_t n, mst_dtype dtype, const mst_call *call) {
    struct tensors t = {
        mst_all_gather_into_tensor_with, MSI_KIND_ALL_GATHER_INTO_TENSOR, false, false, outs, ins, counts, n};
    return coalesced("mst_all_gather_coalesced", &t, dtype, call);
}

mst_status mst_reduce_scatter_coalesced_with(void *const *outs, const void *const *ins, const size_t *counts,
                                             size_t n, mst_dtype dtype, const mst_call *call) {
    struct tensors t = {
        mst_reduce_scatter_tensor_with, MSI_KIND_REDUCE_SCATTER_TENSOR, false, true, outs, ins, counts, n};
    return coalesced("mst_reduce_scatter_coalesced", &t, dtype, call);
}
