/* call.c - how a public call on a group begins and ends. See call.h. */
#include "group/call.h"
#include "base/error.h"
#include "base/options.h"

#include <stdatomic.h>
#include <stdio.h>

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
__attribute__((noinline, cold)) static mst_status fail_not_member(const mst_group *group) {
    char show[96];
    return msi_fail(MST_ERR_NOT_MEMBER, "only ranks of the group may call it", "rank %d is not in %s",
                    group->world->rank, msi_group_show(group, show, sizeof show));
}

mst_status msi_call_open(enum msi_kind kind, const mst_call *given, struct msi_call *call) {
    return msi_call_open_as(msi_kind_name(kind), kind, given, call);
}

mst_status msi_call_open_as(const char *name, enum msi_kind kind, const mst_call *given,
                            struct msi_call *call) {
    if (given && given->size == sizeof *given) {
        call->options = *given;
    } else { /* from a program that was compiled with another version, or NULL */
        mst_status st = msi_options_begin(name, &call->options, sizeof call->options, given);
        if (st != MST_OK) return st;
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
    call->group = msi_call_group(name, &call->options.site, call->options.group);
    if (!call->group) return MST_ERR_STATE;
    return call->group->rank >= 0 ? msi_check_timeout(call->options.timeout_ms)
                                  : fail_not_member(call->group);
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

mst_status msi_call_buffer(const char *name, const void *buffer, size_t count) {
    return buffer || count == 0 ? MST_OK : msi_fail(MST_ERR_INVALID, NULL, "%s is NULL", name);
}

__attribute__((noinline, cold)) static mst_status fail_no_root(const struct msi_call *call, bool source) {
    const mst_call *o = &call->options;
    const char *name = source ? "src" : "dst";
    int local = source ? o->group_src : o->group_dst;
    char show[96];
    msi_group_show(call->group, show, sizeof show);
    if (local != 0)
        return msi_fail(MST_ERR_INVALID, NULL, ".group_%s is %d, but %s has ranks 0 to %d", name, local, show,
                        call->group->size - 1);
    return msi_fail(MST_ERR_INVALID, "the first rank of a group is mst_get_global_rank(group, 0)",
                    ".%s is rank %d, which is not in %s", name, source ? o->src : o->dst, show);
}

mst_status msi_call_root(struct msi_call *call, bool source) {
    const mst_call *o = &call->options;
    int global = source ? o->src : o->dst, local = source ? o->group_src : o->group_dst;
    if (local == 0)
        call->root = msi_group_rank_of(call->group, global);
    else if (local > 0 && local < call->group->size)
        call->root = local;
    return call->root >= 0 ? MST_OK : fail_no_root(call, source);
}

mst_status msi_call_reducer(struct msi_call *call) {
    mst_op op = call->options.op;
    if ((unsigned)op >= MST_OP_COUNT)
        return msi_fail(MST_ERR_INVALID, "give one of MST_SUM, MST_AVG, …",
                        ".op is %d, which is not a valid op", (int)op);
    call->reducer = msi_reducer_get(call->dtype, op);
    if (call->reducer) return MST_OK;
    return msi_fail(MST_ERR_INVALID, NULL, "%s is not defined for %s", mst_op_name(op),
                    mst_dtype_name(call->dtype));
}

mst_status msi_call_alloc(struct msi_call *call, const void *buffer) {
    const mst_call *o = &call->options;
    struct msi_comm *comm;
    mst_memory memory;
    mst_status st = msi_group_comm(call->group, buffer, &comm, &memory);
    msi_call_sequence(++*msi_call_number(call));
    int timeout_ms = o->timeout_ms ? o->timeout_ms : call->group->timeout_ms;
    if (st == MST_OK) st = msi_comm_alloc_op(comm, timeout_ms, o->cancel, call->name, &call->work);
    if (st != MST_OK) return st;
    struct msi_op *op = &call->work->op;
    msi_op_set_call(op, call->kind);
    op->site = o->site;
    op->deterministic = o->deterministic;
    op->reducer = call->reducer;
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
    mst_work **work = call->options.work;
    if (!work) return call->options.stream ? msi_comm_enqueue(call->work) : msi_comm_run(call->work);
    mst_status st = msi_comm_submit(call->work);
    if (st == MST_OK) *work = msi_comm_export(call->work);
    return st;
}

uint64_t msi_call_note(const struct msi_call *call) {
    struct msi_rank_state *state = msi_rank_state_on();
    if (!state) return 0;
    return msi_rank_state_enter(state, call->name, &call->options.site, *msi_call_number(call),
                                msi_rank_state_size_dtype(call->group->size, (int)call->dtype), call->count);
}

/* The same with profiling on. */
__attribute__((noinline)) static mst_status go_watched(struct msi_call *call, unsigned watch) {
    uint64_t noted = msi_call_note(call);
    msi_call_trace(call, watch, &call->work->op_trace);
    return msi_call_leave(noted, go(call));
}

mst_status msi_call_submit(struct msi_call *call) {
    struct msi_op *op = &call->work->op;
    call->op = op;
    if (!msi_op_is_message(op)) msi_op_sign(op, &call->work->tail, call->group->size);
    unsigned watch = msi_sinks_on();
    return watch ? go_watched(call, watch) : go(call);
}

mst_status msi_call_submit_message(struct msi_call *call, const struct msi_op *op) {
    mst_status st = msi_call_alloc(call, op->desc.in ? op->desc.in : op->desc.out);
    if (st != MST_OK) return st;
    struct msi_op *own = &call->work->op;
    mst_memory memory = own->desc.memory;
    own->desc = op->desc;
    own->desc.root = own->desc.sender = -1;
    own->desc.memory = memory;
    own->desc.stream = call->options.stream;
    own->bytes = op->bytes;
    own->sender = op->sender;
    own->variable = call->variable;
    return msi_call_submit(call);
}
