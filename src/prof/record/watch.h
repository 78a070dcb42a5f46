/* watch.h - who wants to know of operations. Nobody, and a call costs one branch more than without all this. */
#ifndef MSI_PROF_RECORD_WATCH_H
#define MSI_PROF_RECORD_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

enum msi_watch {
    MSI_WATCH_RANK_STATE = 1, /* the launcher: base/rank_state.h */
    MSI_WATCH_FLIGHT = 2,     /* the flight recorder: prof/flight/flight.h */
    MSI_WATCH_RECORD = 4,     /* the profiler: prof/record/recorder.h */
};

/* Changed by msi_watch_set (release) before what it is for may be used, read by msi_watch_on (acquire). */
__attribute__((visibility("hidden"))) extern _Atomic unsigned msi_watched;

static inline unsigned msi_watch_on(void) {
    return atomic_load_explicit(&msi_watched, memory_order_acquire);
}

static inline void msi_watch_set(enum msi_watch who, bool on) {
    if (on)
        atomic_fetch_or_explicit(&msi_watched, (unsigned)who, memory_order_release);
    else
        atomic_fetch_and_explicit(&msi_watched, ~(unsigned)who, memory_order_release);
}

#endif
