/*
 * node_link.h - the messages between the launchers of a job, through the store that the coordinator hosts:
 *
 *   muster/launch/job       the coordinator's description of the job
 *   muster/launch/tickets   the number of members so far; the coordinator has ticket 0
 *   muster/launch/notices   lines from the members, and from the store when a member disconnects
 *   muster/launch/orders    lines from the coordinator
 *   muster/launch/ended     set at the end of the job: launchers that come now wait for the next job
 *   muster/launch/hosts     which ranks are on which host, for error messages of ranks
 *
 * A thread of the link waits for the store. Events are called on the loop's thread. No function here blocks
 * except node_link_close.
 */
#ifndef MUSTER_TOOL_RUN_NODES_NODE_LINK_H
#define MUSTER_TOOL_RUN_NODES_NODE_LINK_H

#include "run/nodes/node_agent.h"

struct node_link;

/* 0, or a negative errno. All pointers are borrowed. endpoint is "host:port". */
int node_link_open(struct node_link **link, const struct node_agent_options *options, const char *endpoint,
                   struct node_agent *agent);

/* The events, in node_agent.c. The first comes before the first line, the last is the last event. */
void node_agent_on_open(struct node_agent *agent, int ticket, const char *run_id);
void node_agent_on_line(struct node_agent *agent, char *line); /* without its newline; may be changed */
void node_agent_on_lost(struct node_agent *agent, const char *why);

/* Appends lines to a log. The coordinator receives its own notices like those of others. */
enum node_log { NODE_NOTICES, NODE_HOSTS, NODE_ORDERS, NODE_ENDED, NODE_LOGS };
void node_link_post(struct node_link *link, enum node_log log, const char *lines);

/*
 * Sends what was posted and ends, within some tens of seconds if the store does not answer. If a member does
 * not close cleanly, the store writes NOTICE_DIED. Run the loop once more before node_link_free.
 */
void node_link_close(struct node_link *link, bool cleanly);
void node_link_free(struct node_link *link);

#endif
