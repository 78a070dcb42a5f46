/* profiling.h - --prof and --trace of "muster run": what the ranks, here and on other hosts, are told of them. */
#ifndef MUSTER_TOOL_RUN_PROFILING_H
#define MUSTER_TOOL_RUN_PROFILING_H

#include "run/run_options.h"

/*
 * Makes the directory of --trace and sets the variables in o->env, as if --env had named them last, so that they reach all nodes.
 * 0, or -1 with why set. run_prof_close frees what was set, before o->env is.
 */
int run_prof_open(struct run_options *o, char *why, size_t why_size);
void run_prof_close(struct run_options *o);

/* The directory that the ranks of this host are told to write traces to; NULL: none. */
const char *run_prof_directory(const struct run_options *o);

#endif
