/*
 * tcp.c - the tcp store: a client with a few connections, and on the master also the server.
 *
 * Each call uses a connection of its own, so that a wait in one thread does not block others; idle
 * connections are reused. An on_disconnect value has a separate connection, which carries nothing else. Keys
 * of users go over the wire with a leading slash, as in PyTorch.
 */
#include "base/error.h"
#include "os/socket.h"
#include "store/server.h"
#include "store/store.h"
#include "store/tcp_conn.h"
#include "store/tcp_watch.h"
#include "wire/cursor.h"

#include <pthread.h>
#include <stdlib.h>

enum { IDLE_MOST = 4, IDLE_BUFFER = 64 << 10, STAND_BY_MS = 250 };

struct tcp_store {
    struct mst_store head;
    struct msi_store_target target;
    struct msi_server *server; /* on the master */
    pthread_mutex_t lock;      /* of idle and n_idle */
    struct msi_store_conn *idle;
    int n_idle;
    pthread_mutex_t on_disconnect_lock; /* of on_disconnect */
    struct msi_store_conn *on_disconnect;
    struct msi_store_watch watch; /* of on_disconnect */
};

/* An idle connection, or a new one. */
static mst_status acquire_conn(struct tcp_store *store, const struct msi_wait *wait,
                               struct msi_store_conn **conn) {
    pthread_mutex_lock(&store->lock);
    struct msi_store_conn *found = store->idle;
    if (found) {
        store->idle = found->next;
        store->n_idle--;
    }
    pthread_mutex_unlock(&store->lock);
    if (!found) return msi_store_conn_open(&store->target, wait, conn);
    *conn = found;
    return MST_OK;
}

static void release_conn(struct tcp_store *store, struct msi_store_conn *conn) {
    if (conn->in.cap > IDLE_BUFFER && conn->in.len == 0) msi_buf_free(&conn->in);
    if (conn->out.cap > IDLE_BUFFER) msi_buf_free(&conn->out);
    pthread_mutex_lock(&store->lock);
    bool keep = !conn->broken && store->n_idle < IDLE_MOST;
    if (keep) {
        conn->next = store->idle;
        store->idle = conn;
        store->n_idle++;
    }
    pthread_mutex_unlock(&store->lock);
    if (!keep) msi_store_conn_close(conn);
}

/* Sets or removes the on_disconnect value. PyTorch's servers do not have it. */
static mst_status set_on_disconnect(struct tcp_store *store, const struct msi_wait *wait,
                                    struct msi_store_rpc *x) {
    x->status = MST_OK;
    if (atomic_load_explicit(&store->target.dialect, memory_order_relaxed) != MSI_DIALECT_M) return MST_OK;
    mst_status st = MST_OK;
    pthread_mutex_lock(&store->on_disconnect_lock);
    msi_store_watch_end(&store->watch);
    if (!store->on_disconnect && x->req.key.n)
        st = msi_store_conn_open(&store->target, wait, &store->on_disconnect);
    if (st == MST_OK && store->on_disconnect) st = msi_store_conn_run(store->on_disconnect, wait, x, 1);
    if (st == MST_OK && store->on_disconnect) msi_socket_quicken(store->on_disconnect->stream.fd);
    if (store->on_disconnect && (x->req.key.n == 0 || store->on_disconnect->broken)) {
        msi_store_conn_close(store->on_disconnect);
        store->on_disconnect = NULL;
    }
    if (store->on_disconnect && st == MST_OK) st = msi_store_watch_begin(&store->watch, store->on_disconnect);
    pthread_mutex_unlock(&store->on_disconnect_lock);
    return st;
}

/*
 * Can the server execute the requests as they are? Ranks of PyTorch count themselves at a barrier with ADD:
 * in an open store all ranks do so.
 */
static bool is_served(const struct tcp_store *store, const struct msi_store_conn *conn,
                      const struct msi_store_rpc *x, size_t n) {
    if (conn->dialect != MSI_DIALECT_M) return false;
    for (size_t i = 0; store->target.open && i < n; i++)
        if (x[i].req.op == MSI_OP_BARRIER) return false;
    return true;
}

/* Executes the requests in order; ON_DISCONNECT on its own connection. */
static mst_status run(struct mst_store *head, const struct msi_wait *wait, struct msi_store_rpc *y,
                      size_t n) {
    struct tcp_store *store = (struct tcp_store *)head;
    struct msi_store_conn *conn;
    /* Stored by the thread that watches on_disconnect; after it has failed, new connections fail too. */
    if (atomic_load_explicit(&store->target.lost, memory_order_acquire))
        return msi_store_fail_lost(&store->target, "it has ended, or has given up this client");
    mst_status st = acquire_conn(store, wait, &conn);
    if (st != MST_OK) return st;
    for (size_t done = 0, i = 0; i <= n && st == MST_OK; i++) {
        if (i < n && y[i].req.op != MSI_OP_ON_DISCONNECT) continue;
        bool served = is_served(store, conn, y + done, i - done);
        if (i > done)
            st = (served ? msi_store_conn_run : msi_store_conn_run_compat)(conn, wait, y + done, i - done);
        if (st == MST_OK && i < n) st = set_on_disconnect(store, wait, &y[i]);
        done = i + 1;
    }
    release_conn(store, conn);
    return st;
}

static mst_status exec(struct mst_store *head, const struct msi_wait *wait, struct msi_store_rpc *x,
                       size_t n) {
    struct msi_store_view view = {head, run, msi_cstr("/"), true};
    return msi_store_exec_view(&view, wait, x, n);
}

static void close_store(struct mst_store *head) {
    struct tcp_store *store = (struct tcp_store *)head;
    while (store->idle) {
        struct msi_store_conn *conn = store->idle;
        store->idle = conn->next;
        msi_store_conn_close(conn);
    }
    msi_store_watch_end(&store->watch);
    msi_store_conn_close(store->on_disconnect);
    msi_server_close(store->server, head->linger_ms);
    msi_store_target_end(&store->target);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->on_disconnect_lock);
    free(store);
}

static mst_status clone_store(struct mst_store *head, const struct msi_settings *settings,
                              const struct msi_wait *wait, struct mst_store **copy) {
    struct tcp_store *store = (struct tcp_store *)head;
    struct msi_settings same = *settings;
    same.store_open = store->target.open;
    same.tls = store->target.auth.tls != NULL;
    mst_status st = msi_store_open_tcp(msi_store_target_address(&store->target), &same, wait, NULL, copy);
    if (st != MST_OK) return st;
    struct tcp_store *made = (struct tcp_store *)*copy;
    int n = atomic_load_explicit(&store->target.n_places, memory_order_acquire);
    for (int i = atomic_load_explicit(&store->target.place, memory_order_relaxed) + 1; i < n; i++)
        msi_store_target_add(&made->target, &store->target.places[i]);
    return MST_OK;
}

static const struct msi_store_ops ops = {exec, clone_store, close_store};

int msi_store_takeovers(const struct mst_store *head) {
    const struct tcp_store *store = (const struct tcp_store *)head;
    if (head->ops != &ops) return 0;
    int term = atomic_load_explicit(&store->target.term, memory_order_relaxed);
    return term - atomic_load_explicit(&store->target.first_term, memory_order_relaxed);
}

bool msi_store_is_restoring(const struct mst_store *head) {
    const struct tcp_store *store = (const struct tcp_store *)head;
    return head->ops == &ops && atomic_load_explicit(&store->target.restoring, memory_order_relaxed) > 0;
}

bool msi_store_hosts(const struct mst_store *head) {
    return head->ops == &ops && ((const struct tcp_store *)head)->server;
}

mst_status msi_store_stand_by(struct mst_store *head, struct msi_address *address,
                              const struct msi_settings *settings, const struct msi_wait *wait) {
    struct tcp_store *store = (struct tcp_store *)head;
    mst_status st;
    int64_t ms = STAND_BY_MS;
    int port = address->port;
    bool again;
    do { /* the server may be lost meanwhile: its standby serves then, at another address */
        struct msi_wait brief = {msi_deadline(ms), wait->cancel};
        if (brief.deadline > wait->deadline) brief.deadline = wait->deadline;
        address->port = port;
        st = msi_server_open_standby(address, msi_store_target_address(&store->target), settings, &brief,
                                     &store->server);
        again = (st == MST_ERR_UNREACHABLE || st == MST_ERR_TIMEOUT) && brief.deadline < wait->deadline;
        ms *= 2;
    } while (again);
    return st;
}

mst_status msi_store_add_standby(struct mst_store *head, const struct msi_address *address) {
    struct tcp_store *store = (struct tcp_store *)head;
    mst_status st = MST_OK;
    pthread_mutex_lock(&store->on_disconnect_lock);
    msi_store_target_add(&store->target, address);
    if (store->on_disconnect) st = msi_store_watch_begin(&store->watch, store->on_disconnect);
    pthread_mutex_unlock(&store->on_disconnect_lock);
    return st;
}

bool msi_store_is_silent(const struct mst_store *head) {
    const struct tcp_store *store = (const struct tcp_store *)head;
    /* Stored before the failure that the caller has got. */
    return head->ops == &ops && atomic_load_explicit(&store->target.silent, memory_order_relaxed);
}

/* Waits for workers as PyTorch does: all add 1 to this key, which has no slash, and the master polls it. */
static mst_status wait_for_workers(struct msi_store_conn *conn, const struct msi_wait *wait,
                                   const mst_store_options *options) {
    struct msi_str key = msi_cstr("init/");
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ADD, .key = key, .number = 1}};
    for (;;) {
        mst_status st = msi_store_conn_run(conn, wait, &x, 1);
        int64_t arrived = st == MST_OK ? msi_store_reply_number(&x) : 0;
        msi_buf_free(&x.reply);
        if (st != MST_OK || !options->is_master || options->no_wait || arrived >= options->world_size)
            return st;
        st = msi_wait_pause(wait, 10, "waiting for workers");
        if (st == MST_ERR_TIMEOUT)
            return msi_fail(MST_ERR_MISSING_RANK, "start the others, or set .no_wait",
                            "%lld of %d workers have opened the store", (long long)arrived,
                            options->world_size);
        if (st != MST_OK) return st;
        x = (struct msi_store_rpc){.req = {.op = MSI_OP_ADD, .key = key, .number = 0}};
    }
}

mst_status msi_store_open_tcp(const struct msi_address *address, const struct msi_settings *settings,
                              const struct msi_wait *wait, const mst_store_options *options,
                              struct mst_store **store) {
    if (settings->tls && settings->store_open)
        return msi_fail(
            MST_ERR_CONFIG, "use one of the two",
            "an open store cannot use TLS, because PyTorch's clients do not (MUSTER_STORE_OPEN=1, "
            "MUSTER_TLS=1)");
    struct tcp_store *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    msi_store_init(&made->head, &ops, settings);
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->on_disconnect_lock, NULL);
    mst_status st = msi_store_target_init(&made->target, address, settings);
    if (st == MST_OK && options && options->is_master) {
        char *host = made->target.places[0].host;
        st = msi_server_open(&made->target.places[0], settings, &made->server);
        /* This process reaches its own server at this address. */
        if (!strcmp(host, "0.0.0.0")) strcpy(host, "127.0.0.1");
        if (!strcmp(host, "::")) strcpy(host, "::1");
    }
    struct msi_store_conn *conn;
    if (st == MST_OK) st = msi_store_conn_open(&made->target, wait, &conn);
    if (st == MST_OK) {
        if (options && options->world_size > 0) st = wait_for_workers(conn, wait, options);
        release_conn(made, conn);
    }
    if (st != MST_OK) {
        msi_store_free(&made->head);
        return st;
    }
    made->head.port = made->target.places[0].port;
    *store = &made->head;
    return MST_OK;
}
