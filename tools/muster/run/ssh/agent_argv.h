/*
 * agent_argv.h - the command lines of a job's agents, the launchers on other hosts, and the variables that
 * their shells set first. Most of it is the same for all agents and is written once. Runs on the main thread.
 */
#ifndef MUSTER_TOOL_RUN_SSH_AGENT_ARGV_H
#define MUSTER_TOOL_RUN_SSH_AGENT_ARGV_H

#include "cli/text.h"
#include "run/run_options.h"

#include <muster/status.h>

#include <limits.h>

/* Where the agents find the store, and what they run. */
struct agent_job {
    const char *address;
    int port;
    const char *run_id;
    const char *program; /* the path on this machine, NULL: it was not found; then operands[0] */
    char **operands;     /* the program and its arguments, NULL at the end */
};

struct agent_argv {
    const struct agent_job *job;
    int nodes;
    struct msi_buf exports, arguments; /* as in struct agent_script */
    char directory[PATH_MAX], muster[PATH_MAX];
};

/* For a job of so many nodes. job is borrowed. On failure nothing is allocated. */
mst_status agent_argv_open(struct agent_argv *argv, const struct run_options *options,
                           const struct agent_job *job, int nodes);
void agent_argv_close(struct agent_argv *argv);

/* Appends the script of the agent on that node, which gets -n nproc. */
mst_status agent_argv_write(const struct agent_argv *argv, int node, const char *nproc,
                            struct msi_buf *script);

#endif
