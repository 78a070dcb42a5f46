/*
 * op_trace.h - what an operation carries with it where somebody wants to know of it: filled in by its call, before it begins, and by
 * the engine as it goes on. One thread at a time has an operation, and with it its mark.
 */
#ifndef MSI_PROF_RECORD_OP_TRACE_H
#define MSI_PROF_RECORD_OP_TRACE_H

#include "prof/flight/flight.h"
#include "prof/record/record.h"
#include "prof/record/watch.h"

struct msi_op_trace {
    unsigned on; /* MSI_WATCH_FLIGHT, MSI_WATCH_RECORD; 0: nobody wants to know, and the rest is undefined */
    struct msi_flight_entry_ref ref;
    uint64_t waits; /* since when the program has waited for it; 0: it does not */
    struct msi_record record;
};

void msi_op_trace_start_slowly(struct msi_op_trace *mark);
void msi_op_trace_end_slowly(struct msi_op_trace *mark, mst_status status);

/* It was ordered on a stream, and the call is over; what it takes on the device may follow. */
void msi_op_trace_enqueued(struct msi_op_trace *mark);
/* It never began, for what the thread's last error says. */
void msi_op_trace_failed(struct msi_op_trace *mark, mst_status status);

/* It has come to the front of its queue. */
static inline void msi_op_trace_start(struct msi_op_trace *mark) {
    if (mark->on) msi_op_trace_start_slowly(mark);
}

/* It is a message, the so many-th: see message_seq.h. */
static inline void msi_op_trace_number(struct msi_op_trace *mark, uint64_t number) {
    if (mark->on & MSI_WATCH_FLIGHT) msi_flight_number(mark->ref, number);
    mark->record.seq = number;
}
/* From any source, and this is it. */
static inline void msi_op_trace_peer(struct msi_op_trace *mark, int peer) {
    if (mark->on & MSI_WATCH_FLIGHT) msi_flight_peer(mark->ref, peer);
}

/* It is over; from here on nobody looks. */
static inline void msi_op_trace_end(struct msi_op_trace *mark, mst_status status) {
    if (mark->on == MSI_WATCH_FLIGHT) {
        msi_flight_done(mark->ref, status == MST_OK, status == MST_OK ? 0 : msi_tick());
        mark->on = 0;
    } else if (mark->on) {
        msi_op_trace_end_slowly(mark, status);
    }
}

/* The program begins to wait for it, and stops. */
static inline void msi_op_trace_wait(struct msi_op_trace *mark) {
    if (mark->on) mark->waits = msi_tick();
}
static inline void msi_op_trace_leave(struct msi_op_trace *mark) {
    if (mark->on && mark->waits) mark->record.waited += msi_tick() - mark->waits;
    mark->waits = 0;
}

#endif
