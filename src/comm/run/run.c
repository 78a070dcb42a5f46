/* run.c - submitting operations and running them: on the caller's thread, or on the communicator's own.
 * See comm.h. */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "comm/wait_reports.h"
#include "os/team.h"
#include "os/thread.h"
#include "prof/flight/dump.h"

#include <stdio.h>

enum { CAUSE_MS = 200 };

bool msi_comm_is_over(const struct mst_work *work) {
    const struct msi_comm *comm = work->comm;
    return work->done ||
           (comm->callbacks.work == work && pthread_equal(comm->callbacks.thread, pthread_self()));
}

static void wake(struct msi_comm *comm) {
    if (comm->waiting.sleeping && comm->engine->wake) comm->engine->wake(comm);
}

bool msi_comm_help(struct msi_comm *comm) {
    bool moved = msi_comm_advance(comm);
    if (moved) wake(comm);
    msi_comm_run_callbacks(comm);
    return moved;
}

mst_status msi_comm_hand_out(struct msi_comm *comm, mst_status status) {
    struct msi_wait wait;
    if (status == MST_OK) {
        if (msi_sinks_on() & MSI_SINK_CAUSE) comm->hooks.succeeded(comm->hooks.context);
        return status;
    }
    msi_flight_keep();
    bool asks = msi_comm_may_ask(comm, CAUSE_MS, &wait);
    comm->hooks.failed(comm->hooks.context, status, asks ? &wait : NULL);
    msi_comm_let_others_learn(comm, status);
    return status;
}

/* Puts an operation among those under way. */
static mst_status begin(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    bool batched = comm->batch.current && pthread_equal(comm->batch.thread, pthread_self());
    work->batch = batched && !work->op.probe ? comm->batch.current : 0;
    if (!msi_op_is_message(&work->op)) {
        msi_list_push(&comm->ops.queue, &work->node);
        return MST_OK;
    }
    work->wild = msi_op_is_wild(&work->op);
    mst_status st = comm->engine->begin ? comm->engine->begin(work) : MST_OK;
    if (st != MST_OK) return st;
    comm->batch.messages |= batched;
    if (!work->wild && !work->op.probe) msi_comm_number(work, work->op.desc.peer);
    msi_op_trace_start(&work->op_trace);
    msi_list_push(&comm->ops.messages, &work->node);
    return MST_OK;
}

/* The thread sleeps while nothing is under way, also during a blocking call, which its caller advances. */
static void rest(struct msi_comm *comm) {
    bool (*watch)(struct msi_comm *) = comm->engine->watch_streams;
    if (watch && watch(comm)) return;
    comm->resting = true;
    msi_condition_wait(&comm->roused, &comm->lock, INT64_MAX);
    comm->resting = false;
}

/* The communicator's own thread. The program's signals are blocked in it. */
static void *run_thread(void *context) {
    struct msi_comm *comm = context;
    pthread_setname_np(pthread_self(), "muster-comm");
    msi_call_rank(comm->ranks.globals[comm->rank]);
    msi_team_spare_processors();
    msi_comm_lock(comm);
    struct msi_idle idle = {0};
    while (!comm->ending) {
        if (msi_comm_advance(comm)) {
            idle = (struct msi_idle){0};
            msi_wait_report_withdraw(comm);
        }
        msi_comm_run_callbacks(comm);
        if (comm->ending) break;
        if (msi_comm_is_quiet(comm)) {
            rest(comm);
            idle = (struct msi_idle){0};
        } else {
            msi_comm_idle(comm, &idle, true);
        }
    }
    msi_comm_run_callbacks(comm);
    msi_comm_unlock(comm);
    return NULL;
}

static mst_status start_thread(struct msi_comm *comm) {
    if (comm->threaded) return MST_OK;
    comm->threaded = true;
    if (!msi_comm_has_thread(comm)) return MST_OK;
    int error = msi_thread_start(&comm->thread, run_thread, comm);
    if (!error) return MST_OK;
    comm->threaded = false;
    return msi_fail_errno(error, "cannot start a thread for non-blocking operations");
}

mst_status msi_comm_refuse(struct mst_work *work, mst_status status) {
    if (work->op_trace.on) msi_op_trace_failed(&work->op_trace, status);
    msi_comm_release_op(work);
    return status;
}

mst_status msi_comm_begin_here(struct mst_work *work) {
    mst_status st = msi_comm_join(work);
    if (st == MST_OK) st = begin(work);
    if (st != MST_OK) return msi_comm_refuse(work, st);
    msi_comm_unlock(work->comm);
    return MST_OK;
}

/* Waits for a blocking operation that the communicator's thread advances too. */
static mst_status wait_threaded(struct mst_work *work) {
    struct msi_wait wait = {INT64_MAX, NULL}; /* the operation's own deadline ends it */
    work->held = true;
    return msi_comm_wait_for(work, work->generation, &wait, false);
}

/* Has the communicator no thread that advances operations now? */
static bool may_run_alone(const struct msi_comm *comm) {
    return !comm->threaded || comm->resting;
}

/* Advances a blocking operation on this thread until it is done, or until another thread comes. */
static mst_status run_alone(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    struct msi_idle idle = {0};
    work->blocking = !work->wait.cancel && !comm->threaded;
    msi_comm_begin_wait(work);
    comm->inside++;
    while (!work->done && may_run_alone(comm)) {
        if (comm->inside > 1 || msi_lock_is_awaited(&comm->lock)) { /* another thread has come */
            if (comm->threaded) msi_comm_rouse(comm);
            if (start_thread(comm) == MST_OK) break; /* without a thread they take turns */
        }
        if (msi_comm_advance(comm))
            idle = (struct msi_idle){0};
        else
            msi_comm_idle(comm, &idle, true);
    }
    comm->inside--;
    if (!work->done) return wait_threaded(work);
    msi_wait_report_withdraw(comm);
    mst_status st = msi_comm_explain(work);
    msi_comm_spare(work);
    return st;
}

/* Runs an operation that is in no list to its end, and releases it and the lock. */
static mst_status run_here(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    mst_status st = begin(work);
    if (st != MST_OK) return msi_comm_refuse(work, st);
    st = run_alone(work);
    msi_comm_unlock(comm);
    return msi_comm_hand_out(comm, st);
}

mst_status msi_comm_run_begun(struct mst_work *work) {
    work->comm->engine->resume(work);
    msi_op_trace_start(&work->op_trace);
    return run_here(work);
}

/* The fast path of a collective that has an operation. False: nothing has happened. */
static bool run_now(struct mst_work *work, mst_status *status) {
    struct msi_comm *comm = work->comm;
    const struct msi_engine *engine = comm->engine;
    if (!engine->begin_now || msi_op_is_message(&work->op) || !msi_list_empty(&comm->ops.queue) ||
        !engine->suits_now(comm, &work->op) || !engine->begin_now(comm, &work->op))
        return false;
    if (!engine->finish_now(comm, &work->op)) {
        *status = msi_comm_run_begun(work);
        return true;
    }
    msi_comm_trace_end(work);
    msi_list_push(&comm->ops.spare, &work->node); /* it was in no list */
    msi_comm_unlock(comm);
    *status = MST_OK;
    return true;
}

bool msi_comm_enter_now(struct msi_comm *comm, const _Atomic bool *gate) {
    if (!comm->engine->begin_now || !msi_lock_try(&comm->lock)) return false;
    bool free = comm->joined && may_run_alone(comm) && comm->failure.status == MST_OK &&
                msi_list_empty(&comm->ops.queue) && !msi_list_empty(&comm->ops.spare) &&
                !atomic_load_explicit(gate, memory_order_relaxed) && !msi_comm_in_callback();
    if (!free) msi_comm_unlock(comm);
    return free;
}

void msi_comm_leave_now(struct msi_comm *comm) {
    msi_comm_unlock(comm);
}

bool msi_comm_sign_now(struct msi_comm *comm, struct msi_op *op) {
    if (!comm->engine->suits_now(comm, op)) return false;
    msi_op_sign(op, &comm->tail, comm->size);
    return true;
}

bool msi_comm_begin_now(struct msi_comm *comm, const struct msi_op *op) {
    return comm->engine->begin_now(comm, op);
}

bool msi_comm_finish_now(struct msi_comm *comm, const struct msi_op *op) {
    return comm->engine->finish_now(comm, op);
}

bool msi_comm_message_now(struct msi_comm *comm, struct msi_op *op) {
    if (!comm->engine->message_now || !msi_lock_try(&comm->lock)) return false;
    bool done = may_run_alone(comm) && comm->failure.status == MST_OK && comm->engine->message_now(comm, op);
    msi_comm_unlock(comm);
    return done;
}

uint64_t msi_comm_message_number(struct msi_comm *comm, const struct msi_op *op) {
    msi_comm_lock(comm);
    uint64_t number =
        msi_message_seq_next(&comm->message_seq, op->desc.peer, op->desc.tag, op->desc.kind == MST_KIND_SEND);
    msi_comm_unlock(comm);
    return number;
}

/* Puts it among the operations under way, and does what can be done at once. */
static mst_status submit(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    mst_status st = start_thread(comm);
    if (st == MST_OK) st = begin(work);
    if (st != MST_OK) return st;
    wake(comm);
    msi_comm_advance(comm);
    if (!msi_comm_is_quiet(comm)) msi_comm_rouse(comm);
    msi_comm_run_callbacks(comm);
    return MST_OK;
}

mst_status msi_comm_run(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    mst_status st = msi_comm_in_callback() ? msi_comm_refuse_waiting()
                    : comm->joined         ? MST_OK
                                           : msi_comm_join(work);
    if (st != MST_OK) return msi_comm_refuse(work, st);
    if (!comm->threaded || (comm->resting && msi_comm_is_quiet(comm)))
        return run_now(work, &st) ? st : run_here(work);
    st = submit(work);
    if (st != MST_OK) return msi_comm_refuse(work, st);
    st = wait_threaded(work);
    msi_comm_unlock(comm);
    return msi_comm_hand_out(comm, st);
}

mst_status msi_comm_submit(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    mst_status st = msi_comm_join(work);
    if (st == MST_OK) st = submit(work);
    if (st != MST_OK) return msi_comm_refuse(work, st);
    msi_comm_unlock(comm);
    return MST_OK;
}

mst_status msi_comm_check_stream(const struct msi_comm *comm) {
    if (comm->engine->enqueue) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "leave it out, or use a backend for devices such as nccl",
                    ".stream is given, but the buffer's backend has no streams");
}

mst_status msi_comm_check_quantize(const struct msi_comm *comm) {
    if (!comm->config.backend) return MST_OK;
    return msi_fail(MST_ERR_UNSUPPORTED, "leave it out, or use the backend native",
                    ".quantize is given, but the backend %s does not quantise", comm->config.backend->name);
}

mst_status msi_comm_start(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    mst_status st = msi_comm_in_callback() ? msi_comm_refuse_waiting() : msi_comm_join(work);
    if (st == MST_OK) st = begin(work);
    if (st != MST_OK) return msi_comm_refuse(work, st);
    wake(comm);
    if (!comm->resting)
        msi_comm_rouse(comm); /* it may watch streams; else this thread advances the message */
    msi_comm_unlock(comm);
    return MST_OK;
}

mst_status msi_comm_complete(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    msi_comm_lock(comm);
    mst_status st = run_alone(work);
    msi_comm_unlock(comm);
    return msi_comm_hand_out(comm, st);
}

/* Ends a probe that has found nothing, or that fails. */
static void withdraw(struct mst_work *work) {
    bool alone = work->comm->failure.status == MST_OK && work->failure.status == MST_OK;
    if (alone) work->failure.status = MST_ERR_CANCELLED;
    while (!work->done) msi_comm_advance(work->comm);
    if (alone) work->failure.status = MST_OK;
}

mst_status msi_comm_probe_now(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    mst_status st = msi_comm_join(work);
    if (st == MST_OK) st = begin(work);
    if (st != MST_OK) return msi_comm_refuse(work, st);
    /* A program that probes in a loop takes the place of the communicator's thread. */
    if (msi_comm_help(comm) || work->done)
        comm->waiting.tests = (struct msi_idle){0};
    else
        msi_comm_idle(comm, &comm->waiting.tests, false);
    if (!work->done) withdraw(work);
    st = msi_comm_explain(work);
    msi_comm_release_op(work);
    return msi_comm_hand_out(comm, st);
}

mst_status msi_comm_enqueue(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    bool enqueued = false;
    mst_status st = msi_comm_join(work);
    if (st == MST_OK) st = start_thread(comm); /* it watches the ranks, since the program does not wait */
    if (st == MST_OK) st = comm->engine->enqueue(work, &enqueued);
    if (st != MST_OK) return msi_comm_refuse(work, st);
    if (!enqueued) return msi_comm_run(work);
    msi_comm_unlock(comm);
    return MST_OK;
}

/* Under the lock: the number that the next collective will get. */
static uint64_t next_number(const struct msi_comm *comm) {
    uint64_t counted = comm->engine->count(comm), n = counted + 1;
    for (const struct msi_list *at = comm->ops.queue.next; at != &comm->ops.queue; at = at->next) {
        const struct mst_work *work = msi_container(at, struct mst_work, node);
        n += work->seq == 0 || work->seq > counted;
    }
    return n;
}

uint64_t msi_comm_next_number(struct msi_comm *comm) {
    msi_comm_lock(comm);
    uint64_t number = next_number(comm);
    msi_comm_unlock(comm);
    return number;
}

/* Under the lock: ends the communicator with the thread's last failure. */
static void end_comm(struct msi_comm *comm, mst_status status, int culprit) {
    if (comm->failure.status != MST_OK) return;
    msi_comm_keep(comm, &comm->failure, status, culprit);
    msi_failure_report_post(comm, &comm->failure);
}

mst_status msi_comm_look(struct msi_comm *comm, const struct msi_call_signature *own) {
    int culprit;
    mst_status st = msi_failure_report_read(comm, -1, &culprit);
    if (st == MST_OK) st = msi_rejection_read(comm, msi_comm_next_number(comm), own, &culprit);
    if (st == MST_OK) return MST_OK;
    msi_blame(st, msi_comm_global(comm, culprit));
    msi_comm_lock(comm);
    end_comm(comm, st, culprit);
    msi_comm_unlock(comm);
    return msi_comm_repeat(&comm->failure);
}

/* The engine cannot skip a collective: the communicator ends. */
static void end_rejected(struct mst_work *work, const char *text) {
    struct msi_comm *comm = work->comm;
    char who[200];
    msi_fail(MST_ERR_MISMATCH, "correct the call; the group must be recreated", "%s rejected %s",
             msi_comm_show(comm, comm->rank, who, sizeof who), text);
    end_comm(comm, MST_ERR_MISMATCH, comm->rank);
    msi_comm_release_op(work);
}

/* Takes the number of a rejected call, after those of the operations under way. */
static void count_rejected(struct mst_work *work, const char *text) {
    struct msi_comm *comm = work->comm;
    struct msi_rejected *rejected = &comm->rejected;
    uint64_t seq = next_number(comm);
    if (rejected->last != seq - 1 || seq == 1) {
        rejected->first = seq;
        snprintf(rejected->text, sizeof rejected->text, "%s", text);
    }
    rejected->last = seq;
    struct msi_rejected post = *rejected;
    work->op.flags = MSI_SIGNED_REJECTED;
    work->abandoned = true;
    msi_comm_sign(work);
    msi_comm_unlock(comm);
    msi_rejection_post(comm, &post); /* before ranks that see the rejection look for the reason */
    msi_comm_lock(comm);
    if (!msi_list_empty(&comm->ops.queue)) {
        msi_list_push(&comm->ops.queue, &work->node);
    } else {
        comm->engine->skip(comm, &work->op);
        msi_comm_spare(work);
    }
    msi_comm_unlock(comm);
}

void msi_comm_reject(struct msi_comm *comm, enum msi_kind kind, const struct msi_op_call *call,
                     const char *reason) {
    struct mst_work *work;
    char text[500], where[200] = "";
    if (call->site.file) snprintf(where, sizeof where, " at %s:%d", call->site.file, call->site.line);
    snprintf(text, sizeof text, "%s%s: %s", call->name, where, reason);
    if (msi_comm_alloc_op(comm, 0, NULL, call->name, &work) != MST_OK) return;
    msi_op_set_call(&work->op, kind);
    work->op.site = call->site;
    if (comm->engine->skip)
        count_rejected(work, text);
    else
        end_rejected(work, text);
}

bool msi_comm_batch_begin(struct msi_comm *comm) {
    if (!comm->traits.batches) return false;
    msi_comm_lock(comm);
    bool nested =
        comm->batch.current && pthread_equal(comm->batch.thread, pthread_self()); /* in a callback */
    while (!nested && comm->batch.current) msi_condition_wait(&comm->changed, &comm->lock, INT64_MAX);
    if (!nested) {
        if (++comm->batch.count == 0) comm->batch.count = 1;
        comm->batch.current = comm->batch.count;
        comm->batch.thread = pthread_self();
    }
    msi_comm_unlock(comm);
    return !nested;
}

void msi_comm_batch_end(struct msi_comm *comm) {
    msi_comm_lock(comm);
    comm->batch.current = 0;
    msi_condition_tell(&comm->changed);
    msi_comm_help(comm);
    msi_comm_unlock(comm);
}
