/* comm.c - making a comm, meeting its ranks, and the operations it keeps. See comm.h. */
#include "base/error.h"
#include "base/handles.h"
#include "base/hash.h"
#include "comm/comm_internal.h"
#include "comm/wait_reports.h"
#include "engine/module/module.h"
#include "engine/net/net.h"
#include "engine/shm/maps.h"
#include "os/thread.h"
#include "p2p/p2p.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LAST_WORDS_MS = 1000, ABSENT_MS = 50, LOOK_MS = 500 };

/* Of this host, whichever this rank may run on. */
static int processors(void) {
    static _Atomic int known; /* asking takes time; every thread finds the same, so nothing needs ordering */
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (n > 0) return n;
    n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    atomic_store_explicit(&known, n, memory_order_relaxed);
    return n;
}

/* Copies who is where, all into one piece of memory; false without it. */
static bool copy_ranks(struct msi_comm *comm, const struct msi_comm_place *place) {
    size_t n = (size_t)place->size;
    comm->pids = malloc(5 * n * sizeof *comm->pids);
    if (!comm->pids) return false;
    comm->ports = comm->pids + n;
    comm->places = comm->ports + n;
    int *hosts = comm->places + n;
    comm->globals = hosts + n;
    memcpy(comm->pids, place->pids, n * sizeof *comm->pids);
    memset(comm->ports, 0, n * sizeof *comm->ports);
    memcpy(hosts, place->hosts, n * sizeof *hosts);
    comm->hosts = (struct msi_hosts){place->n_hosts, place->largest, hosts};
    comm->rank = place->rank;
    comm->size = place->size;
    for (int r = 0; r < place->size; r++)
        comm->places[r] = hosts[r] == hosts[place->rank] ? comm->local++ : -1;
    return true;
}

mst_status msi_comm_new(const struct msi_comm_place *place, const struct msi_comm_hooks *hooks,
                        struct msi_comm **comm) {
    static const uint64_t hash_key[2] = {3, 4};
    struct msi_comm *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    made->key = strdup(place->key);
    if (!made->key || !copy_ranks(made, place)) {
        free(made->key);
        free(made);
        return msi_fail_memory();
    }
    made->number = msi_hash(made->key, strlen(made->key), hash_key);
    made->endpoint = place->endpoint;
    made->tuning = place->tuning;
    made->streams = place->streams;
    made->oversubscribed = place->local_ranks > processors();
    made->hooks = *hooks;
    made->table = place->table;
    made->forced = place->forced;
    made->stage = place->stage;
    made->check = place->check;
    made->world_size = place->world_size;
    made->local_rank = place->local_rank;
    for (int r = 0; r < place->size; r++) made->globals[r] = hooks->global(hooks->context, r);
    msi_list_init(&made->queue);
    msi_list_init(&made->messages);
    msi_list_init(&made->kept);
    msi_list_init(&made->spare);
    msi_list_init(&made->ended);
    msi_list_init(&made->timed);
    pthread_mutex_init(&made->lock, NULL);
    msi_cond_init(&made->changed);
    *comm = made;
    return MST_OK;
}

mst_status msi_comm_new_inside(const struct msi_comm *comm, const char *key, struct msi_comm **inside) {
    struct msi_comm_place place = {.rank = comm->rank,
                                   .size = comm->size,
                                   .pids = comm->pids,
                                   .key = key,
                                   .hosts = comm->hosts.of,
                                   .n_hosts = comm->hosts.n,
                                   .largest = comm->hosts.largest,
                                   .endpoint = comm->endpoint,
                                   .tuning = comm->tuning,
                                   .streams = comm->streams,
                                   .local_ranks = comm->local};
    return msi_comm_new(&place, &comm->hooks, inside);
}

static void free_ops(struct msi_list *list) {
    while (!msi_list_empty(list)) {
        struct mst_work *op = msi_container(list->next, struct mst_work, node);
        msi_list_remove(&op->node);
        msi_op_trace_end(&op->mark, MST_ERR_STATE); /* of one that was under way */
        msi_handle_remove(op);
        free(op);
    }
}

void msi_comm_free(struct msi_comm *comm) {
    if (!comm) return;
    if (msi_comm_has_thread(comm)) {
        pthread_mutex_lock(&comm->lock);
        comm->ending = true;
        pthread_cond_broadcast(&comm->changed);
        pthread_mutex_unlock(&comm->lock);
        pthread_join(comm->thread, NULL);
    }
    msi_comm_call_off(comm);
    if (comm->region)
        msi_shm_region_post(comm->region, &msi_shm_region_own(comm->region)->left, 1); /* read by has_left */
    msi_comm_leave_streams(comm);
    msi_engine_free(comm->engine); /* it may be at operations that are not over */
    free_ops(&comm->queue);
    free_ops(&comm->messages);
    free_ops(&comm->ended);
    free_ops(&comm->kept);
    free_ops(&comm->spare);
    msi_p2p_free(comm->p2p);
    msi_message_seq_free(&comm->message_seq);
    msi_net_free(comm->net);
    msi_wait_report_remove(comm);
    if (comm->region && !comm->met) msi_comm_met(comm); /* who comes now shall not look for what is gone */
    msi_comm_stop_watching(comm);
    msi_maps_free(comm->maps);
    msi_shm_region_close(comm->region);
    pthread_cond_destroy(&comm->changed);
    pthread_mutex_destroy(&comm->lock);
    free(comm->pids);
    free(comm->key);
    free(comm);
}

/* One piece of memory: the operation, and behind it its arrays. */
static struct mst_work *new_op(struct msi_comm *comm) {
    size_t n = (size_t)comm->size;
    struct mst_work *op = msi_handle_alloc(sizeof *op + 8 * n * sizeof(void *));
    if (!op || !msi_handle_add(op)) {
        free(op);
        return NULL;
    }
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

static struct mst_work *spare_op(struct msi_comm *comm) {
    struct mst_work *op = NULL;
    msi_comm_lock(comm);
    if (!msi_list_empty(&comm->spare)) {
        op = msi_container(comm->spare.next, struct mst_work, node);
        msi_list_remove(&op->node);
    }
    msi_comm_unlock(comm);
    return op ? op : new_op(comm);
}

/* Where it runs, on one host; known once the ranks have met. */
static void set_place(struct mst_work *op) {
    op->host.region = op->comm->region;
    op->host.context = op->comm->maps;
}

static void clear(struct mst_work *op, int timeout_ms, mst_cancel *cancel) {
    op->begun = op->done = op->abandoned = op->name_first = op->deterministic = false;
    op->memory = MST_MEMORY_HOST;
    op->stream = NULL;
    op->mark.on = 0;
    op->failure.status = MST_OK;
    op->callback = NULL;
    op->timeout_ms = timeout_ms;
    op->wait = (struct msi_wait){MSI_NO_DEADLINE, cancel};
    op->host = (struct msi_shm_coll){
        .publisher = -1, .reader = -1, .sources = op->sources, .targets = op->targets, .map = msi_maps_find};
    set_place(op);
}

void msi_comm_release_op(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    msi_comm_lock(comm);
    msi_comm_spare(op);
    msi_comm_unlock(comm);
}

static struct msi_str region_key(const struct msi_comm *comm, char out[768]) {
    snprintf(out, 768, "%s/region/%d", comm->key, comm->hosts.of[comm->rank]);
    return msi_cstr(out);
}

/* Opens the region that another rank of this host has offered, which may have died since. */
static mst_status attach(struct msi_comm *comm, const char *offer) {
    mst_status st = msi_shm_region_attach(offer, comm->places[comm->rank], comm->local, &comm->region);
    if (st != MST_ERR_SYSTEM) return st;
    char why[200];
    snprintf(why, sizeof why, "%s", mst_last_error()->message);
    for (int r = 0; r < comm->size; r++)
        if (comm->places[r] >= 0 && r != comm->rank && comm->pids[r] == atoi(offer))
            return msi_comm_say_cut_off(comm, st, r, why);
    return st;
}

/* Whoever comes first makes the region of this host, and says in the store where it is. */
static mst_status find_region(struct msi_comm *comm, const struct msi_wait *wait) {
    char offer[MSI_SHM_REGION_OFFER_MAX], found[MSI_SHM_REGION_OFFER_MAX], key[768];
    mst_status st = msi_shm_region_make(comm->places[comm->rank], comm->local, &comm->region, offer);
    if (st != MST_OK || comm->local == 1) return st;
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_COMPARE_SET, .key = region_key(comm, key), .desired = msi_cstr(offer)}};
    st = comm->hooks.exec(comm->hooks.context, wait, &x, 1);
    if (st == MST_OK) st = x.status;
    struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
    struct msi_str value = st == MST_OK ? msi_read_str(&r) : msi_cstr("");
    snprintf(found, sizeof found, "%.*s", MSI_SHOW(value));
    msi_store_rpc_free(&x, 1);
    if (st != MST_OK || strcmp(found, offer) != 0) {
        msi_shm_region_close(comm->region);
        comm->region = NULL;
        if (st == MST_OK) st = attach(comm, found);
    }
    if (st == MST_OK) msi_shm_region_arrive(comm->region);
    return st;
}

/* Not all endpoints are open at the deadline: whose is missing? */
static mst_status say_absent(struct msi_comm *comm, const int *ranks) {
    void *context = comm->hooks.context;
    char who[200], group[96];
    int r = 0, port;
    mst_status st = MST_OK;
    for (; r < comm->size && st == MST_OK; r += st == MST_OK) {
        struct msi_wait wait = {msi_deadline(ABSENT_MS), NULL};
        if (r != comm->rank)
            st = msi_endpoint_find(comm->endpoint, &ranks[r], 1, comm->hooks.exec, context, &wait, &port);
    }
    if (st != MST_OK && st != MST_ERR_TIMEOUT) return st;
    st = msi_fail(MST_ERR_STALLED, "see where that rank is; a longer wait is .timeout_ms",
                  "not all ranks of %s came in time; missing: %s",
                  comm->hooks.show(context, -1, group, sizeof group),
                  r < comm->size ? comm->hooks.show(context, r, who, sizeof who) : "nobody any more");
    return r < comm->size ? msi_blame(st, ranks[r]) : st;
}

/* Waits for the endpoints of all, and looks now and then whether those who are missing can come at all. */
static mst_status wait_for_endpoints(const struct mst_work *op, const int *ranks,
                                     const struct msi_wait *wait) {
    struct msi_comm *comm = op->comm;
    const struct msi_waiting at = {.comm = comm->key, .name = op->name, .seq = op->begin != NULL};
    for (;;) {
        int64_t moment = msi_deadline(LOOK_MS);
        struct msi_wait some = {moment < wait->deadline ? moment : wait->deadline, wait->cancel};
        mst_status st = msi_endpoint_find(comm->endpoint, ranks, comm->size, comm->hooks.exec,
                                          comm->hooks.context, &some, comm->ports);
        if (st != MST_ERR_TIMEOUT) return st;
        st = comm->hooks.look(comm->hooks.context, &at);
        if (st != MST_OK) return st;
        int culprit;
        st = msi_failure_report_read(comm, &culprit);
        if (st != MST_OK) return msi_blame(st, comm->hooks.global(comm->hooks.context, culprit));
        if (msi_now() >= wait->deadline) return say_absent(comm, ranks);
    }
}

/* Opens this rank's endpoint, and learns where those of the others are, which must have come for that. */
static mst_status find_endpoints(const struct mst_work *op, const struct msi_wait *wait) {
    struct msi_comm *comm = op->comm;
    void *context = comm->hooks.context;
    int *ranks = malloc((size_t)comm->size * sizeof *ranks);
    if (!ranks) return msi_fail_memory();
    for (int r = 0; r < comm->size; r++) ranks[r] = comm->hooks.global(context, r);
    mst_status st = msi_endpoint_open(comm->endpoint, comm->hooks.exec, context, wait);
    if (st == MST_OK) st = wait_for_endpoints(op, ranks, wait);
    free(ranks);
    return st == MST_OK ? msi_net_new(comm, &comm->net) : st;
}

/* What is needed before the first operation, as far as it is not there yet. */
static mst_status meet(const struct mst_work *op, const struct msi_wait *wait) {
    struct msi_comm *comm = op->comm;
    bool one_host = comm->hosts.n == 1;
    mst_status st = comm->hooks.agree(comm->hooks.context, wait);
    if (st != MST_OK) return st;
    if (comm->table) return msi_engine_open(comm, wait, &comm->engine);
    if (one_host && !comm->maps) comm->maps = msi_maps_new(comm->size);
    if (one_host && !comm->maps) return msi_fail_memory();
    if (!comm->region && (one_host || comm->local > 1)) st = find_region(comm, wait);
    if (st == MST_OK && !one_host && !comm->net) st = find_endpoints(op, wait);
    return st;
}

void msi_comm_met(struct msi_comm *comm) {
    comm->met = true;
    int known = msi_shm_region_processors(comm->region); /* 0: none */
    if (known && comm->local > known) comm->oversubscribed = true;
    if (comm->region->segment.fd < 0 || comm->local == 1) return;
    char key[768];
    struct msi_wait wait = {msi_deadline(LAST_WORDS_MS), NULL};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_DELETE_KEY, .key = region_key(comm, key)}};
    comm->hooks.exec(comm->hooks.context, &wait, &x, 1); /* a key that stays does no harm */
    msi_store_rpc_free(&x, 1);
    msi_shm_region_seal(comm->region);
}

/* The others count a barrier that this rank gave up: its part comes before anything else. */
static void settle_debts(struct msi_comm *comm) {
    for (; comm->net && comm->owed; comm->owed--) msi_net_leave(comm->net, &comm->left);
}

mst_status msi_comm_join(struct mst_work *op) {
    struct msi_comm *comm = op->comm;
    if (comm->joined) return MST_OK;
    struct msi_wait wait = {msi_deadline(op->timeout_ms), op->wait.cancel};
    mst_status st = meet(op, &wait);
    bool late = st == MST_ERR_STALLED || st == MST_ERR_TIMEOUT || st == MST_ERR_CANCELLED;
    if (st == MST_OK) {
        comm->joined = true;
        set_place(op);
        settle_debts(comm);
    } else if (late && op->begin && op->host.nothing && !comm->table) {
        comm->left = *op;
        comm->owed++;
    }
    return st;
}

bool msi_comm_idle_now(struct msi_comm *comm) {
    msi_comm_lock(comm);
    bool idle =
        msi_list_empty(&comm->queue) && msi_list_empty(&comm->messages) && msi_list_empty(&comm->ended);
    msi_comm_unlock(comm);
    return idle;
}

bool msi_comm_has_failed(struct msi_comm *comm) {
    msi_comm_lock(comm);
    bool spent = comm->failure.status != MST_OK || (comm->table && !comm->joined);
    msi_comm_unlock(comm);
    return spent;
}

uint64_t msi_comm_count(const struct msi_comm *comm) {
    if (comm->engine) return comm->engine->seq;
    if (comm->net) return msi_net_count(comm->net);
    return comm->region ? comm->region->seq : 0;
}

const char *msi_comm_key(const struct msi_comm *comm) {
    return comm->key;
}

mst_status msi_comm_check(struct msi_comm *comm) {
    msi_comm_lock(comm);
    mst_status st = comm->failure.status;
    msi_comm_unlock(comm); /* a failure that is there does not change any more */
    return st == MST_OK ? MST_OK : msi_comm_repeat(&comm->failure);
}

mst_status msi_comm_alloc_op(struct msi_comm *comm, int timeout_ms, mst_cancel *cancel, const char *name,
                             struct mst_work **op) {
    mst_status st = msi_comm_check(comm);
    if (st != MST_OK) return st;
    struct mst_work *found = spare_op(comm);
    if (!found) return msi_fail_memory();
    clear(found, timeout_ms, cancel);
    found->name = name;
    *op = found;
    return MST_OK;
}

mst_status msi_comm_open(struct msi_comm *comm, int timeout_ms, mst_cancel *cancel) {
    struct mst_work *op;
    mst_status st = msi_comm_alloc_op(comm, timeout_ms, cancel, "the opening of its backend", &op);
    if (st != MST_OK) return st;
    st = msi_comm_join(op);
    msi_comm_release_op(op);
    return st;
}
