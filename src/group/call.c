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

/* Failures are formatted in functions of their own: the fast path does not reserve their buffers. */
__attribute__((noinline, cold)) static mst_status fail_not_member(const mst_group *group) {
    char show[96];
    return msi_fail(MST_ERR_NOT_MEMBER, "only its ranks may call", "rank %d is not in %s", group->world->rank,
                    msi_group_show(group, show, sizeof show));
}

mst_status msi_call_open(enum msi_kind kind, const mst_call *given, struct msi_call *call) {
    return msi_call_open_as(msi_kind_name(kind), kind, given, call);
}

mst_status msi_call_open_as(const char *name, enum msi_kind kind, const mst_call *given,
                            struct msi_call *call) {
    if (given && given->size == sizeof *given) {
        call->options = *given;
    } else { /* NULL, or of another version */
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
        return msi_fail(MST_ERR_INVALID, "give one of MST_F32, MST_BF16, …", "dtype is %d, which is none",
                        (int)dtype);
    if (__builtin_mul_overflow(count, n, &bytes) || __builtin_mul_overflow(bytes, call->element, &bytes) ||
        bytes > SIZE_MAX / 2)
        return msi_fail(MST_ERR_INVALID, NULL, "count is %zu, which is more than any memory holds", count);
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
        return msi_fail(MST_ERR_INVALID, "give one of MST_SUM, MST_AVG, …", ".op is %d, which is none",
                        (int)op);
    call->reducer = msi_reducer_get(call->dtype, op);
    if (call->reducer) return MST_OK;
    return msi_fail(MST_ERR_INVALID, NULL, "%s of %s has no meaning", mst_op_name(op),
                    mst_dtype_name(call->dtype));
}

/* The end of a file name for the signature, cached by the address of the literal. */
struct tail {
    const char *file;
    char text[sizeof((struct msi_call_signature *)NULL)->file];
};

__attribute__((noinline)) static void cut_tail(struct tail *tail, const char *file) {
    size_t len = strlen(file), most = sizeof tail->text;
    memset(tail->text, 0, most);
    memcpy(tail->text, file + (len > most ? len - most : 0), len < most ? len : most);
    tail->file = file;
}

static void tell_site(struct msi_call_signature *told, const mst_site *site) {
    static _Thread_local struct tail last;
    told->line = site->line > 0 ? (uint32_t)site->line : 0;
    if (!site->file) return;
    if (last.file != site->file) cut_tail(&last, site->file);
    memcpy(told->file, last.text, sizeof told->file);
}

/* A fast hash: calls that differ in any field have, almost certainly, different signatures. */
static uint32_t sign(const struct msi_call_signature *told, uint64_t extra) {
    uint64_t head = (uint64_t)msi_kind_family(told->kind) | (uint64_t)told->dtype << 8 |
                    (uint64_t)told->op << 16 | (uint64_t)told->flags << 24 |
                    (uint64_t)(uint32_t)told->root << 32;
    uint64_t mixed =
        head * 0x9E3779B97F4A7C15u ^ (told->count + 1) * 0xC2B2AE3D27D4EB4Fu ^ extra * 0x165667B19E3779F9u;
    mixed ^= mixed >> 29;
    mixed *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(mixed >> 32);
}

mst_status msi_call_alloc(struct msi_call *call, const void *buffer, size_t count, uint64_t extra) {
    const mst_call *o = &call->options;
    struct msi_comm *comm;
    mst_memory memory;
    mst_status st = msi_group_comm(call->group, buffer, &comm, &memory);
    msi_call_sequence(++*msi_call_number(call));
    int timeout_ms = o->timeout_ms ? o->timeout_ms : call->group->timeout_ms;
    if (st == MST_OK) st = msi_comm_alloc_op(comm, timeout_ms, o->cancel, call->name, &call->work);
    if (st != MST_OK) return st;
    mst_work *work = call->work;
    struct msi_shm_coll *host = &work->host;
    work->begin = msi_shm_exchange;
    work->site = o->site;
    work->deterministic = o->deterministic;
    work->memory = memory;
    work->stream = o->stream;
    if (msi_call_is_message(call)) return MST_OK; /* messages carry their own description */
    host->element = call->element;
    host->reducer = call->reducer;
    host->told = (struct msi_call_signature){
        .kind = (uint8_t)call->kind, .dtype = (uint8_t)call->dtype, .op = (uint8_t)o->op, .root = call->root};
    host->told.count = count;
    tell_site(&host->told, &o->site);
    host->signature = sign(&host->told, extra);
    host->scale = (struct msi_reduce_scale){o->factor != 0 ? o->factor : 1, call->group->size};
    return MST_OK;
}

static mst_status go(struct msi_call *call) {
    mst_work **work = call->options.work;
    if (!work) return call->work->stream ? msi_comm_enqueue(call->work) : msi_comm_run(call->work);
    mst_status st = msi_comm_submit(call->work);
    if (st == MST_OK) *work = msi_comm_export(call->work);
    return st;
}

uint64_t msi_call_note(const struct msi_call *call) {
    struct msi_rank_state *state = msi_rank_state_on();
    if (!state) return 0;
    return msi_rank_state_enter(state, call->name, &call->options.site, *msi_call_number(call),
                                msi_rank_state_about(call->group->size, (int)call->dtype), call->count);
}

/* The same with profiler, flight recorder or rank state. */
__attribute__((noinline)) static mst_status go_watched(struct msi_call *call, unsigned watch) {
    uint64_t noted = msi_call_note(call);
    msi_call_trace(call, watch, &call->work->mark);
    return msi_call_leave(noted, go(call));
}

mst_status msi_call_submit(struct msi_call *call) {
    unsigned watch = msi_watch_on();
    return watch ? go_watched(call, watch) : go(call);
}

mst_status msi_call_submit_message(struct msi_call *call, const struct msi_message *message) {
    mst_status st = msi_call_alloc(call, message->buf, message->bytes, 0);
    if (st != MST_OK) return st;
    call->work->begin = NULL;
    call->work->message = *message;
    return msi_call_submit(call);
}
