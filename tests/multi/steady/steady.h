/* steady.h - what the parts of steady.c share: the watch on allocations and locks, and the calls that are watched. */
#ifndef TESTS_STEADY_H
#define TESTS_STEADY_H

#include <muster/muster.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    STEADY_RANKS = 8,
    STEADY_WORKS = 2 * STEADY_RANKS, /* of one call */
    STEADY_LARGE = 30000,            /* elements */
    STEADY_BYTES = STEADY_LARGE * (STEADY_RANKS + 1) * (int)sizeof(float),
};

struct watched {
    long allocations, frees, locks;
};
struct locks {
    int n;
    const void *at[64];
};
/* False where there is an allocator that cannot be watched. */
bool watch_works(void);
void watch_begin(void);
struct watched watch_end(void);
/* The locks that were taken between the last two of these. */
void watch_locks(struct locks *locks);

/* Where calls are made. */
struct setting {
    const char *name;
    mst_group *group;
    bool threaded; /* the group has a thread, and so a lock */
    int me, size;
    void *in, *out; /* STEADY_BYTES each */
};

/* An operation; turn counts its calls. With call->work it may begin several works, from there on. */
enum ways { ANY_WAY, BLOCKS_ONLY, WORKS_ONLY };
struct operation {
    const char *name;
    mst_status (*call)(const struct setting *at, mst_call *call, int turn);
    enum ways ways;
};
extern const struct operation operations[]; /* ends with a NULL name */

#endif
