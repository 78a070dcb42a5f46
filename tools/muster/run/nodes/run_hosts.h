/*
 * run_hosts.h - --hosts and --hostfile: the hosts of a job, which of them is this machine, the rendezvous,
 * and the agents for the other hosts. Nothing is started here; see remote.h. Runs on the main thread.
 */
#ifndef MUSTER_TOOL_RUN_NODES_RUN_HOSTS_H
#define MUSTER_TOOL_RUN_NODES_RUN_HOSTS_H

#include "run/nodes/hosts.h"
#include "run/nodes/rendezvous.h"
#include "run/run_options.h"
#include "run/ssh/agent_argv.h"
#include "run/ssh/remote.h"

enum { RUN_HOSTS_ADDRESS_MAX = 256 };

struct run_hosts {
    struct hosts hosts;                  /* in the order of their node ranks */
    int here;                            /* index of this machine, -1: it is not among them */
    char nproc_here[HOSTS_NPROC_MAX];    /* -n of this machine, if it is among them */
    char address[RUN_HOSTS_ADDRESS_MAX]; /* of this machine, as the others reach it */
    const char **names;                  /* of all hosts */
    struct remote_agent *agents;         /* for all other hosts */
    int n_agents;
    char *ssh; /* the path of ssh, NULL if the user gave a command */
};

/* Reads the options; on failure nothing is allocated. */
mst_status run_hosts_open(struct run_hosts *hosts, const struct run_options *options);
void run_hosts_close(struct run_hosts *hosts);

/* The rendezvous on this machine, whose launcher is the coordinator. */
mst_status run_hosts_rendezvous(const struct run_hosts *hosts, const struct run_options *options,
                                struct rendezvous *rendezvous);

/* The number of other hosts; hosts may be NULL. */
int run_hosts_others(const struct run_hosts *hosts);

/* Fills in agents. */
mst_status run_hosts_prepare(struct run_hosts *hosts, const struct run_options *options,
                             const struct agent_job *job);

#endif
