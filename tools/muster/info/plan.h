/* plan.h - "muster info --plan": what a collective would do, and why that. */
#ifndef MUSTER_TOOL_INFO_PLAN_H
#define MUSTER_TOOL_INFO_PLAN_H

#include "cli/options.h"

struct plan_options {
    const char *kind; /* NULL: not asked for */
    const char *bytes, *dtype;
    const char *algo, *model; /* NULL: as the environment says */
    long ranks, hosts, rank, root;
    bool deterministic;
};

/* Prints it and returns the exit status; a mistake is said in the command's name. */
int info_plan(const struct opt_command *command, const struct plan_options *wanted);

#endif
