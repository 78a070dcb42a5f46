/*
 * stream.c - operations that the program orders on a stream of its device. See comm.h.
 *
 * They count as over once they are enqueued, and nobody waits for them. Of those that are recorded one wants to know how long they took
 * on the device: they stay with the comm until the device has come past them.
 */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "engine/module/module.h"
#include "os/thread.h"

enum { WATCH_MS = 200, TIMED_MS = 1 };

/* Those that the device has come past, or never will; all: the others, too, whose time is not known then. */
static void collect(struct msi_comm *comm, bool all) {
    for (struct msi_list *at = comm->timed.next, *next; at != &comm->timed; at = next) {
        struct mst_work *op = msi_container(at, struct mst_work, node);
        next = at->next;
        bool past = comm->failure.status == MST_OK && msi_engine_is_past(comm->engine, op);
        if (!past && comm->failure.status == MST_OK && !all) continue;
        if (!past) op->job.timed = false;
        msi_comm_mark_over(op);
        msi_comm_spare(op);
    }
}

bool msi_comm_watch_streams(struct msi_comm *comm) {
    bool timed = !msi_list_empty(&comm->timed);
    bool left = comm->failure.status == MST_OK && comm->streamed && msi_now() < comm->streamed;
    if (!timed && !left) return false;
    msi_cond_wait_until(&comm->changed, &comm->lock, msi_deadline(timed ? TIMED_MS : WATCH_MS));
    collect(comm, false);
    if (msi_now() < comm->watch_at) return true;
    msi_engine_watch(comm);
    comm->watch_at = msi_deadline(WATCH_MS);
    return true;
}

void msi_comm_leave_streams(struct msi_comm *comm) {
    collect(comm, true);
}

/* Under the lock: it is on its stream. */
static void leave_there(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    if (!op->begin && op->message.peer >= 0) msi_comm_number(op, op->message.peer);
    msi_op_trace_enqueued(&op->op_trace);
    if (op->job.timed && msi_comm_has_thread(comm)) {
        if (msi_list_empty(&comm->timed)) pthread_cond_broadcast(&comm->changed);
        msi_list_push(&comm->timed, &op->node);
        return;
    }
    op->job.timed = false;
    msi_comm_mark_over(op);
    msi_comm_spare(op);
}

/* The thread is started so that somebody watches. */
static mst_status enqueue(struct mst_work *op, bool *through) {
    struct msi_comm *comm = op->comm;
    if (!comm->engine)
        return msi_fail(MST_ERR_INVALID, "leave it out, or use a backend for devices such as nccl",
                        ".stream is given, but the buffer's backend has no streams");
    mst_status st = msi_comm_start_thread(comm);
    if (st != MST_OK) return st;
    pthread_mutex_lock(&comm->lock);
    int64_t now = msi_now(), deadline = now + (int64_t)op->timeout_ms * 1000000;
    if (comm->streamed <= now) pthread_cond_broadcast(&comm->changed); /* the thread watches from now on */
    if (deadline > comm->streamed) comm->streamed = deadline;
    st = comm->failure.status == MST_OK ? msi_engine_enqueue(comm->engine, op, through)
                                        : msi_comm_repeat(&comm->failure);
    if (st == MST_OK && *through) leave_there(op);
    pthread_mutex_unlock(&comm->lock);
    return st;
}

mst_status msi_comm_enqueue(struct mst_work *op) {
    bool through = false;
    mst_status st = msi_comm_join(op);
    if (st == MST_OK) st = enqueue(op, &through);
    if (st != MST_OK) return msi_comm_refuse(op, st);
    return through ? MST_OK : msi_comm_run(op);
}
