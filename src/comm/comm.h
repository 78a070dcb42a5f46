/*
 * comm.h - a group's engine: it takes operations, runs them in order, and knows how to wait.
 *
 *  1. Operations of a comm run one after the other, in the order of their submission; different comms know nothing of each
 *     other.
 *  2. A blocking operation runs on its caller's thread. The first non-blocking one starts the comm's own thread, and from
 *     then on everything below happens under the lock; before, one thread at a time uses the comm and nothing is locked.
 *  3. The first failure that leaves ranks in different places (a death, a deadline, a disagreement) ends the comm: what was
 *     under way and what comes later fails with the same words, and the others are told: on one host by a word on the
 *     region, between hosts by the end of the links. A barrier moves nothing: where one only ran out of time or was
 *     cancelled, the comm goes on.
 *  4. Nothing is allocated once as many operations have been under way at a time as ever will be, save for messages that
 *     come before they are asked for, beyond some MiB of them.
 */
#ifndef MSI_COMM_COMM_H
#define MSI_COMM_COMM_H

#include "base/list.h"
#include "coll/cost/select.h"
#include "coll/kind.h"
#include "engine/module/registry.h"
#include "engine/shm/shm_coll.h"
#include "os/wait.h"
#include "prof/record/op_trace.h"
#include "store/store.h"
#include "transport/link.h"
#include "wireup/endpoint.h"

#include <muster/comm.h>

#include <poll.h>
#include <pthread.h>

/* An operation that waits for other ranks. */
struct msi_waiting {
    const char *comm; /* its comm's key */
    const char *name; /* of the public call */
    uint64_t seq;     /* which collective of the comm it is; 0: it is a message, and the rest is empty */
    uint32_t signature;
    struct msi_call_signature told;
};

/* What a comm asks of its group. */
struct msi_comm_hooks {
    void *context; /* given to all of them */
    /* Runs requests on the world's store. */
    mst_status (*exec)(void *context, const struct msi_wait *wait, struct msi_store_rpc *x, size_t n);
    /* Learns from the store what became of ranks. */
    mst_status (*refresh)(void *context);
    /* Is the group rank known to be gone? */
    bool (*is_gone)(void *context, int rank);
    /* Is it known to have died, and not just to have left? */
    bool (*has_died)(void *context, int rank);
    /* Fails with MST_ERR_PEER_LOST and says what became of the group rank. */
    mst_status (*say_lost)(void *context, int rank);
    /* Its global rank. */
    int (*global)(void *context, int rank);
    /* The address it is reached at from other hosts. */
    const char *(*address)(void *context, int rank);
    /* "rank 3 (host a, pid 12)", or for -1 the group itself; returns out. */
    const char *(*show)(void *context, int rank, char *out, size_t size);
    /* Have all ranks that are known to have chosen a backend chosen the same? Does not wait for the others. */
    mst_status (*agree)(void *context, const struct msi_wait *wait);
    /* The same for whoever waits for long, because of an operation that others may never come to. */
    mst_status (*look)(void *context, const struct msi_waiting *at);
};

struct msi_comm_place {
    int rank, size;
    const int *pids;                 /* by group rank; copied */
    const char *key;                 /* prefix of its keys in the store: no other comm's; copied */
    const int *hosts;                /* by group rank: its host, from 0 up without gaps; copied */
    int n_hosts, largest;            /* hosts, and ranks of the group on the fullest */
    struct msi_endpoint *endpoint;   /* the world's */
    const struct msi_tuning *tuning; /* borrowed */
    int streams;                     /* connections with a rank of another host; 0: as is best */
    int local_ranks;                 /* ranks of the world on this host */
    const mst_backend *table;        /* whose engine it shall have; NULL: native */
    uint32_t forced;                 /* kinds that shall be composed: 1 << MST_KIND_… */
    bool stage;                      /* memory that the engine cannot use is copied */
    bool check;                      /* ranks compare collectives before the engine begins them */
    int world_size, local_rank;
};

struct msi_comm;

struct msi_failure {
    mst_status status; /* MST_OK: none */
    int culprit;       /* group rank; -1: none is known */
    int global;        /* the rank that the message blames; -1: none */
    char message[600];
    char remedy[200];
};

enum { MSI_MESSAGE_HEAD = 16 };

/* A message to or from another rank. */
struct msi_message {
    bool send;
    void *buf; /* only read, if it is sent */
    size_t bytes;
    mst_dtype dtype;
    int tag, peer;       /* peer: group rank; -1: any */
    mst_bytes *allocate; /* receive: a byte string of whatever length comes */
    bool measured;       /* its length is the sender's secret */
    bool numbered;       /* it has a number, which can be given back: comm_internal.h */
    int *sender;         /* receive: where its global rank shall go */

    /* The rest is p2p's. */
    struct msi_list node;
    bool posted, met, through;
    int from;
    unsigned char head[MSI_MESSAGE_HEAD];
    struct msi_transfer head_transfer, body_transfer;
    uint64_t length; /* of one that is measured, where an engine carries it … */
    bool body;       /* … and what follows that is under way */
};

/* One operation. Whoever fills it in leaves what is below the line alone. */
struct mst_work {
    struct msi_shm_coll host;
    void (*begin)(struct msi_shm_coll *host); /* NULL: it is a message */
    struct msi_message message;
    const char *name; /* of the public call */
    mst_site site;
    int timeout_ms;
    struct msi_wait
        wait; /* its deadline is set when the clock is first looked at: a short operation never does */
    bool deterministic; /* the bits of a result depend on the inputs alone */
    bool name_first;    /* at the deadline name only the first rank that is missing */
    mst_memory memory;  /* of its buffers */
    void *stream;       /* of the device: ordered there */

    struct msi_op_trace mark; /* for who wants to know of it */

    /* ---- */
    struct msi_list node; /* in the comm's queue or among the spare ones */
    struct msi_comm *comm;
    bool held;     /* the program has a handle of it, … */
    unsigned turn; /* … which is of this turn */
    bool begun, done;
    bool abandoned;     /* nobody will wait for it */
    mst_backend_op job; /* for an engine */
    unsigned batch;     /* it belongs to; 0: none */
    struct msi_failure failure;
    void (*callback)(mst_status status, void *arg);
    void *arg;
    /* Room for an entry per rank. */
    const void **sources;
    void **targets;
    char **in_list, **out_list;
    size_t *in_lens, *out_lens, *in_starts, *out_starts;
};

mst_status msi_comm_new(const struct msi_comm_place *place, const struct msi_comm_hooks *hooks,
                        struct msi_comm **comm);
void msi_comm_free(struct msi_comm *comm);

/* This rank is about to end the comm because of the thread's last failure: tells the others, who then need not look for reasons. */
void msi_comm_tell_end(struct msi_comm *comm, mst_status status);

/* Is nothing under way? */
bool msi_comm_idle_now(struct msi_comm *comm);
/* Is it of no use any more: has it failed, or could its engine not be opened? */
bool msi_comm_has_failed(struct msi_comm *comm);
/* How many collectives were begun, and the prefix of its keys. */
uint64_t msi_comm_count(const struct msi_comm *comm);
const char *msi_comm_key(const struct msi_comm *comm);

/* Joins the ranks of the group, who all call it, before their first operation. */
mst_status msi_comm_open(struct msi_comm *comm, int timeout_ms, mst_cancel *cancel);

/* Fails as the comm has, if it has. */
mst_status msi_comm_check(struct msi_comm *comm);

/* An operation to fill in: zeroed but for its arrays. */
mst_status msi_comm_alloc_op(struct msi_comm *comm, int timeout_ms, mst_cancel *cancel, const char *name,
                             struct mst_work **op);
/* Gives back one that was not submitted. */
void msi_comm_release_op(struct mst_work *op);

/*
 * Operations that are submitted between the two are a batch: they begin together, where the comm's engine can do that. False: it cannot,
 * and there is nothing to end. Those of different threads come one after the other.
 */
bool msi_comm_batch_begin(struct msi_comm *comm);
void msi_comm_batch_end(struct msi_comm *comm);

/*
 * A blocking message that needs no operation: one that fits, whole, into what the link has free, or that has come, whole, or
 * comes while it is looked for. True: it is through. False: nothing has happened, and an operation is needed.
 */
bool msi_comm_message_now(struct msi_comm *comm, const struct msi_message *message);
/* The number of one that is through: see prof/record/message_seq.h. Asked for once, and only while somebody watches. */
uint64_t msi_comm_message_number(struct msi_comm *comm, const struct msi_message *message);

/*
 * Both join the ranks of the group first, if they have not met yet. A barrier that runs out of time there counts all the
 * same.
 */

/* Runs it to its end, and takes it back. */
mst_status msi_comm_run(struct mst_work *op);
/* Lets it run by itself; until msi_comm_finish or msi_comm_abandon it stays. */
mst_status msi_comm_submit(struct mst_work *op);

/* Orders it on its stream, and takes it back; one that cannot be left alone there is run to its end. */
mst_status msi_comm_enqueue(struct mst_work *op);
/* The program's handle of one that was submitted. */
mst_work *msi_comm_export(struct mst_work *op);

/*
 * What programs do with their handles. Each fails with MST_ERR_STATE for a handle that was waited for or freed before, or whose
 * group is gone.
 */
/* Waits for its end and takes it back; MST_ERR_TIMEOUT or MST_ERR_CANCELLED leave it as it was. */
mst_status msi_comm_finish(mst_work *handle, const struct msi_wait *wait);
/* Is it done? Helps it along if not. */
mst_status msi_comm_test(mst_work *handle, bool *done);
/* How it went; MST_ERR_STATE too if it is not done yet. */
mst_status msi_comm_result(mst_work *handle);
/* Lets it run by itself. */
mst_status msi_comm_abandon(mst_work *handle);
/* The same, but fails as it has, if it has by now: if it does later, so does what was submitted behind it. */
mst_status msi_comm_leave(mst_work *handle);
/* Calls back when it is done, or now. A callback may begin operations and give back works, but not wait. */
mst_status msi_comm_on_done(mst_work *handle, void (*callback)(mst_status, void *), void *arg);
/* Is this thread in a callback? And a failure for what would wait there. */
bool msi_comm_in_callback(void);
mst_status msi_comm_refuse_waiting(void);

#endif
