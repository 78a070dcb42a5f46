/*
 * engine.h - what the parts of the module share.
 *
 * A group has two communicators of all its ranks, because of how NCCL waits:
 *  - direct is a blocking one. Its connections are all made when it is, so a call enqueues a kernel and never waits for another rank:
 *    broadcast, all_reduce, reduce, all_gather, reduce_scatter and the barrier run there, at NCCL's own speed.
 *  - patient is non-blocking. all_to_all, gather and scatter run there, since NCCL connects senders to receivers when they first meet,
 *    and a call on a blocking communicator would hang in that if the other rank had died. Its launches run on a thread of NCCL's.
 * Messages have lanes (lane.h): a non-blocking communicator and a stream for each pair and direction, made when it is first used, so
 * that no message waits for another that the program happened to begin before it.
 *
 * What is submitted is a job on a lane, the main one for collectives. A lane launches its jobs in order; one that NCCL is still
 * launching holds back those behind it, or ranks would launch in different orders. An event behind a job says when it is over.
 */
#ifndef MNC_ENGINE_H
#define MNC_ENGINE_H

#include "load.h"

#include <muster/backend.h>

#define MNC_MS INT64_C(1000000)

enum {
    MNC_PREMULS = 16,      /* scalars that are remembered */
    MNC_SMALL_BYTES = 256, /* of the engine's own device memory: barriers, and messages of nothing */
};

struct mnc_job {
    struct mnc_job *next;  /* in its lane or in the pool */
    struct mnc_job *older; /* of all that were ever made */
    mst_backend_op *op;    /* NULL: free, or let go */
    struct mnc_lane *lane;
    unsigned group; /* jobs of one group are launched together; 0: of none */
    bool launched;  /* end is recorded */
    mnc_stream stream;
    mnc_event end;
    mnc_event timed_begin, timed_end; /* NULL until first needed */
};

struct mnc_lane {
    struct mnc_lane *next;
    struct mst_backend_engine *engine;
    mnc_stream stream;
    struct mnc_job *first, *last; /* to be launched */
    struct mnc_job *launching;    /* NCCL is at these; a list of its own */
    mnc_comm launching_on;

    /* Of messages alone. */
    enum { MNC_LANE_NEW, MNC_LANE_JOINING, MNC_LANE_READY } state;
    int peer;
    bool sends, own; /* own: for muster's messages */
    mnc_comm comm;
    int64_t asked; /* when the store was last asked for the other side's id */
};

struct mnc_premul {
    unsigned op, dtype;
    uint64_t bits; /* of the scalar */
};

struct mnc_block {
    struct mnc_block *next;
    void *memory;
    size_t bytes;
    bool used;
};

struct mst_backend_engine {
    const mst_backend_host *host;
    int device;
    mnc_comm direct, patient;
    struct mnc_lane main;
    struct mnc_lane *lanes; /* of messages */
    struct mnc_job *pool, *all;
    struct mnc_job *self_sends, *self_receives; /* messages of this rank to itself that wait for their half */
    unsigned group, groups;                     /* group: the open one's number, or 0 */
    unsigned looks;                             /* of progress at events that were not ready */
    struct mnc_premul premuls[MNC_PREMULS];
    int n_premuls, next_premul;
    struct mnc_block *blocks;
    size_t idle_bytes; /* of the blocks that nobody uses */
    char *small;
    mnc_event order;    /* recorded on one stream for another to wait for */
    bool failed, ended; /* ended: communicators are gone, */
    bool left_behind;   /* or not */
};

/* open.c */
mst_status mnc_open(const mst_backend_host *host, mst_backend_engine **engine, mst_backend_traits *traits);
mnc_config mnc_make_config(bool blocking);
int64_t mnc_now(void);
/* Between two looks at something: short at first. */
void mnc_nap(unsigned round);
/* The calling thread gets the engine's device, if another is its current one. */
void mnc_use_device(const mst_backend_engine *engine);

/* words.c */
mst_status mnc_fail_nccl(mst_backend_engine *engine, mnc_comm comm, mnc_result result, const char *what);
mst_status mnc_fail_cuda(mst_backend_engine *engine, mnc_error error, const char *what);
/* What NCCL's state of the communicator means; *busy: it is still at it. */
mst_status mnc_look(mst_backend_engine *engine, mnc_comm comm, const char *what, bool *busy);

/* end.c */
void mnc_abort(mst_backend_engine *engine);
void mnc_close(mst_backend_engine *engine);

/* queue.c */
mst_status mnc_submit(mst_backend_engine *engine, mst_backend_op *op);
mst_status mnc_progress(mst_backend_engine *engine, mst_backend_op *op, bool *done);
mst_status mnc_group_begin(mst_backend_engine *engine);
mst_status mnc_group_end(mst_backend_engine *engine);
mst_status mnc_elapsed(mst_backend_engine *engine, const mst_backend_op *op, double *seconds);
/* Launches what can be launched, on all lanes. */
mst_status mnc_advance(mst_backend_engine *engine);
void mnc_append(struct mnc_lane *lane, struct mnc_job *job);
/* Takes the oldest job of a list that begins at *first; NULL if it is empty. */
struct mnc_job *mnc_take(struct mnc_job **first);
/* Marks the job's end on its stream. */
mst_status mnc_mark(mst_backend_engine *engine, struct mnc_job *job);
/* to runs what comes next on it behind all that is on from now. */
mst_status mnc_order(mst_backend_engine *engine, mnc_stream from, mnc_stream to);

/* launch.c: the calls of NCCL that an operation consists of. */
bool mnc_is_direct(const mst_backend_op *op);
mnc_result mnc_launch(mst_backend_engine *engine, const mst_backend_op *op, mnc_comm comm, mnc_stream stream);

/* premul.c: NCCL's operation for a dtype and a factor. */
mnc_result mnc_premul(mst_backend_engine *engine, mst_dtype dtype, double factor, unsigned *op);
void mnc_premul_end(mst_backend_engine *engine);
/* Of load.c's libraries: NCCL's number for a dtype. */
unsigned mnc_dtype(mst_dtype dtype);

/* lane.c */
mst_status mnc_lane_of(mst_backend_engine *engine, const mst_backend_op *op, struct mnc_lane **lane);
/* Makes the communicator of a lane of messages, step by step; state says how far it is. */
mst_status mnc_lane_join(struct mnc_lane *lane);

/* self.c: messages of this rank to itself. */
mst_status mnc_self(mst_backend_engine *engine, struct mnc_job *job);

/* memory.c */
mst_memory mnc_memory_of(const void *pointer);
void *mnc_alloc(mst_backend_engine *engine, size_t bytes);
void mnc_release(mst_backend_engine *engine, void *memory);
mst_status mnc_copy(mst_backend_engine *engine, void *to, const void *from, size_t bytes);
void mnc_blocks_end(mst_backend_engine *engine);

/* rows.c */
const mst_backend_capability *mnc_rows(void);

#endif
