/* first_failure.h - finds the root cause among several ranks that failed. */
#ifndef MUSTER_TOOL_RUN_FAILURE_FIRST_FAILURE_H
#define MUSTER_TOOL_RUN_FAILURE_FIRST_FAILURE_H

#include "run/ranks/rank_states.h"
#include "run/ranks/workers.h"

/*
 * Follows blame from the first rank that failed: if its last error in muster names a rank of this host that
 * also ended of itself, that rank is the cause, and so on. If ranks blame each other in a circle, the first
 * one is the cause.
 */
const struct worker *first_failure(const struct worker *first, const struct worker *workers, int n,
                                   const struct rank_states *states);

/* The rank of the world that a worker's last error in muster blames, or -1. */
int first_failure_culprit(const struct worker *worker, const struct rank_states *states);

#endif
