/*
 * run_hosts.h - --hosts and --hostfile: which hosts take part, which of them is this one, where they meet, and
 * the agents of the others. Nothing is started here; see remote.h.
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
    struct hosts hosts;                  /* in the order of their numbers as nodes */
    int here;                            /* which of them is this machine, -1: none */
    char nproc_here[HOSTS_NPROC_MAX];    /* -n of this machine, if it is one of them */
    char address[RUN_HOSTS_ADDRESS_MAX]; /* where the others find this machine */
    const char **names;                  /* of all hosts */
    struct remote_agent *agents;         /* of all but this machine; they belong to this struct */
    int n_agents;
    char *ssh; /* the path of ssh, NULL where the user has a command of his own */
};

/* What the options say. 0, or -1 with why set; then nothing is held. */
int run_hosts_open(struct run_hosts *hosts, const struct run_options *options, char *why, size_t why_size);

/* Where they meet: on this machine, whose launcher is the head. 0, or -1 with why set. */
int run_hosts_meeting(const struct run_hosts *hosts, const struct run_options *options,
                      struct meeting *meeting, char *why, size_t why_size);

/* How many of the hosts are others; hosts may be NULL. */
int run_hosts_others(const struct run_hosts *hosts);

/* Fills in agents. 0, or -1 with why set. */
int run_hosts_prepare(struct run_hosts *hosts, const struct run_options *options, const struct agent_job *job,
                      char *why, size_t why_size);
void run_hosts_close(struct run_hosts *hosts);

#endif
