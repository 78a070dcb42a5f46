/* prepared.c - the fast path of small blocking collectives. See prepared.h. */
#include "group/prepared.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 16, BYTES_MOST = 16 << 10 };

/* A call that was checked. Used under the lock of the communicator. */
struct prepared {
    mst_call options; /* as the program gave them */
    struct msi_op op; /* but for its buffers */
    struct msi_flight_call flight;
    bool has_out, has_in, in_place;
    size_t out_bytes, in_bytes;
};

struct msi_prepared_calls {
    struct prepared entries[ENTRIES];
};

static struct prepared *entry_of(struct msi_prepared_calls *calls, enum msi_kind kind,
                                 const mst_call *options) {
    return &calls->entries[((unsigned)options->site.line + (unsigned)kind + (unsigned)options->root) %
                           ENTRIES];
}

/* The fast path does not serve the profiler, nor parts of composed calls. */
static inline bool is_plain(void) {
    unsigned sinks = msi_sinks_on() & ~(unsigned)(MSI_SINK_RANK_STATE | MSI_SINK_FLIGHT);
    return !sinks && atomic_load_explicit(&msi_wholes, memory_order_relaxed) == 0;
}

/* Bytes between members that differ only make the call slower. */
static inline bool same_bytes(const void *a, const void *b, size_t n) {
    return memcmp(a, b, n) == 0;
}

/* Is the call the prepared one, but perhaps with other buffers, which are valid too? */
static inline bool matches(const struct prepared *p, const struct msi_args *args, const void *input,
                           const mst_call *options) {
    const mst_backend_op *desc = &p->op.desc;
    bool same = p->op.call == args->kind && desc->count == args->count && desc->dtype == args->dtype &&
                same_bytes(&p->options, options, sizeof *options);
    uintptr_t out = (uintptr_t)args->out, in = (uintptr_t)input;
    bool apart = in + p->in_bytes <= out || out + p->out_bytes <= in;
    return same && p->has_out == (out != 0) && p->has_in == (in != 0) && (p->in_place ? in == out : apart);
}

/* Another rank is late: continues as an operation. The caller has the lock. */
__attribute__((noinline)) static mst_status run_slowly(mst_group *group, struct msi_comm *comm,
                                                       const struct prepared *p, uint64_t number,
                                                       struct msi_flight_entry_ref flight) {
    const mst_call *o = &p->options;
    int timeout_ms = o->timeout_ms ? o->timeout_ms : msi_group_timeout(group);
    msi_call_begin(p->op.name, &p->op.site, group->world->rank);
    msi_call_sequence(number);
    struct mst_work *work = msi_comm_continue(comm, &p->op, timeout_ms, o->cancel);
    work->op_trace.on = flight.entry ? MSI_SINK_FLIGHT : 0;
    work->op_trace.ref = flight;
    work->op_trace.waits = 0;
    msi_comm_claim_locked(&group->gate.held); /* it is free: msi_comm_enter_now has looked */
    msi_gate_set_work(group, work);
    mst_status st = msi_comm_run_begun(work);
    msi_gate_open(group);
    return st;
}

/* The caller has the lock. False: nothing has happened. */
static inline bool run(mst_group *group, struct msi_comm *comm, struct prepared *p, void *out, const void *in,
                       mst_status *status) {
    struct msi_rank_state *state = msi_rank_state_on();
    struct msi_flight_entry_ref flight = {.entry = NULL};
    uint64_t number = atomic_load_explicit(&group->operations, memory_order_relaxed) + 1, noted = 0;
    p->op.desc.out = out;
    p->op.desc.in = in;
    if (state) /* before the program's memory is read: it may be invalid */
        noted = msi_rank_state_enter(state, p->op.name, &p->op.site, number,
                                     msi_rank_state_size_dtype(group->size, (int)p->op.desc.dtype),
                                     p->flight.count);
    bool records = msi_sinks_on() & MSI_SINK_FLIGHT;
    uint64_t begin = records ? msi_tick() : 0;
    if (!msi_comm_begin_now(comm, &p->op)) {
        msi_comm_leave_now(comm);
        if (state) msi_rank_state_leave(state, noted, MST_OK);
        return false;
    }
    /* The announcement travels to the other ranks meanwhile. */
    msi_count_up(&group->operations);
    if (records) {
        p->flight.seq = number;
        flight = msi_flight_begin(&p->flight, begin);
    }
    if (msi_comm_finish_now(comm, &p->op)) {
        if (records) msi_flight_done(flight, true, 0);
        msi_comm_leave_now(comm);
        *status = MST_OK;
    } else {
        *status = run_slowly(group, comm, p, number, flight);
    }
    if (state) msi_rank_state_leave(state, noted, *status);
    return true;
}

bool msi_prepared_run(const struct msi_args *args, const mst_call *options, mst_status *status) {
    if (!options || options->size != sizeof *options || !is_plain()) return false;
    mst_group *group = options->group ? msi_group_of(options->group) : msi_default_world();
    if (!group || group->world->forks != msi_forks_known) return false;
    struct msi_comm *comm = atomic_load_explicit(&group->comm, memory_order_acquire); /* its maker's */
    /* With a backend for devices, which the group may have got since, the buffer may be the device's. */
    if (!comm || group->backends.of[MST_MEMORY_CUDA] || !msi_comm_enter_now(comm, &group->gate.held))
        return false;
    struct prepared *p = group->prepared ? entry_of(group->prepared, args->kind, options) : NULL;
    const void *in = options->in ? options->in : args->in;
    if (p && matches(p, args, in, options)) return run(group, comm, p, args->out, in, status);
    msi_comm_leave_now(comm);
    return false;
}

/* Bytes of the buffers of a kind, with a block for each rank where it has them. */
static void set_bytes(struct prepared *p, int ranks) {
    size_t each = msi_op_bytes(&p->op), all = each * (size_t)ranks;
    mst_kind kind = p->op.desc.kind;
    bool gathers = kind == MST_KIND_ALL_GATHER || kind == MST_KIND_GATHER || kind == MST_KIND_ALL_TO_ALL;
    bool scatters =
        kind == MST_KIND_SCATTER || kind == MST_KIND_REDUCE_SCATTER || kind == MST_KIND_ALL_TO_ALL;
    p->out_bytes = gathers ? all : each;
    p->in_bytes = scatters ? all : each;
}

static void prepare(struct prepared *p, const struct msi_call *call, const struct msi_args *args) {
    const mst_call *o = call->options;
    memcpy(&p->options, o, sizeof p->options);
    p->op.desc = (mst_backend_op){.dtype = call->dtype,
                                  .op = o->op,
                                  .factor = 1,
                                  .root = call->root,
                                  .peer = -1,
                                  .sender = -1,
                                  .count = args->count,
                                  .element = call->element,
                                  .memory = MST_MEMORY_HOST};
    msi_op_set_call(&p->op, call->kind);
    p->op.name = call->name;
    p->op.site = o->site;
    p->op.reducer = call->reducer;
    p->has_out = args->out != NULL;
    p->has_in = args->in != NULL;
    p->in_place = args->in == args->out;
    set_bytes(p, call->group->size);
    p->flight = (struct msi_flight_call){.operation = call->name,
                                         .site = &p->op.site,
                                         .group = call->group->flight,
                                         .count = call->count,
                                         .dtype = (int)call->dtype,
                                         .type = MSI_FLIGHT_COLLECTIVE,
                                         .peer = -1};
}

bool msi_call_now(struct msi_call *call, const struct msi_args *args, mst_status *status) {
    mst_group *group = call->group;
    const mst_call *o = call->options;
    struct msi_comm *comm = atomic_load_explicit(&group->comm, memory_order_acquire); /* its maker's */
    if (!comm || !call->usual || o->work || o->stream || call->user ||
        call->element * args->count > BYTES_MOST || group->backends.of[MST_MEMORY_CUDA] || !is_plain() ||
        !msi_comm_enter_now(comm, &group->gate.held))
        return false;
    if (!group->prepared) group->prepared = calloc(1, sizeof *group->prepared);
    struct prepared *p = group->prepared ? entry_of(group->prepared, args->kind, o) : NULL;
    if (p) prepare(p, call, args);
    if (p && msi_comm_sign_now(comm, &p->op)) return run(group, comm, p, args->out, args->in, status);
    if (p) p->options.size = 0; /* matches no call */
    msi_comm_leave_now(comm);
    return false;
}
