/*
 * callbacks.c - the callbacks of works. See comm.h.
 *
 * A plain callback runs on the thread that ends the operation, without the lock. The work counts as done
 * after its plain callbacks have returned. Then those that may wait are given to threads of their own.
 */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "os/pool.h"
#include "prof/flight/dump.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Thread_local int plain;   /* plain callbacks that this thread is in */
static _Thread_local int waiters; /* callbacks that may wait, which this thread is in */
static _Atomic int of_all;        /* callbacks that all threads are in; cheaper to read */

/* Which operation a callback is told of, and how it ended. Copied, because the operation is reused. */
struct ended {
    struct msi_op_call call;
    int rank; /* of this process */
    uint64_t seq;
    bool after_failure; /* of the work */
    struct msi_failure failure;
};

/* A callback that may wait. */
struct waiter {
    struct msi_job job;
    struct msi_callback callback;
    struct ended ended;
};

static struct ended describe(const struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    struct ended ended = {.call = {work->op.name, work->op.site},
                          .rank = comm->ranks.globals[comm->rank],
                          .seq = work->seq,
                          .after_failure = work->after_failure};
    if (work->failure.status != MST_OK) ended.failure = work->failure;
    return ended;
}

struct told {
    const struct msi_callback *callback;
    const struct ended *ended;
};

/* Makes the failure the thread's last one. */
static void repeat(const struct ended *ended) {
    msi_call_begin(ended->call.name, &ended->call.site, ended->rank);
    msi_call_sequence(ended->seq);
    if (ended->failure.status != MST_OK) msi_comm_repeat(&ended->failure);
}

static void call_back(void *context) {
    const struct told *told = context;
    repeat(told->ended);
    told->callback->call(told->ended->failure.status, told->callback->arg);
}

static void tell(int *kind, const struct msi_callback *callback, const struct ended *ended) {
    atomic_fetch_add_explicit(&of_all, 1, memory_order_relaxed); /* only this thread must see it */
    ++*kind;
    msi_call_aside(call_back, &(struct told){callback, ended});
    --*kind;
    atomic_fetch_sub_explicit(&of_all, 1, memory_order_relaxed);
}

/* A result that the program learns from a callback. */
struct handed_out {
    struct msi_comm *comm;
    const struct ended *ended;
};

static void hand_out(void *context) {
    const struct handed_out *out = context;
    repeat(out->ended);
    msi_comm_hand_out(out->comm, out->ended->failure.status);
}

/* Under the lock, which is released meanwhile: tells the other ranks of a failure, or of a success after one.
 * That is done before the callbacks, because the program may end after them. msi_one_finish does the same for
 * a program that waits. */
static void tell_others(struct msi_comm *comm, const struct ended *ended) {
    if (ended->failure.status == MST_OK && !ended->after_failure) return;
    if (ended->failure.status != MST_OK) comm->hooks.reported(comm->hooks.context, ended->failure.global);
    msi_comm_unlock(comm);
    msi_call_aside(hand_out, &(struct handed_out){comm, ended});
    msi_comm_lock(comm);
}

static void run_waiter(struct msi_job *job) {
    struct waiter *waiter = msi_container(job, struct waiter, job);
    tell(&waiters, &waiter->callback, &waiter->ended);
    free(waiter);
}

bool msi_comm_in_callback(void) {
    return atomic_load_explicit(&of_all, memory_order_relaxed) && plain > 0;
}

bool msi_comm_in_any_callback(void) {
    return atomic_load_explicit(&of_all, memory_order_relaxed) && plain + waiters > 0;
}

mst_status msi_comm_refuse_waiting(void) {
    return msi_fail(MST_ERR_STATE, "set the callback with .may_wait, or start the operation with .work",
                    "a callback of a work cannot wait");
}

/* Under the lock, which is released meanwhile: also calls those that are set meanwhile. */
static void call_plain(struct mst_work *work, const struct ended *ended) {
    for (struct msi_callback **at = &work->callbacks; *at;) {
        if ((*at)->may_wait) {
            at = &(*at)->next;
            continue;
        }
        struct msi_callback callback = **at; /* its memory may be used for one that is set meanwhile */
        if (*at != &work->first_callback) free(*at);
        *at = callback.next;
        msi_comm_unlock(work->comm);
        tell(&plain, &callback, ended);
        msi_comm_lock(work->comm);
        at = &work->callbacks;
    }
}

/* Gives a callback that may wait to a thread of its own. */
static void start_waiter(struct msi_comm *comm, struct msi_callback *callback, const struct ended *ended) {
    struct waiter *waiter = msi_container(callback, struct waiter, callback);
    waiter->ended = *ended;
    msi_pool_run(comm->callbacks.pool, &waiter->job);
}

/* Under the lock. */
static void start_waiters(struct mst_work *work, const struct ended *ended) {
    struct msi_callback *next = work->callbacks;
    work->callbacks = NULL;
    while (next) {
        struct msi_callback *callback = next;
        next = next->next;
        start_waiter(work->comm, callback, ended);
    }
}

/* Without the lock, since writing a file takes time. */
static void write_flight(struct msi_comm *comm) {
    if (!msi_flight_is_noted()) return;
    msi_comm_unlock(comm);
    msi_flight_keep();
    msi_comm_lock(comm);
}

void msi_comm_run_callbacks(struct msi_comm *comm) {
    write_flight(comm);
    if (comm->callbacks.running) return; /* the thread that runs callbacks runs these too */
    comm->callbacks.running = true;
    comm->callbacks.thread = pthread_self();
    while (!msi_list_empty(&comm->ops.ended)) {
        struct mst_work *work = msi_container(comm->ops.ended.next, struct mst_work, node);
        struct ended ended = describe(work);
        msi_list_remove(&work->node);
        comm->callbacks.work = work;
        if (work->callbacks) tell_others(comm, &ended);
        call_plain(work, &ended);
        comm->callbacks.work = NULL;
        start_waiters(work, &ended); /* before a wait returns: see msi_comm_drain_callbacks */
        msi_comm_finish_op(work);
    }
    comm->callbacks.running = false;
}

static struct msi_callback *new_plain(struct mst_work *work) {
    if (work->callbacks) return calloc(1, sizeof *work->callbacks);
    work->first_callback = (struct msi_callback){0}; /* the usual case, without an allocation */
    return &work->first_callback;
}

static struct msi_callback *new_waiter(struct msi_comm *comm) {
    if (!comm->callbacks.pool) comm->callbacks.pool = msi_pool_new();
    struct waiter *waiter = comm->callbacks.pool ? calloc(1, sizeof *waiter) : NULL;
    if (!waiter) return NULL;
    waiter->job.run = run_waiter;
    waiter->callback.may_wait = true;
    return &waiter->callback;
}

static void append(struct msi_callback **list, struct msi_callback *callback) {
    while (*list) list = &(*list)->next;
    *list = callback;
}

/* Under the lock, which is released meanwhile. The operation is done, and may be reused meanwhile. */
static void call_now(const struct mst_work *work, const struct msi_callback *callback) {
    struct msi_comm *comm = work->comm;
    struct ended ended = describe(work);
    tell_others(comm, &ended);
    msi_comm_unlock(comm);
    tell(&plain, callback, &ended);
    msi_comm_lock(comm);
}

mst_status msi_comm_add_callback(struct mst_work *work, void (*call)(mst_status, void *), void *arg,
                                 bool may_wait) {
    if (work->done && !may_wait) {
        call_now(work, &(struct msi_callback){.call = call, .arg = arg});
        return MST_OK;
    }
    struct msi_callback *callback = may_wait ? new_waiter(work->comm) : new_plain(work);
    if (!callback) return msi_fail_errno(errno, "cannot set a callback");
    callback->call = call;
    callback->arg = arg;
    if (!work->done) {
        append(&work->callbacks, callback);
        return MST_OK;
    }
    struct msi_comm *comm = work->comm; /* the work may be reused meanwhile */
    struct ended ended = describe(work);
    tell_others(comm, &ended);
    start_waiter(comm, callback, &ended);
    return MST_OK;
}

static void invalidate(struct msi_list *list) {
    for (struct msi_list *at = list->next; at != list; at = at->next)
        msi_container(at, struct mst_work, node)->held = false;
}

static void call_off(const struct msi_list *list) {
    for (const struct msi_list *at = list->next; at != list; at = at->next) {
        struct mst_work *work = msi_container(at, struct mst_work, node);
        struct ended ended = describe(work);
        ended.failure =
            (struct msi_failure){.status = MST_ERR_STATE,
                                 .culprit = -1,
                                 .global = -1,
                                 .message = "the group was destroyed before the operation was done",
                                 .remedy = "wait for the works of a group before it is destroyed"};
        call_plain(work, &ended);
        start_waiters(work, &ended);
    }
}

/* A callback that uses its work gets MST_ERR_STATE: the operations must not advance meanwhile. */
void msi_comm_call_off(struct msi_comm *comm) {
    msi_comm_lock(comm);
    invalidate(&comm->ops.queue);
    invalidate(&comm->ops.messages);
    call_off(&comm->ops.queue);
    call_off(&comm->ops.messages);
    msi_comm_unlock(comm);
    msi_pool_free(comm->callbacks.pool);
}

bool msi_comm_drain_callbacks(struct msi_comm *comm) {
    msi_comm_lock(comm);
    struct msi_pool *pool = comm->callbacks.pool;
    msi_comm_unlock(comm);
    return msi_pool_drain(pool);
}
