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
    struct ended ended = {{work->op.name, work->op.site}, comm->ranks.globals[comm->rank], work->seq, {0}};
    if (work->failure.status != MST_OK) ended.failure = work->failure;
    return ended;
}

struct told {
    const struct msi_callback *callback;
    const struct ended *ended;
};

static void call_back(void *context) {
    const struct told *told = context;
    const struct ended *ended = told->ended;
    msi_call_begin(ended->call.name, &ended->call.site, ended->rank);
    msi_call_sequence(ended->seq);
    if (ended->failure.status != MST_OK) msi_comm_repeat(&ended->failure);
    told->callback->call(ended->failure.status, told->callback->arg);
}

static void tell(int *kind, const struct msi_callback *callback, const struct ended *ended) {
    atomic_fetch_add_explicit(&of_all, 1, memory_order_relaxed); /* only this thread must see it */
    ++*kind;
    msi_call_aside(call_back, &(struct told){callback, ended});
    --*kind;
    atomic_fetch_sub_explicit(&of_all, 1, memory_order_relaxed);
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

static void call_plain(struct msi_callback *callback, const struct ended *ended) {
    tell(&plain, callback, ended);
    free(callback->memory);
}

/* Under the lock: gives those that may wait to threads of their own. Keeps those that get none. */
static void start_waiters(struct msi_comm *comm, struct msi_callback **list, const struct ended *ended) {
    struct msi_callback *callback;
    while ((callback = *list)) {
        struct waiter *waiter = msi_container(callback, struct waiter, callback);
        struct msi_callback *next = callback->next;
        if (callback->may_wait) waiter->ended = *ended;
        if (callback->may_wait && msi_pool_run(comm->callbacks.pool, &waiter->job))
            *list = next;
        else
            list = &callback->next;
    }
}

/* Without the lock: calls those that do not wait, or all, in the order in which they were set. */
static void call_here(struct msi_callback **list, const struct ended *ended, bool all) {
    struct msi_callback *callback;
    while ((callback = *list)) {
        if (callback->may_wait && !all) {
            list = &callback->next;
            continue;
        }
        *list = callback->next;
        call_plain(callback, ended);
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
        struct msi_callback *callbacks = work->callbacks;
        work->callbacks = NULL;
        comm->callbacks.work = work;
        msi_comm_unlock(comm);
        call_here(&callbacks, &ended, false);
        msi_comm_lock(comm);
        msi_comm_finish_op(work);
        comm->callbacks.work = NULL;             /* it may be reused */
        start_waiters(comm, &callbacks, &ended); /* before a wait returns: see msi_comm_drain_callbacks */
        if (!callbacks) continue;
        msi_comm_unlock(comm);
        call_here(&callbacks, &ended, true);
        msi_comm_lock(comm);
    }
    comm->callbacks.running = false;
}

/* Have its callbacks begun? */
static bool has_ended(const struct mst_work *work) {
    return work->done || work->comm->callbacks.work == work;
}

static struct msi_callback *new_callback(struct mst_work *work, bool may_wait) {
    struct msi_comm *comm = work->comm;
    if (!may_wait) {
        bool reuse = !work->callbacks; /* the usual case, without an allocation */
        struct msi_callback *made = reuse ? &work->first_callback : malloc(sizeof *made);
        if (made) *made = (struct msi_callback){.memory = reuse ? NULL : made};
        return made;
    }
    if (!comm->callbacks.pool) comm->callbacks.pool = msi_pool_new();
    struct waiter *waiter = comm->callbacks.pool ? calloc(1, sizeof *waiter) : NULL;
    if (!waiter) return NULL;
    waiter->job.run = run_waiter;
    waiter->callback.may_wait = true;
    waiter->callback.memory = waiter;
    return &waiter->callback;
}

static void append(struct msi_callback **list, struct msi_callback *callback) {
    while (*list) list = &(*list)->next;
    *list = callback;
}

mst_status msi_comm_add_callback(struct mst_work *work, void (*call)(mst_status, void *), void *arg,
                                 bool may_wait) {
    struct msi_comm *comm = work->comm;
    bool now = has_ended(work);
    struct msi_callback here = {0}, *callback = now && !may_wait ? &here : new_callback(work, may_wait);
    if (!callback) return msi_fail_memory();
    callback->call = call;
    callback->arg = arg;
    if (!now) {
        append(&work->callbacks, callback);
        return MST_OK;
    }
    struct ended ended = describe(work);
    start_waiters(comm, &callback, &ended);
    if (!callback) return MST_OK;
    msi_comm_unlock(comm);
    call_here(&callback, &ended, true);
    msi_comm_lock(comm);
    return MST_OK;
}

static void invalidate(struct msi_list *list) {
    for (struct msi_list *at = list->next; at != list; at = at->next)
        msi_container(at, struct mst_work, node)->held = false;
}

static void call_off(struct msi_comm *comm, const struct msi_list *list) {
    for (const struct msi_list *at = list->next; at != list; at = at->next) {
        struct mst_work *work = msi_container(at, struct mst_work, node);
        struct msi_callback *callbacks = work->callbacks;
        struct ended ended = describe(work);
        ended.failure =
            (struct msi_failure){.status = MST_ERR_STATE,
                                 .culprit = -1,
                                 .global = -1,
                                 .message = "the group was destroyed before the operation was done",
                                 .remedy = "wait for the works of a group before it is destroyed"};
        work->callbacks = NULL;
        start_waiters(comm, &callbacks, &ended);
        call_here(&callbacks, &ended, true);
    }
}

/* A callback that uses its work gets MST_ERR_STATE: the operations must not advance meanwhile. */
void msi_comm_call_off(struct msi_comm *comm) {
    invalidate(&comm->ops.queue);
    invalidate(&comm->ops.messages);
    call_off(comm, &comm->ops.queue);
    call_off(comm, &comm->ops.messages);
    msi_pool_free(comm->callbacks.pool);
}

void msi_comm_drain_callbacks(struct msi_comm *comm) {
    msi_pool_drain(comm->callbacks.pool);
}
