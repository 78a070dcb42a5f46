/*
 * dump.h - writes this process's flight recorder to a file: when the program asks for it, and, if there is a
 * trace directory, when an operation fails in a way that ends its group. Any thread.
 */
#ifndef MSI_PROF_FLIGHT_DUMP_H
#define MSI_PROF_FLIGHT_DUMP_H

#include "prof/record/record.h"

#include <stdatomic.h>

/*
 * Sets which rank this process is, and the directory for its file; "": none. The first of several worlds
 * counts until it is cleared. Its values stay until another world is set.
 */
void msi_flight_set_world(const void *world, const char *directory, const struct msi_rank_id *id);
void msi_flight_clear_world(const void *world);

/*
 * Notes that an operation has failed; does no I/O, so that the caller may hold locks. The first failure stays
 * until msi_flight_keep, which writes DIR/rank-R.flight.json unless it did so within the last second. A
 * failure to write is logged once and does not change the thread's last error.
 */
void msi_flight_note(mst_status status, const char *message, int culprit);
void msi_flight_keep(void);

/* Changed under a lock; a thread that misses a change leaves the work to others. */
__attribute__((visibility("hidden"))) extern _Atomic bool msi_flight_noted;
static inline bool msi_flight_is_noted(void) {
    return atomic_load_explicit(&msi_flight_noted, memory_order_relaxed);
}

mst_status msi_flight_dump(const char *path);

#endif
