/* comm.c - creating a communicator, joining its ranks, and the operations that it keeps. See comm.h. */
#include "base/error.h"
#include "base/hash.h"
#include "comm/comm_internal.h"
#include "comm/wait_reports.h"
#include "os/thread.h"

#include <stdlib.h>
#include <unistd.h>

/* The number of processors of this host, including those on which this rank may not run. */
static int processors(void) {
    static _Atomic int known; /* asking takes time; every thread finds the same, so nothing needs ordering */
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (n > 0) return n;
    n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    atomic_store_explicit(&known, n, memory_order_relaxed);
    return n;
}

/* Copies the arrays, all into one allocation; false without memory. */
static bool copy_ranks(struct msi_comm *comm, const struct msi_comm_options *options) {
    struct msi_comm_ranks *ranks = &comm->ranks;
    size_t n = (size_t)options->size;
    ranks->pids = malloc(4 * n * sizeof *ranks->pids);
    if (!ranks->pids) return false;
    ranks->globals = ranks->pids + n;
    ranks->slots = ranks->globals + n;
    int *hosts = ranks->slots + n;
    memcpy(ranks->pids, options->pids, n * sizeof *ranks->pids);
    memcpy(hosts, options->hosts, n * sizeof *hosts);
    ranks->hosts = (struct msi_hosts){options->n_hosts, options->largest, hosts};
    for (int r = 0; r < options->size; r++) {
        ranks->globals[r] = msi_comm_global(comm, r);
        ranks->slots[r] = hosts[r] == hosts[options->rank] ? ranks->local++ : -1;
    }
    msi_comm_share_processors(ranks, options->local_ranks, processors());
    ranks->one_host = options->local_ranks == options->config.world_size;
    return true;
}

static void free_memory(struct msi_comm *comm) {
    free(comm->state);
    free(comm->ranks.pids);
    free(comm->key);
    free(comm);
}

mst_status msi_comm_new(const struct msi_comm_options *options, const struct msi_comm_hooks *hooks,
                        struct msi_comm **comm) {
    static const uint64_t hash_key[2] = {3, 4};
    struct msi_comm *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    made->rank = options->rank;
    made->size = options->size;
    made->hooks = *hooks;
    made->config = options->config;
    made->engine = options->engine;
    made->key = strdup(options->key);
    made->state = calloc(1, made->engine->state_bytes(made));
    if (!made->key || !made->state || !copy_ranks(made, options)) {
        free_memory(made);
        return msi_fail_memory();
    }
    made->number = msi_hash(made->key, strlen(made->key), hash_key);
    struct msi_comm_lists *ops = &made->ops;
    struct msi_list *lists[] = {&ops->queue, &ops->messages, &ops->ended, &ops->kept, &ops->spare};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) msi_list_init(lists[i]);
    *comm = made;
    return MST_OK;
}

static void free_ops(struct msi_list *list) {
    while (!msi_list_empty(list)) {
        struct mst_work *work = msi_container(list->next, struct mst_work, node);
        msi_list_remove(&work->node);
        msi_op_trace_end(&work->op_trace, MST_ERR_STATE); /* of an operation that was under way */
        msi_handle_remove(work);
        free(work);
    }
}

void msi_comm_free(struct msi_comm *comm) {
    if (!comm) return;
    if (msi_comm_has_thread(comm)) {
        msi_comm_lock(comm);
        comm->ending = true;
        msi_condition_tell(&comm->changed);
        msi_comm_rouse(comm);
        msi_comm_unlock(comm);
        pthread_join(comm->thread, NULL);
    }
    msi_comm_call_off(comm);
    comm->engine->close(comm); /* before the operations, which the engine may still use */
    free_ops(&comm->ops.queue);
    free_ops(&comm->ops.messages);
    free_ops(&comm->ops.ended);
    free_ops(&comm->ops.kept);
    free_ops(&comm->ops.spare);
    msi_message_seq_free(&comm->message_seq);
    msi_wait_report_remove(comm);
    msi_comm_stop_watching(comm);
    free_memory(comm);
}

/* One allocation: the operation, its arrays, and the engine's state. */
static struct mst_work *new_op(struct msi_comm *comm) {
    size_t n = (size_t)comm->size, arrays = 4 * n * sizeof(void *);
    _Static_assert(sizeof(size_t) == sizeof(void *), "the arrays of an operation have entries of one size");
    arrays = (arrays + 63) & ~(size_t)63;
    struct mst_work *work = msi_handle_alloc(sizeof *work + arrays + comm->engine->op_bytes(comm));
    if (!work || !msi_handle_add(work)) {
        free(work);
        return NULL;
    }
    void **room = (void **)(void *)(work + 1);
    /* Relaxed: it only makes handles of memory that is used again differ from earlier ones. */
    static _Atomic unsigned made;
    work->generation = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) % MSI_WORK_GENERATIONS;
    work->comm = comm;
    work->in_list = (const void **)(uintptr_t)room;
    work->out_list = room + n;
    work->in_counts = (size_t *)(void *)(room + 2 * n);
    work->out_counts = (size_t *)(void *)(room + 3 * n);
    work->state = (char *)room + arrays;
    msi_list_init(&work->node);
    if (comm->engine->op_init) comm->engine->op_init(work);
    return work;
}

static struct mst_work *spare_op(struct msi_comm *comm) {
    if (msi_list_empty(&comm->ops.spare)) return new_op(comm);
    struct mst_work *work = msi_container(comm->ops.spare.next, struct mst_work, node);
    msi_list_remove(&work->node);
    return work;
}

static void clear(struct mst_work *work, int timeout_ms, mst_cancel *cancel) {
    work->fault.seq = 0;
    work->op = (struct msi_op){.desc = {.root = -1, .peer = -1, .sender = -1}};
    work->begun = work->done = work->enqueued = work->abandoned = work->awaited = work->blocking =
        work->numbered = false;
    work->parted = false;
    work->after_failure = msi_sinks_on() & MSI_SINK_CAUSE;
    work->source = -1;
    work->seq = 0;
    work->op_trace.on = 0;
    work->failure.status = MST_OK;
    work->callbacks = NULL;
    work->timeout_ms = timeout_ms;
    work->wait = (struct msi_wait){MSI_NO_DEADLINE, cancel};
}

void msi_comm_copy_arrays(struct mst_work *work) {
    mst_backend_op *d = &work->op.desc;
    size_t bytes = (size_t)work->comm->size * sizeof(void *);
    if (d->in_list) d->in_list = memcpy(work->in_list, d->in_list, bytes);
    if (d->out_list) d->out_list = memcpy(work->out_list, d->out_list, bytes);
    if (d->in_counts) d->in_counts = memcpy(work->in_counts, d->in_counts, bytes);
    if (d->out_counts) d->out_counts = memcpy(work->out_counts, d->out_counts, bytes);
}

void msi_comm_show_call(struct mst_work *work, struct msi_op_call *call) {
    msi_comm_lock(work->comm);
    *call = (struct msi_op_call){work->op.name, work->op.site};
    msi_comm_unlock(work->comm);
}

bool msi_comm_claim(struct msi_comm *comm, _Atomic bool *flag) {
    msi_comm_lock(comm);
    bool free = msi_comm_claim_locked(flag);
    msi_comm_unlock(comm);
    return free;
}

void msi_comm_unclaim(struct msi_comm *comm, _Atomic bool *flag) {
    msi_comm_lock(comm);
    atomic_store_explicit(flag, false, memory_order_relaxed);
    msi_comm_unlock(comm);
}

void msi_comm_release_op(struct mst_work *work) {
    msi_comm_spare(work);
    msi_comm_unlock(work->comm);
}

mst_status msi_comm_join(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    if (comm->joined) return MST_OK;
    struct msi_wait wait = {msi_deadline(work->timeout_ms), work->wait.cancel};
    mst_status st = comm->engine->open(comm, work, &wait);
    comm->joined = st == MST_OK;
    /* The rank that hosts the store does not answer: as at the deadline of an operation that is under way. */
    struct msi_saved_error error;
    msi_error_save(&error, MST_ERR_STALLED);
    return st == MST_ERR_TIMEOUT && error.culprit >= 0 ? msi_error_restore(&error) : st;
}

enum { ABORT_TRIES = 3 };

/* The store may have no memory for it. If the store does not answer, the others find out by themselves. */
static mst_status post_abort(struct msi_comm *comm, const struct msi_failure *failure) {
    mst_status st = MST_ERR_LIMIT;
    for (int i = 0; i < ABORT_TRIES && st == MST_ERR_LIMIT; i++) st = msi_failure_report_post(comm, failure);
    return st == MST_ERR_LIMIT || st == MST_ERR_MEMORY ? st : MST_OK;
}

/*
 * The other ranks read the message in the store. The lock is taken after that, since a thread may hold it for
 * long while the engine opens.
 */
mst_status msi_comm_abort(struct msi_comm *comm, int cause, const char *own, const char *others) {
    /* Orders nothing: only the first call goes on. */
    if (atomic_exchange_explicit(&comm->abort.called, true, memory_order_relaxed)) return MST_OK;
    struct msi_failure *f = &comm->abort.failure;
    struct msi_failure theirs = {.status = MST_ERR_PEER_LOST,
                                 .culprit = MSI_BLAMES_ABORT - (cause < 0 ? 0 : 1 + cause)};
    if (!atomic_load_explicit(&comm->abort.known, memory_order_relaxed)) { /* else it is repeated */
        *f = (struct msi_failure){.status = MST_ERR_CANCELLED,
                                  .culprit = comm->rank,
                                  .global = msi_comm_global(comm, comm->rank),
                                  .remedy = "destroy the group, and create another one"};
        msi_copy_text(f->message, sizeof f->message, own);
    }
    msi_copy_text(theirs.message, sizeof theirs.message, others);
    mst_status st = comm->size > 1 ? post_abort(comm, &theirs) : MST_OK;
    /* Loaded by msi_comm_check_own_abort. */
    atomic_store_explicit(&comm->abort.known, true, memory_order_release);
    msi_comm_lock(comm);
    msi_comm_end_aborted(comm);
    if (comm->waiting.sleeping && comm->engine->wake) comm->engine->wake(comm);
    msi_condition_tell(&comm->changed);
    msi_comm_unlock(comm);
    if (st == MST_OK) return MST_OK;
    atomic_store_explicit(&comm->abort.called, false, memory_order_relaxed);
    return st;
}

bool msi_comm_idle_now(struct msi_comm *comm) {
    msi_comm_lock(comm);
    bool idle = msi_list_empty(&comm->ops.queue) && msi_list_empty(&comm->ops.messages) &&
                msi_list_empty(&comm->ops.ended);
    msi_comm_unlock(comm);
    return idle;
}

bool msi_comm_has_failed(struct msi_comm *comm) {
    msi_comm_lock(comm);
    bool failed = comm->failure.status != MST_OK || (comm->config.backend && !comm->joined);
    msi_comm_unlock(comm);
    return failed;
}

uint64_t msi_comm_count(const struct msi_comm *comm) {
    return comm->engine->count(comm);
}

const char *msi_comm_key(const struct msi_comm *comm) {
    return comm->key;
}

mst_status msi_comm_check(struct msi_comm *comm) {
    msi_comm_lock(comm);
    mst_status st = comm->failure.status;
    msi_comm_unlock(comm); /* a stored failure does not change */
    return st == MST_OK ? MST_OK : msi_comm_repeat(&comm->failure);
}

mst_status msi_comm_alloc_op(struct msi_comm *comm, int timeout_ms, mst_cancel *cancel, const char *name,
                             struct mst_work **work) {
    msi_comm_lock(comm);
    mst_status st = comm->failure.status == MST_OK ? MST_OK : msi_comm_repeat(&comm->failure);
    struct mst_work *found = st == MST_OK ? spare_op(comm) : NULL;
    if (!found) {
        msi_comm_unlock(comm);
        if (st == MST_OK) return msi_fail_memory();
        comm->hooks.failed(comm->hooks.context, st, NULL);
        return st;
    }
    clear(found, timeout_ms, cancel);
    found->op.name = name;
    *work = found;
    return MST_OK;
}

struct mst_work *msi_comm_continue(struct msi_comm *comm, const struct msi_op *op, int timeout_ms,
                                   mst_cancel *cancel) {
    struct mst_work *work = spare_op(comm); /* there is one: msi_comm_enter_now has looked */
    clear(work, timeout_ms, cancel);
    work->op.desc = op->desc;
    work->op.call = op->call;
    work->op.name = op->name;
    work->op.site = op->site;
    work->op.reducer = op->reducer;
    work->op.signature = op->signature;
    work->op.hash = op->hash;
    return work;
}

mst_status msi_comm_open(struct msi_comm *comm, int timeout_ms, mst_cancel *cancel) {
    struct mst_work *work;
    mst_status st = msi_comm_alloc_op(comm, timeout_ms, cancel, "the opening of its backend", &work);
    if (st != MST_OK) return st;
    msi_op_set_call(&work->op, MSI_KIND_SEND); /* a late barrier would be completed later */
    st = msi_comm_join(work);
    msi_comm_release_op(work);
    return st;
}
