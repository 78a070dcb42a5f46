/*
 * node_agent.h - the part of a launcher that talks to the launchers of the job's other nodes: it reports what
 * its ranks do and passes on the coordinator's orders. On the node that hosts the store it contains the
 * coordinator (coordinator.h). All of it runs on the loop's thread.
 */
#ifndef MUSTER_TOOL_RUN_NODES_NODE_AGENT_H
#define MUSTER_TOOL_RUN_NODES_NODE_AGENT_H

#include "run/failure/survivors.h"
#include "run/nodes/hosts.h"
#include "run/nodes/node_msg.h"
#include "run/nodes/rendezvous.h"
#include "run/output/output.h"
#include "run/ranks/worker_env.h"

struct node_agent;

struct node_agent_events {
    void (*on_start)(void *arg, const struct node_assignment *assignment); /* start the ranks */
    void (*on_stop)(void *arg, int signal, const char *why); /* end the ranks; signal as in struct order */
    void (*on_signal)(void *arg, int signal);           /* send the ranks a signal that does not end them */
    void (*on_rank)(void *arg, int rank, bool replace); /* the answer when a rank has died */
    void (*on_alone)(void *arg, bool alone);            /* see ORDER_ALONE */
    void (*on_end)(void *arg, int status, const char *why); /* the last event */
    void *arg;
};

struct node_agent_options {
    uv_loop_t *loop;
    struct output *output;
    const struct rendezvous *rendezvous;
    mst_store *store;   /* hosted by this launcher, which is the coordinator; NULL: join another */
    const char *run_id; /* of the job; NULL: the coordinator's */
    int n;              /* ranks of this node; 0: it only coordinates */
    int max_restarts;
    struct survive_options survive;
    double shutdown_seconds;
    const struct host *hosts; /* see coordinator.h */
    bool quiet; /* all launchers share one stderr: the coordinator alone says what concerns all */
    struct node_agent_events events;
};

/*
 * 0, or a negative errno. options is copied, what it points to is borrowed. If *agent is set, close and free
 * it even after a failure.
 */
int node_agent_open(struct node_agent **agent, const struct node_agent_options *options);

/* A rank of this node has failed; text is one line. */
void node_agent_report_failure(struct node_agent *agent, const char *text);

/* With --survive: an event of a rank of this node: rank, event, waited, text. */
void node_agent_report_rank(struct node_agent *agent, struct notice event);

/* All ranks of this node have exited. The agent sets kind, ticket and generation. */
void node_agent_report_stopped(struct node_agent *agent, struct notice outcome);

/* On the coordinator: sends the signal to the ranks of the other nodes. Elsewhere it does nothing. */
void node_agent_forward_signal(struct node_agent *agent, int signal);

/* This launcher got a signal to end. The coordinator ends the job, others leave it. SIGKILL: at once. */
void node_agent_interrupt(struct node_agent *agent, int signal);

/* On the coordinator: ends the job, because a launcher that it started is gone. Elsewhere it does nothing. */
void node_agent_fail(struct node_agent *agent, int status, const char *text);

/* Sends all that was reported. Run the loop once more before node_agent_free. */
void node_agent_close(struct node_agent *agent);
void node_agent_free(struct node_agent *agent);

#endif
