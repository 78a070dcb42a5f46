/*
 * record.h - the record of one operation: caller, bytes, and the times of its phases.
 *
 * All texts are literals or kept for the life of the process (msi_prof_keep), so that a record is a plain
 * copy. Times are ticks (os/tick.h).
 */
#ifndef MSI_PROF_RECORD_RECORD_H
#define MSI_PROF_RECORD_RECORD_H

#include "base/kind.h"

#include <muster/dtype.h>
#include <muster/status.h>
#include <stdbool.h>
#include <stdint.h>

/* The process that recorded something. */
struct msi_rank_id {
    int rank, size;
    int64_t pid;
    char host[256];
};

struct msi_prof_world; /* recorder.h */

/* A group with recorded operations; never freed, since records point to it. */
struct msi_prof_group {
    struct msi_prof_group *next;
    struct msi_prof_world *world;
    int number;       /* 0, 1, 2, … in the order of their first records in this process; 0 is the world */
    int size, rank;   /* rank: of this process in the group */
    const char *id;   /* the same on all its ranks, unique in the world */
    const char *name; /* as the program calls it */
    const int *ranks; /* global ranks, by group rank */
};

enum msi_record_flag {
    MSI_RECORD_WORK = 1,    /* begun with .work */
    MSI_RECORD_MESSAGE = 2, /* a send or a receive */
    MSI_RECORD_SEND = 4,
};

enum { MSI_PROF_THREADS = 256 }; /* threads with a number and a name of their own */

struct msi_record {
    uint64_t begin;   /* entry of the call */
    uint64_t started; /* the operation reached the front of its queue */
    uint64_t end;
    uint64_t waited; /* of a work: ticks that the program spent in mst_wait */
    uint64_t device; /* nanoseconds on the device; 0: not known, or there is none */
    uint64_t seq;    /* number of the operation in its group; of messages see message_seq.h */
    uint64_t bytes;  /* the whole message, as docs/profiling.md defines it for each call */
    const struct msi_prof_group *group;
    const char *name; /* .log_name, or the same as call */
    const char *call; /* "all_reduce" */
    const char *backend, *algorithm;
    const char *file, *function;
    int32_t line;
    int32_t peer, tag; /* of a message: the peer's global rank */
    uint8_t dtype, op, share, status, flags, pad;
    uint16_t thread; /* number of the calling thread (event_ring.h) */
};

#define MSI_TIME_UNKNOWN INT64_MIN

/*
 * Times of an operation in nanoseconds; begin counts from the forming of the world, on the clock of rank 0's
 * host. waited: in mst_wait, of a work.
 */
struct msi_times {
    int64_t begin, lasted, queued, waited;
};

/*
 * A copy of the name that a program gives to a call; equal texts get the same copy. "other" after 4,096
 * names; NULL without memory. Any thread; takes no lock for a known name.
 */
const char *msi_prof_keep(const char *text);

#endif
