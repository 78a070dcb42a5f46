/*
 * reaper.h - a small process that outlives the launcher by a moment, to end what a killed launcher leaves.
 *
 * A rank dies with the launcher by itself (PR_SET_PDEATHSIG), but the processes a rank started do not. The
 * warden knows the ranks' process groups and kills them all once the launcher is gone without a farewell.
 */
#ifndef MUSTER_TOOL_RUN_RANKS_REAPER_H
#define MUSTER_TOOL_RUN_RANKS_REAPER_H

#include <stdatomic.h>
#include <sys/types.h>

/* In memory that launcher, warden and ranks share. */
struct warden_slot {
    _Atomic int group; /* the process group of one rank, 0 where there is none */
};

struct warden {
    pid_t pid;
    int lifeline; /* its other end reads end-of-file when the launcher is gone */
    int n;
    struct warden_slot *slots;
};

/*
 * Starts a warden over at most n ranks. To be called while the process has one thread and no descriptors
 * that it must not share. 0, or a negative errno.
 */
int warden_open(struct warden *warden, int n);

/* Ends the warden; whatever groups it still knows are killed. */
void warden_close(struct warden *warden);

#endif
