/*
 * reaper.h - a small process that kills what a killed launcher leaves behind.
 *
 * A rank dies with the launcher by itself (PR_SET_PDEATHSIG), but the processes that a rank started do not.
 * The reaper knows the process groups of the ranks and kills them all when the launcher has gone.
 */
#ifndef MUSTER_TOOL_RUN_RANKS_REAPER_H
#define MUSTER_TOOL_RUN_RANKS_REAPER_H

#include <stdatomic.h>
#include <sys/types.h>

struct reaper {
    pid_t pid;
    int lifeline; /* the reaper reads end-of-file from the other end when the launcher has gone */
    int n;
    _Atomic int *groups; /* the process group of each rank, or 0; in memory that all of them share */
};

/*
 * Starts a reaper for at most n ranks. Call it while the process has one thread and no descriptors that a
 * child must not hold open. 0, or a negative errno.
 */
int reaper_open(struct reaper *reaper, int n);

/* Ends the reaper; it kills the groups that are left. Does nothing if reaper_open has failed. */
void reaper_close(struct reaper *reaper);

#endif
