/*
 * node_agent.h - a launcher among those of the job's other nodes: it tells them how its ranks fare, and is told what to do. On the
 * node that hosts the store the one who decides is in here as well (coordinator.h). All of it runs on the loop's thread.
 */
#ifndef MUSTER_TOOL_RUN_NODES_NODE_AGENT_H
#define MUSTER_TOOL_RUN_NODES_NODE_AGENT_H

#include <muster/muster.h>

#include <stdbool.h>
#include <uv.h>

struct company;

/* A generation, as seen from one node. */
struct company_place {
    int generation;
    int first_rank, world_size;
    int node, nodes; /* which of how many */
};

struct company_events {
    void (*on_go)(void *arg,
                  const struct company_place *place); /* start the ranks; node is -1: none of them here */
    void (*on_stop)(void *arg, int signal,
                    const char *why);       /* end them; 0: let them say first what they know */
    void (*on_pass)(void *arg, int signal); /* a signal for the ranks, which does not end them */
    void (*on_end)(void *arg, int status, const char *why); /* nothing comes behind this */
    void (*on_say)(void *arg, const char *line);
    void (*on_report)(void *arg, const char *text); /* of a failure on any node */
    void *arg;
};

struct company_options {
    uv_loop_t *loop;
    mst_store *store;     /* that this launcher hosts, as the head; NULL: it joins the head at endpoint */
    const char *endpoint; /* "host:port" */
    const char *run_id;   /* as the head calls the job, or NULL where that is the head's to say */
    int min_nodes, max_nodes;
    int node_rank;    /* -1: any */
    int n;            /* ranks of this node; 0: it takes no part but to decide */
    int max_restarts; /* the head's counts */
    double join_seconds, last_call_seconds, shutdown_seconds;
    const char *const *names; /* see coordinator.h */
    bool quiet;               /* all launchers share one stderr: what concerns all is said once */
    struct company_events events;
};

/* 0, or a negative errno. options is copied, what it points to is borrowed. */
int company_open(struct company **company, const struct company_options *options);

/* What the head calls the job; "" before it was met. */
const char *company_run_id(const struct company *company);

/* A rank of this node has failed, in one line. */
void company_tell_failure(struct company *company, const char *text);

/* How it ended on this node: no rank is left. rank is -1, or the one that the report is about. */
struct company_outcome {
    int rank, status;
    int culprit; /* whom that rank blames, or -1 */
    bool final;  /* to start it again is of no use */
    const char *report;
};
void company_tell_stopped(struct company *company, const struct company_outcome *outcome);

/* The head: ranks of other nodes shall have this signal, too. Of another launcher it concerns its own alone. */
void company_pass(struct company *company, int signal);

/* This launcher was told to end. The head ends the job, another leaves it. SIGKILL: at once. */
void company_interrupt(struct company *company, int signal);

/* The head ends the job with that status: an agent that it started is gone. Of no effect on others. */
void company_fail(struct company *company, int status, const char *text);

/* Lets the others know all that was told. Run the loop once more before the memory goes. */
void company_close(struct company *company);
void company_free(struct company *company);

#endif
