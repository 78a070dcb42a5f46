/* coordinator_internal.h - what coordinator.c and coordinator_nodes.c share; no other file includes it. */
#ifndef MUSTER_TOOL_RUN_NODES_COORDINATOR_INTERNAL_H
#define MUSTER_TOOL_RUN_NODES_COORDINATOR_INTERNAL_H

#include "run/nodes/coordinator.h"

enum state { GATHERING, RUNNING, STOPPING, ENDED };
enum { TEXT = 1024, NODE_NAME = NODE_HOST_MAX + 64 };

struct node {
    struct node *next;
    int ticket, node_rank, n, pid;
    bool takes_part; /* in this generation */
    bool stopped;    /* all its ranks have exited */
    int running;     /* with --survive: its ranks that run, … */
    int waiting;     /* … of which these are replacements that have not joined */
    int events;      /* serial of its last NOTICE_RANK */
    bool leaving, lost;
    struct notice outcome; /* its notice that it has stopped */
    char *report;          /* the text of outcome */
    char host[NODE_HOST_MAX];
};

struct coordinator {
    struct coordinator_options options;
    enum state state;
    struct node *nodes; /* in order of arrival */
    int generation;     /* -1 before the first */
    int taking_part;    /* nodes of this generation */
    int restarts;       /* used up by failures */
    struct survivors survivors;
    bool alone;      /* the nodes know that only replacements run that nobody can admit */
    double since;    /* when this state began */
    double progress; /* when to report the missing nodes next */
    double enough;   /* since when there are min nodes, before the first generation; never: there are not */
    /* Why this generation stops: */
    const struct node *cause; /* the node where a rank failed first, or that was lost */
    int signal;               /* the launcher has received it */
    bool insisted;            /* and then SIGKILL */
    int failed;               /* the status of coordinator_fail, 0: it was not called */
    char failure[TEXT];       /* and its text */
};

/* NULL if there is none. node_find_rank returns the first node that is present and claims the rank. */
struct node *node_find(const struct coordinator *c, int ticket);
const struct node *node_find_rank(const struct coordinator *c, int node_rank);

bool node_is_present(const struct node *node);
bool node_is_done(const struct node *node);    /* takes part, and all its ranks have exited */
bool node_has_ranks(const struct node *node);  /* takes part, and has ranks that run */
bool node_has_failed(const struct node *node); /* takes part, and one of its ranks failed */
/* May take part in the next generation. Of several nodes with one rank only the first may. */
bool node_is_eligible(const struct coordinator *c, const struct node *node);

int node_count(const struct coordinator *c, bool (*holds)(const struct node *));
int node_count_eligible(const struct coordinator *c); /* at most max */

/* Adds it at the end; NULL without memory. */
struct node *node_add(struct coordinator *c, const struct notice *n);
/* Prepares a node for a generation that starts now. */
void node_begin(struct node *node);
/* Frees the nodes that are lost or have left; only while cause is NULL. */
void node_drop_absent(struct coordinator *c);
void node_free(struct node *node);

/* The order in which nodes get their ranks, for qsort of pointers. */
int node_compare(const void *a, const void *b);

/* "host b (pid 12)", or "node 1, host b (pid 12)" if nodes have ranks; returns out. */
const char *node_name(const struct node *node, char out[NODE_NAME]);
/* "2 of 3 nodes are here: …; missing: …" */
void node_describe(const struct coordinator *c, char text[TEXT]);

#endif
