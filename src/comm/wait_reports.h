/*
 * wait_reports.h - what ranks report to each other in the store, where they share no memory: which ranks they
 * wait for, once that takes long, and why the group has failed.
 *
 * Keys, under the communicator's:
 *   wait/R      the number of the collective in which rank R waits, ranks that it waits for, a semicolon, the
 *               hashes of the call and of those before it, and the call as text; if it waits for a message,
 *               the number of its last collective and the rank at the other end, -1: any
 *   gave_up     the first rank that failed, the status, the global rank that it blames (MSI_BLAMES_ABORT or
 *               less: it has aborted the group), and its message
 *   failed      the ranks that have failed, each with a space
 *   rejected.N  the first and the last number of successive collectives that a rank rejected because of their
 *               arguments, the rank, and the call and the reason of the first; N is the rank modulo 8
 */
#ifndef MSI_COMM_WAIT_REPORTS_H
#define MSI_COMM_WAIT_REPORTS_H

#include "comm/comm_internal.h"

/*
 * This rank has waited for the operation since then: reports it, if that is long and the report is new.
 * Releases the communicator's lock meanwhile.
 */
void msi_wait_report_post(struct msi_comm *comm, const struct mst_work *work, int64_t since, int64_t now);
/* Deletes the report. */
void msi_wait_report_remove(struct msi_comm *comm);
/* The operation of the report is over: deletes it, unless the group has failed. Releases the communicator's
 * lock meanwhile. */
void msi_wait_report_withdraw(struct msi_comm *comm);

/*
 * The ranks that keep this rank waiting in the operation. Begins with the ranks that it waits for, and
 * replaces each one that waits itself by those in its report. Writes at most max and returns how many there
 * are. *all_wait: so do these ranks, of which none is to blame more than another; NULL: not asked.
 */
int msi_wait_report_missing(struct msi_comm *comm, const struct mst_work *work, int *ranks, int max,
                            bool *all_wait);

/*
 * Fails if a rank that waits too has made another call. Compares with the next rank, so that a difference
 * among ranks that all wait is found somewhere, and with ranks that this one waits for.
 */
mst_status msi_wait_report_compare(struct msi_comm *comm, const struct msi_waiting *at, int *culprit);

/* Reports that the group has failed here. Most callers ignore the status. */
mst_status msi_failure_report_post(struct msi_comm *comm, const struct msi_failure *failure);
/* Have all ranks reported that, or another failure, but lost ranks and the one to blame? */
bool msi_failure_report_by_all(struct msi_comm *comm);
/* If another rank has reported a failure of the group: fails with its message, and *culprit is the rank
 * that it blames. by is the rank whose report counts; -1: any. An abort counts from any rank. */
enum { MSI_ABORTS_ONLY = -2 };
/* The culprit of an abort; less by 1 + R if its cause is the loss of rank R. */
enum { MSI_BLAMES_ABORT = -2 };
mst_status msi_failure_report_read(struct msi_comm *comm, int by, int *culprit);

enum { MSI_REJECTED_KEYS = 8 };
/* Reports the collectives that this rank has rejected. */
void msi_rejection_post(struct msi_comm *comm, const struct msi_rejected *rejected);
/* If a rank has rejected the collective with that number, which this rank calls: fails with MST_ERR_MISMATCH,
 * and *culprit is the rank. */
mst_status msi_rejection_read(struct msi_comm *comm, uint64_t seq, const struct msi_call_signature *own,
                              int *culprit);

#endif
