/*
 * coordinator.h - decides for a job of several nodes which nodes take part, when a generation of ranks starts
 * and stops, and with which status the job ends. It takes notices and the time and gives orders; no I/O, no
 * clock of its own.
 *
 *   GATHERING --enough nodes--> RUNNING --all ranks of all nodes exited with 0--> ENDED
 *                                  |
 *                                  +--a rank fails, a node is lost, leaves or joins, a signal--> STOPPING
 *   STOPPING --all ranks have exited--> GATHERING again, or ENDED
 *
 * A failure uses up one of the allowed restarts. A node that is lost or joins between MIN and MAX nodes uses
 * up none. With --survive, ranks that die and nodes that are lost do not end RUNNING while enough ranks are
 * left.
 */
#ifndef MUSTER_TOOL_RUN_NODES_COORDINATOR_H
#define MUSTER_TOOL_RUN_NODES_COORDINATOR_H

#include "run/failure/survivors.h"
#include "run/nodes/hosts.h"
#include "run/nodes/node_msg.h"

struct coordinator;

struct coordinator_options {
    int min, max; /* nodes */
    int max_restarts;
    struct survive_options survive;
    double join_seconds;      /* how long it waits for min nodes */
    double last_call_seconds; /* with min nodes, how long it waits for more before the first generation */
    double stop_seconds;      /* a node that takes longer to end its ranks counts as lost */
    double progress_seconds;  /* after which it reports the missing nodes */
    const struct host *hosts; /* by node rank if they are known beforehand, else NULL */
    void (*order)(void *arg, const struct order *order);
    void (*say)(void *arg, const char *text);    /* a line for the user, without its newline */
    void (*report)(void *arg, const char *text); /* the report of a failure */
    void *arg;
};

/* Times are seconds on any monotonic clock. NULL without memory. options is copied. */
struct coordinator *coordinator_open(const struct coordinator_options *options, double now);
void coordinator_free(struct coordinator *coordinator);

void coordinator_handle(struct coordinator *coordinator, const struct notice *notice, double now);

/* A signal told the launcher to end the job; the ranks get the signal too. SIGKILL kills them at once. */
void coordinator_interrupt(struct coordinator *coordinator, int signal, double now);

/* Ends the job with that status, without a restart: a launcher that it started has failed. */
void coordinator_fail(struct coordinator *coordinator, int status, const char *text, double now);

/* Call coordinator_tick at the time coordinator_due; it is far in the future if nothing is due. */
void coordinator_tick(struct coordinator *coordinator, double now);
double coordinator_due(const struct coordinator *coordinator);

#endif
