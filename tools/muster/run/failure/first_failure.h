/* first_failure.h - which of several ranks that failed is the root cause. */
#ifndef MUSTER_TOOL_RUN_FAILURE_FIRST_FAILURE_H
#define MUSTER_TOOL_RUN_FAILURE_FIRST_FAILURE_H

#include "run/ranks/rank_states.h"
#include "run/ranks/workers.h"

/*
 * Begins with the first rank that failed. If its last error in muster blames a rank of this host that failed as well, of
 * itself, that one is the cause, and so on; ranks that blame each other leave it at the first.
 */
const struct worker *verdict(const struct worker *first, const struct worker *workers, int n,
                             const struct states *states);

/* The rank of the world that a worker's last error in muster blames; -1: none. */
int verdict_blames(const struct worker *worker, const struct states *states);

#endif
