/*
 * wait_graph.h - for whom ranks wait, as wait_graph.c finds out by the rules of diagnose.h, and diagnose.c judges. Pure.
 */
#ifndef MSI_PROF_FLIGHT_WAIT_GRAPH_H
#define MSI_PROF_FLIGHT_WAIT_GRAPH_H

#include "prof/flight/diagnose.h"

enum { MSI_NOBODY = -1 };

/* A group, as all recorders together know it. */
struct msi_wait_graph_team {
    uint64_t id;
    int size, seen; /* ranks, and of these the known ones */
    int members;    /* the first of these; -1: none */
    const struct msi_flight_op
        *awaited; /* the first in which a member waits for others; NULL: there is none */
    int awaiter;  /* the member in it */
    int late;     /* who stands for all members that have not come to it */
};

/* A rank in a group. */
struct msi_wait_graph_member {
    int rank, team, next;               /* team -1: none; next of the group, -1: the last */
    const struct msi_flight_op *first;  /* the first collective that it waits in; NULL: none */
    const struct msi_flight_op *newest; /* the last that it has begun; NULL: none */
};

struct msi_wait_graph {
    const struct msi_flight_of *ranks;
    int n;
    struct msi_wait_graph_team *teams; /* ascending */
    int n_teams;
    struct msi_wait_graph_member *members; /* of each rank as many as it has teams, and one for the world */
    int *own;                              /* where those of a rank begin */
    bool *busy;                            /* waits in something */
    /* Where ranks wait: a rank, or n and a group of which not all members are known, or MSI_NOBODY. */
    int *waits_for;
    int *
        ends; /* where the walk from it ends: the same, but for MSI_NOBODY; in circles the least rank of it */
    int *votes;
    const struct msi_flight_op **in; /* what it waits in; NULL: nothing */
};

static inline const struct msi_flight_team *msi_wait_graph_team_of(const struct msi_wait_graph *c, int rank,
                                                                   const struct msi_flight_op *op) {
    return &c->ranks[rank].view->teams[op->team];
}

static inline bool msi_flight_same_team(const struct msi_flight_team *a, const struct msi_flight_team *b) {
    return a->size && a->id == b->id && a->size == b->size;
}

/* Finds out who waits for whom. False: there is no memory for it. To be closed in any case. */
bool msi_wait_graph_open(struct msi_wait_graph *graph, const struct msi_flight_of *ranks, int size);
void msi_wait_graph_close(struct msi_wait_graph *graph);

/* The group's index; MSI_NOBODY: nothing is known of it. */
int msi_wait_graph_find_team(const struct msi_wait_graph *graph, const struct msi_flight_team *team);
/* Is the rank a member that has not come to what is awaited? */
bool msi_wait_graph_is_late(const struct msi_wait_graph *graph, const struct msi_wait_graph_team *team,
                            int rank);
/* The rank that the operation failed for, by its own words; MSI_NOBODY: none. */
int msi_wait_graph_names(const struct msi_wait_graph *graph, int rank, const struct msi_flight_op *op);

#endif
