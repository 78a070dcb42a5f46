/* call_mark.c - what a call tells those who want to know of it. See call.h. */
#include "api/call.h"
#include "prof/names.h"
#include "prof/recorder.h"
#include "prof/ring.h"

/* Bytes of a block for each rank, n times what one has or as they differ. */
static size_t all_blocks(const struct msi_blocks *blocks, int n) {
    size_t bytes = 0;
    if (!blocks->lens) return (size_t)n * blocks->each;
    for (int r = 0; r < n; r++) bytes += blocks->lens[r];
    return bytes;
}

/* The whole message, as it is counted for bandwidths. */
static size_t bytes_of(const struct msi_call *call) {
    enum msi_kind family = msi_kind_family(call->kind);
    if (family == MSI_KIND_SEND || family == MSI_KIND_RECV) return call->message->bytes;
    if (family == MSI_KIND_BARRIER) return 0;
    const struct msi_host_op *host = &call->work->host; /* those above may have none */
    int n = call->group->size;
    switch (family) {
    case MSI_KIND_ALL_GATHER:
        return host->out.lens ? all_blocks(&host->out, n) : (size_t)n * host->in.each;
    case MSI_KIND_REDUCE_SCATTER:
    case MSI_KIND_ALL_TO_ALL:
        return all_blocks(&host->in, n);
    case MSI_KIND_GATHER:
        return (size_t)n * host->in.each;
    case MSI_KIND_SCATTER:
        return (size_t)n * host->out.each;
    default:
        return host->in.each;
    }
}

static enum msi_share share_of(enum msi_kind kind) {
    switch (msi_kind_family(kind)) {
    case MSI_KIND_BARRIER:
        return MSI_SHARE_NONE;
    case MSI_KIND_ALL_REDUCE:
        return MSI_SHARE_TWICE;
    case MSI_KIND_ALL_GATHER:
    case MSI_KIND_REDUCE_SCATTER:
    case MSI_KIND_ALL_TO_ALL:
        return MSI_SHARE_PART;
    default:
        return MSI_SHARE_WHOLE;
    }
}

/* The other's global rank, in a message. */
static int peer_of(const struct msi_call *call) {
    return msi_call_is_message(call) ? msi_group_global_rank(call->group, call->root) : -1;
}

static const char *plain_name(const struct msi_call *call) {
    return call->name + (sizeof "mst_" - 1);
}

/* The name that the call gave itself, or its own. */
static const char *log_name(const struct msi_call *call) {
    const char *name = call->options.log_name;
    return name && *name ? name : plain_name(call);
}

/* Names it, in a group that records know; false: there is no memory for that. */
static bool name_record(const struct msi_call *call, struct msi_record *record) {
    const char *name = log_name(call);
    record->call = plain_name(call);
    record->name = name == record->call ? name : msi_prof_keep(name);
    record->group = msi_group_recorded(call->group);
    return record->name && record->group;
}

static void fill_record(const struct msi_call *call, struct msi_record *record) {
    const mst_call *o = &call->options;
    int flags = o->work ? MSI_RECORD_WORK : 0;
    if (msi_call_is_message(call)) flags |= MSI_RECORD_MESSAGE;
    if (call->kind == MSI_KIND_SEND) flags |= MSI_RECORD_SEND;
    record->seq = *msi_call_number(call);
    record->bytes = bytes_of(call);
    record->file = o->site.file;
    record->function = o->site.function;
    record->line = o->site.line;
    record->peer = peer_of(call);
    record->tag = o->tag;
    record->dtype = (uint8_t)call->dtype;
    record->op = (uint8_t)o->op;
    record->share = (uint8_t)share_of(call->kind);
    record->flags = (uint8_t)flags;
    record->thread = (uint16_t)msi_ring_own_number();
    record->backend = "native";
    record->algorithm = NULL;
    record->started = record->waited = record->end = record->device = 0;
}

static int flight_peer(const struct msi_call *call) {
    int peer = peer_of(call);
    return peer < 0 && msi_call_is_message(call) ? MSI_FLIGHT_ANY : peer;
}

static struct msi_flight_spot fly(const struct msi_call *call, uint64_t tick) {
    mst_group *group = call->group;
    if (!group->flight) group->flight = 1 + msi_flight_group(group->id, group->name, group->size);
    struct msi_flight_about about = {.operation = call->name,
                                     .site = &call->options.site,
                                     .group = group->flight - 1,
                                     .seq = *msi_call_number(call),
                                     .count = call->count,
                                     .peer = flight_peer(call),
                                     .dtype = (int)call->dtype};
    return msi_flight_begin(&about, tick);
}

void msi_call_mark(const struct msi_call *call, unsigned watch, struct msi_mark *mark) {
    uint64_t tick = call->entered ? call->entered : msi_tick();
    mark->on = watch & MSI_WATCH_FLIGHT;
    mark->waits = 0;
    if (watch & MSI_WATCH_FLIGHT) mark->spot = fly(call, tick);
    if (!(watch & MSI_WATCH_RECORD)) return;
    if (!call->options.prof && !msi_recorder_wants(log_name(call))) return;
    if (!name_record(call, &mark->record)) return;
    mark->record.begin = tick;
    fill_record(call, &mark->record);
    mark->on |= MSI_WATCH_RECORD;
}
