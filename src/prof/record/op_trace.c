/* op_trace.c - see op_trace.h. */
#include "prof/record/op_trace.h"
#include "prof/flight/dump.h"
#include "prof/record/recorder.h"

void msi_op_trace_start_slowly(struct msi_op_trace *mark) {
    if (mark->on & MSI_WATCH_RECORD) mark->record.started = msi_tick();
    if (mark->on & MSI_WATCH_FLIGHT) msi_flight_started(mark->ref);
}

void msi_op_trace_end_slowly(struct msi_op_trace *mark, mst_status status) {
    unsigned on = mark->on;
    uint64_t now = on & MSI_WATCH_RECORD || status != MST_OK ? msi_tick() : 0;
    mark->on = 0;
    if (on & MSI_WATCH_FLIGHT) msi_flight_done(mark->ref, status == MST_OK, now);
    if (!(on & MSI_WATCH_RECORD)) return;
    struct msi_record *r = &mark->record;
    if (!r->end) r->end = now;
    r->status = (uint8_t)status;
    if (!r->started) r->started = r->begin;
    if (mark->waits) r->waited += now - mark->waits;
    if (!(r->flags & MSI_RECORD_WORK)) r->waited = r->end - r->begin;
    msi_recorder_add(r);
}

void msi_op_trace_enqueued(struct msi_op_trace *mark) {
    if (mark->on & MSI_WATCH_RECORD) mark->record.end = msi_tick();
    if (mark->on & MSI_WATCH_FLIGHT) msi_flight_done(mark->ref, true, 0);
    mark->on &= ~(unsigned)MSI_WATCH_FLIGHT;
}

void msi_op_trace_failed(struct msi_op_trace *mark, mst_status status) {
    const mst_error_info *error = mst_last_error();
    bool flies = mark->on & MSI_WATCH_FLIGHT;
    msi_op_trace_end(mark, status);
    if (!flies || mst_status_scope(status) < MST_SCOPE_GROUP) return;
    msi_flight_note(status, error->message, error->culprit);
    msi_flight_keep();
}
