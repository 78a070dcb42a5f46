/* comm_internal.h - the communicator's struct, and what its files and the engines share. See comm.h. */
#ifndef MSI_COMM_COMM_INTERNAL_H
#define MSI_COMM_COMM_INTERNAL_H

#include "base/handles.h"
#include "comm/checked_calls.h"
#include "comm/comm.h"
#include "comm/engine.h"
#include "os/lock.h"
#include "os/thread.h"
#include "prof/record/message_seq.h"

/* How long a wait has gone on. */
struct msi_idle {
    uint32_t turns;
    int64_t since; /* 0 before the clock was read */
    int64_t asked; /* when the store was last asked */
    int sleep_ms;
    bool told;     /* the others know for whom it waits */
    uint64_t news; /* of the engine, about which the store was asked */
};

/* Which rank is where. The arrays have an entry per group rank. */
struct msi_comm_ranks {
    int *pids;
    int *globals;        /* rank in the world */
    int *slots;          /* number among the ranks of this host; -1: it is on another host */
    int local;           /* ranks on this host */
    bool oversubscribed; /* more ranks than processors: … */
    int sharing;         /* … so many ranks share one, at most */
    bool one_host;       /* all ranks of the world are on this host */
    struct msi_hosts hosts;
};

/* Records how many ranks share a processor. */
static inline void msi_comm_share_processors(struct msi_comm_ranks *ranks, int n_ranks, int processors) {
    int sharing = (n_ranks + processors - 1) / processors;
    if (sharing > ranks->sharing) ranks->sharing = sharing;
    ranks->oversubscribed = ranks->sharing > 1;
}

/* What an engine tells about itself when it opens. */
struct msi_engine_traits {
    uint32_t spins;        /* checks before the thread yields the processor */
    int max_fds;           /* most descriptors that poll_fds writes */
    bool own_thread;       /* only the thread that opened it may call it */
    bool batches;          /* operations of a batch begin together */
    bool by_clock;         /* progress may take long, so that only the clock tells how long a wait is … */
    bool pollable;         /* … and a descriptor ends it */
    bool uses_store;       /* ranks report waits and failures in the store */
    bool barrier_survives; /* a barrier that timed out or was cancelled leaves the communicator usable */
};

/* Successive collectives that this rank has rejected; 0: none. */
struct msi_rejected {
    uint64_t first, last;
    char text[500]; /* the first call, and the reason */
};

/* Operations, by their state. */
struct msi_comm_lists {
    struct msi_list queue;    /* collectives under way; the first one is being run */
    struct msi_list messages; /* messages under way, all at a time */
    struct msi_list ended;    /* ended, but their callbacks have not run */
    struct msi_list kept;     /* done, and not waited for yet */
    struct msi_list spare;    /* free, for reuse */
};

struct msi_comm {
    int rank, size;
    char *key;       /* prefix of its keys in the store */
    uint64_t number; /* hash of the key: identifies the group in hellos to other hosts */
    struct msi_comm_ranks ranks;
    struct msi_comm_config config;
    struct msi_comm_hooks hooks;

    const struct msi_engine *engine;
    void *state; /* of the engine */
    struct msi_engine_traits traits;
    bool joined; /* the engine is open */

    struct msi_failure failure;
    struct msi_rejected rejected;
    struct {
        _Atomic bool called; /* the first msi_comm_abort has begun */
        _Atomic bool known;  /* failure is set, and does not change; the lock may be taken later */
        struct msi_failure failure;
    } abort;
    struct msi_comm_lists ops;
    struct msi_checked_calls checked;
    struct msi_file_tail tail;          /* of the last call's file name */
    uint32_t recent[MSI_RECENT];        /* as in struct msi_waiting, where ranks report waits in the store */
    struct msi_message_seq message_seq; /* numbers of messages, while profiling */

    struct msi_lock lock; /* rule 2 */
    struct msi_condition changed;
    pthread_t thread;
    bool threaded, ending; /* the communicator's thread advances the operations; it is to end */
    bool resting;          /* it sleeps until msi_comm_rouse */
    struct msi_condition roused;
    int inside; /* threads that run a blocking operation themselves */

    struct {
        bool running;          /* callbacks of operations that ended … */
        pthread_t thread;      /* … by this thread, … */
        struct mst_work *work; /* … which is in the callback of this one */
        struct msi_pool *pool; /* for those that may wait; NULL before the first */
    } callbacks;
    struct {
        unsigned current, count; /* the batch that is being submitted, 0: none; number of batches so far */
        pthread_t thread;        /* the thread that submits it: batches do not mix */
        bool messages;           /* some messages of a batch may not have begun */
    } batch;
    struct {
        uint64_t reported;     /* hash of this rank's wait report in the store; 0: none */
        struct msi_idle tests; /* of a program that tests a work in a loop */
        /* What a sleep polls: processes of the ranks, the cancellation, and the engine's descriptors. NULL
         * before it is needed. */
        struct pollfd *fds;
        bool watches;          /* the processes are among them */
        bool sleeping;         /* a thread sleeps until something that it knew of happens */
        int64_t crowded_until; /* threads that compute need the processor: waits sleep instead of yielding */
        bool store_lost;       /* the store was lost when it was last asked */
        _Atomic int64_t until; /* when questions to the store must end, because of a deadline; 0: no matter */
        _Atomic int64_t asked; /* when the last question to the store began */
        _Atomic int64_t silent_since; /* when the first one began that it has not answered; 0: it answers */
        /* The ranks that hosted the store when these questions began; a standby may have taken over. */
        _Atomic int asked_host, silent_host;
        int told; /* store_host: lost ranks of which the others have had time to learn; -1: of a failure */
        int turn; /* the first rank of the next question about a receive from any source */
        bool connecting; /* the collective under way waits for links, and so for the store */
    } waiting;
};

/* Rule 2. */
static inline void msi_comm_lock(struct msi_comm *comm) {
    msi_lock_enter(&comm->lock);
}
static inline void msi_comm_unlock(struct msi_comm *comm) {
    msi_lock_leave(&comm->lock);
}

/* Must the ranks compare this collective, because it is the first of its kind or MUSTER_CHECK is set? */
static inline bool msi_comm_must_compare(const struct msi_comm *comm, const struct msi_op *op) {
    return comm->size > 1 && (comm->config.check || !msi_is_checked(&comm->checked, op->hash));
}

/* The deadline of a wait before the clock is read. */
#define MSI_NO_DEADLINE INT64_MAX

/*
 * How ranks of a host read each other's memory. The time of a copy says nothing about CMA if ranks share a
 * processor. CMA is used then, since it needs fewer context switches.
 */
static inline enum msi_copy_mode msi_comm_cma_mode(const struct msi_comm *comm) {
    bool measures = comm->config.cma == MSI_COPY_AUTO;
    return measures && comm->ranks.oversubscribed ? MSI_COPY_ALWAYS : comm->config.cma;
}

/* Checks before the thread yields the processor: one if the host is oversubscribed, few if it is needed. */
static inline uint32_t msi_comm_spins(const struct msi_comm *comm) {
    enum { FEW = 100 };
    uint32_t spins = comm->traits.spins;
    if (comm->ranks.oversubscribed) return 1;
    return comm->waiting.crowded_until && spins > FEW ? FEW : spins;
}

static inline int msi_comm_global(const struct msi_comm *comm, int rank) {
    return comm->hooks.global(comm->hooks.context, rank);
}
static inline const char *msi_comm_show(const struct msi_comm *comm, int rank, char *out, size_t size) {
    return comm->hooks.show(comm->hooks.context, rank, out, size);
}
/* The group rank of a global rank; -1: none. */
static inline int msi_comm_rank_of(const struct msi_comm *comm, int global) {
    for (int r = 0; r < comm->size && global >= 0; r++)
        if (comm->ranks.globals[r] == global) return r;
    return -1;
}

/*
 * Questions to the store during a wait. A store that does not answer must not delay the operation's own
 * deadline, and is asked only now and then. False: do not ask now. Relaxed: the times order nothing.
 */
bool msi_comm_may_ask(struct msi_comm *comm, int most_ms, struct msi_wait *wait);
/* The store was asked, with that result, which is returned. */
mst_status msi_comm_asked(struct msi_comm *comm, mst_status status);
/* Learns from the store which ranks are lost; MST_ERR_TIMEOUT: it does not answer. */
mst_status msi_comm_refresh(struct msi_comm *comm);

/* The next operation that is waited for: the first collective, then all messages. Begins with NULL, and
 * ends with it. */
struct mst_work *msi_comm_next_active(struct msi_comm *comm, const struct mst_work *work);

/* Called first by the open slots of engines: have all ranks that are known to have chosen a backend chosen
 * the same? */
static inline mst_status msi_comm_agree(const struct msi_comm *comm, const struct msi_wait *wait) {
    return comm->hooks.agree(comm->hooks.context, wait);
}

/* Did this rank reject the collective with that number, not long ago? */
static inline bool msi_comm_has_rejected(const struct msi_comm *comm, uint64_t seq) {
    return seq && comm->rejected.first <= seq && seq <= comm->rejected.last;
}

/* For engines whose ranks report waits in the store: the collective has got its number. */
static inline void msi_comm_numbered(const struct mst_work *work) {
    work->comm->recent[work->seq % MSI_RECENT] = work->op.hash;
}

/* Opens the engine, if it is not open; work is the first operation. */
mst_status msi_comm_join(struct mst_work *work);
/* Begins an operation of a communicator that another engine drives; once it is done, release it. */
mst_status msi_comm_begin_here(struct mst_work *work);

/* Does the communicator's thread advance what was submitted? Else the threads that wait or test do. */
static inline bool msi_comm_has_thread(const struct msi_comm *comm) {
    return comm->threaded && !comm->traits.own_thread;
}

/* Under the lock: the communicator's thread has something to do. */
static inline void msi_comm_rouse(struct msi_comm *comm) {
    comm->resting = false;
    msi_condition_tell(&comm->roused);
}
/* Is nothing under way? */
static inline bool msi_comm_is_quiet(const struct msi_comm *comm) {
    return msi_list_empty(&comm->ops.queue) && msi_list_empty(&comm->ops.messages);
}

/* Ends an operation that cannot begin: completes the profiler's record and releases the operation. Returns
 * the status. */
mst_status msi_comm_refuse(struct mst_work *work, mst_status status);
/* The program gets the result of an operation. A failure: writes the flight recorder's file, and lets other
 * ranks learn of it. Without the lock. Returns the status. */
mst_status msi_comm_hand_out(struct msi_comm *comm, mst_status status);
/* Completes the profiler's record of an operation. */
void msi_comm_trace_end(struct mst_work *work);
/* Completes an operation; it counts as done after its callback has returned. */
void msi_comm_end(struct mst_work *work);
/* Marks an operation as done, after its callback has returned. */
void msi_comm_finish_op(struct mst_work *work);

/* The group rank at the other end of a message; -1: none yet. */
static inline int msi_comm_peer(const struct mst_work *work) {
    return work->source >= 0 ? work->source : work->op.desc.peer;
}

/* Numbers a message when it is issued, or when it is matched if it is wild: its sender and its tag are known
 * then. Under the lock. */
static inline void msi_comm_number(struct mst_work *work, int peer) {
    const mst_backend_op *desc = &work->op.desc;
    if (!msi_sinks_on()) return;
    work->numbered = !work->wild;
    uint64_t number =
        msi_message_seq_next(&work->comm->message_seq, peer, desc->tag, desc->kind == MST_KIND_SEND);
    if (work->op_trace.on) msi_op_trace_number(&work->op_trace, number);
}
/* Takes back the number of a message that was withdrawn and of which the other rank has seen nothing. A
 * second call has no effect. */
static inline void msi_comm_unnumber(struct mst_work *work) {
    const mst_backend_op *desc = &work->op.desc;
    if (work->numbered && work->source < 0)
        msi_message_seq_undo(&work->comm->message_seq, desc->peer, desc->tag, desc->kind == MST_KIND_SEND);
    work->numbered = false;
}
/* A receive has matched a message of that rank with that tag. */
static inline void msi_comm_matched(struct mst_work *work, int peer, int tag) {
    work->source = peer;
    work->op.desc.tag = tag;
    if (!work->wild || work->op.probe) return;
    msi_comm_number(work, peer);
    if (work->op_trace.on) msi_op_trace_match(&work->op_trace, msi_comm_global(work->comm, peer), tag);
}
/* Tells the program which message a receive has got, or a probe has found. */
static inline void msi_comm_tell_message(const struct mst_work *work, int sender) {
    const struct msi_op *op = &work->op;
    if (op->sender) *op->sender = sender;
    if (op->message) *op->message = (mst_message){sender, op->desc.tag, msi_op_bytes(op)};
}

/* Advances what is under way; true if anything moved or ended. */
static inline bool msi_comm_advance(struct msi_comm *comm) {
    return comm->engine->progress(comm);
}
/*
 * For engines that run collectives one at a time: calls step for the first collective, and for the next ones
 * as long as they can advance. Calls leave for a collective that had begun and failed while the communicator
 * continues.
 */
bool msi_comm_advance_queue(struct msi_comm *comm, enum msi_advance (*step)(struct mst_work *),
                            void (*leave)(struct mst_work *));

/* A step found that the operation fails. Returns MSI_FAILED. */
static inline enum msi_advance msi_fault(struct mst_work *work, mst_status status, int culprit,
                                         const char *why) {
    work->fault = (struct msi_fault){.status = status, .culprit = culprit, .why = why};
    return MSI_FAILED;
}

/*
 * Called when nothing moved: spins, yields or sleeps, depending on how long the wait has lasted. Fails the
 * communicator if the deadline of an operation has passed, it was cancelled or a rank that it needs is lost.
 * may_sleep false: only spins or yields.
 */
void msi_comm_idle(struct msi_comm *comm, struct msi_idle *idle, bool may_sleep);
/* Is the wait too short for a sleep so far? */
bool msi_comm_is_patient(const struct msi_comm *comm, const struct msi_idle *idle);
/* Frees what sleeping has allocated. */
void msi_comm_stop_watching(struct msi_comm *comm);

/* Was the process of that rank seen to end? */
static inline bool msi_comm_has_ended(const struct msi_comm *comm, int rank) {
    return comm->waiting.fds && comm->waiting.fds[rank].events == 0;
}
/* Has that rank destroyed the group? */
static inline bool msi_comm_has_left(const struct msi_comm *comm, int rank) {
    return comm->engine->has_left && comm->engine->has_left(comm, rank);
}

/* Has another rank announced that the group has failed? Then it has failed here too. */
static inline bool msi_comm_hear_failure(struct msi_comm *comm) {
    return comm->engine->hear_failure && comm->engine->hear_failure(comm);
}

/* On another thread than the communicator's own: msi_comm_advance, and the callbacks of what ended. */
bool msi_comm_help(struct msi_comm *comm);
/* Under the lock: moves an operation from its list to the spare ones. */
static inline void msi_comm_spare(struct mst_work *work) {
    msi_list_remove(&work->node);
    msi_list_push(&work->comm->ops.spare, &work->node);
}

/* Under the lock: the program begins to wait for an operation that is under way. */
void msi_comm_begin_wait(struct mst_work *work);
/* Is the operation done, or is this thread in its callback? */
bool msi_comm_is_over(const struct mst_work *work);
/* The result of an operation that is over. */
mst_status msi_comm_explain(const struct mst_work *work);
/* Under the lock: waits for an operation that the program holds with this generation; then releases it,
 * unless keep. */
mst_status msi_comm_wait_for(struct mst_work *work, unsigned generation, const struct msi_wait *wait,
                             bool keep);

/* Under the lock, which is released meanwhile: calls the callbacks of operations that have ended. */
void msi_comm_run_callbacks(struct msi_comm *comm);
/* Under the lock: see msi_comm_on_done. */
mst_status msi_comm_add_callback(struct mst_work *work, void (*call)(mst_status, void *), void *arg,
                                 bool may_wait);
/* The group is being destroyed: calls the callbacks of works that will not be done, and waits for those that
 * may wait. */
void msi_comm_call_off(struct msi_comm *comm);

/* Generations of the handles of one operation; those of several have larger ones. */
enum { MSI_WORK_GENERATIONS = MSI_HANDLE_GENERATIONS / 2 };

/* The calls on handles of comm.h, for the handle of one operation. */
mst_status msi_one_finish(mst_work *handle, const struct msi_wait *wait, bool keep);
mst_status msi_one_test(mst_work *handle, bool *done);
mst_status msi_one_result(mst_work *handle);
mst_status msi_one_abandon(mst_work *handle);
mst_status msi_one_on_done(mst_work *handle, void (*callback)(mst_status, void *), void *arg, bool may_wait);
/* The failure of calls with a handle that is invalid. */
mst_status msi_refuse_handle(void);
/* The failure of msi_comm_result before the end. */
mst_status msi_refuse_result(void);

/* Several operations with one handle. */
struct msi_combined {
    mst_work *handle;
    bool valid; /* the handle is */
    int users;  /* threads that use it */
    size_t n;
    mst_work *parts[];
};
/* Until msi_combined_put its memory is valid. NULL: the handle is not one of several operations. */
struct msi_combined *msi_combined_get(mst_work *handle);
void msi_combined_put(struct msi_combined *combined);

/*
 * Ends the operation with the thread's last failure, which blames a group rank or none (-1). Ends the
 * communicator too, unless rule 3 of comm.h exempts the failure, and informs the other ranks.
 */
void msi_comm_fail(struct msi_comm *comm, struct mst_work *work, mst_status status, int culprit);
/* The same with a message about work->fault. */
void msi_comm_fail_fault(struct mst_work *work);
/* Stores the thread's last failure, which blames a group rank or none (-1). */
void msi_comm_keep(struct msi_comm *comm, struct msi_failure *failure, mst_status status, int culprit);
/* Fails if this rank has aborted the group. For waits that hold the lock. */
mst_status msi_comm_check_own_abort(struct msi_comm *comm);
/* Under the lock: ends the communicator, which this rank has aborted, and informs the other ranks. */
void msi_comm_end_aborted(struct msi_comm *comm);
/* Ends the communicator with the failure of an operation, and informs the other ranks. */
void msi_comm_give_up(struct msi_comm *comm, const struct mst_work *work);
/* Fails this thread with a failure that was stored. */
mst_status msi_comm_repeat(const struct msi_failure *failure);

/* Fails because a rank cannot be reached any more; the message says what happened to the rank. */
mst_status msi_comm_say_cut_off(struct msi_comm *comm, mst_status status, int rank, const char *why,
                                bool only_it);
/* The store is lost, which the thread's last failure says. Fails with an earlier loss of a rank, if one is
 * known; else with that failure. */
mst_status msi_comm_say_store_lost(struct msi_comm *comm);
/*
 * An operation has failed, and the program may end because of that. If the store ends with it, the other
 * ranks would see only that: waits for a moment until they know the cause. Without the lock.
 */
void msi_comm_let_others_learn(struct msi_comm *comm, mst_status status);
/* The rank that hosts the store, if it does not answer; -1: it does, or it is none of the group. */
int msi_comm_silent_host(struct msi_comm *comm);
/* Fails at the deadline of a message that has not arrived or was not received; the message names the rank
 * that keeps it waiting: its peer, or another one for which the peer waits; for a receive from any rank those
 * that can send. *culprit is a group rank or -1. */
mst_status msi_comm_say_unmatched(struct msi_comm *comm, const struct mst_work *work, int *culprit);
/* Fails with MST_ERR_TIMEOUT because the program waits no longer; the message names the ranks that the
 * operation waits for. */
mst_status msi_comm_say_not_done(const struct mst_work *work);
/* Fails with MST_ERR_PEER_LOST because of a lost rank; only_it: see msi_comm_hooks. */
mst_status msi_comm_say_lost(struct msi_comm *comm, int rank, bool only_it);
/* Fails at the deadline of an operation; the message names the ranks that have not reached it. *culprit is a
 * group rank or -1. */
mst_status msi_comm_say_stalled(struct msi_comm *comm, const struct mst_work *work, int *culprit);
/* Writes the line of an operation that waits for long; it names the same ranks. */
void msi_comm_write_slow(struct msi_comm *comm, struct mst_work *work);

#endif
