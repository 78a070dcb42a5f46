/*
 * wait_reports.h - what ranks on different hosts leave for each other in the store, where they have no region: whom they wait for,
 * once that takes long, and why they have given up the group.
 *
 * Keys, under the group's: wait/R, the number of the operation and the ranks that rank R waits for in it; gave_up, the rank
 * that did first, the status, the rank it blames, and its words. Where an engine runs the group, nobody knows whom he waits
 * for, and wait/R says instead what was called: the number, a semicolon, the signature, words.
 */
#ifndef MSI_COMM_WAIT_REPORTS_H
#define MSI_COMM_WAIT_REPORTS_H

#include "comm/comm_internal.h"

/*
 * This rank has waited for the operation since then: notes it, if that is long and the note would say something new. The comm's lock is
 * let go of meanwhile.
 */
void msi_wait_report_post(struct msi_comm *comm, const struct mst_work *op, int64_t since, int64_t now);
/* Takes the note back. */
void msi_wait_report_remove(struct msi_comm *comm);

/*
 * The ranks that keep this one waiting in the operation: those it waits for, and whom these wait for by their notes, as far as
 * they do not wait themselves. Writes at most max and returns how many there are.
 */
int msi_wait_report_missing(struct msi_comm *comm, const struct mst_work *op, int *ranks, int max);

/*
 * Where an engine runs the group: does the next rank wait in the same operation with another call? Fails if so. As each looks at
 * its next, two that differ are found wherever there are any.
 */
mst_status msi_wait_report_differs(struct msi_comm *comm, const struct msi_waiting *at, int *culprit);

/* The group has failed here. */
void msi_failure_report_post(struct msi_comm *comm, const struct msi_failure *failure);
/* If a rank has given up the group before this one: fails with what it noted, and *culprit is whom it blames. */
mst_status msi_failure_report_read(struct msi_comm *comm, int *culprit);

#endif
