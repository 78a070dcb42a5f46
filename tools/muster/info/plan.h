/* plan.h - "muster info --plan": the algorithm of a collective, why it is chosen, and the steps of a rank. */
#ifndef MUSTER_TOOL_INFO_PLAN_H
#define MUSTER_TOOL_INFO_PLAN_H

#include "cli/options.h"

struct plan_options {
    const char *kind; /* NULL: --plan was not given */
    const char *bytes, *dtype;
    const char *algo, *model; /* NULL: from the environment */
    long ranks, hosts, rank, root;
    bool deterministic;
};

/* Prints the plan and returns the exit status. */
int info_plan(const struct opt_command *command, const struct plan_options *wanted);

#endif
