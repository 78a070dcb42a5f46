/*
 * comm.h - a communicator: takes the operations of a group, runs them in order by its engine, waits, and
 * reports failures.
 *
 *  1. Collectives of a communicator run one after the other, in the order of their submission. Different
 *     communicators are independent of each other.
 *  2. Everything happens under the lock; a thread that waits lets go of it. A blocking operation runs on its
 *     caller's thread. The communicator's own thread is started by the first non-blocking operation, and when
 *     a thread comes while another one waits. From then on it advances these operations. It sleeps while
 *     nothing or only one blocking operation is under way.
 *  3. The first failure that leaves ranks at different points (a death, a deadline, a mismatch) ends the
 *     communicator: what is under way and what comes later fails with the same message, and the other ranks
 *     are told. Two failures of the native engines leave the communicator usable: of a message whose other
 *     rank has died or left, and of a barrier, which moves no data, that only timed out or was cancelled.
 *  4. Operations are reused. Memory is allocated only if more operations are under way than ever before, and
 *     for unexpected messages beyond some MiB.
 */
#ifndef MSI_COMM_COMM_H
#define MSI_COMM_COMM_H

#include "base/list.h"
#include "base/rank_list.h"
#include "coll/cost/select.h"
#include "comm/op.h"
#include "os/slow.h"
#include "os/team.h"
#include "prof/record/op_trace.h"
#include "store/store.h"
#include "transport/copy_trials.h"

#include <pthread.h>

struct msi_engine;
struct msi_endpoint;

enum { MSI_RECENT = 8, MSI_AWAITED_MOST = 4 };

/* An operation that waits for other ranks. */
struct msi_waiting {
    const char *comm; /* the communicator's key */
    const char *name; /* of the public call */
    uint64_t seq;     /* which collective of the communicator it is; 0: it is a message */
    struct msi_call_signature signature;
    /* Of a collective: hashes of the last calls, number s at s % MSI_RECENT. */
    uint32_t recent[MSI_RECENT];
    int awaited[MSI_AWAITED_MOST], n_awaited; /* some of the ranks that it waits for */
    bool late;                                /* it has waited for long */
    bool any;                                 /* one of them is enough */
};

/* Functions of the group that a communicator calls. */
struct msi_comm_hooks {
    void *context; /* passed to each of them */
    /* Runs requests on the world's store. */
    mst_status (*exec)(void *context, const struct msi_wait *wait, struct msi_store_rpc *x, size_t n);
    /* Learns from the store which ranks have died or left. */
    mst_status (*refresh)(void *context, const struct msi_wait *wait);
    /* Is this rank the last one that can serve the store: its standby, or its host without a standby? */
    bool (*keeps_store)(void *context);
    /* If a connection to the store is lost: how long it may take to be restored, perhaps to a standby; else
     * 0. */
    int64_t (*restore_ms)(void *context);
    /* The group rank that hosts the store; -1: none of the group. */
    int (*store_host)(void *context);
    /* Is the group rank known to have died or left? */
    bool (*is_gone)(void *context, int rank);
    /* Is the group rank known to have died? */
    bool (*has_died)(void *context, int rank);
    /* The rank of the group that was lost first, unless the program has got a failure that blames it; else
     * -1. */
    int (*unreported)(void *context);
    /* The program gets a failure that blames a global rank. */
    void (*reported)(void *context, int global);
    /* The same, for the thread's last failure: tells the others, in case that this rank ends. wait NULL: not
     * through the store. Without the lock. */
    void (*failed)(void *context, mst_status status, const struct msi_wait *wait);
    /* A call waits for that global rank for long. Without the lock. */
    void (*waits)(void *context, int global, const struct msi_wait *wait);
    /* A call has succeeded after that. Without the lock. */
    void (*succeeded)(void *context);
    /* The global rank because of which the last call of another one has failed, waits: or for which it waits;
     * -1: none. */
    int (*read_cause)(void *context, int global, bool waits, const struct msi_wait *wait);
    /* The group rank has ended because of that global rank. */
    void (*note_cause)(void *context, int rank, int global);
    /* Has the program acknowledged that the group rank died? */
    bool (*is_acknowledged)(void *context, int rank);
    /* Fails with MST_ERR_PEER_LOST. Blames the rank that was lost first, because others may have ended as a
     * consequence; if only_it and another call has reported that one, blames the given group rank. */
    mst_status (*say_lost)(void *context, int rank, bool only_it);
    /* The global rank of a group rank. */
    int (*global)(void *context, int rank);
    /* The address at which other hosts reach a group rank. */
    const char *(*address)(void *context, int rank);
    /* "rank 3 (host a, pid 12)", or for -1 the group itself; returns out. */
    const char *(*show)(void *context, int rank, char *out, size_t size);
    /* Have all ranks that are known to have chosen a backend chosen the same? Does not wait for the
     * others. */
    mst_status (*agree)(void *context, const struct msi_wait *wait);
    /* The same check during a long wait for an operation that other ranks may never call; also in a shorter
     * wait, whether they recover from the loss of a rank instead. */
    mst_status (*look)(void *context, const struct msi_waiting *at);
};

/* What engines need to know of the world. Pointers are borrowed. */
struct msi_comm_config {
    struct msi_endpoint *endpoint;   /* of the world */
    const struct msi_tuning *tuning; /* how algorithms are selected */
    int64_t slow_s;                  /* MUSTER_SLOW_S */
    int64_t spin_us;                 /* MUSTER_SPIN_US; 0: auto */
    enum msi_copy_mode cma;          /* MUSTER_CMA */
    enum msi_copy_mode nt_stores;    /* MUSTER_NT_STORES */
    struct msi_team *team;           /* copies and reduces large tensors; NULL: the caller alone */
    int sockets;                     /* connections with a rank of another host; 0: automatic */
    int world_size, local_rank;
    const mst_backend *backend; /* module: the loaded backend */
    uint32_t forced; /* module: kinds that are composed even if the backend has them: 1 << MST_KIND_… */
    bool stage;      /* module: memory that the backend cannot use is copied */
    bool check;      /* module: ranks compare collectives before the backend begins them */
};

struct msi_comm_options {
    const struct msi_engine *engine;
    const char *key; /* prefix of its keys in the store, which no other communicator has; copied */
    int rank, size;
    const int *pids;      /* by group rank; copied */
    const int *hosts;     /* by group rank: its host, numbered from 0 without gaps; copied */
    int n_hosts, largest; /* number of hosts; the most ranks of the group on one host */
    int local_ranks;      /* ranks of the world on this host */
    struct msi_comm_config config;
};

struct msi_comm;

struct msi_failure {
    mst_status status; /* MST_OK: none */
    int culprit;       /* group rank; -1: none is known */
    int global;        /* the rank that the message blames; -1: none */
    struct msi_ranks missing;
    char message[600];
    char remedy[200];
};

/* How a step of a collective failed. The error message is written from it later. */
struct msi_fault {
    mst_status status;
    int culprit;     /* group rank; -1: none */
    uint64_t seq;    /* the earlier operation in which the ranks differ; 0: this operation */
    const char *why; /* borrowed */
};

/* A callback of an operation. */
struct msi_callback {
    void (*call)(mst_status status, void *arg);
    void *arg;
    bool may_wait; /* it gets a thread of its own */
    struct msi_callback *next;
};

/* One operation. The caller of msi_comm_alloc_op fills in op and leaves the rest alone. */
struct mst_work {
    struct msi_op op;
    int timeout_ms;
    struct msi_wait
        wait; /* its deadline is set when the clock is first read: a short operation never reads it */
    struct msi_op_trace op_trace;

    struct msi_list node; /* in one list of the communicator */
    struct msi_comm *comm;
    uint64_t seq;        /* collectives: the number that the engine gave it */
    int source;          /* receives: the group rank whose message was matched; -1: none yet */
    bool wild;           /* message: its sender or its tag was left open when it began */
    bool numbered;       /* message: it has a number, which msi_comm_unnumber takes back */
    bool held;           /* the program has a handle of the work, … */
    unsigned generation; /* … which is of this generation */
    bool begun, done;
    bool enqueued;        /* it is on the program's stream, and the device executes it */
    bool abandoned;       /* the program will not wait for it */
    bool awaited;         /* the program waits for it, or for a collective that is queued behind it */
    bool blocking;        /* the program waits, without a cancellation, and nothing else is under way */
    bool after_failure;   /* it was allocated after a call of this process had failed: see succeeded */
    bool parted;          /* a rank has left that may have done its part: see wait.c */
    struct msi_slow slow; /* awaited: that wait, which begins when the clock is first read */
    unsigned batch;       /* the batch that it belongs to; 0: none */
    struct msi_fault fault;
    struct msi_failure failure;
    struct msi_callback *callbacks, first_callback; /* in the order in which they were set */
    /* Copies of the description's arrays, an entry per rank. */
    const void **in_list;
    void **out_list;
    size_t *in_counts, *out_counts;
    void *state; /* of the engine */
};

mst_status msi_comm_new(const struct msi_comm_options *options, const struct msi_comm_hooks *hooks,
                        struct msi_comm **comm);
void msi_comm_free(struct msi_comm *comm);

/* This rank is about to destroy the communicator because of the thread's last failure: tells the others. */
void msi_comm_tell_end(struct msi_comm *comm, mst_status status);

/*
 * Ends the communicator because this rank aborts the group: what is under way and what comes later fails,
 * here with MST_ERR_CANCELLED and the message own, on other ranks with MST_ERR_PEER_LOST and others, which
 * blames this rank, or the group rank cause unless that is -1.
 * Any thread may call it, also while others wait. Does nothing if the communicator has been aborted before.
 * MST_ERR_MEMORY: the other ranks have not been told; it may be repeated.
 */
mst_status msi_comm_abort(struct msi_comm *comm, int cause, const char *own, const char *others);
/* Fails if a rank has aborted the group; asks the store. */
mst_status msi_comm_check_abort(struct msi_comm *comm);

/* Is nothing under way? */
bool msi_comm_idle_now(struct msi_comm *comm);
/* Notes why ranks have ended, as far as the engine knows; without the store. */
void msi_comm_note_causes(struct msi_comm *comm);
/* Has the communicator failed, or could its backend not be opened? */
bool msi_comm_has_failed(struct msi_comm *comm);
/* The number of collectives that were begun, and the prefix of the communicator's keys. */
uint64_t msi_comm_count(const struct msi_comm *comm);
const char *msi_comm_key(const struct msi_comm *comm);

/* Joins the ranks of the group, which all call it, before their first operation. */
mst_status msi_comm_open(struct msi_comm *comm, int timeout_ms, mst_cancel *cancel);

/*
 * For a call that waits in the store instead of making the next collective: fails, and ends the communicator,
 * if another rank has failed or has rejected that call.
 */
mst_status msi_comm_look(struct msi_comm *comm, const struct msi_call_signature *own);
/* The number that the next collective will get. */
uint64_t msi_comm_next_number(struct msi_comm *comm);

/* Fails with the failure of the communicator, if it has failed. */
mst_status msi_comm_check(struct msi_comm *comm);

/*
 * An operation to fill in: its description is zeroed, with root, peer and sender -1. On success the caller
 * holds the lock until one of msi_comm_run, msi_comm_submit, msi_comm_enqueue, msi_comm_begin_here and
 * msi_comm_release_op has returned.
 */
mst_status msi_comm_alloc_op(struct msi_comm *comm, int timeout_ms, mst_cancel *cancel, const char *name,
                             struct mst_work **work);
/* Signs its description, which is complete: a collective. */
void msi_comm_sign(struct mst_work *work);
/* Copies the arrays of the description, so that the caller need not keep them. */
void msi_comm_copy_arrays(struct mst_work *work);
/* What an operation is, or the one that it was used for last. */
struct msi_op_call {
    const char *name;
    mst_site site;
};
void msi_comm_show_call(struct mst_work *work, struct msi_op_call *call);
/*
 * This rank has rejected a collective of that kind because of its arguments. Tells the other ranks, which get
 * MST_ERR_MISMATCH if they call it. Does not wait for them.
 */
void msi_comm_reject(struct msi_comm *comm, enum msi_kind kind, const struct msi_op_call *call,
                     const char *reason);
/* Fails if the engine has no streams. */
mst_status msi_comm_check_stream(const struct msi_comm *comm);
/* Fails if the engine cannot quantise: it is not a native one. */
mst_status msi_comm_check_quantize(const struct msi_comm *comm);
/*
 * Sets a flag that only holders of the lock set; false: it is set. The thread that has set it resets it with
 * msi_comm_unclaim, or without the lock if it has had the lock since it did what other threads may see.
 */
static inline bool msi_comm_claim_locked(_Atomic bool *flag) {
    if (atomic_load_explicit(flag, memory_order_relaxed)) return false;
    atomic_store_explicit(flag, true, memory_order_relaxed);
    return true;
}
/* The same without the lock, which it takes. */
bool msi_comm_claim(struct msi_comm *comm, _Atomic bool *flag);
void msi_comm_unclaim(struct msi_comm *comm, _Atomic bool *flag);
/* Gives back one that was not submitted, and lets go of the lock. */
void msi_comm_release_op(struct mst_work *work);

/*
 * Operations submitted between begin and end are a batch: they begin together, if the engine can do that.
 * False: the engine cannot, and the caller must not call end. Batches of different threads come one after the
 * other.
 */
bool msi_comm_batch_begin(struct msi_comm *comm);
void msi_comm_batch_end(struct msi_comm *comm);

/*
 * Transfers a blocking message without an operation: a send that fits into the free space of the link, or a
 * receive of a message that has arrived completely or arrives within a short spin. True: the message is done.
 * False: nothing has happened, and an operation is needed. A receive with any tag gets that of the message.
 */
bool msi_comm_message_now(struct msi_comm *comm, struct msi_op *op);
/* The number of a message that msi_comm_message_now has transferred: see prof/record/message_seq.h. Called
 * once, and only while profiling. */
uint64_t msi_comm_message_number(struct msi_comm *comm, const struct msi_op *op);

/*
 * A small blocking collective without an operation, in steps. enter_now takes the lock, if nothing else is
 * under way and the engine has a fast path. gate: the flag of msi_comm_claim, which must be free. sign_now
 * signs a description, once for any number of calls; false: it does not suit. begin_now announces the call;
 * false: nothing has happened, and an operation is needed. finish_now spins for a moment; true: the
 * collective is over. False: continue returns the operation that continues it, and run_begun runs that to its
 * end and releases the lock.
 */
bool msi_comm_enter_now(struct msi_comm *comm, const _Atomic bool *gate);
void msi_comm_leave_now(struct msi_comm *comm);
bool msi_comm_sign_now(struct msi_comm *comm, struct msi_op *op);
bool msi_comm_begin_now(struct msi_comm *comm, const struct msi_op *op);
bool msi_comm_finish_now(struct msi_comm *comm, const struct msi_op *op);
struct mst_work *msi_comm_continue(struct msi_comm *comm, const struct msi_op *op, int timeout_ms,
                                   mst_cancel *cancel);
mst_status msi_comm_run_begun(struct mst_work *work);

/* These join the ranks of the group first, if they have not been joined. */
/* Runs the operation to its end, and releases it. */
mst_status msi_comm_run(struct mst_work *work);
/* Starts the operation. It exists until msi_comm_finish or msi_comm_abandon. */
mst_status msi_comm_submit(struct mst_work *work);
/* Starts a message without a thread; msi_comm_complete runs it to its end, and releases it. */
mst_status msi_comm_start(struct mst_work *work);
mst_status msi_comm_complete(struct mst_work *work);
/* Looks once for the message of a probe, and releases the operation. Finds none: op.message is unchanged. */
mst_status msi_comm_probe_now(struct mst_work *work);
/* Orders the operation on its stream, and releases it. Runs it to its end if it cannot be ordered there. */
mst_status msi_comm_enqueue(struct mst_work *work);
/* Waits until an operation with a stream is on it, or over; not if its batch has not ended. Returns how it
 * ended, as a later wait does, or MST_OK if it is on the stream. */
mst_status msi_comm_await_stream(mst_work *handle);
/* The program's handle of an operation that was submitted. */
mst_work *msi_comm_export(struct mst_work *work);

/*
 * What programs do with their handles. Each fails with MST_ERR_STATE for a handle that was released before,
 * or whose group was destroyed.
 */
/* Waits for the end of the operation and releases the handle, unless keep. MST_ERR_TIMEOUT and
 * MST_ERR_CANCELLED leave it as it was. */
mst_status msi_comm_finish(mst_work *handle, const struct msi_wait *wait, bool keep);
/*
 * Waits until one of n operations is done, or all: msi_comm_finish does not block then. A handle that is
 * invalid counts as done; NULL is skipped, but with all false one must not be NULL. *done: the index of the
 * first one that is done.
 */
mst_status msi_comm_await(mst_work *const *handles, size_t n, const struct msi_wait *wait, bool all,
                          size_t *done);
/* Is the operation done? Advances it if not. */
mst_status msi_comm_test(mst_work *handle, bool *done);
/* The result of the operation; MST_ERR_STATE also if it is not done yet. */
mst_status msi_comm_result(mst_work *handle);
/* Releases the handle: the program does not wait for the operation. */
mst_status msi_comm_abandon(mst_work *handle);
/* The same, but cancels a message that is not done. The communicator may fail. */
mst_status msi_comm_withdraw(mst_work *handle);
/* The same, but returns the failure of an operation that has failed by now. If it fails later, the operations
 * submitted after it fail too. */
mst_status msi_comm_leave(mst_work *handle);
/*
 * Calls the callback when the operation is done, or now if it is. A plain callback may begin operations and
 * free works, but must not wait; the operation counts as done after it. One that may wait gets a thread of
 * its own, after the operation is done.
 */
mst_status msi_comm_on_done(mst_work *handle, void (*callback)(mst_status, void *), void *arg, bool may_wait);
/* Makes one handle of n, and sets the entries to NULL: its operation is done when all are done. */
mst_status msi_comm_combine(mst_work **handles, size_t n, mst_work **handle);
/* Is this thread in a plain callback? In any? And the failure of a call that would wait in a plain one. */
bool msi_comm_in_callback(void);
bool msi_comm_in_any_callback(void);
mst_status msi_comm_refuse_waiting(void);
/* Waits for the callbacks that may wait and have begun; false: there were none. */
bool msi_comm_drain_callbacks(struct msi_comm *comm);

#endif
