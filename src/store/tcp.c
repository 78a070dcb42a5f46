/*
 * tcp.c - the tcp store: a client with a few connections, and on the master the server too.
 *
 * Each call takes a connection of its own for as long as it lasts, so that a wait in one thread holds up no
 * other; idle ones are kept for the next call. A will has a connection to itself, which carries nothing else
 * and so lives as long as the will is meant to. Users' keys go over the wire with a slash in front, as
 * PyTorch's do.
 */
#include "base/error.h"
#include "base/log.h"
#include "store/server.h"
#include "store/store.h"
#include "store/tcp_conn.h"
#include "wire/cursor.h"

#include <pthread.h>
#include <stdlib.h>

enum { IDLE_MOST = 4, IDLE_BUFFER = 64 << 10 };

struct tcp_store {
    struct mst_store head;
    struct msi_link_target target;
    struct msi_server *server; /* on the master */
    pthread_mutex_t lock;      /* of idle and n_idle */
    struct msi_store_conn *idle;
    int n_idle;
    pthread_mutex_t will_lock; /* of will */
    struct msi_store_conn *will;
};

/* An idle connection, or a new one. */
static mst_status take_link(struct tcp_store *store, const struct msi_wait *wait,
                            struct msi_store_conn **link) {
    pthread_mutex_lock(&store->lock);
    struct msi_store_conn *found = store->idle;
    if (found) {
        store->idle = found->next;
        store->n_idle--;
    }
    pthread_mutex_unlock(&store->lock);
    if (!found) return msi_store_conn_open(&store->target, wait, link);
    *link = found;
    return MST_OK;
}

static void give_link(struct tcp_store *store, struct msi_store_conn *link) {
    if (link->in.cap > IDLE_BUFFER && link->in.len == 0) msi_buf_free(&link->in);
    if (link->out.cap > IDLE_BUFFER) msi_buf_free(&link->out);
    pthread_mutex_lock(&store->lock);
    bool keep = !link->broken && store->n_idle < IDLE_MOST;
    if (keep) {
        link->next = store->idle;
        store->idle = link;
        store->n_idle++;
    }
    pthread_mutex_unlock(&store->lock);
    if (!keep) msi_store_conn_close(link);
}

/* Leaves, changes or takes back the will. PyTorch's servers have no such thing. */
static mst_status set_will(struct tcp_store *store, const struct msi_wait *wait, struct msi_store_rpc *x) {
    x->status = MST_OK;
    if (atomic_load_explicit(&store->target.dialect, memory_order_relaxed) != MSI_DIALECT_M) return MST_OK;
    mst_status st = MST_OK;
    pthread_mutex_lock(&store->will_lock);
    if (!store->will && x->req.key.n) st = msi_store_conn_open(&store->target, wait, &store->will);
    if (st == MST_OK && store->will) st = msi_store_conn_run(store->will, wait, x, 1);
    if (store->will && (x->req.key.n == 0 || store->will->broken)) {
        msi_store_conn_close(store->will);
        store->will = NULL;
    }
    pthread_mutex_unlock(&store->will_lock);
    return st;
}

/* Carries out the requests in order; those of a will on its own connection. */
static mst_status run(struct tcp_store *store, const struct msi_wait *wait, struct msi_store_rpc *y,
                      size_t n) {
    struct msi_store_conn *link;
    mst_status st = take_link(store, wait, &link);
    if (st != MST_OK) return st;
    for (size_t done = 0, i = 0; i <= n && st == MST_OK; i++) {
        if (i < n && y[i].req.op != MSI_OP_WILL) continue;
        bool ours = link->dialect == MSI_DIALECT_M;
        if (i > done)
            st = (ours ? msi_store_conn_run : msi_store_conn_run_compat)(link, wait, y + done, i - done);
        if (st == MST_OK && i < n) st = set_will(store, wait, &y[i]);
        done = i + 1;
    }
    give_link(store, link);
    return st;
}

static mst_status exec(struct mst_store *head, const struct msi_wait *wait, struct msi_store_rpc *x,
                       size_t n) {
    struct tcp_store *store = (struct tcp_store *)head;
    struct msi_store_rpc *y = msi_store_prefixed(x, n, msi_cstr("/"));
    if (!y) return msi_fail_memory();
    mst_status st = run(store, wait, y, n);
    for (size_t i = 0; i < n; i++) {
        x[i].reply = y[i].reply;
        x[i].status = y[i].status;
        if (st == MST_OK && x[i].req.op == MSI_OP_LIST_KEYS && x[i].status == MST_OK)
            st = msi_store_strip_keys(&x[i].reply, msi_cstr("/"), true);
    }
    free(y);
    return st;
}

static void close_store(struct mst_store *head) {
    struct tcp_store *store = (struct tcp_store *)head;
    while (store->idle) {
        struct msi_store_conn *link = store->idle;
        store->idle = link->next;
        msi_store_conn_close(link);
    }
    msi_store_conn_close(store->will);
    msi_server_close(store->server, head->linger_ms);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->will_lock);
    free(store);
}

static const struct msi_store_ops ops = {"tcp", exec, close_store};

/* PyTorch's way of waiting for workers: all add 1 to this key, which has no slash, and the master watches it.
 */
static mst_status count_in(struct msi_store_conn *link, const struct msi_wait *wait,
                           const mst_store_options *options) {
    struct msi_str key = msi_cstr("init/");
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ADD, .key = key, .number = 1}};
    for (;;) {
        mst_status st = msi_store_conn_run(link, wait, &x, 1);
        struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
        int64_t come = st == MST_OK ? (int64_t)msi_read_u64(&r) : 0;
        msi_buf_free(&x.reply);
        if (st != MST_OK || !options->is_master || options->no_wait || come >= options->world_size) return st;
        st = msi_wait_pause(wait, 10, "waiting for workers");
        if (st == MST_ERR_TIMEOUT)
            return msi_fail(MST_ERR_MISSING_RANK, "start the others, or ask for no_wait",
                            "%lld of %d workers came to the store", (long long)come, options->world_size);
        if (st != MST_OK) return st;
        x = (struct msi_store_rpc){.req = {.op = MSI_OP_ADD, .key = key, .number = 0}};
    }
}

static mst_status connect_first(struct tcp_store *store, const struct msi_wait *wait,
                                const mst_store_options *options) {
    struct msi_store_conn *link;
    mst_status st = msi_store_conn_open(&store->target, wait, &link);
    if (st != MST_OK) return st;
    if (options && options->world_size > 0) st = count_in(link, wait, options);
    give_link(store, link);
    return st;
}

/* The address by which this process itself reaches its server. */
static void own_address(struct tcp_store *store) {
    store->target.address.port = msi_server_port(store->server);
    if (!strcmp(store->target.address.host, "0.0.0.0")) strcpy(store->target.address.host, "127.0.0.1");
    if (!strcmp(store->target.address.host, "::")) strcpy(store->target.address.host, "::1");
}

mst_status msi_store_open_tcp(const struct msi_address *address, const struct msi_settings *settings,
                              const struct msi_wait *wait, const mst_store_options *options,
                              struct mst_store **store) {
    struct tcp_store *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    msi_store_init(&made->head, &ops, settings);
    size_t total = (size_t)settings->store_max_total;
    made->target.address = *address;
    made->target.local = settings->store_local;
    made->target.silence_s = (int)settings->store_silence_s;
    made->target.limits = (struct msi_store_limits){made->head.max_key, made->head.max_value, total, total};
    atomic_init(&made->target.dialect, -1);
    atomic_init(&made->target.identity, 0);
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->will_lock, NULL);
    mst_status st = MST_OK;
    if (options && options->is_master) {
        st = msi_server_open(address, settings, &made->server);
        if (st == MST_OK) own_address(made);
    }
    if (st == MST_OK) st = connect_first(made, wait, options);
    if (st != MST_OK) {
        close_store(&made->head);
        return st;
    }
    made->head.port = made->target.address.port;
    *store = &made->head;
    return MST_OK;
}
