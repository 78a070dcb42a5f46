/* handles.c - what programs do with the works they hold: wait, test, ask, let go. See comm.h. */
#include "base/handles.h"
#include "base/error.h"
#include "comm/comm_internal.h"
#include "os/thread.h"
#include "prof/flight/dump.h"

static bool sleep_until_changed(struct msi_comm *comm, const struct msi_wait *wait) {
    int64_t until =
        wait->cancel ? msi_deadline(10) : wait->deadline; /* a cancellation has no condition variable */
    if (until > wait->deadline) until = wait->deadline;
    msi_cond_wait_until(&comm->changed, &comm->lock, until);
    return msi_now() < wait->deadline;
}

static mst_status refuse_handle(void) {
    return msi_fail(MST_ERR_STATE, "wait for each work once, or free it, while its group is there",
                    "the work was waited for or freed before, or its group was destroyed");
}

/* Does the program still hold it, as of this turn? */
static bool is_held(const struct mst_work *op, unsigned turn) {
    return op->held && op->turn == turn;
}

/* The program gives it back: its handle is of no use any more. */
static void take_back(struct mst_work *op) {
    op->held = false;
    op->turn = (op->turn + 1) % MSI_HANDLE_GENERATIONS;
    op->abandoned = true;
    if (op->done) msi_comm_spare(op);
}

mst_work *msi_comm_export(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    pthread_mutex_lock(&comm->lock);
    op->held = true;
    mst_work *handle = msi_handle_make(op, op->turn);
    pthread_mutex_unlock(&comm->lock);
    return handle;
}

/* The operation of a handle, with its comm's lock; NULL, without it, if the handle is no good. */
static struct mst_work *lookup_locked(mst_work *handle) {
    struct mst_work *op = msi_handle_memory(handle);
    if (!msi_handle_alive(op)) return NULL;
    pthread_mutex_lock(&op->comm->lock);
    if (is_held(op, msi_handle_generation(handle))) return op;
    pthread_mutex_unlock(&op->comm->lock);
    return NULL;
}

/* By looking again and again, for a while, or where there is nobody to wake it; the clock is looked at now and then. */
static bool polls(const struct msi_comm *comm, const struct msi_idle *idle, const struct msi_wait *wait) {
    if (idle->since && msi_now() >= wait->deadline) return false;
    return msi_comm_is_patient(idle) || !msi_comm_has_thread(comm);
}

/* Another thread may wait for the same one, and be first. */
mst_status msi_comm_wait_for(struct mst_work *op, unsigned turn, const struct msi_wait *wait) {
    struct msi_comm *comm = op->comm;
    mst_status st = MST_OK;
    struct msi_idle idle = {0};
    if (!msi_comm_is_over(op)) msi_op_trace_wait(&op->op_trace);
    while (st == MST_OK && is_held(op, turn) && !msi_comm_is_over(op)) {
        if (msi_comm_in_callback()) {
            st = msi_comm_refuse_waiting();
        } else if (msi_comm_help(comm)) {
            idle = (struct msi_idle){0};
        } else if (polls(comm, &idle, wait)) {
            msi_comm_idle(comm, &idle, !msi_comm_has_thread(comm));
        } else if (!sleep_until_changed(comm, wait)) {
            st = msi_fail(MST_ERR_TIMEOUT, "wait again, or give .timeout_ms", "%s is not done yet", op->name);
        }
        if (!msi_comm_is_over(op) && st == MST_OK && msi_wait_cancelled(wait))
            st = msi_fail(MST_ERR_CANCELLED, NULL, "waiting for %s was cancelled", op->name);
    }
    if (!is_held(op, turn)) return refuse_handle();
    if (!msi_comm_is_over(op)) {
        msi_op_trace_leave(&op->op_trace);
        return st;
    }
    st = msi_comm_explain(op);
    take_back(op);
    return st;
}

mst_status msi_comm_finish(mst_work *handle, const struct msi_wait *wait) {
    struct mst_work *op = lookup_locked(handle);
    if (!op) return refuse_handle();
    mst_status st = msi_comm_wait_for(op, msi_handle_generation(handle), wait);
    pthread_mutex_unlock(&op->comm->lock);
    if (st != MST_OK) msi_flight_keep();
    return st;
}

mst_status msi_comm_test(mst_work *handle, bool *done) {
    struct mst_work *op = lookup_locked(handle);
    if (!op) return refuse_handle();
    struct msi_comm *comm = op->comm;
    /* A loop of tests keeps the comm's thread from looking around. */
    if (msi_comm_is_over(op) || msi_comm_help(comm))
        comm->tests = (struct msi_idle){0};
    else
        msi_comm_idle(comm, &comm->tests, false);
    *done = msi_comm_is_over(op);
    pthread_mutex_unlock(&comm->lock);
    return MST_OK;
}

mst_status msi_comm_result(mst_work *handle) {
    struct mst_work *op = lookup_locked(handle);
    if (!op) return refuse_handle();
    msi_comm_help(op->comm);
    mst_status st = msi_comm_is_over(op)
                        ? msi_comm_explain(op)
                        : msi_fail(MST_ERR_STATE, "wait for it, or test it first", "it is not done yet");
    pthread_mutex_unlock(&op->comm->lock);
    return st;
}

mst_status msi_comm_abandon(mst_work *handle) {
    struct mst_work *op = lookup_locked(handle);
    if (!op) return refuse_handle();
    take_back(op);
    pthread_mutex_unlock(&op->comm->lock);
    return MST_OK;
}

mst_status msi_comm_leave(mst_work *handle) {
    struct mst_work *op = lookup_locked(handle);
    if (!op) return refuse_handle();
    mst_status st = op->done ? msi_comm_explain(op) : MST_OK;
    take_back(op);
    pthread_mutex_unlock(&op->comm->lock);
    return st;
}

mst_status msi_comm_on_done(mst_work *handle, void (*callback)(mst_status, void *), void *arg) {
    struct mst_work *op = lookup_locked(handle);
    if (!op) return refuse_handle();
    bool done = op->done || op->comm->called == op;
    mst_status status = op->failure.status;
    op->callback = callback;
    op->arg = arg;
    pthread_mutex_unlock(&op->comm->lock);
    if (done) msi_comm_tell(callback, status, arg);
    return MST_OK;
}
