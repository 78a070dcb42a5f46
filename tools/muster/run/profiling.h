/* profiling.h - the options --prof and --trace of "muster run": they set variables for all ranks. */
#ifndef MUSTER_TOOL_RUN_PROFILING_H
#define MUSTER_TOOL_RUN_PROFILING_H

#include "run/run_options.h"

/*
 * Creates the directory of --trace and appends the variables to o->env, as if --env had named them last.
 * run_prof_close frees them; call it before freeing o->env.
 */
mst_status run_prof_open(struct run_options *o);
void run_prof_close(struct run_options *o);

/* The directory to which the ranks of this host write traces, or NULL. */
const char *run_prof_directory(const struct run_options *o);

#endif
