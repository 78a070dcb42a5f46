/*
 * node_link.h - how a launcher talks with those of the other nodes: through the store that the head hosts.
 *
 *   muster/launch/card      what the head says about the job
 *   muster/launch/tickets   how many members have come; the head has ticket 0
 *   muster/launch/notices   lines of the members, and of the store when one of them is gone
 *   muster/launch/orders    lines of the head
 *   muster/launch/hosts     which ranks are on which host, for ranks that miss others
 *
 * The store is waited for on a thread of the link's own; what comes is told on the loop's thread, and nothing that is called
 * there waits, except node_link_close.
 */
#ifndef MUSTER_TOOL_RUN_NODES_NODE_LINK_H
#define MUSTER_TOOL_RUN_NODES_NODE_LINK_H

#include "run/nodes/node_msg.h"

#include <muster/muster.h>

#include <stdbool.h>
#include <uv.h>

struct node_link;

/* What the link tells, on the loop's thread. After on_lost nothing comes any more. */
struct node_link_events {
    void (*on_open)(void *arg, int ticket, const struct job_card *card); /* before the first line */
    void (*on_line)(void *arg, char *line); /* without its newline, may be changed */
    void (*on_lost)(void *arg, const char *why, bool never_met);
    void *arg;
};

struct node_link_options {
    uv_loop_t *loop;
    mst_store *store;     /* the head's own, borrowed; NULL: this is a member, and connects to */
    const char *endpoint; /* "host:port" */
    struct job_card card; /* the head's */
    double patience;      /* seconds to find the head in */
    struct node_link_events events;
};

/* 0, or a negative errno. options is copied, what it points to is borrowed. */
int node_link_open(struct node_link **link, const struct node_link_options *options);

/* Appends lines to one of the logs. The head hears its own notices as it hears those of others. */
enum node_log { NODE_NOTICES, NODE_HOSTS, NODE_ORDERS, NODE_LOGS };
void node_link_post(struct node_link *link, enum node_log log, const char *lines);

/*
 * Says what was posted and ends, within some tens of seconds if the store does not answer. in_good_order: a member takes its
 * leave; else the others take it for dead. Run the loop once more before the link's memory goes with node_link_free.
 */
void node_link_close(struct node_link *link, bool in_good_order);
void node_link_free(struct node_link *link);

#endif
