/*
 * phases.h - what a rank does while its calls fail.
 *
 * A phase consists of steps. A step that failed may be repeated: the phase then goes on with it.
 */
#ifndef FAIL_CALLS_PHASES_H
#define FAIL_CALLS_PHASES_H

#include <muster/muster.h>
#include <stdbool.h>

enum { TIMEOUT_MS = 20000 };

struct rank {
    int grow_ms; /* how long mst_grow_world waits */
    mst_group *world;
    mst_call call; /* on the world */
    int rank, size;
    int step;     /* of the phase */
    int received; /* messages in this step */
    bool wrong;   /* a result was wrong */
    mst_group *group;
    mst_work *work;
    void *memory;
    mst_mesh *mesh;
};

struct phase {
    const char *name;
    mst_status (*run)(struct rank *rank); /* NULL: opening or closing the world */
    bool death;                           /* the last rank has died before */
    bool joiner;                          /* one more process joins meanwhile */
    bool messages;                        /* a rank that fails may do so because its peer has failed */
};
/* NULL: there is none of this name. */
const struct phase *phase_find(const char *name);
/* The i-th one; NULL after the last. */
const struct phase *phase_at(int i);

/* An operation on the world, which opens its connections. */
mst_status phase_warm_up(struct rank *rank);
/* Frees what the phase made. */
void phase_free(struct rank *rank);

#endif
