/* comm.c - making a comm, meeting its ranks, and the operations it keeps. See comm.h. */
#include "backend/comm_internal.h"
#include "base/error.h"
#include "wire/cursor.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

mst_status msi_comm_new(const struct msi_comm_place *place, const struct msi_comm_hooks *hooks,
                        struct msi_comm **comm) {
    struct msi_comm *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    size_t n = (size_t)place->size;
    made->pids = malloc(n * sizeof *made->pids);
    made->key = strdup(place->key);
    if (!made->pids || !made->key) {
        free(made->pids);
        free(made->key);
        free(made);
        return msi_fail_memory();
    }
    memcpy(made->pids, place->pids, n * sizeof *made->pids);
    made->rank = place->rank;
    made->size = place->size;
    made->one_host = place->one_host;
    made->crowded = place->local_ranks > processors();
    made->hooks = *hooks;
    msi_list_init(&made->queue);
    msi_list_init(&made->spare);
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&made->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    *comm = made;
    return MST_OK;
}

static void free_ops(struct msi_list *list) {
    while (!msi_list_empty(list)) {
        struct mst_work *op = msi_container(list->next, struct mst_work, node);
        msi_list_remove(&op->node);
        free(op);
    }
}

static void close_watched(struct msi_comm *comm) {
    if (!comm->watched) return;
    for (int i = 0; i < comm->size; i++)
        if (comm->watched[2 + i].fd >= 0) close(comm->watched[2 + i].fd);
    free(comm->watched);
}

void msi_comm_free(struct msi_comm *comm) {
    if (!comm) return;
    if (comm->threaded) {
        pthread_mutex_lock(&comm->lock);
        comm->ending = true;
        pthread_cond_broadcast(&comm->changed);
        pthread_mutex_unlock(&comm->lock);
        pthread_join(comm->thread, NULL);
    }
    free_ops(&comm->queue);
    free_ops(&comm->spare);
    close_watched(comm);
    msi_board_close(comm->board);
    pthread_cond_destroy(&comm->changed);
    pthread_mutex_destroy(&comm->lock);
    free(comm->pids);
    free(comm->key);
    free(comm);
}

/* One piece of memory: the operation, and behind it its arrays. */
static struct mst_work *new_op(struct msi_comm *comm) {
    size_t n = (size_t)comm->size;
    struct mst_work *op = calloc(1, sizeof *op + 8 * n * sizeof(void *));
    if (!op) return NULL;
    void **room = (void **)(void *)(op + 1);
    op->comm = comm;
    op->sources = (const void **)(uintptr_t)room;
    op->targets = room + n;
    op->in_list = (char **)(void *)(room + 2 * n);
    op->out_list = (char **)(void *)(room + 3 * n);
    op->in_lens = (size_t *)(void *)(room + 4 * n);
    op->out_lens = (size_t *)(void *)(room + 5 * n);
    op->in_starts = (size_t *)(void *)(room + 6 * n);
    op->out_starts = (size_t *)(void *)(room + 7 * n);
    msi_list_init(&op->node);
    return op;
}
_Static_assert(sizeof(size_t) == sizeof(void *), "the arrays of an operation have entries of one size");

static void lock(struct msi_comm *comm) {
    if (comm->threaded) pthread_mutex_lock(&comm->lock);
}

static void unlock(struct msi_comm *comm) {
    if (comm->threaded) pthread_mutex_unlock(&comm->lock);
}

static struct mst_work *spare_op(struct msi_comm *comm) {
    struct mst_work *op = NULL;
    lock(comm);
    if (!msi_list_empty(&comm->spare)) {
        op = msi_container(comm->spare.next, struct mst_work, node);
        msi_list_remove(&op->node);
    }
    unlock(comm);
    return op ? op : new_op(comm);
}

void msi_comm_return(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    lock(comm);
    msi_list_push(&comm->spare, &op->node);
    unlock(comm);
}

/* The first rank makes the board and says in the store where it is. */
static mst_status find_board(struct msi_comm *comm, const struct msi_wait *wait) {
    char offer[MSI_BOARD_OFFER_MAX] = "", key[768];
    snprintf(key, sizeof key, "%s/board", comm->key);
    struct msi_str name = msi_cstr(key);
    if (comm->size == 1) return msi_board_make(0, 1, &comm->board, offer);
    if (comm->rank == 0) {
        mst_status st = msi_board_make(0, comm->size, &comm->board, offer);
        struct msi_exchange x = {.req = {.op = MSI_OP_SET, .key = name, .value = msi_cstr(offer)}};
        if (st == MST_OK) st = comm->hooks.exec(comm->hooks.context, wait, &x, 1);
        msi_exchange_free(&x, 1);
        return st;
    }
    struct msi_exchange x = {.req = {.op = MSI_OP_WAIT_GET, .n = 1, .keys = &name}};
    mst_status st = comm->hooks.exec(comm->hooks.context, wait, &x, 1);
    if (st == MST_OK) {
        struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
        struct msi_str value = msi_read_str(&r);
        snprintf(offer, sizeof offer, "%.*s", MSI_SHOW(value));
        st = msi_board_attach(offer, comm->rank, comm->size, &comm->board);
    }
    msi_exchange_free(&x, 1);
    return st;
}

static void forget_board(struct msi_comm *comm, const struct msi_wait *wait) {
    char key[768];
    snprintf(key, sizeof key, "%s/board", comm->key);
    struct msi_exchange x = {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_cstr(key)}};
    comm->hooks.exec(comm->hooks.context, wait, &x, 1); /* a key that stays does no harm */
    msi_exchange_free(&x, 1);
}

/* All open the board; when they have met on it, nobody needs to find it any more. */
static mst_status meet(struct msi_comm *comm, const struct msi_wait *wait) {
    if (!comm->one_host)
        return msi_fail(MST_ERR_UNSUPPORTED, "keep such a group's ranks on one host",
                        "the ranks of this group are on several hosts, which this version cannot do yet");
    mst_status st = find_board(comm, wait);
    if (st != MST_OK) return st;
    struct mst_work *op = spare_op(comm);
    if (!op) return msi_fail_memory();
    op->name = msi_kind_name(MSI_KIND_MEET);
    op->begin = msi_host_exchange;
    op->wait = *wait;
    op->host = (struct msi_host_op){.board = comm->board,
                                    .told = {.kind = MSI_KIND_MEET},
                                    .signature = MSI_KIND_MEET,
                                    .nothing = true,
                                    .publisher = -1,
                                    .reader = -1};
    st = msi_comm_run(op);
    if (st != MST_OK) return st;
    msi_board_seal(comm->board);
    if (comm->rank == 0 && comm->size > 1) forget_board(comm, wait);
    return MST_OK;
}

mst_status msi_comm_check(struct msi_comm *comm) {
    const struct msi_failure *f = &comm->failure;
    lock(comm);
    mst_status st = f->status;
    unlock(comm); /* a failure that is there does not change any more */
    return st == MST_OK ? MST_OK : msi_blame(msi_fail(st, f->remedy, "%s", f->message), f->culprit);
}

mst_status msi_comm_take(struct msi_comm *comm, const struct msi_wait *wait, struct mst_work **op) {
    mst_status failed = msi_comm_check(comm);
    if (failed != MST_OK) return failed;
    if (!comm->board) {
        mst_status st = meet(comm, wait);
        if (st != MST_OK) return st;
    }
    struct mst_work *found = spare_op(comm);
    if (!found) return msi_fail_memory();
    found->begun = found->done = found->abandoned = false;
    found->status = MST_OK;
    found->callback = NULL;
    found->name_first = false;
    found->host = (struct msi_host_op){.board = comm->board,
                                       .publisher = -1,
                                       .reader = -1,
                                       .sources = found->sources,
                                       .targets = found->targets};
    found->wait = *wait;
    *op = found;
    return MST_OK;
}
