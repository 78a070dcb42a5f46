/* job.h - supervises the ranks of this node: starts, restarts, their end and their output. */
#ifndef MUSTER_TOOL_RUN_JOB_JOB_H
#define MUSTER_TOOL_RUN_JOB_JOB_H

#include "run/failure/survivors.h"
#include "run/nodes/node_agent.h"
#include "run/output/output.h"
#include "run/ranks/rank_states.h"
#include "run/ranks/signals.h"
#include "run/ranks/workers.h"
#include "run/ssh/remote.h"

struct job_options {
    struct workers_options workers; /* the job sets what changes with a generation, and the callback */
    struct output_options output;   /* likewise, the numbers and the callbacks */
    const struct worker_env_facts *facts;
    struct rank_states *states;
    int max_restarts;
    struct survive_options survive;
    double shutdown_seconds; /* how long ranks may take to end after a signal */
    sigset_t signals;        /* that end the job */
    bool verbose;
    mst_store *store;                       /* hosted by this launcher; NULL: another launcher hosts it */
    const struct node_agent_options *agent; /* NULL: single node; the job sets loop and events */
    const char *trace;                   /* directory of the ranks' traces and flight recorders; NULL: none */
    const struct remote_options *remote; /* agents to start on other hosts; NULL: none */
};

/*
 * Runs the job and returns the launcher's exit status: 0 if every rank exited with 0, or with --survive
 * every rank that did not die; else the exit code of the root cause, 128 + n if signal n ended it or the
 * launcher, 1 if a rank exited with 0 while others waited for it, 2 if the ranks could not be started. After
 * a restart the last generation decides. With several nodes the coordinator decides for all of them. When it
 * returns, no process and no pipe is left.
 */
int job_run(const struct job_options *options);

#endif
