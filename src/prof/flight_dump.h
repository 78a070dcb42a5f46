/*
 * flight_dump.h - this process's flight recorder into a file: where the program asks for it, and, where there is a directory for traces,
 * when an operation fails in a way that ends its group. Any thread.
 */
#ifndef MSI_PROF_FLIGHT_DUMP_H
#define MSI_PROF_FLIGHT_DUMP_H

#include <muster/status.h>

/* Who this process is, and the directory for its file; "": there is none. The world that was opened last counts. */
void msi_flight_home(const char *directory, int rank, int size, const char *host);

/*
 * An operation has failed: writes DIR/rank-R.flight.json over what was there, unless it did so within the last second. What fails
 * there is said once in the log, and leaves the thread's last error alone.
 */
void msi_flight_failed(mst_status status, const char *message, int culprit);

mst_status msi_flight_dump(const char *path);

#endif
