/*
 * engine.h - declarations that the files of the module share.
 *
 * A group has two communicators of all its ranks:
 *  - blocking: all its connections are made when it is created, so that a call enqueues a kernel and never
 *    waits for another rank. It runs broadcast, all_reduce, reduce, all_gather, reduce_scatter and barrier at
 *    NCCL's full speed.
 *  - nonblocking: runs all_to_all, gather and scatter. NCCL connects senders and receivers on first use; on a
 *    blocking communicator this would hang if the other rank had died. A thread of NCCL launches its kernels.
 * Messages use p2p channels (p2p_channel.c): a nonblocking communicator and a stream for each pair of ranks
 * and direction, created on first use, so that messages of different channels do not wait for each other.
 *
 * submit creates a job in a channel; collectives use the main channel. A channel launches its jobs in order.
 * While NCCL is launching a job, the jobs behind it wait, because all ranks must launch in the same order. A
 * CUDA event recorded after a job signals its completion.
 */
#ifndef MNC_ENGINE_H
#define MNC_ENGINE_H

#include "abi.h"

#include <muster/backend.h>

#define MNC_MS INT64_C(1000000)

enum {
    MNC_PREMULS = 16,      /* cached PreMulSum operations */
    MNC_SMALL_BYTES = 256, /* device memory for barriers and empty messages */
};

struct mnc_job {
    struct mnc_job *next;  /* in its channel or in the pool */
    struct mnc_job *older; /* in the list of all jobs */
    mst_backend_op *op;    /* NULL: in the pool */
    struct mnc_channel *channel;
    unsigned group; /* jobs of one group are launched together; 0: no group */
    bool launched;  /* end is recorded */
    mnc_stream stream;
    mnc_event end;
    mnc_event begin;                  /* NULL until first needed */
    bool waits;                       /* for begin: it was submitted before it could be launched */
    mnc_event timed_begin, timed_end; /* NULL until first needed */
};

struct mnc_channel {
    struct mnc_channel *next;
    struct mst_backend_engine *engine;
    mnc_stream stream;
    struct mnc_job *first, *last; /* queue of jobs to launch */
    struct mnc_job *launching;    /* list of jobs that NCCL is launching */
    mnc_comm launching_on;

    /* p2p channels only. */
    enum { MNC_CHANNEL_NEW, MNC_CHANNEL_CONNECTING, MNC_CHANNEL_READY } state;
    int peer;
    bool sends, own; /* own: for muster's internal messages */
    mnc_comm comm;
    int64_t asked; /* when the store was last asked for the peer's id */
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
    mnc_comm blocking, nonblocking;
    struct mnc_channel main; /* p2p channels follow it in its list */
    struct mnc_job *pool, *all;
    struct mnc_job *self_sends, *self_receives; /* unmatched messages of this rank to itself */
    unsigned group, groups;                     /* group: the number of the open group, or 0 */
    unsigned polls;                             /* of events that were not ready */
    struct mnc_premul premuls[MNC_PREMULS];
    unsigned n_premuls; /* created so far; the last MNC_PREMULS are cached */
    struct mnc_block *blocks;
    size_t idle_bytes; /* of unused blocks */
    char *small;
    mnc_event order;    /* for mnc_stream_wait */
    bool failed, ended; /* ended: the communicators are destroyed … */
    bool abandoned;     /* … or abandoned, because NCCL did not return in time */
};

/* load.c: NCCL and the CUDA runtime, loaded once and never unloaded. */

#define MNC_FIELD(result, name, parameters) result(*name) parameters;
extern struct mnc_nccl { MNC_NCCL_CALLS(MNC_FIELD, mnc_id, mnc_config) } mnc_nccl;
extern struct mnc_cuda { MNC_CUDA_CALLS(MNC_FIELD) } mnc_cuda;
#undef MNC_FIELD

/* What mnc_probe has found. */
extern struct mnc_found {
    int nccl, runtime, driver; /* versions, as the libraries number them */
    int devices, capability;   /* capability: the major number of device 0 */
} mnc_found;

bool mnc_probe(char *text, size_t size);

/* open.c */
mst_status mnc_open(const mst_backend_host *host, mst_backend_engine **engine, mst_backend_traits *traits);
mnc_config mnc_make_config(bool blocking);
/* Publish a new unique id under a key, and read the one of another rank. */
mst_status mnc_publish_id(mst_backend_engine *engine, const char *key, mnc_id *id);
mst_status mnc_fetch_id(const mst_backend_host *host, int from, const char *key, int64_t deadline,
                        mnc_id *id);
int64_t mnc_now(void);
/* Pauses between two polls: yields first, sleeps later. */
void mnc_backoff(unsigned round);
/* Makes the engine's device the current device of the calling thread. */
void mnc_use_device(const mst_backend_engine *engine);

/* errors.c */

/* Has the call succeeded? A nonblocking communicator may still be working on it. */
static inline bool mnc_begun(mnc_result result) {
    return result == MNC_SUCCESS || result == MNC_IN_PROGRESS;
}
mst_status mnc_fail_nccl(mst_backend_engine *engine, mnc_comm comm, mnc_result result, const char *what);
mst_status mnc_fail_cuda(mst_backend_engine *engine, mnc_error error, const char *what);
/* Checks a communicator for asynchronous errors. *busy: NCCL is still working on it. */
mst_status mnc_check_comm(mst_backend_engine *engine, mnc_comm comm, const char *what, bool *busy);

/* close.c */
void mnc_abort(mst_backend_engine *engine);
void mnc_close(mst_backend_engine *engine);

/* queue.c */
mst_status mnc_submit(mst_backend_engine *engine, mst_backend_op *op);
mst_status mnc_progress(mst_backend_engine *engine, mst_backend_op *op, bool *done);
mst_status mnc_group_begin(mst_backend_engine *engine);
mst_status mnc_group_end(mst_backend_engine *engine);
mst_status mnc_elapsed(mst_backend_engine *engine, const mst_backend_op *op, double *seconds);
/* Launches jobs on all channels, as far as possible. */
mst_status mnc_advance(mst_backend_engine *engine);
void mnc_append(struct mnc_channel *channel, struct mnc_job *job);
/* Removes and returns the first job of a list, or NULL. */
struct mnc_job *mnc_take(struct mnc_job **first);
/* Records the end of the job on its stream. */
mst_status mnc_record_end(mst_backend_engine *engine, struct mnc_job *job);
/* Makes later work on `to` wait for all present work on `from`. */
mst_status mnc_stream_wait(mst_backend_engine *engine, mnc_stream from, mnc_stream to);

/* launch.c: the NCCL calls of an operation. */
bool mnc_is_blocking(const mst_backend_op *op);
mnc_result mnc_launch(mst_backend_engine *engine, const mst_backend_op *op, mnc_comm comm, mnc_stream stream);

/* premul.c: NCCL's PreMulSum operation for a dtype and a factor. */
mnc_result mnc_premul(mst_backend_engine *engine, mst_dtype dtype, double factor, unsigned *op);
void mnc_premul_end(mst_backend_engine *engine);
/* NCCL's number for a dtype. */
unsigned mnc_dtype(mst_dtype dtype);

/* p2p_channel.c */
mst_status mnc_channel_of(mst_backend_engine *engine, const mst_backend_op *op, struct mnc_channel **channel);
/* Advances the creation of a p2p channel's communicator; see state. */
mst_status mnc_channel_connect(struct mnc_channel *channel);

/* p2p_self.c: messages of this rank to itself. */
mst_status mnc_p2p_self(mst_backend_engine *engine, struct mnc_job *job);

/* memory.c */
mst_memory mnc_memory_of(const void *pointer);
/* The GPU of the memory; -1: it is host memory. */
int mnc_device_of(const void *pointer);
void *mnc_alloc(mst_backend_engine *engine, size_t bytes);
void mnc_release(mst_backend_engine *engine, void *memory);
mst_status mnc_copy(mst_backend_engine *engine, void *to, const void *from, size_t bytes);
void mnc_blocks_end(mst_backend_engine *engine);

/* capabilities.c */
const mst_backend_capability *mnc_capabilities(void);

#endif
