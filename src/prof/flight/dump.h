/*
 * dump.h - this process's flight recorder into a file: where the program asks for it, and, where there is a directory for traces,
 * when an operation fails in a way that ends its group. Any thread.
 */
#ifndef MSI_PROF_FLIGHT_DUMP_H
#define MSI_PROF_FLIGHT_DUMP_H

#include <muster/status.h>
#include <stdatomic.h>
#include <stdbool.h>

/*
 * Who this process is in a world, and the directory for its file; "": there is none. Of several worlds that which was opened first counts,
 * as long as it is there: the default one, in nearly all programs. What was said of the last stays.
 */
void msi_flight_home(const void *world, const char *directory, int rank, int size, const char *host);
void msi_flight_leave_home(const void *world);

/*
 * An operation has failed: notes that, which is done at once, so that locks may be held. The first one stays until msi_flight_keep, which
 * writes DIR/rank-R.flight.json over what was there, unless that was done within the last second, or waits for whoever does so. What
 * fails there is said once in the log, and leaves the thread's last error alone.
 */
void msi_flight_note(mst_status status, const char *message, int culprit);
void msi_flight_keep(void);

/* Changed under a lock; whoever sees it too late leaves it to others. */
__attribute__((visibility("hidden"))) extern _Atomic bool msi_flight_noted;
static inline bool msi_flight_is_noted(void) {
    return atomic_load_explicit(&msi_flight_noted, memory_order_relaxed);
}

mst_status msi_flight_dump(const char *path);

#endif
