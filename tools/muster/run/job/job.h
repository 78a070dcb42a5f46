/* job.h - supervises the workers from the first start, over restarts, to the last byte of their output. */
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
    const struct worker_env_facts *facts; /* but for what each generation has of its own */
    const struct bind *bind;
    struct reaper *reaper;
    struct rank_states *states;
    const struct rlimit *files;  /* the limit on open files to give to the workers */
    bool prefix;                 /* gather their output line by line; else they share the launcher's */
    const struct routes *routes; /* where it goes, if it is gathered; NULL: all of it is shown */
    struct logs *logs;           /* NULL where the routes lead to none */
    int max_restarts;            /* so often all are started again after one failed */
    double shutdown_seconds;     /* how long they may take to end once asked */
    struct signals signals;      /* which end the job */
    bool verbose;
    int colours;      /* see output.h */
    mst_store *store; /* that this launcher hosts; NULL: another does */
    const struct company_options
        *company;      /* of the other nodes; loop and events are the job's; NULL: there are none */
    const char *trace; /* directory of the ranks' traces and flight recorders; NULL: none */
    const struct remote_options *remote; /* agents to start on other hosts; NULL: none */
};

/*
 * Runs the job and returns the launcher's exit status: 0 if every worker exited with 0, else the exit code of the root
 * cause, 128 + n if signal n ended it or the launcher, 1 if it exited with 0 while others waited to meet it, 2 if they
 * could not be started. After a restart the last generation decides. In company the head decides for all nodes.
 * When it returns, no process and no pipe is left.
 */
int job_run(const struct job_options *options);

#endif
