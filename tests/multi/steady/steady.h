/* steady.h - shared by the files of steady: counters of allocations and locks, and the calls to count. */
#ifndef TESTS_STEADY_H
#define TESTS_STEADY_H

#include <muster/muster.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    STEADY_RANKS = 8,
    STEADY_WORKS = 2 * STEADY_RANKS, /* of one call */
    STEADY_LARGE = 30000,            /* elements */
    STEADY_GROUPS = 4,
    STEADY_BYTES = STEADY_LARGE * (STEADY_RANKS + 1) * (int)sizeof(float),
};

struct watched {
    long allocations, frees, locks;
};
struct locks {
    int n;
    const void *at[64];
};
/* False if the allocator cannot be intercepted. */
bool watch_works(void);
void watch_begin(void);
struct watched watch_end(void);
/* The locks taken between the last watch_begin and watch_end. */
void watch_locks(struct locks *locks);

/* The group and the buffers of calls. */
struct setting {
    const char *name;
    mst_group *group;
    bool threaded; /* the group has a thread */
    int me, size;
    void *in, *out; /* STEADY_BYTES each */
};

/*
 * An operation; call_number counts its calls. With call->work it may start several works: call->work[0], [1],
 * ...
 */
enum forms { ALL_FORMS, BLOCKING_ONLY, WORKS_ONLY };
struct operation {
    const char *name;
    mst_status (*call)(const struct setting *at, mst_call *call, int call_number);
    enum forms forms;
};
extern const struct operation operations[]; /* ends with a NULL name */
/* Frees what the operations have created; their buffers can be freed then. */
void free_reducers(void);

#endif
