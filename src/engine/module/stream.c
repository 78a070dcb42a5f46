/*
 * stream.c - operations that the program orders on a stream of its device. See module.h.
 *
 * They count as done once they are enqueued, and the program does not wait for them. Operations that are
 * profiled are kept until the device has executed them, since the profiler needs their time on the device.
 */
#include "base/error.h"
#include "engine/module/module.h"
#include "os/thread.h"

enum { WATCH_MS = 200, TIMED_MS = 1 };

/* Has the device executed the operation? */
static bool is_executed(struct msi_module *m, struct mst_work *work) {
    bool done = false;
    mst_status st = m->table->progress(m->made, &work->op.desc, &done);
    if (st == MST_OK) return done;
    msi_module_fail(m, work, st);
    msi_module_abort(m);
    return true;
}

/* Ends the records of operations that were executed, or never will be; all: also of the others, whose time is
 * not known then. */
static void collect(struct msi_module *m, bool all) {
    struct msi_comm *comm = m->comm;
    for (struct msi_list *at = m->timed.next, *next; at != &m->timed; at = next) {
        struct mst_work *work = msi_container(at, struct mst_work, node);
        next = at->next;
        bool executed = comm->failure.status == MST_OK && is_executed(m, work);
        if (!executed && comm->failure.status == MST_OK && !all) continue;
        if (!executed) work->op.desc.timed = false;
        msi_comm_trace_end(work);
        msi_comm_spare(work);
    }
}

bool msi_module_watch_streams(struct msi_comm *comm) {
    struct msi_module *m = msi_module(comm);
    bool timed = !msi_list_empty(&m->timed);
    bool pending = comm->failure.status == MST_OK && m->streamed && msi_now() < m->streamed;
    if (!timed && !pending) return false;
    msi_condition_wait(&comm->roused, &comm->lock, msi_deadline(timed ? TIMED_MS : WATCH_MS));
    collect(m, false);
    if (msi_now() < m->watch_at) return true;
    msi_module_watch_ranks(m);
    m->watch_at = msi_deadline(WATCH_MS);
    return true;
}

void msi_module_leave_streams(struct msi_module *m) {
    collect(m, true);
}

/* Under the lock: the operation is on its stream, and the communicator does not wait for it. */
static void leave_there(struct msi_module *m, struct mst_work *work) {
    struct msi_comm *comm = m->comm;
    if (msi_op_is_message(&work->op) && work->op.desc.peer >= 0) msi_comm_number(work, work->op.desc.peer);
    msi_op_trace_enqueued(&work->op_trace);
    if (work->op.desc.timed && msi_comm_has_thread(comm)) {
        if (msi_list_empty(&m->timed)) msi_comm_rouse(comm);
        msi_list_push(&m->timed, &work->node);
        return;
    }
    work->op.desc.timed = false;
    msi_comm_trace_end(work);
    msi_comm_spare(work);
}

/* Enqueues the operation, if the backend has it and all operations before it have begun. */
static mst_status submit(struct msi_module *m, struct mst_work *work, bool *enqueued) {
    struct msi_comm *comm = m->comm;
    mst_backend_op *d = &work->op.desc;
    bool message = msi_op_is_message(&work->op);
    if (m->headers && !message) return MST_OK; /* it is checked in the queue */
    bool alone = msi_list_empty(&comm->ops.queue) && msi_list_empty(&comm->ops.messages);
    if ((message && work->op.variable) || !alone || !msi_module_has(m, work)) return MST_OK;
    if (!message) msi_module_take_number(m, work);
    d->unwatched = true;
    d->deadline = msi_deadline(work->timeout_ms);
    *enqueued = true;
    msi_op_trace_start(&work->op_trace);
    mst_status st = m->table->submit(m->made, d);
    if (st == MST_OK) return MST_OK;
    msi_module_fail(m, work, st);
    msi_module_abort(m);
    return msi_comm_repeat(&work->failure);
}

mst_status msi_module_enqueue(struct mst_work *work, bool *enqueued) {
    struct msi_comm *comm = work->comm;
    struct msi_module *m = msi_module(comm);
    int64_t now = msi_now(), deadline = now + (int64_t)work->timeout_ms * 1000000;
    if (m->streamed <= now) msi_comm_rouse(comm); /* the thread watches from now on */
    if (deadline > m->streamed) m->streamed = deadline;
    mst_status st =
        comm->failure.status == MST_OK ? submit(m, work, enqueued) : msi_comm_repeat(&comm->failure);
    if (st == MST_OK && *enqueued) leave_there(m, work);
    return st;
}
