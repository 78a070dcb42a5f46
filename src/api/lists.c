/* lists.c - the public collectives on lists of buffers, on blocks of different sizes, and on several tensors. */
#include "base/error.h"
#include "base/hash.h"
#include "group/call.h"

/* Elements of a rank's block in all_gather and reduce_scatter. */
static size_t count_of(const struct msi_call *call, int rank, size_t count) {
    return call->options.counts ? call->options.counts[rank] : count;
}

/* Counts that all ranks must have given alike, as one number. */
static uint64_t hash_counts(const size_t *counts, int n) {
    static const uint64_t key[2] = {1, 2};
    return counts ? msi_hash(counts, (size_t)n * sizeof *counts, key) : 0;
}

static mst_status check_list(const char *name, const void *const *list, const struct msi_call *call,
                             size_t count, const size_t *counts) {
    if (!list) return msi_fail(MST_ERR_INVALID, NULL, "%s is NULL", name);
    for (int r = 0; r < call->group->size; r++)
        if (!list[r] && (counts ? counts[r] : count) > 0)
            return msi_fail(MST_ERR_INVALID, NULL, "%s[%d] is NULL", name, r);
    return MST_OK;
}

/* Checks that all counts together make sense. */
static mst_status check_counts(struct msi_call *call, const size_t *counts, size_t count, mst_dtype dtype) {
    size_t sum = 0;
    for (int r = 0; r < call->group->size; r++)
        if (__builtin_add_overflow(sum, counts ? counts[r] : count, &sum)) sum = SIZE_MAX;
    return msi_call_tensor(call, 1, sum, dtype);
}

/* Fills in blocks of a rank each: from a list, or one behind the other from base. */
static void set_blocks(struct msi_blocks *blocks, const void *base, const void *const *list,
                       const size_t *counts, size_t count, const struct msi_call *call, char **list_room,
                       size_t *lens, size_t *starts) {
    size_t at = 0;
    int n = call->group->size;
    *blocks = (struct msi_blocks){.base = (char *)(uintptr_t)base, .each = count * call->element};
    for (int r = 0; r < n && list; r++) list_room[r] = (char *)(uintptr_t)list[r];
    if (list) blocks->list = list_room;
    for (int r = 0; r < n && counts; r++) {
        lens[r] = counts[r] * call->element;
        starts[r] = at;
        at += lens[r];
    }
    if (counts) {
        blocks->lens = lens;
        blocks->starts = starts;
    }
}

mst_status mst_all_gather_with(void *const *outs, const void *in, size_t count, mst_dtype dtype,
                               const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_ALL_GATHER, given, &call);
    const size_t *counts = call.options.counts;
    if (st == MST_OK) st = check_counts(&call, counts, count, dtype);
    if (st == MST_OK) st = check_list("outs", (const void *const *)outs, &call, count, counts);
    if (st == MST_OK) st = msi_call_buffer("in", in, count_of(&call, call.group->rank, count));
    if (st == MST_OK)
        st =
            msi_call_alloc(&call, in, counts ? 0 : count, counts ? hash_counts(counts, call.group->size) : 0);
    if (st != MST_OK) return st;
    mst_work *w = call.work;
    w->host.uneven = counts != NULL;
    w->host.in = (struct msi_blocks){.base = (char *)(uintptr_t)in,
                                     .each = count_of(&call, call.group->rank, count) * call.element};
    set_blocks(&w->host.out, NULL, (const void *const *)outs, counts, count, &call, w->out_list, w->out_lens,
               w->out_starts);
    return msi_call_submit(&call);
}

mst_status mst_reduce_scatter_with(void *out, const void *const *ins, size_t count, mst_dtype dtype,
                                   const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_REDUCE_SCATTER, given, &call);
    const size_t *counts = call.options.counts;
    if (st == MST_OK) st = check_counts(&call, counts, count, dtype);
    if (st == MST_OK) st = check_list("ins", ins, &call, count, counts);
    if (st == MST_OK) st = msi_call_buffer("out", out, count_of(&call, call.group->rank, count));
    if (st == MST_OK) st = msi_call_reducer(&call);
    if (st == MST_OK)
        st = msi_call_alloc(&call, out, counts ? 0 : count,
                            counts ? hash_counts(counts, call.group->size) : 0);
    if (st != MST_OK) return st;
    mst_work *w = call.work;
    w->host.uneven = counts != NULL;
    w->host.parts = true;
    w->host.out =
        (struct msi_blocks){.base = out, .each = count_of(&call, call.group->rank, count) * call.element};
    set_blocks(&w->host.in, NULL, ins, counts, count, &call, w->in_list, w->in_lens, w->in_starts);
    return msi_call_submit(&call);
}

static size_t total(const struct msi_call *call, const size_t *counts, size_t count) {
    size_t sum = 0;
    for (int r = 0; r < call->group->size; r++) sum += counts ? counts[r] : count;
    return sum * call->element;
}

/* One tensor, or two that lie apart. Lists, which have no base, are the caller's business. */
static mst_status check_apart(const struct msi_call *call, const void *out, const void *in, size_t count) {
    uintptr_t to = (uintptr_t)out, from = (uintptr_t)in;
    if (to == 0 || from == 0 || to == from) return MST_OK;
    if (to + total(call, call->options.out_splits, count) <= from) return MST_OK;
    if (from + total(call, call->options.in_splits, count) <= to) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "give tensors that lie apart", "in and out overlap in part");
}

/* Both forms of all_to_all: bases or lists. */
static mst_status all_to_all(struct msi_call *call, void *out, void *const *outs, const void *in,
                             const void *const *ins, size_t count, mst_dtype dtype) {
    const size_t *to = call->options.in_splits, *from = call->options.out_splits;
    bool uneven = to || from;
    if (uneven && !(to && from))
        return msi_fail(MST_ERR_INVALID, "give both, or none", "%s is missing",
                        to ? ".out_splits" : ".in_splits");
    int me = call->group->rank;
    if (uneven && to[me] != from[me])
        return msi_fail(MST_ERR_INVALID, NULL,
                        "rank %d sends itself .in_splits %zu and takes .out_splits %zu from itself",
                        msi_group_global_rank(call->group, me), to[me], from[me]);
    mst_status st = check_counts(call, to, count, dtype);
    if (st == MST_OK) st = check_counts(call, from, count, dtype);
    if (st == MST_OK) st = check_apart(call, out, in, count);
    if (st == MST_OK)
        st = msi_call_alloc(call, out ? out : outs ? outs[me] : NULL, uneven ? 0 : count, uneven);
    if (st != MST_OK) return st;
    mst_work *w = call->work;
    w->host.uneven = uneven;
    w->host.told.flags = uneven;
    w->host.parts = true;
    set_blocks(&w->host.in, in, ins, to, count, call, w->in_list, w->in_lens, w->in_starts);
    set_blocks(&w->host.out, out, (const void *const *)outs, from, count, call, w->out_list, w->out_lens,
               w->out_starts);
    return msi_call_submit(call);
}

static bool any(const size_t *counts, int n) {
    for (int i = 0; i < n; i++)
        if (counts[i]) return true;
    return false;
}

mst_status mst_all_to_all_single_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_ALL_TO_ALL_SINGLE, given, &call);
    if (st != MST_OK) return st;
    const size_t *to = call.options.in_splits, *from = call.options.out_splits;
    int n = call.group->size;
    st = msi_call_buffer("out", out, from ? any(from, n) : count);
    if (st == MST_OK) st = msi_call_buffer("in", in, to ? any(to, n) : count);
    return st == MST_OK ? all_to_all(&call, out, NULL, in, NULL, count, dtype) : st;
}

mst_status mst_all_to_all_with(void *const *outs, const void *const *ins, size_t count, mst_dtype dtype,
                               const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open(MSI_KIND_ALL_TO_ALL, given, &call);
    if (st == MST_OK)
        st = check_list("outs", (const void *const *)outs, &call, count, call.options.out_splits);
    if (st == MST_OK) st = check_list("ins", ins, &call, count, call.options.in_splits);
    return st == MST_OK ? all_to_all(&call, NULL, outs, NULL, ins, count, dtype) : st;
}

/*
 * Several tensors are several operations of which only the last is waited for: a group's operations run in order, and when
 * one fails so do those behind it.
 */
typedef mst_status (*one_tensor)(void *out, const void *in, size_t count, mst_dtype dtype,
                                 const mst_call *call);

static mst_status one_all_reduce(void *out, const void *in, size_t count, mst_dtype dtype,
                                 const mst_call *call) {
    (void)in;
    return mst_all_reduce_with(out, count, dtype, call);
}

/* The comm for a buffer, where what is submitted from now on begins together; NULL: it cannot. */
static struct msi_comm *begin_batch(mst_group *group, const void *buffer) {
    struct msi_comm *comm;
    mst_memory memory;
    if (group->rank < 0 || msi_group_comm(group, buffer, &comm, &memory) != MST_OK) return NULL;
    return msi_comm_batch_begin(comm) ? comm : NULL;
}

static mst_status check_coalesced(one_tensor one, void *const *outs, const void *const *ins,
                                  const size_t *counts) {
    const char *of_outs = one == one_all_reduce ? "bufs" : "outs";
    if (!outs || !counts) return msi_fail(MST_ERR_INVALID, NULL, "%s is NULL", outs ? "counts" : of_outs);
    if (one != one_all_reduce && !ins) return msi_fail(MST_ERR_INVALID, NULL, "ins is NULL");
    return MST_OK;
}

/*
 * Ends a call that began some, of which last is the last. Where the next one was refused they go on with the program's buffers, so a
 * call that blocks waits for them all the same.
 */
static mst_status conclude(mst_status st, mst_work *last, mst_work **work, bool on_stream) {
    if (work && st == MST_OK) {
        *work = last;
        return st;
    }
    if (!last) return st;
    if (work || (on_stream && st == MST_OK)) { /* on a stream it is ordered, and that will do */
        mst_work_free(last);
        return st;
    }
    mst_status waited = mst_wait(last);
    return st == MST_OK ? waited : st;
}

/* Each one's bytes as they are counted: what all ranks have of it, where that is a share each. */
static uint64_t all_bytes(const struct msi_whole *whole, const size_t *counts, size_t n) {
    uint64_t count = 0, ranks = whole->kind == MSI_KIND_ALL_REDUCE ? 1 : (uint64_t)whole->group->size;
    for (size_t i = 0; i < n; i++) count += counts[i];
    return count * ranks * mst_dtype_size(whole->dtype);
}

/* Runs n of them, of which the last has the record. */
static mst_status run_coalesced(struct msi_whole *whole, one_tensor one, void *const *outs,
                                const void *const *ins, const size_t *counts, size_t n, mst_call *call) {
    mst_status st = MST_OK;
    whole->last = n == 0;
    if (n == 0) return mst_barrier_with(call); /* something must be given back to wait for */
    mst_work **work = call->work, *begun = NULL, *last = NULL;
    struct msi_comm *comm = n > 1 ? begin_batch(whole->group, outs[0]) : NULL;
    call->work = work || comm ? &begun : NULL;
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        whole->last = i + 1 == n;
        st = one(outs[i], ins ? ins[i] : NULL, counts[i], whole->dtype, call);
        if (st != MST_OK) break;
        if (last) st = msi_comm_leave(last);
        last = begun;
    }
    if (comm) msi_comm_batch_end(comm);
    return conclude(st, last, work, call->stream != NULL);
}

static mst_status coalesced(const char *name, enum msi_kind kind, one_tensor one, void *const *outs,
                            const void *const *ins, const size_t *counts, size_t n, mst_dtype dtype,
                            const mst_call *given) {
    mst_call call = {0}, options;
    if (given) memcpy(&call, given, given->size < sizeof call ? given->size : sizeof call);
    call.size = sizeof call;
    options = call;
    struct msi_whole whole = {.name = name,
                              .kind = kind,
                              .dtype = dtype,
                              .options = &options,
                              .group = msi_call_group(name, &call.site, call.group)};
    if (!whole.group) return MST_ERR_STATE;
    mst_status st = n ? check_coalesced(one, outs, ins, counts) : MST_OK;
    if (st != MST_OK) return st;
    whole.bytes = all_bytes(&whole, counts, n);
    msi_whole_begin(&whole);
    return msi_whole_end(&whole, run_coalesced(&whole, one, outs, ins, counts, n, &call));
}

mst_status mst_all_reduce_coalesced_with(void *const *bufs, const size_t *counts, size_t n, mst_dtype dtype,
                                         const mst_call *call) {
    return coalesced("mst_all_reduce_coalesced", MSI_KIND_ALL_REDUCE, one_all_reduce, bufs, NULL, counts, n,
                     dtype, call);
}

mst_status mst_all_gather_coalesced_with(void *const *outs, const void *const *ins, const size_t *counts,
                                         size_t n, mst_dtype dtype, const mst_call *call) {
    return coalesced("mst_all_gather_coalesced", MSI_KIND_ALL_GATHER, mst_all_gather_into_tensor_with, outs,
                     ins, counts, n, dtype, call);
}

mst_status mst_reduce_scatter_coalesced_with(void *const *outs, const void *const *ins, const size_t *counts,
                                             size_t n, mst_dtype dtype, const mst_call *call) {
    return coalesced("mst_reduce_scatter_coalesced", MSI_KIND_REDUCE_SCATTER, mst_reduce_scatter_tensor_with,
                     outs, ins, counts, n, dtype, call);
}
