/* job.h - supervises the ranks of this node: starts, restarts, their end and their output. */
#ifndef MUSTER_TOOL_RUN_JOB_JOB_H
#define MUSTER_TOOL_RUN_JOB_JOB_H

#include "run/nodes/node_agent.h"
#include "run/output/logs.h"
#include "run/output/routes.h"
#include "run/ranks/bind.h"
#include "run/ranks/rank_states.h"
#include "run/ranks/reaper.h"
#include "run/ranks/signals.h"
#include "run/ranks/worker_env.h"
#include "run/ssh/remote.h"

#include <stdbool.h>
#include <sys/resource.h>

struct job_options {
    int n;               /* ranks of this node */
    const char *program; /* a path */
    char **argv;
    const struct worker_env_facts *facts; /* each generation sets some of them */
    const struct bind *bind;
    struct reaper *reaper;
    struct rank_states *states;
    const struct rlimit *files;  /* the limit on open files of the ranks */
    bool prefix;                 /* gather their output line by line; else they write to the launcher's */
    const struct routes *routes; /* of gathered output; NULL: all of it is shown */
    struct logs *logs;           /* NULL if no route leads to a log */
    int max_restarts;
    double shutdown_seconds; /* how long ranks may take to end after a signal */
    struct signals signals;  /* that end the job */
    bool verbose;
    int colours;                            /* see output.h */
    mst_store *store;                       /* hosted by this launcher; NULL: another launcher hosts it */
    const struct node_agent_options *agent; /* NULL: single node; the job sets loop and events */
    const char *trace;                   /* directory of the ranks' traces and flight recorders; NULL: none */
    const struct remote_options *remote; /* agents to start on other hosts; NULL: none */
};

/*
 * Runs the job and returns the launcher's exit status: 0 if every rank exited with 0, else the exit code of
 * the root cause, 128 + n if signal n ended it or the launcher, 1 if a rank exited with 0 while others waited
 * for it, 2 if the ranks could not be started. After a restart the last generation decides. With several
 * nodes the coordinator decides for all of them. When it returns, no process and no pipe is left.
 */
int job_run(const struct job_options *options);

#endif
