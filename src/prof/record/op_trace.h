/*
 * op_trace.h - which sinks want to know of operations, and what an operation carries for them. With no sink,
 * a call costs one branch. The call fills in the op_trace before the operation begins; the engine updates it.
 * One thread at a time has an operation, and with it its op_trace.
 */
#ifndef MSI_PROF_RECORD_OP_TRACE_H
#define MSI_PROF_RECORD_OP_TRACE_H

#include "prof/flight/flight.h"
#include "prof/record/record.h"

enum msi_sink {
    MSI_SINK_RANK_STATE = 1, /* the launcher: base/rank_state.h */
    MSI_SINK_FLIGHT = 2,     /* the flight recorder: prof/flight/flight.h */
    MSI_SINK_RECORD = 4,     /* the profiler: prof/record/recorder.h */
    MSI_SINK_CAUSE = 8,      /* a call has failed, and the next success is to be told: group/cause.c */
};

/* Bits of enum msi_sink. Stored (release) after the sink is ready, loaded (acquire) by msi_sinks_on. */
__attribute__((visibility("hidden"))) extern _Atomic unsigned msi_sinks;

static inline unsigned msi_sinks_on(void) {
    return atomic_load_explicit(&msi_sinks, memory_order_acquire);
}

static inline void msi_sink_set(enum msi_sink sink, bool on) {
    if (on)
        atomic_fetch_or_explicit(&msi_sinks, (unsigned)sink, memory_order_release);
    else
        atomic_fetch_and_explicit(&msi_sinks, ~(unsigned)sink, memory_order_release);
}

struct msi_op_trace {
    unsigned on; /* MSI_SINK_FLIGHT, MSI_SINK_RECORD; 0: no sink, and the other fields are undefined */
    struct msi_flight_entry_ref ref;
    uint64_t waits; /* tick at which the program began to wait for it; 0: it does not wait */
    struct msi_record record;
};

void msi_op_trace_start_slowly(struct msi_op_trace *trace);
void msi_op_trace_end_slowly(struct msi_op_trace *trace, mst_status status);

/* The operation was enqueued on a stream, and the call returns; its time on the device may follow. */
void msi_op_trace_enqueued(struct msi_op_trace *trace);
/* The operation failed before it began; the thread's last error says why. */
void msi_op_trace_failed(struct msi_op_trace *trace, mst_status status);

/* The operation reached the front of its queue. */
static inline void msi_op_trace_start(struct msi_op_trace *trace) {
    if (trace->on) msi_op_trace_start_slowly(trace);
}

/* Sets the number of a message (message_seq.h). */
static inline void msi_op_trace_number(struct msi_op_trace *trace, uint64_t number) {
    if (trace->on & MSI_SINK_FLIGHT) msi_flight_number(trace->ref, number);
    trace->record.seq = number;
}
/* Sets the source and the tag of a receive that left one of them open. */
static inline void msi_op_trace_match(struct msi_op_trace *trace, int peer, int tag) {
    if (trace->on & MSI_SINK_FLIGHT) msi_flight_match(trace->ref, peer, tag);
    trace->record.tag = tag;
}

/* The operation has finished; switches the trace off. */
static inline void msi_op_trace_end(struct msi_op_trace *trace, mst_status status) {
    if (trace->on == MSI_SINK_FLIGHT) {
        msi_flight_done(trace->ref, status == MST_OK, status == MST_OK ? 0 : msi_tick());
        trace->on = 0;
    } else if (trace->on) {
        msi_op_trace_end_slowly(trace, status);
    }
}

/* The program begins to wait for the operation, and stops. */
static inline void msi_op_trace_wait(struct msi_op_trace *trace) {
    if (trace->on) trace->waits = msi_tick();
}
static inline void msi_op_trace_leave(struct msi_op_trace *trace) {
    if (trace->on && trace->waits) trace->record.waited += msi_tick() - trace->waits;
    trace->waits = 0;
}

#endif
