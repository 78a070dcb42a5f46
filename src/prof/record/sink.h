/* sink.h - which sinks want to know of operations. With none, a call costs one branch. */
#ifndef MSI_PROF_RECORD_SINK_H
#define MSI_PROF_RECORD_SINK_H

#include <stdatomic.h>
#include <stdbool.h>

enum msi_sink {
    MSI_SINK_RANK_STATE = 1, /* the launcher: base/rank_state.h */
    MSI_SINK_FLIGHT = 2,     /* the flight recorder: prof/flight/flight.h */
    MSI_SINK_RECORD = 4,     /* the profiler: prof/record/recorder.h */
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

#endif
