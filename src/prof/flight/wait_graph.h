/* wait_graph.h - which rank waits for which, by the rules of diagnose.h. Used by diagnose.c. Pure. */
#ifndef MSI_PROF_FLIGHT_WAIT_GRAPH_H
#define MSI_PROF_FLIGHT_WAIT_GRAPH_H

#include "prof/flight/diagnose.h"

enum { MSI_NO_RANK = -1 };

/* A group, as all recorders together know it. */
struct msi_wait_graph_group {
    uint64_t id;
    int size, seen;                      /* members, and how many of them are known */
    int members;                         /* index of the first member; -1: none */
    const struct msi_flight_op *awaited; /* the first collective in which a member waits; NULL: none */
    int awaiter;                         /* the member that waits in it */
    int late;                            /* one of the members that have not reached it */
};

/* A rank in a group. */
struct msi_wait_graph_member {
    int rank, group, next;              /* group -1: none; next member of the group, -1: the last */
    const struct msi_flight_op *first;  /* the first collective that it waits in; NULL: none */
    const struct msi_flight_op *newest; /* the last collective that it has begun; NULL: none */
};

struct msi_wait_graph {
    const struct msi_flight_rank *ranks;
    int n;
    struct msi_wait_graph_group *groups; /* ascending */
    int n_groups;
    struct msi_wait_graph_member *members; /* per rank one for each of its groups, and one for the world */
    int *own;                              /* index of each rank's first member */
    bool *busy;                            /* the rank waits in an operation */
    int *waits_for;                  /* a rank; n + index of a group with unknown members; or MSI_NO_RANK */
    int *ends;                       /* the end of the chain of waits_for; in a circle its lowest rank */
    int *votes;                      /* by end: ranks that wait for it */
    const struct msi_flight_op **in; /* the operation that the rank waits in; NULL: none */
};

static inline const struct msi_flight_group *
msi_wait_graph_group_of(const struct msi_wait_graph *graph, int rank, const struct msi_flight_op *op) {
    return &graph->ranks[rank].view->groups[op->group];
}

/* Finds out which rank waits for which. False: no memory. Close it in any case. */
bool msi_wait_graph_open(struct msi_wait_graph *graph, const struct msi_flight_rank *ranks, int size);
void msi_wait_graph_close(struct msi_wait_graph *graph);

/* The group's index; MSI_NO_RANK: nothing is known of it. */
int msi_wait_graph_find_group(const struct msi_wait_graph *graph, const struct msi_flight_group *group);
/* Is the rank a member that has not reached the awaited collective? */
bool msi_wait_graph_is_late(const struct msi_wait_graph *graph, const struct msi_wait_graph_group *group,
                            int rank);
/* The rank that the failed operation names as its cause; MSI_NO_RANK: none. */
int msi_wait_graph_names(const struct msi_wait_graph *graph, int rank, const struct msi_flight_op *op);

#endif
