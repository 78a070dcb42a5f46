/* call.c - how a public call on a group begins and ends. See call.h. */
#include "group/call.h"
#include "base/error.h"
#include "base/options.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Stored with release by msi_set_default_world, loaded with acquire by every call. */
static _Atomic(mst_group *) default_world;

mst_group *msi_default_world(void) {
    return atomic_load_explicit(&default_world, memory_order_acquire);
}

void msi_set_default_world(mst_group *world) {
    atomic_store_explicit(&default_world, world, memory_order_release);
}

mst_group *msi_call_group(const char *name, const mst_site *site, const mst_group *handle) {
    mst_group *group = handle ? msi_group_of(handle) : msi_default_world();
    msi_call_begin(name, site, group ? group->world->rank : -1);
    if (!group && !handle) {
        msi_fail(MST_ERR_STATE, "call mst_init first", "there is no world: none was opened, or it has ended");
        return NULL;
    }
    return msi_group_check_use(group) == MST_OK ? group : NULL;
}

/* Not inline: calls that succeed do not pay for its stack. */
__attribute__((noinline, cold)) mst_status msi_fail_not_member(const mst_group *group) {
    char show[96];
    return msi_fail(MST_ERR_NOT_MEMBER, "only ranks of the group may call it", "rank %d is not in %s",
                    group->world->rank, msi_group_show(group, show, sizeof show));
}

/* The options of single calls, as bits. */
enum {
    OP = 1,
    ROOT = 2,
    TAG = 4,
    DETERMINISTIC = 8,
    WAIT_ALL_RANKS = 16,
    FACTOR = 32,
    IN = 64,
    COUNTS = 128,
    IN_SPLITS = 256,
    OUT_SPLITS = 512,
    SENDER = 1024,
    MESSAGE = 2048,
    DTYPES = 4096,
    QUANTIZE = 8192,
    REDUCTION = OP | DETERMINISTIC | FACTOR,
};

/* Which of them the calls of a kind use. */
static const unsigned short used_options[MSI_KIND_COUNT] = {
    [MSI_KIND_MONITORED_BARRIER] = WAIT_ALL_RANKS,
    [MSI_KIND_BROADCAST] = ROOT | IN,
    [MSI_KIND_ALL_REDUCE] = REDUCTION | IN | QUANTIZE,
    [MSI_KIND_INFERENCE_ALL_REDUCE] = REDUCTION | IN,
    [MSI_KIND_REDUCE] = REDUCTION | IN | ROOT,
    [MSI_KIND_ALL_GATHER] = COUNTS,
    [MSI_KIND_REDUCE_SCATTER] = REDUCTION | COUNTS,
    [MSI_KIND_REDUCE_SCATTER_TENSOR] = REDUCTION,
    [MSI_KIND_ALL_TO_ALL] = IN_SPLITS | OUT_SPLITS,
    [MSI_KIND_ALL_TO_ALL_SINGLE] = IN_SPLITS | OUT_SPLITS,
    [MSI_KIND_GATHER] = ROOT | COUNTS,
    [MSI_KIND_SCATTER] = ROOT | COUNTS,
    [MSI_KIND_SCAN] = REDUCTION | IN,
    [MSI_KIND_EXSCAN] = REDUCTION | IN,
    [MSI_KIND_SEND] = TAG,
    [MSI_KIND_RECV] = TAG | SENDER | MESSAGE,
};

static unsigned bit(bool given, unsigned option) {
    return given ? option : 0;
}

/* Not inline: most calls give none of them. */
__attribute__((noinline)) static unsigned given_options(const mst_call *o) {
    return bit(o->op, OP) | bit(o->root, ROOT) | bit(o->tag, TAG) | bit(o->deterministic, DETERMINISTIC) |
           bit(o->wait_all_ranks, WAIT_ALL_RANKS) | bit(o->factor != 0, FACTOR) | bit(o->in, IN) |
           bit(o->counts, COUNTS) | bit(o->in_splits, IN_SPLITS) | bit(o->out_splits, OUT_SPLITS) |
           bit(o->sender, SENDER) | bit(o->message, MESSAGE) | bit(o->dtypes, DTYPES) |
           bit(o->quantize, QUANTIZE);
}

/* Are all options of single calls zero, except .op, .root, .in and .tag where the kind uses them? */
static inline bool gives_only_usual(enum msi_kind kind, const mst_call *o) {
    unsigned used = used_options[kind];
    uintptr_t rare = (uintptr_t)(used & IN ? NULL : o->in) | (uintptr_t)o->counts | (uintptr_t)o->in_splits |
                     (uintptr_t)o->out_splits | (uintptr_t)o->sender | (uintptr_t)o->message |
                     (uintptr_t)o->dtypes;
    unsigned flags = (unsigned)o->deterministic | (unsigned)o->wait_all_ranks | (unsigned)o->quantize;
    unsigned numbers = (used & OP ? 0 : (unsigned)o->op) | (used & ROOT ? 0 : (unsigned)o->root) |
                       (used & TAG ? 0 : (unsigned)o->tag);
    uint64_t factor; /* -0 counts as given */
    memcpy(&factor, &o->factor, sizeof factor);
    return !(rare | factor | flags | numbers);
}

/* Not inline, as msi_fail_not_member. */
__attribute__((noinline, cold)) static mst_status fail_unused(const char *name, unsigned unused) {
    static const char *const names[] = {"op",     "root",    "tag",    "deterministic", "wait_all_ranks",
                                        "factor", "in",      "counts", "in_splits",     "out_splits",
                                        "sender", "message", "dtypes", "quantize"};
    return msi_fail(MST_ERR_INVALID, "leave it out", "%s does not use .%s", name,
                    names[__builtin_ctz(unused)]);
}

__attribute__((noinline)) mst_status msi_call_check_options(const char *name, enum msi_kind kind,
                                                            const mst_call *options) {
    unsigned unused = given_options(options) & ~(unsigned)used_options[kind];
    if (unused) return fail_unused(name, unused);
    if (options->factor != 0 && options->op != MST_PREMUL_SUM)
        return msi_fail(MST_ERR_INVALID, "leave it out, or give .op = MST_PREMUL_SUM",
                        ".factor is used only with MST_PREMUL_SUM");
    return msi_check_timeout(options->timeout_ms);
}

/* The options are invalid: finds the group nevertheless, for msi_call_reject. */
__attribute__((noinline, cold)) static mst_status fail_open(const char *name, enum msi_kind kind,
                                                            const mst_call *given, struct msi_call *call,
                                                            mst_status status) {
    call->name = name;
    call->kind = kind;
    call->work = NULL;
    call->group = NULL;
    if (!given || given->size != sizeof *given) return status;
    call->copy = *given;
    call->group = given->group ? msi_group_of(given->group) : msi_default_world();
    return status;
}

mst_status msi_call_open_as(const char *name, enum msi_kind kind, const mst_call *given,
                            struct msi_call *call) {
    if (given && given->size == sizeof *given && !given->positional) {
        call->options = given;
    } else { /* from a program that was compiled with another version, or NULL */
        mst_status st = msi_options_begin(name, &call->copy, sizeof call->copy, given);
        call->options = &call->copy;
        if (st != MST_OK) return fail_open(name, kind, given, call, st);
    }
    call->name = name;
    call->kind = kind;
    call->dtype = 0;
    call->element = 0;
    call->count = 0;
    call->root = -1;
    call->entered = 0;
    call->number = MSI_FLIGHT_NO_NUMBER;
    call->work = NULL;
    call->op = NULL;
    call->variable = false;
    call->reducer = NULL;
    call->user = NULL;
    call->group = msi_call_group(name, &call->options->site, call->options->group);
    if (!call->group) return MST_ERR_STATE;
    if (call->group->rank < 0) return msi_fail_not_member(call->group);
    const struct msi_whole *whole = msi_whole_of(call->group);
    if (whole) { /* errors name the call that the program has made */
        call->name = whole->name;
        msi_call_begin(whole->name, &call->options->site, call->group->world->rank);
    }
    call->usual = gives_only_usual(kind, call->options) && call->options->timeout_ms >= 0;
    return call->usual ? MST_OK : msi_call_check_options(name, kind, call->options);
}

mst_status msi_call_tensor(struct msi_call *call, size_t n, size_t count, mst_dtype dtype) {
    size_t bytes;
    call->dtype = dtype;
    call->count = count;
    call->element = mst_dtype_size(dtype);
    if (call->element == 0)
        return msi_fail(MST_ERR_INVALID, "give one of MST_F32, MST_BF16, …", "%d is not a valid dtype",
                        (int)dtype);
    if (__builtin_mul_overflow(count, n, &bytes) || __builtin_mul_overflow(bytes, call->element, &bytes) ||
        bytes > SIZE_MAX / 2)
        return msi_fail(MST_ERR_INVALID, NULL, "count is %zu, which is more than memory can hold", count);
    return MST_OK;
}

mst_status msi_call_blocks(struct msi_call *call, const size_t *counts, size_t count, mst_dtype dtype) {
    size_t sum = 0;
    for (int r = 0; r < call->group->size; r++)
        if (__builtin_add_overflow(sum, counts ? counts[r] : count, &sum)) sum = SIZE_MAX;
    return msi_call_tensor(call, 1, sum, dtype);
}

mst_status msi_call_buffer(const char *name, const void *buffer, size_t count) {
    return buffer || count == 0 ? MST_OK : msi_fail(MST_ERR_INVALID, NULL, "%s is NULL", name);
}

/* Not inline, as msi_fail_not_member. */
__attribute__((noinline, cold)) static mst_status fail_no_rank(const struct msi_call *call, const char *name,
                                                               int rank) {
    char show[96];
    return msi_fail(MST_ERR_INVALID, "give a rank in the group; mst_get_group_rank translates a global rank",
                    "%s is rank %d, but %s has ranks 0 to %d", name, rank,
                    msi_group_show(call->group, show, sizeof show), call->group->size - 1);
}

mst_status msi_call_root(struct msi_call *call) {
    call->root = call->options->root;
    return call->root >= 0 && call->root < call->group->size ? MST_OK
                                                             : fail_no_rank(call, ".root", call->root);
}

mst_status msi_call_peer(struct msi_call *call, const char *name, int peer) {
    call->root = peer;
    return peer >= 0 && peer < call->group->size ? MST_OK : fail_no_rank(call, name, peer);
}

/* Not inline, as msi_fail_not_member. */
__attribute__((noinline, cold)) static mst_status find_user_op(struct msi_call *call, const size_t *counts,
                                                               size_t count) {
    mst_op op = call->options->op;
    call->user = msi_user_op_find(op);
    call->reducer = msi_user_reducer(call->dtype);
    if (!call->user && op >= MST_OP_USER)
        return msi_fail(MST_ERR_INVALID, "create it with mst_op_create, and free it after its last use",
                        ".op is %d, a user-defined operation that does not exist", (int)op);
    if (!call->user)
        return msi_fail(MST_ERR_INVALID, "give one of MST_SUM, MST_AVG, …",
                        ".op is %d, which is not a valid op", (int)op);
    for (int r = 0; r < (counts ? call->group->size : 1); r++)
        if ((counts ? counts[r] : count) % call->user->unit)
            return msi_fail(MST_ERR_INVALID, "give whole units",
                            "count is %zu, but the .unit of the operation is %zu elements",
                            counts ? counts[r] : count, call->user->unit);
    return MST_OK;
}

__attribute__((noinline, cold)) mst_status msi_check_quantize(mst_quantize quantize, mst_dtype dtype,
                                                              mst_op op, bool deterministic) {
    if (quantize != MST_Q8)
        return msi_fail(MST_ERR_INVALID, "give MST_Q8", ".quantize is %d, which is not valid", (int)quantize);
    if (dtype != MST_F32 && dtype != MST_F16 && dtype != MST_BF16)
        return msi_fail(MST_ERR_INVALID, "leave it out, or reduce f32, f16 or bf16",
                        ".quantize is not defined for %s", mst_dtype_name(dtype));
    if (op != MST_SUM && op != MST_AVG)
        return msi_fail(MST_ERR_INVALID, "leave it out, or give MST_SUM or MST_AVG",
                        ".quantize is not defined for %s", mst_op_name(op));
    if (deterministic)
        return msi_fail(MST_ERR_INVALID, "leave one of them out",
                        ".quantize and .deterministic exclude each other: which values are quantised depends "
                        "on the hosts");
    return MST_OK;
}

mst_status msi_call_reducer(struct msi_call *call, const size_t *counts, size_t count) {
    mst_op op = call->options->op;
    const mst_call *o = call->options;
    mst_status st = o->quantize ? msi_check_quantize(o->quantize, call->dtype, op, o->deterministic) : MST_OK;
    if (st != MST_OK) return st;
    if ((unsigned)op >= MST_OP_COUNT) return find_user_op(call, counts, count);
    call->reducer = counts ? msi_reducer_get(call->dtype, op) : msi_reducer_for(call->dtype, op, count);
    if (call->reducer) return MST_OK;
    return msi_fail(MST_ERR_INVALID, NULL, "%s is not defined for %s", mst_op_name(op),
                    mst_dtype_name(call->dtype));
}

/* Not inline, as msi_fail_not_member. */
__attribute__((noinline, cold)) mst_status
msi_group_reject(mst_group *group, enum msi_kind kind, const struct msi_op_call *call, mst_status status) {
    struct msi_saved_error error;
    struct msi_comm *host = NULL;
    if ((status != MST_ERR_INVALID && status != MST_ERR_UNSUPPORTED) || !group || group->rank < 0 ||
        group->size == 1 || group->world->forks != msi_forks_known)
        return status;
    msi_error_save(&error, status);
    msi_count_up(&group->operations);
    pthread_mutex_lock(&group->world->lock);
    group->declared = true; /* the last rank that leaves deletes the group's keys */
    pthread_mutex_unlock(&group->world->lock);
    if (msi_group_comm_of(group, MST_MEMORY_HOST, &host) == MST_OK)
        msi_comm_reject(host, kind, call, error.message);
    /* Stored by msi_group_comm_of. */
    struct msi_comm *device = atomic_load_explicit(&group->device, memory_order_acquire);
    if (device && device != host) msi_comm_reject(device, kind, call, error.message);
    return msi_error_restore(&error);
}

mst_status msi_call_reject(const struct msi_call *call, mst_status status) {
    if (status == MST_OK || call->work) return status;
    return msi_group_reject(call->group, call->kind, &(struct msi_op_call){call->name, call->options->site},
                            status);
}

/*
 * The operation of the thread that has the gate. NULL: that thread has left, or has no operation for long, as
 * in a barrier through the store.
 */
static struct mst_work *find_holder(mst_group *group) {
    enum { SEARCH_MS = 1000 };
    for (int64_t until = msi_deadline(SEARCH_MS); msi_now() < until; sched_yield()) {
        /* Stored by msi_call_alloc. A work is not freed before its group, and changes under a lock only. */
        struct mst_work *work = atomic_load_explicit(&group->gate.work, memory_order_relaxed);
        if (work || !atomic_load_explicit(&group->gate.held, memory_order_relaxed)) return work;
    }
    return NULL;
}

/* Not inline, as msi_fail_not_member. */
__attribute__((noinline, cold)) static mst_status fail_concurrent(mst_group *group) {
    struct msi_op_call other = {.name = "a collective"};
    char show[96], where[300] = "";
    struct mst_work *work = find_holder(group);
    if (work) msi_comm_show_call(work, &other);
    if (other.site.file)
        snprintf(where, sizeof where, " (%s:%d, %s)", other.site.file, other.site.line, other.site.function);
    return msi_fail(MST_ERR_STATE, "give each thread a group of its own, or call collectives in turn",
                    "another thread is in %s%s on %s", other.name, where,
                    msi_group_show(group, show, sizeof show));
}

mst_status msi_gate_enter(mst_group *group) {
    struct msi_comm *comm;
    mst_memory memory;
    mst_status st = msi_group_comm(group, NULL, &comm, &memory);
    if (st != MST_OK || msi_comm_claim(comm, &group->gate.held)) return st;
    st = fail_concurrent(group);
    /* The other thread may have left meanwhile. */
    return msi_comm_claim(comm, &group->gate.held) ? MST_OK : st;
}

void msi_gate_leave(mst_group *group) {
    struct msi_comm *comm;
    mst_memory memory;
    atomic_store_explicit(&group->gate.work, NULL, memory_order_relaxed);
    if (msi_group_comm(group, NULL, &comm, &memory) == MST_OK)
        msi_comm_unclaim(comm, &group->gate.held);
    else
        msi_gate_open(group);
}

/* Gets call->work and enters the gate, if the call needs that. *busy: another thread is in a collective. */
__attribute__((always_inline)) static inline mst_status alloc_op(struct msi_call *call, const void *buffer,
                                                                 mst_memory *memory, bool *busy) {
    const mst_call *o = call->options;
    struct msi_comm *comm;
    _Atomic uint64_t *count = msi_call_number(call);
    uint64_t number = atomic_load_explicit(count, memory_order_relaxed) + 1;
    mst_status st = msi_group_comm(call->group, buffer, &comm, memory);
    msi_call_sequence(number);
    int timeout_ms = o->timeout_ms ? o->timeout_ms : msi_group_timeout(call->group);
    if (st == MST_OK && o->stream) st = msi_comm_check_stream(comm);
    if (st == MST_OK && o->quantize) st = msi_comm_check_quantize(comm);
    if (st == MST_OK) st = msi_comm_alloc_op(comm, timeout_ms, o->cancel, call->name, &call->work);
    *busy = st == MST_OK && call->gated && !msi_comm_claim_locked(&call->group->gate.held);
    if (*busy)
        msi_comm_release_op(call->work);
    else /* as msi_count_up; a call that is refused does not count */
        atomic_store_explicit(count, number, memory_order_relaxed);
    return st;
}

static void set_whole(struct msi_op *op, const struct msi_whole *whole) {
    op->flags |= whole->form;
    op->whole = whole->kind;
    op->whole_root = whole->root;
    op->whole_parts = whole->parts;
}

/* Not inline, as msi_fail_not_member. */
__attribute__((noinline, cold)) static mst_status alloc_again(struct msi_call *call, const void *buffer,
                                                              mst_memory *memory) {
    bool busy;
    mst_status st = fail_concurrent(call->group),
               again = alloc_op(call, buffer, memory, &busy); /* the other thread may have left meanwhile */
    return busy ? st : again;
}

mst_status msi_call_alloc(struct msi_call *call, const void *buffer) {
    const mst_call *o = call->options;
    mst_memory memory;
    const struct msi_whole *whole = msi_whole_of(call->group);
    bool busy;
    /* A collective that is part of a larger call finds the gate held by that call. */
    call->gated = !msi_call_is_message(call) && !whole;
    mst_status st = alloc_op(call, buffer, &memory, &busy);
    if (busy) st = alloc_again(call, buffer, &memory);
    if (st != MST_OK) return st;
    struct msi_op *op = &call->work->op;
    if (!msi_call_is_message(call)) msi_gate_set_work(call->group, call->work);
    msi_op_set_call(op, call->kind);
    op->site = o->site;
    op->quantize = o->quantize;
    op->deterministic = o->deterministic || call->user; /* reduces in rank order */
    if (o->deterministic) op->flags = MSI_SIGNED_DETERMINISTIC;
    if (whole) set_whole(op, whole);
    op->reducer = call->reducer;
    op->user = call->user;
    if (call->user) { /* mst_op_free may come before the operation is complete */
        op->user_copy = *call->user;
        op->user = &op->user_copy;
    }
    op->desc.dtype = call->dtype;
    op->desc.element = call->element;
    op->desc.op = o->op;
    op->desc.factor = o->factor != 0 ? o->factor : 1;
    op->desc.root = call->root;
    op->desc.memory = memory;
    op->desc.stream = o->stream;
    return MST_OK;
}

static mst_status go(struct msi_call *call) {
    mst_work **work = call->options->work;
    if (!work) return call->options->stream ? msi_comm_enqueue(call->work) : msi_comm_run(call->work);
    mst_status st = msi_comm_submit(call->work);
    if (st == MST_OK) *work = msi_comm_export(call->work);
    if (st == MST_OK && call->options->stream) (void)msi_comm_await_stream(*work); /* mst_wait tells how */
    return st;
}

uint64_t msi_call_note(const struct msi_call *call) {
    struct msi_rank_state *state = msi_rank_state_on();
    if (!state) return 0;
    return msi_rank_state_enter(state, call->name, &call->options->site,
                                atomic_load_explicit(msi_call_number(call), memory_order_relaxed),
                                msi_rank_state_size_dtype(call->group->size, (int)call->dtype), call->count);
}

/* The same with profiling on. */
__attribute__((noinline)) static mst_status go_watched(struct msi_call *call, unsigned watch) {
    uint64_t noted = msi_call_note(call);
    msi_call_trace(call, watch, &call->work->op_trace);
    mst_status st = msi_call_leave(noted, go(call));
    if (st == MST_OK && watch & MSI_SINK_CAUSE && !call->options->work)
        msi_world_take_cause_back(call->group->world);
    return st;
}

mst_status msi_call_submit(struct msi_call *call) {
    struct msi_op *op = &call->work->op;
    call->op = op;
    if (!msi_op_is_message(op)) msi_comm_sign(call->work);
    unsigned watch = msi_sinks_on();
    mst_status st = watch ? go_watched(call, watch) : go(call);
    if (call->gated) msi_gate_open(call->group);
    return st;
}

/* Allocates the work of a message. */
static mst_status alloc_message(struct msi_call *call, const struct msi_op *op) {
    mst_status st = msi_call_alloc(call, op->desc.in ? op->desc.in : op->desc.out);
    if (st != MST_OK) return st;
    struct msi_op *own = &call->work->op;
    mst_memory memory = own->desc.memory;
    own->desc = op->desc;
    own->desc.root = own->desc.sender = -1;
    own->desc.memory = memory;
    own->desc.stream = call->options->stream;
    own->bytes = op->bytes;
    own->sender = op->sender;
    own->message = op->message;
    own->variable = call->variable;
    return MST_OK;
}

mst_status msi_call_submit_message(struct msi_call *call, const struct msi_op *op) {
    mst_status st = alloc_message(call, op);
    return st == MST_OK ? msi_call_submit(call) : st;
}

mst_status msi_call_start_message(struct msi_call *call, const struct msi_op *op) {
    mst_status st = alloc_message(call, op);
    if (st != MST_OK) return st;
    unsigned watch = msi_sinks_on();
    if (watch) msi_call_trace(call, watch, &call->work->op_trace);
    return msi_comm_start(call->work);
}

mst_status msi_call_probe(struct msi_call *call, const struct msi_op *op, bool wait) {
    mst_status st = alloc_message(call, op);
    if (st != MST_OK) return st;
    call->work->op.probe = true;
    uint64_t noted = msi_call_note(call);
    return msi_call_leave(noted, wait ? msi_comm_run(call->work) : msi_comm_probe_now(call->work));
}
