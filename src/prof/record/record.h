/*
 * record.h - what is recorded of an operation: who called what, for how many bytes, and when what happened to it.
 *
 * All texts are literals or kept for good (msi_prof_keep), so that a record is a plain copy. Times are ticks (os/tick.h).
 */
#ifndef MSI_PROF_RECORD_RECORD_H
#define MSI_PROF_RECORD_RECORD_H

#include "base/kind.h"

#include <muster/dtype.h>
#include <muster/status.h>
#include <stdbool.h>
#include <stdint.h>

struct msi_prof_world; /* recorder.h */

/* A group that something was recorded of; never freed, since records refer to it. */
struct msi_prof_group {
    struct msi_prof_group *next;
    struct msi_prof_world *world;
    int number;       /* of this process: 0, 1, 2, … as they were met; 0 is the world */
    int size, rank;   /* rank: this process's own in it */
    const char *id;   /* alike on all its ranks, and no other group's of the world */
    const char *name; /* as programs call it */
    const int *ranks; /* global, by group rank */
};

enum msi_record_flag {
    MSI_RECORD_WORK = 1,    /* it was begun with .work, … */
    MSI_RECORD_MESSAGE = 2, /* it is a message … */
    MSI_RECORD_SEND = 4,    /* … that was sent */
};

enum { MSI_PROF_THREADS = 256 }; /* so many have a number and a name of their own */

struct msi_record {
    uint64_t begin;   /* the call, before anything was done for it */
    uint64_t started; /* it came to the front of its queue */
    uint64_t end;     /* it was over */
    uint64_t waited;  /* of a work: how many of these ticks the program spent in mst_wait */
    uint64_t device;  /* nanoseconds that it took on the device; 0: not known, or there is none */
    uint64_t seq;     /* the how many-th operation of its group; for messages see message_seq.h */
    uint64_t bytes;   /* the whole message, as docs/profiling.md defines it for each call */
    const struct msi_prof_group *group;
    const char *name; /* .log_name, or what call is */
    const char *call; /* "all_reduce" */
    const char *backend, *algorithm;
    const char *file, *function;
    int32_t line;
    int32_t peer, tag; /* of a message: the other's global rank */
    uint8_t dtype, op, share, status, flags, pad;
    uint16_t thread; /* that called: its number (ring.h) */
};
#endif
