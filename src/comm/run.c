/* run.c - running a comm's operations: on the caller's thread, or on its own. See comm.h. */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "engine/module/module.h"
#include "engine/net/net.h"
#include "os/thread.h"
#include "p2p/p2p.h"
#include "prof/flight/dump.h"

static struct mst_work *first(struct msi_comm *comm) {
    return msi_list_empty(&comm->queue) ? NULL : msi_container(comm->queue.next, struct mst_work, node);
}

static _Thread_local int callbacks; /* that this thread is in */

static void finish(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    op->done = true;
    msi_list_push(op->abandoned ? &comm->spare : &comm->kept, &op->node);
    if (comm->threaded) pthread_cond_broadcast(&comm->changed);
}

/* The group rank at the other end of a message; -1: nobody yet. */
static int peer_of(const struct mst_work *op) {
    const struct msi_message *m = &op->message;
    if (op->comm->engine && !m->send && op->begun && op->job.sender >= 0) return op->job.sender;
    return m->met ? m->from : m->peer;
}

/* By what it was done, for who wants to know. */
static void say_how(struct mst_work *op) {
    const struct msi_comm *comm = op->comm;
    struct msi_record *record = &op->mark.record;
    if (comm->table) record->backend = comm->table->name;
    if (comm->engine) record->device = msi_engine_elapsed(comm->engine, op);
    if (record->end && !record->device)
        record->bytes = 0; /* captured into a graph, say: none were seen to move */
    if (!op->begin) {
        const struct msi_message *m = &op->message;
        record->peer = comm->hooks.global(comm->hooks.context, peer_of(op));
        if (m->allocate && op->failure.status == MST_OK)
            record->bytes = m->allocate->len; /* known only now */
    } else if (comm->net) {
        record->algorithm = msi_net_algorithm(comm->net);
    } else if (!comm->engine) {
        record->algorithm = op->begin == msi_shm_all_reduce ? "region, in parts" : "region";
    }
}

void msi_comm_mark_over(struct mst_work *op) {
    if (!op->mark.on) return;
    if (op->mark.on & MSI_WATCH_RECORD) say_how(op);
    msi_op_trace_end(&op->mark, op->failure.status);
}

/* What led to the end of a group is kept, for reports. */
static void keep_flight(const struct mst_work *op) {
    const struct msi_failure *f = &op->failure;
    if (op->comm->failure.status != MST_OK || mst_status_scope(f->status) >= MST_SCOPE_GROUP)
        msi_flight_note(f->status, f->message, f->global);
}

/* It is over, well or not; done it is when its callback, if it has one, has returned. */
void msi_comm_end(struct mst_work *op) {
    msi_list_remove(&op->node);
    msi_comm_mark_over(op);
    if (op->failure.status != MST_OK) keep_flight(op);
    if (op->callback)
        msi_list_push(&op->comm->ended, &op->node);
    else
        finish(op);
}

void msi_comm_tell(void (*callback)(mst_status, void *), mst_status status, void *arg) {
    callbacks++;
    callback(status, arg);
    callbacks--;
}

/* Without the lock, since it may take its time. */
static void keep_noted(struct msi_comm *comm) {
    if (!msi_flight_is_noted()) return;
    pthread_mutex_unlock(&comm->lock);
    msi_flight_keep();
    pthread_mutex_lock(&comm->lock);
}

/* Callbacks run one after the other and without the lock: they may begin operations and give back works. */
static void call_back(struct msi_comm *comm) {
    keep_noted(comm);
    if (comm->calling) return; /* whoever does sees to these, too */
    comm->calling = true;
    comm->caller = pthread_self();
    while (!msi_list_empty(&comm->ended)) {
        struct mst_work *op = msi_container(comm->ended.next, struct mst_work, node);
        msi_list_remove(&op->node);
        comm->called = op;
        pthread_mutex_unlock(&comm->lock);
        msi_comm_tell(op->callback, op->failure.status, op->arg);
        pthread_mutex_lock(&comm->lock);
        finish(op);
    }
    comm->called = NULL;
    comm->calling = false;
}

bool msi_comm_in_callback(void) {
    return callbacks > 0;
}

mst_status msi_comm_refuse_waiting(void) {
    return msi_fail(MST_ERR_STATE, "begin it with .work there, or wait after the callback has returned",
                    "a callback of a work cannot wait");
}

bool msi_comm_is_over(const struct mst_work *op) {
    const struct msi_comm *comm = op->comm;
    return op->done || (comm->called == op && pthread_equal(comm->caller, pthread_self()));
}

static void fail(struct mst_work *op) {
    int culprit;
    mst_status st = msi_comm_say(op->comm, &op->host, &culprit);
    msi_comm_fail(op->comm, op, st, culprit);
}

/* The first operation is over only when all have begun theirs: they have the region then, and its maker may go. */
static enum msi_advance step(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    if (comm->net) return msi_net_advance(comm->net, op);
    enum msi_advance got = op->host.advance(&op->host);
    if (got != MSI_DONE || comm->met) return got;
    if (msi_shm_missing(comm->region, op->host.seq, NULL, 0)) return MSI_BLOCKED;
    msi_comm_met(comm);
    return MSI_DONE;
}

/* Collectives: the first one, and all that can follow. */
static bool advance_queue(struct msi_comm *comm) {
    bool moved = false;
    for (struct mst_work *op; (op = first(comm)); moved = true) {
        if (comm->failure.status != MST_OK && op->failure.status == MST_OK) op->failure = comm->failure;
        if (op->failure.status != MST_OK) {
            if (op->begun && comm->net && comm->failure.status == MST_OK) msi_net_leave(comm->net, op);
            msi_comm_end(op);
            continue;
        }
        if (!op->begun) {
            msi_op_trace_start(&op->mark);
            if (!comm->net) op->begin(&op->host);
        }
        op->begun = true;
        enum msi_advance got = step(op);
        if (got == MSI_FAILED) fail(op);
        if (got == MSI_DONE) msi_comm_end(op);
        if (got == MSI_BLOCKED) break;
    }
    return moved;
}

static bool advance_messages(struct msi_comm *comm) {
    bool moved = comm->failure.status == MST_OK && msi_p2p_advance(comm->p2p);
    for (struct msi_list *at = comm->messages.next, *next; at != &comm->messages; at = next) {
        struct mst_work *op = msi_container(at, struct mst_work, node);
        next = at->next;
        if (op->message.through) {
            if (op->message.sender)
                *op->message.sender = comm->hooks.global(comm->hooks.context, op->message.from);
        } else {
            if (comm->failure.status != MST_OK && op->failure.status == MST_OK) op->failure = comm->failure;
            if (op->failure.status == MST_OK) continue;
            if (msi_p2p_withdraw(comm->p2p, op))
                msi_comm_unnumber(op);
            else
                msi_comm_give_up(comm, op);
        }
        msi_comm_end(op);
        moved = true;
    }
    return moved;
}

/* Between hosts, the others learn by their links that this rank has given up. */
static void hang_up(struct msi_comm *comm) {
    msi_net_hang_up(comm->net);
    if (comm->p2p) msi_p2p_hang_up(comm->p2p);
}

static bool advance_engine(struct msi_comm *comm) {
    bool moved = msi_engine_advance(comm);
    if (!msi_list_empty(&comm->messages)) moved |= msi_engine_advance_messages(comm);
    return moved;
}

bool msi_comm_advance(struct msi_comm *comm) {
    if (comm->engine) return advance_engine(comm);
    bool moved = advance_queue(comm);
    if (!msi_list_empty(&comm->messages)) moved |= advance_messages(comm);
    if (comm->failure.status != MST_OK && comm->net) hang_up(comm);
    return moved;
}

static void wake(const struct msi_comm *comm) {
    if (comm->sleeping && comm->net) msi_net_wake(comm->net);
}

bool msi_comm_help(struct msi_comm *comm) {
    bool moved = msi_comm_advance(comm);
    if (moved) wake(comm);
    call_back(comm);
    return moved;
}

/* Messages queue nowhere. */
static void issue(struct mst_work *op) {
    if (op->message.peer >= 0) msi_comm_number(op, op->message.peer);
    msi_op_trace_start(&op->mark);
    msi_list_push(&op->comm->messages, &op->node);
}

/* Puts an operation among those under way. */
static mst_status begin(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    op->batch = comm->batch && pthread_equal(comm->batcher, pthread_self()) ? comm->batch : 0;
    if (op->begin) {
        msi_list_push(&comm->queue, &op->node);
        return MST_OK;
    }
    if (comm->engine) {
        comm->batched_messages |= op->batch != 0;
        issue(op);
        return MST_OK;
    }
    mst_status st = comm->p2p ? MST_OK : msi_p2p_new(comm, &comm->p2p);
    if (st != MST_OK) return st;
    issue(op);
    msi_p2p_begin(comm->p2p, op);
    return MST_OK;
}

/* The comm's own thread: there while operations run by themselves. It takes none of the program's signals. */
static void *work(void *context) {
    struct msi_comm *comm = context;
    pthread_setname_np(pthread_self(), "muster-comm");
    pthread_mutex_lock(&comm->lock);
    struct msi_idle idle = {0};
    while (!comm->ending) {
        if (msi_comm_advance(comm)) idle = (struct msi_idle){0};
        call_back(comm);
        if (comm->ending) break;
        if (msi_list_empty(&comm->queue) && msi_list_empty(&comm->messages)) {
            if (!msi_comm_watch_streams(comm)) pthread_cond_wait(&comm->changed, &comm->lock);
            idle = (struct msi_idle){0};
        } else {
            msi_comm_idle(comm, &idle, true);
        }
    }
    call_back(comm);
    pthread_mutex_unlock(&comm->lock);
    return NULL;
}

/* Else whoever waits or tests advances what runs by itself. */
bool msi_comm_has_thread(const struct msi_comm *comm) {
    return comm->threaded && !(comm->engine && comm->engine->traits.own_thread);
}

mst_status msi_comm_start_thread(struct msi_comm *comm) {
    if (comm->threaded) return MST_OK;
    comm->threaded = true;
    if (!msi_comm_has_thread(comm)) return MST_OK;
    int error = msi_thread_start(&comm->thread, work, comm);
    if (!error) return MST_OK;
    comm->threaded = false;
    return msi_fail_errno(error, "cannot start a thread for operations that run by themselves");
}

static void call_off(const struct msi_list *list) {
    for (const struct msi_list *at = list->next; at != list; at = at->next) {
        const struct mst_work *op = msi_container(at, const struct mst_work, node);
        if (op->callback) msi_comm_tell(op->callback, MST_ERR_STATE, op->arg);
    }
}

void msi_comm_call_off(struct msi_comm *comm) {
    call_off(&comm->queue);
    call_off(&comm->messages);
}

mst_status msi_comm_explain(const struct mst_work *op) {
    return op->failure.status == MST_OK ? MST_OK : msi_comm_repeat(&op->failure);
}

mst_status msi_comm_refuse(struct mst_work *op, mst_status status) {
    if (op->mark.on) msi_op_trace_failed(&op->mark, status);
    msi_comm_release_op(op);
    return status;
}

mst_status msi_comm_begin_here(struct mst_work *op) {
    mst_status st = msi_comm_join(op);
    if (st == MST_OK) st = begin(op);
    return st == MST_OK ? MST_OK : msi_comm_refuse(op, st);
}

/* A small collective, before it gets a place in the queue. MSI_DONE: it needs none. */
static enum msi_advance run_now(struct mst_work *op) {
    const struct msi_comm *comm = op->comm;
    if (!comm->met || comm->net || op->begin != msi_shm_exchange || !msi_list_empty(&comm->queue) ||
        !msi_shm_begin_now(&op->host))
        return MSI_BLOCKED;
    enum msi_advance got = msi_shm_look_now(&op->host);
    for (uint32_t left = msi_comm_spins(comm); got == MSI_BLOCKED && left > 0; left--) {
        msi_relax();
        got = msi_shm_look_now(&op->host);
    }
    op->begun = got != MSI_DONE;
    if (got == MSI_BLOCKED || got == MSI_MOVED) msi_shm_resume(&op->host);
    return got;
}

/* Alone on the comm: no lock. */
static mst_status run_here(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    enum msi_advance got = run_now(op);
    if (got == MSI_DONE) {
        msi_comm_mark_over(op);
        msi_list_push(&comm->spare, &op->node); /* it was in no list */
        return MST_OK;
    }
    if (op->begun) msi_op_trace_start(&op->mark);
    struct msi_idle idle = {0};
    mst_status st = begin(op);
    if (st != MST_OK) return msi_comm_refuse(op, st);
    if (got == MSI_FAILED) fail(op);
    if (comm->engine) comm->engine->blocking = !op->wait.cancel;
    while (!op->done) {
        if (msi_comm_advance(comm))
            idle = (struct msi_idle){0};
        else
            msi_comm_idle(comm, &idle, true);
    }
    if (comm->engine) comm->engine->blocking = false;
    st = msi_comm_explain(op);
    msi_comm_spare(op);
    if (st != MST_OK) msi_flight_keep();
    return st;
}

bool msi_comm_message_now(struct msi_comm *comm, const struct msi_message *message) {
    if (!comm || comm->threaded || !comm->p2p || comm->failure.status != MST_OK) return false;
    return message->send ? msi_p2p_send_now(comm->p2p, message) : msi_p2p_receive_now(comm->p2p, message);
}

uint64_t msi_comm_message_number(struct msi_comm *comm, const struct msi_message *m) {
    return msi_message_seq_next(&comm->message_seq, m->peer, m->tag, m->send);
}

mst_status msi_comm_run(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    mst_status st = callbacks ? msi_comm_refuse_waiting() : comm->joined ? MST_OK : msi_comm_join(op);
    if (st != MST_OK) return msi_comm_refuse(op, st);
    if (!comm->threaded) return run_here(op);
    struct msi_wait wait = {INT64_MAX, NULL}; /* the operation's own deadline ends it */
    st = msi_comm_submit(op);
    if (st != MST_OK) return st;
    pthread_mutex_lock(&comm->lock);
    op->held = true;
    st = msi_comm_wait_for(op, op->turn, &wait);
    pthread_mutex_unlock(&comm->lock);
    if (st != MST_OK) msi_flight_keep();
    return st;
}

mst_status msi_comm_submit(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    mst_status st = msi_comm_join(op);
    if (st == MST_OK) st = msi_comm_start_thread(comm);
    if (st != MST_OK) return msi_comm_refuse(op, st);
    pthread_mutex_lock(&comm->lock);
    st = begin(op);
    if (st == MST_OK) {
        wake(comm);
        msi_comm_advance(comm); /* what can be done at once is */
        pthread_cond_broadcast(&comm->changed);
        call_back(comm);
    }
    pthread_mutex_unlock(&comm->lock);
    return st == MST_OK ? MST_OK : msi_comm_refuse(op, st);
}

bool msi_comm_batch_begin(struct msi_comm *comm) {
    if (!comm->engine || !comm->engine->table->group_begin) return false;
    msi_comm_lock(comm);
    bool nested = comm->batch && pthread_equal(comm->batcher, pthread_self()); /* in a callback */
    while (!nested && comm->threaded && comm->batch) pthread_cond_wait(&comm->changed, &comm->lock);
    if (!nested) {
        if (++comm->batches == 0) comm->batches = 1;
        comm->batch = comm->batches;
        comm->batcher = pthread_self();
    }
    msi_comm_unlock(comm);
    return !nested;
}

void msi_comm_batch_end(struct msi_comm *comm) {
    msi_comm_lock(comm);
    comm->batch = 0;
    if (comm->threaded) pthread_cond_broadcast(&comm->changed);
    msi_comm_help(comm);
    msi_comm_unlock(comm);
}
