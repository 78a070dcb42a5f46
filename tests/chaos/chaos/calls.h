/*
 * calls.h - the calls of comm.h that a random program makes, each with the result that a rank must get. The
 * input of every rank is a function of the step, the rank and the index, so each rank knows all results.
 */
#ifndef CHAOS_CALLS_H
#define CHAOS_CALLS_H

#include <muster/muster.h>

enum { RANKS_MOST = 64 };

/* A group that steps use. rank and size are those in the group. */
struct team {
    mst_group *group;
    int rank, size;
};

/* One call of one rank. */
struct step {
    uint64_t number;
    const struct team *team;
    size_t n; /* elements of one block */
    int root, next, last;
    mst_work **async;  /* NULL: the call blocks */
    int32_t *in, *out; /* of n elements, or of n for each rank; equal: in place */
};

struct kind {
    mst_status (*call)(struct step *s);
    int32_t (*wanted)(const struct step *s, size_t i); /* element i of the result */
    int flags;
    const char *name;
};
enum {
    INS = 1,   /* the input has a block for each rank */
    OUTS = 2,  /* the output has */
    ROOT = 4,  /* only the root has a result */
    PLACE = 8, /* may be in place */
    ONE = 16,  /* the result is one element */
    NONE = 32, /* there is no result */
    WORK = 64, /* may be non-blocking */
};
extern const struct kind kinds[]; /* the last one is mst_agree */
extern const size_t n_kinds;

/* The contribution of a rank to element i of a step. */
int32_t value(const struct step *s, int rank, size_t i);

/* Keeps the error of a call if it is the first of the step. */
mst_status note(mst_status st);

#endif
