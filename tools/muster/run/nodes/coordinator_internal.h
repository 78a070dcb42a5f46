/* coordinator_internal.h - what the two halves of a head share; nobody else includes it. */
#ifndef MUSTER_TOOL_RUN_NODES_COORDINATOR_INTERNAL_H
#define MUSTER_TOOL_RUN_NODES_COORDINATOR_INTERNAL_H

#include "run/nodes/coordinator.h"

enum state { GATHERING, RUNNING, STOPPING, OVER };
enum { TEXT = 1024 };

struct node {
    struct node *next;
    int ticket, node_rank, n, pid;
    bool takes_part; /* in this generation */
    bool stopped;    /* it has no ranks any more */
    bool leaving, lost;
    /* What it said when it stopped: */
    int rank, status, culprit;
    bool final;
    char *report;
    char host[NODE_HOST_MAX];
};

struct head {
    struct head_options options;
    enum state state;
    struct node *nodes; /* in order of arrival */
    int generation;     /* -1 before the first */
    int restarts;       /* that failures have cost */
    double since;       /* of this state */
    double progress;    /* when to say next for whom it waits */
    double enough;      /* since when min nodes are here, before the first generation; never: they are not */
    /* Why this generation stops: */
    const struct node *cause; /* the node where a rank failed first, or that was lost */
    int signal;               /* the launcher was told to end */
    bool insisted;            /* and then, to kill what is left */
    int failed;               /* head_fail's status, 0: it was not called */
    char failure[TEXT];       /* and its text */
};

/* NULL: there is none. Of nodes with one rank, the first that is here. */
struct node *node_find(const struct head *head, int ticket);
const struct node *node_find_rank(const struct head *head, int node_rank);

bool node_is_here(const struct node *node);
bool node_takes_part(const struct node *node);
bool node_is_through(const struct node *node); /* takes part, and has no ranks any more */
bool node_is_stuck(const struct node *node);   /* takes part, and has some */
bool node_has_failed(const struct node *node);
bool node_has_a_place(const struct head *head, const struct node *node);

int node_count(const struct head *head, bool (*holds)(const struct node *));
int node_count_ready(const struct head *head); /* how many could begin a generation */
int node_count_ranks(const struct head *head);

/* Comes last in the list; NULL without memory. */
struct node *node_add(struct head *head, const struct notice *n);
/* Takes part in a generation that begins now. */
void node_begin(struct node *node);
/* Forgets who is gone, once nothing refers to them any more. */
void node_forget_the_gone(struct head *head);
void node_free(struct node *node);

/* The order in which nodes get their ranks, for qsort of pointers. */
int node_by_place(const void *a, const void *b);

/* "host b (pid 12)"; returns out. */
const char *node_show(const struct node *node, char *out, size_t size);
/* "2 of 3 nodes are here: …; missing: …" */
void node_describe(const struct head *head, char text[TEXT]);

#endif
