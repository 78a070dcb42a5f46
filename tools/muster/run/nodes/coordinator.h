/*
 * coordinator.h - the one who decides for a job of several nodes: who takes part, when a generation begins and ends, and with what
 * status the job is over. It hears notices and the time and gives orders; no I/O, no clock of its own.
 *
 *   GATHERING --enough nodes--> RUNNING --all ranks of all nodes exited with 0--> OVER
 *                                  |
 *                                  +--a rank fails, a node is lost, leaves or joins, a signal--> STOPPING
 *   STOPPING --no node has ranks any more--> GATHERING again, or OVER
 *
 * A failure costs one of the restarts that are allowed. A node that is lost or joins between MIN and MAX nodes costs none.
 */
#ifndef MUSTER_TOOL_RUN_NODES_COORDINATOR_H
#define MUSTER_TOOL_RUN_NODES_COORDINATOR_H

#include "run/nodes/node_msg.h"

#include <stdbool.h>

struct head;

struct head_options {
    int min, max; /* nodes */
    int max_restarts;
    double join_seconds;      /* how long it waits for min nodes */
    double last_call_seconds; /* with min of them there, how long for more, before the first generation */
    double stop_seconds;      /* a node that takes longer to end its ranks is given up */
    double progress_seconds;  /* how soon it says for whom it waits */
    const char *const *names; /* hosts by node rank, where they are known beforehand; else NULL */
    void (*order)(void *arg, const struct order *order);
    void (*say)(void *arg, const char *text);    /* a line for people, without its newline */
    void (*report)(void *arg, const char *text); /* the report of a failure */
    void *arg;
};

/* Times are seconds on any clock that does not go back. NULL without memory. options is copied. */
struct head *head_open(const struct head_options *options, double now);
void head_free(struct head *head);

void head_hear(struct head *head, const struct notice *notice, double now);

/* The launcher was told to end, by a signal that the ranks shall have too; again with SIGKILL, to insist. */
void head_interrupt(struct head *head, int signal, double now);

/* Something beside the nodes makes the job impossible: it ends with that status, without another restart. */
void head_fail(struct head *head, int status, const char *text, double now);

/* To be called when head_due has passed; that is far in the future if nothing is to happen. */
void head_tick(struct head *head, double now);
double head_due(const struct head *head);

#endif
