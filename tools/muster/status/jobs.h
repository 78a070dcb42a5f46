/*
 * jobs.h - the jobs whose launchers run on this host. A launcher keeps a memfd that names its job's store; it
 * is found through /proc/PID/fd, so nothing is left after the launcher has ended, however it ended. Only
 * launchers of this user are found.
 */
#ifndef MUSTER_TOOL_STATUS_JOBS_H
#define MUSTER_TOOL_STATUS_JOBS_H

#include "base/address.h"
#include "os/segment.h"

enum { JOBS_MOST = 256, JOBS_RUN_MAX = 256, JOBS_PROGRAM_MAX = 128 };

struct job_card {
    int pid;                            /* of the launcher */
    char address[MSI_ADDRESS_TEXT_MAX]; /* of the store */
    char run[JOBS_RUN_MAX];             /* the job's name; "": another launcher knows it */
    char program[JOBS_PROGRAM_MAX];     /* the command line of a rank, perhaps truncated */
    char secret[48];                    /* where its secret is, as in MUSTER_SECRET_FD; "": the user's */
};

/* Makes the job known as long as the segment is open; fd -1: it could not. run may be NULL. */
struct msi_segment jobs_announce(const struct msi_address *store, const char *run, char *const *argv);

/* Lists at most JOBS_MOST jobs, one launcher of each; returns how many. */
int jobs_find(struct job_card *list);
/* The job of this launcher; false: the process does not exist, is no launcher, or is of another user. */
bool jobs_of(int pid, struct job_card *card);

#endif
