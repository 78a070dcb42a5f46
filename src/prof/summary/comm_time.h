/*
 * comm_time.h - the one definition of communication time and waiting time. The profile's table and JSON and
 * "muster report" use it; the report's page computes the same (report/web/data.js). Pure.
 *
 *     begin                        arrived                end
 *       |----------------------------|---------------------|    the operation
 *                      |-------------|---------------------|    communication: the program is blocked
 *                          waiting          transfer
 *
 * Communication time is the time that a call blocks the program: the whole time of a blocking call, and the
 * time in mst_wait for a work, which ends with the work. Waiting is the part of it before the last rank of
 * the group has begun the call; for a receive, before the sender has begun the send. A send does not wait.
 * The rest is transfer. All of a failed call is waiting. If it is not known when the others began, none is.
 */
#ifndef MSI_PROF_SUMMARY_COMM_TIME_H
#define MSI_PROF_SUMMARY_COMM_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* took: the time of the operation; waited: of a work, the time in mst_wait. */
static inline int64_t msi_comm_time(bool work, int64_t took, int64_t waited) {
    if (!work || waited > took) return took;
    return waited > 0 ? waited : 0;
}

/* comm: the communication time of an operation that ends at end; arrived: when the last rank began. */
static inline int64_t msi_waiting_time(int64_t end, int64_t comm, int64_t arrived) {
    int64_t transfer = end - arrived;
    return transfer >= comm ? 0 : transfer > 0 ? comm - transfer : comm;
}

#endif
