/* handles.c - what programs do with a work: wait, test, get the result, free. See comm.h and combined.c. */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "os/thread.h"
#include "prof/flight/dump.h"

enum { NAP_NS = 1000000 };

static bool sleep_until_changed(struct msi_comm *comm, const struct msi_wait *wait) {
    int64_t until =
        wait->cancel ? msi_deadline(10) : wait->deadline; /* a cancellation has no condition variable */
    if (until > wait->deadline) until = wait->deadline;
    msi_condition_wait(&comm->changed, &comm->lock, until);
    return msi_now() < wait->deadline;
}

mst_status msi_refuse_handle(void) {
    return msi_fail(MST_ERR_STATE, "release a work once; wait with .keep to use it again",
                    "the work was waited for or freed before, or its group was destroyed");
}

/* Does the program still hold the work, by a handle of this generation? */
static bool is_held(const struct mst_work *work, unsigned generation) {
    return work->held && work->generation == generation;
}

/* The program releases the work: its handle becomes invalid. */
static void take_back(struct mst_work *work) {
    work->held = false;
    work->generation = (work->generation + 1) % MSI_WORK_GENERATIONS;
    work->abandoned = true;
    if (work->done) msi_comm_spare(work);
}

static void mark_awaited(struct mst_work *work) {
    if (work->awaited) return;
    work->awaited = true;
    work->slow = (struct msi_slow){0};
}

/* Collectives run one after the other, so a collective waits for those before it too. */
void msi_comm_begin_wait(struct mst_work *work) {
    const struct msi_list *queue = &work->comm->ops.queue;
    bool message = msi_op_is_message(&work->op);
    for (const struct msi_list *at = queue->next; !message && at != queue && at != &work->node; at = at->next)
        mark_awaited(msi_container(at, struct mst_work, node));
    mark_awaited(work);
}

mst_work *msi_comm_export(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    msi_comm_lock(comm);
    work->held = true;
    mst_work *handle = msi_handle_make(work, work->generation);
    msi_comm_unlock(comm);
    return handle;
}

/* The operation of a handle, with the communicator's lock held; NULL, without it, if the handle is
 * invalid. */
static struct mst_work *lookup_locked(mst_work *handle) {
    struct mst_work *work = msi_handle_memory(handle);
    if (!msi_handle_alive(work)) return NULL;
    msi_comm_lock(work->comm);
    if (is_held(work, msi_handle_generation(handle))) return work;
    msi_comm_unlock(work->comm);
    return NULL;
}

/* Should the caller poll? For a short time, and as long as no thread would wake it. */
static bool polls(const struct msi_comm *comm, const struct msi_idle *idle, const struct msi_wait *wait) {
    if (idle->since && msi_now() >= wait->deadline) return false;
    return msi_comm_is_patient(comm, idle) || !msi_comm_has_thread(comm);
}

/* Is the operation over? Advances it if not. */
static bool test_locked(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    /* A program that tests in a loop takes the place of the communicator's thread. */
    if (msi_comm_is_over(work) || msi_comm_help(comm))
        comm->waiting.tests = (struct msi_idle){0};
    else
        msi_comm_idle(comm, &comm->waiting.tests, false);
    return msi_comm_is_over(work);
}

/* Another thread may wait for the same one, and be first. */
mst_status msi_comm_wait_for(struct mst_work *work, unsigned generation, const struct msi_wait *wait,
                             bool keep) {
    struct msi_comm *comm = work->comm;
    mst_status st = MST_OK;
    struct msi_idle idle = {0};
    if (!msi_comm_is_over(work)) {
        msi_op_trace_wait(&work->op_trace);
        msi_comm_begin_wait(work);
    }
    while (st == MST_OK && is_held(work, generation) && !msi_comm_is_over(work)) {
        if (wait->deadline == MSI_DEADLINE_NOW) {
            bool over = test_locked(work);
            if (!over && is_held(work, generation)) st = msi_comm_say_not_done(work);
        } else if (msi_comm_in_callback()) {
            st = msi_comm_refuse_waiting();
        } else if (msi_comm_help(comm)) {
            idle = (struct msi_idle){0};
        } else if (!is_held(work, generation) || msi_comm_is_over(work)) {
            break; /* another thread ended it while msi_comm_help had released the lock */
        } else if (polls(comm, &idle, wait)) {
            msi_comm_idle(comm, &idle, !msi_comm_has_thread(comm));
        } else if (!sleep_until_changed(comm, wait)) {
            st = msi_comm_say_not_done(work);
        }
        if (!msi_comm_is_over(work) && st == MST_OK && msi_wait_cancelled(wait))
            st = msi_fail(MST_ERR_CANCELLED, NULL, "waiting for %s was cancelled", work->op.name);
    }
    if (!is_held(work, generation)) return msi_refuse_handle();
    if (!msi_comm_is_over(work)) {
        msi_op_trace_leave(&work->op_trace);
        return st;
    }
    st = msi_comm_explain(work);
    if (!keep) take_back(work);
    return st;
}

mst_status msi_comm_await_stream(mst_work *handle) {
    mst_status st = MST_OK;
    struct mst_work *work = lookup_locked(handle);
    if (!work) return msi_refuse_handle();
    bool batched = work->batch && work->batch == work->comm->batch.current;
    /* Its composition, or what is queued before it, does not use the stream: it waits until all is over. */
    if (!batched && !work->enqueued)
        st =
            msi_comm_wait_for(work, msi_handle_generation(handle), &(struct msi_wait){INT64_MAX, NULL}, true);
    msi_comm_unlock(work->comm);
    return st;
}

mst_status msi_one_test(mst_work *handle, bool *done) {
    struct mst_work *work = lookup_locked(handle);
    if (!work) return msi_refuse_handle();
    struct msi_comm *comm = work->comm;
    *done = test_locked(work);
    msi_comm_unlock(comm);
    return MST_OK;
}

/* What a look at several handles found. A handle that is invalid counts as done. */
struct look {
    size_t done;       /* index of the first that is done; n: none */
    mst_work *pending; /* an operation that is not; NULL: all are done */
    bool threads;      /* every communicator with a pending operation has its thread */
    bool patient;      /* for one of them the wait is too short for a sleep so far */
};

/* Advances one operation; false: it is not done. */
static bool look_at_one(mst_work *handle, const struct msi_idle *idle, struct look *look) {
    struct mst_work *work = lookup_locked(handle);
    if (!work) return true;
    struct msi_comm *comm = work->comm;
    bool done = test_locked(work);
    if (!done) {
        look->pending = handle;
        look->threads &= msi_comm_has_thread(comm);
        look->patient |= msi_comm_is_patient(comm, idle);
    }
    msi_comm_unlock(comm);
    return done;
}

/* The same for a handle that may stand for several. */
static bool look_at_handle(mst_work *handle, const struct msi_idle *idle, struct look *look) {
    struct msi_combined *combined = msi_combined_get(handle);
    if (!combined) return look_at_one(handle, idle, look);
    bool done = true;
    for (size_t i = combined->n; i-- > 0;) done &= look_at_one(combined->parts[i], idle, look);
    msi_combined_put(combined);
    return done;
}

/* Advances all operations. */
static struct look look_at(mst_work *const *handles, size_t n, const struct msi_idle *idle) {
    struct look look = {n, NULL, true, false};
    for (size_t i = n; i-- > 0;)
        if (handles[i] && look_at_handle(handles[i], idle, &look)) look.done = i;
    return look;
}

/* A wait for several operations counts as a wait for the first one. */
static void trace_wait(mst_work *handle, bool begins) {
    struct mst_work *work = lookup_locked(handle);
    if (!work) return;
    if (!msi_comm_is_over(work)) (begins ? msi_op_trace_wait : msi_op_trace_leave)(&work->op_trace);
    if (begins) msi_comm_begin_wait(work);
    msi_comm_unlock(work->comm);
}

/* Waits for a short time, or until an operation of the handle's communicator is done. */
static void nap(mst_work *handle) {
    struct mst_work *work = lookup_locked(handle);
    if (!work) return;
    if (!msi_comm_is_over(work))
        sleep_until_changed(work->comm, &(struct msi_wait){msi_now() + NAP_NS, NULL});
    msi_comm_unlock(work->comm);
}

/* The deadline has passed; pending is one of the works that are not done. */
static mst_status say_not_done(mst_work *pending) {
    struct mst_work *work = lookup_locked(pending);
    if (!work)
        return msi_fail(MST_ERR_TIMEOUT, "wait again, or give .timeout_ms", "the works are not done yet");
    mst_status st = msi_comm_say_not_done(work);
    msi_comm_unlock(work->comm);
    return st;
}

static mst_status check_wait(const struct msi_wait *wait, mst_work *pending) {
    if (wait->deadline == MSI_DEADLINE_NOW) return say_not_done(pending);
    if (msi_comm_in_callback()) return msi_comm_refuse_waiting();
    if (msi_wait_cancelled(wait))
        return msi_fail(MST_ERR_CANCELLED, NULL, "waiting for several works was cancelled");
    return msi_now() < wait->deadline ? MST_OK : say_not_done(pending);
}

/* The operations may belong to several communicators, and a thread can sleep on one of them only: it polls
 * for a while, and then sleeps for short times. It does not sleep if a communicator needs it. */
mst_status msi_comm_await(mst_work *const *handles, size_t n, const struct msi_wait *wait, bool all,
                          size_t *done) {
    struct msi_idle idle = {0};
    struct look look = look_at(handles, n, &idle);
    mst_work *traced = NULL;
    mst_status st = MST_OK;
    while (all ? look.pending != NULL : look.done == n) {
        st = check_wait(wait, look.pending);
        if (st != MST_OK) break;
        if (!idle.since) idle.since = msi_now();
        if (traced != look.pending) trace_wait(look.pending, true);
        traced = look.pending;
        if (look.threads && !look.patient) nap(look.pending);
        look = look_at(handles, n, &idle);
    }
    if (traced) trace_wait(traced, false);
    *done = look.done;
    return st;
}

mst_status msi_one_finish(mst_work *handle, const struct msi_wait *wait, bool keep) {
    struct mst_work *work = lookup_locked(handle);
    if (!work) return msi_refuse_handle();
    struct msi_comm *comm = work->comm;
    bool after = work->after_failure;
    mst_status st = msi_comm_wait_for(work, msi_handle_generation(handle), wait, keep);
    msi_comm_unlock(comm);
    /* The success of an operation that began earlier does not mean that the rank goes on. */
    return st == MST_OK && !after ? st : msi_comm_hand_out(comm, st);
}

mst_status msi_refuse_result(void) {
    return msi_fail(MST_ERR_STATE, "wait for it, or test it first", "it is not done yet");
}

mst_status msi_one_result(mst_work *handle) {
    struct mst_work *work = lookup_locked(handle);
    if (!work) return msi_refuse_handle();
    msi_comm_help(work->comm);
    mst_status st = msi_comm_is_over(work) ? msi_comm_explain(work) : msi_refuse_result();
    msi_comm_unlock(work->comm);
    return st;
}

mst_status msi_one_abandon(mst_work *handle) {
    struct mst_work *work = lookup_locked(handle);
    if (!work) return msi_refuse_handle();
    take_back(work);
    msi_comm_unlock(work->comm);
    return MST_OK;
}

mst_status msi_comm_withdraw(mst_work *handle) {
    struct mst_work *work = lookup_locked(handle);
    if (!work) return msi_refuse_handle();
    struct msi_comm *comm = work->comm;
    if (!work->done) {
        mst_status st = msi_fail(MST_ERR_CANCELLED, NULL, "another message of the batch has failed");
        msi_comm_fail(comm, work, st, -1);
        msi_comm_help(comm);
    }
    take_back(work);
    msi_comm_unlock(comm);
    return MST_OK;
}

mst_status msi_comm_leave(mst_work *handle) {
    struct mst_work *work = lookup_locked(handle);
    if (!work) return msi_refuse_handle();
    mst_status st = work->done ? msi_comm_explain(work) : MST_OK;
    take_back(work);
    msi_comm_unlock(work->comm);
    return st;
}

mst_status msi_one_on_done(mst_work *handle, void (*callback)(mst_status, void *), void *arg, bool may_wait) {
    struct mst_work *work = lookup_locked(handle);
    if (!work) return msi_refuse_handle();
    struct msi_comm *comm = work->comm;
    mst_status st = msi_comm_add_callback(work, callback, arg, may_wait);
    msi_comm_unlock(comm);
    return st;
}
