/* op_trace.c - see op_trace.h. */
#include "prof/record/op_trace.h"
#include "prof/flight/dump.h"
#include "prof/record/recorder.h"

_Atomic unsigned msi_sinks;

void msi_op_trace_start_slowly(struct msi_op_trace *trace) {
    if (trace->on & MSI_SINK_RECORD) trace->record.started = msi_tick();
    if (trace->on & MSI_SINK_FLIGHT) msi_flight_started(trace->ref);
}

void msi_op_trace_end_slowly(struct msi_op_trace *trace, mst_status status) {
    unsigned on = trace->on;
    uint64_t now = on & MSI_SINK_RECORD || status != MST_OK ? msi_tick() : 0;
    trace->on = 0;
    if (on & MSI_SINK_FLIGHT) msi_flight_done(trace->ref, status == MST_OK, now);
    if (!(on & MSI_SINK_RECORD)) return;
    struct msi_record *r = &trace->record;
    if (!r->end) r->end = now;
    r->status = (uint8_t)status;
    if (!r->started) r->started = r->begin;
    if (trace->waits) r->waited += now - trace->waits;
    if (!(r->flags & MSI_RECORD_WORK)) r->waited = r->end - r->begin;
    msi_recorder_add(r);
}

void msi_op_trace_enqueued(struct msi_op_trace *trace) {
    if (trace->on & MSI_SINK_RECORD) trace->record.end = msi_tick();
    if (trace->on & MSI_SINK_FLIGHT) msi_flight_done(trace->ref, true, 0);
    trace->on &= ~(unsigned)MSI_SINK_FLIGHT;
}

void msi_op_trace_failed(struct msi_op_trace *trace, mst_status status) {
    const mst_error_info *error = mst_last_error();
    bool in_flight = trace->on & MSI_SINK_FLIGHT;
    msi_op_trace_end(trace, status);
    if (!in_flight || mst_status_scope(status) < MST_SCOPE_GROUP) return;
    msi_flight_note(status, error->message, error->culprit);
    msi_flight_keep();
}
