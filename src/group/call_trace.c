/* call_trace.c - describes a call for the sinks: flight recorder and profiler. See call.h. */
#include "group/call.h"
#include "prof/record/event_ring.h"
#include "prof/record/recorder.h"

/* The bytes of a call, as they are counted for bandwidths. */
static size_t bytes_of(const struct msi_call *call) {
    const struct msi_op *op = call->op;
    if (!op) return 0; /* a call of several operations that failed before its last one */
    if (msi_op_is_message(op)) return msi_op_bytes(op);
    struct msi_blocks in = msi_op_in(op), out = msi_op_out(op);
    switch (op->desc.kind) {
    case MST_KIND_ALL_GATHER:
    case MST_KIND_GATHER:
        return msi_blocks_total(&out, call->group->size);
    case MST_KIND_SCATTER:
    case MST_KIND_REDUCE_SCATTER:
    case MST_KIND_ALL_TO_ALL:
        return msi_blocks_total(&in, call->group->size);
    default:
        return msi_op_bytes(op);
    }
}

/* The peer's global rank in a message; -1 otherwise. */
static int peer_of(const struct msi_call *call) {
    return msi_call_is_message(call) ? msi_group_global_rank(call->group, call->root) : -1;
}

/* Of a receive with any tag that is done: that of the message. */
static int tag_of(const struct msi_call *call) {
    return call->op ? call->op->desc.tag : 0;
}

/* The composed call that this thread is in. */
static _Thread_local struct msi_whole *current;

_Atomic int msi_wholes;

const struct msi_whole *msi_whole_here(const mst_group *group) {
    return current && current->group == group ? current : NULL;
}

/* The composed call that the call is a part of; NULL: none, also inside a callback. */
static struct msi_whole *whole_of(const struct msi_call *call) {
    return msi_whole_of(call->group) ? current : NULL;
}

static uint64_t number_begun(const struct msi_call *call) {
    return atomic_load_explicit(msi_call_number(call), memory_order_relaxed);
}

/* The number of a message is known once it is issued. */
static uint64_t number_of(const struct msi_call *call) {
    return msi_call_is_message(call) ? call->number : number_begun(call);
}

static const char *plain_name(const struct msi_call *call) {
    const struct msi_whole *whole = whole_of(call);
    return (whole ? whole->name : call->name) + (sizeof "mst_" - 1);
}

/* .log_name, or the name of the call. */
static const char *log_name(const struct msi_call *call) {
    const char *name = call->options->log_name;
    return name && *name ? name : plain_name(call);
}

/* Sets name and group; false: no memory. */
static bool name_record(const struct msi_call *call, struct msi_record *record) {
    const char *name = log_name(call);
    record->call = plain_name(call);
    record->name = name == record->call ? name : msi_prof_keep(name);
    record->group = msi_group_recorded(call->group);
    return record->name && record->group;
}

static void fill_record(const struct msi_call *call, struct msi_record *record) {
    const mst_call *o = call->options;
    int flags = o->work ? MSI_RECORD_WORK : 0;
    if (msi_call_is_message(call)) flags |= MSI_RECORD_MESSAGE;
    if (call->kind == MSI_KIND_SEND) flags |= MSI_RECORD_SEND;
    record->seq = number_of(call);
    record->bytes = bytes_of(call);
    record->file = o->site.file;
    record->function = o->site.function;
    record->line = o->site.line;
    record->peer = peer_of(call);
    record->tag = tag_of(call);
    record->dtype = (uint8_t)call->dtype;
    record->op = msi_op_byte((int)o->op);
    record->share = (uint8_t)msi_kind_share(call->kind);
    record->flags = (uint8_t)flags;
    record->thread = (uint16_t)msi_event_ring_own_number();
    record->backend = "native";
    record->algorithm = NULL;
    record->started = record->waited = record->end = record->device = 0;
}

static enum msi_flight_type flight_type(const struct msi_call *call) {
    return call->kind == MSI_KIND_SEND   ? MSI_FLIGHT_SEND
           : call->kind == MSI_KIND_RECV ? MSI_FLIGHT_RECV
                                         : MSI_FLIGHT_COLLECTIVE;
}

static struct msi_flight_entry_ref begin_flight(const struct msi_call *call, uint64_t tick) {
    struct msi_flight_call entry = {.operation = call->name,
                                    .site = &call->options->site,
                                    .group = call->group->flight,
                                    .seq = number_of(call),
                                    .count = call->count,
                                    .dtype = (int)call->dtype,
                                    .type = flight_type(call),
                                    .peer = peer_of(call),
                                    .tag = tag_of(call)};
    return msi_flight_begin(&entry, tick);
}

/* Replaces the values of the last part by those of the composed call. */
static void widen_record(struct msi_whole *whole, struct msi_record *record) {
    whole->recorded = true;
    record->begin = whole->begin;
    record->seq = whole->seq;
    record->bytes = whole->bytes;
    record->dtype = (uint8_t)whole->dtype;
    record->share = (uint8_t)msi_kind_share(whole->kind);
    record->flags &= (uint8_t)~MSI_RECORD_WORK; /* the parts may be works even if the whole is not */
    if (whole->options->work) record->flags |= MSI_RECORD_WORK;
}

void msi_call_trace(const struct msi_call *call, unsigned sinks, struct msi_op_trace *op_trace) {
    uint64_t tick = call->entered ? call->entered : msi_tick();
    op_trace->on = sinks & MSI_SINK_FLIGHT;
    op_trace->waits = 0;
    if (sinks & MSI_SINK_FLIGHT) op_trace->ref = begin_flight(call, tick);
    if (!(sinks & MSI_SINK_RECORD)) return;
    struct msi_whole *whole = whole_of(call);
    if (whole && !whole->seq) whole->seq = number_begun(call);
    if (whole && !whole->last) return;
    if (!call->options->prof && !msi_recorder_wants(log_name(call))) return;
    if (!name_record(call, &op_trace->record)) return;
    op_trace->record.begin = tick;
    fill_record(call, &op_trace->record);
    if (whole && whole->begin) widen_record(whole, &op_trace->record);
    op_trace->on |= MSI_SINK_RECORD;
}

mst_status msi_whole_begin(struct msi_whole *whole) {
    mst_status st = msi_gate_enter(whole->group);
    if (st != MST_OK) return st;
    whole->begin = msi_sinks_on() & MSI_SINK_RECORD ? msi_tick() : 0;
    whole->outer = current;
    current = whole;
    atomic_fetch_add_explicit(&msi_wholes, 1, memory_order_relaxed);
    return MST_OK;
}

static void record_failure(struct msi_whole *whole, mst_status status) {
    struct msi_op_trace op_trace;
    struct msi_call call = {.options = whole->options, .group = whole->group, .kind = MSI_KIND_BARRIER};
    whole->last = true;
    msi_call_trace(&call, MSI_SINK_RECORD, &op_trace);
    msi_op_trace_end(&op_trace, status);
}

mst_status msi_whole_end(struct msi_whole *whole, mst_status status) {
    if (status != MST_OK && whole->seq && whole->begin && !whole->recorded) record_failure(whole, status);
    current = whole->outer;
    atomic_fetch_sub_explicit(&msi_wholes, 1, memory_order_relaxed);
    msi_gate_leave(whole->group);
    return status;
}
