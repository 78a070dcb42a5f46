/*
 * run_hosts.h - --hosts and --hostfile: the hosts of a job, which of them is this machine, the rendezvous,
 * and the agents for the other hosts. Nothing is started here; see remote.h. Runs on the main thread.
 */
#ifndef MUSTER_TOOL_RUN_NODES_RUN_HOSTS_H
#define MUSTER_TOOL_RUN_NODES_RUN_HOSTS_H

#include "run/nodes/hosts.h"
#include "run/nodes/rendezvous.h"
#include "run/ranks/workers.h"
#include "run/run_options.h"
#include "run/ssh/remote.h"

struct run_hosts {
    struct hosts hosts;               /* in the order of their node ranks */
    int here;                         /* index of this machine, -1: it is not among them */
    char nproc_here[HOSTS_NPROC_MAX]; /* -n of this machine, if it is among them */
    char address[64];                 /* of this machine, as the others reach it */
    struct remote_options remote;     /* ssh and the agents for all other hosts; the job sets the rest */
};

/* Reads the options into a zeroed struct. Call run_hosts_close in any case. */
mst_status run_hosts_open(struct run_hosts *hosts, const struct run_options *options);
void run_hosts_close(struct run_hosts *hosts);

/* The rendezvous on this machine, whose launcher is the coordinator. */
mst_status run_hosts_rendezvous(const struct run_hosts *hosts, const struct run_options *options,
                                struct rendezvous *rendezvous);

/* The number of other hosts. */
int run_hosts_others(const struct run_hosts *hosts);

/*
 * ssh/agent_argv.c: fills in the agents, which run what workers says. If its program is NULL, this machine
 * does not have it; then they search argv[0]. facts holds the address of the store and the run id.
 */
mst_status run_hosts_prepare(struct run_hosts *hosts, const struct run_options *options,
                             const struct worker_env_facts *facts, const struct workers_options *workers,
                             const char *secret);

#endif
