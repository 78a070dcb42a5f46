/* server.c - life cycle and main loop of the store server. See server.h. */
#include "store/server.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "os/socket.h"
#include "os/thread.h"
#include "store/server_conn.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SWEEPS = 16, SWEEP_FROM = 8 };
enum { REJECTED_MS = 1000 }; /* in which a rejected client tries again */

static int open_spare(void) {
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool msi_server_has_reserve(struct msi_server *server) {
    if (server->reserve_fd < 0) server->reserve_fd = open_spare();
    return server->reserve_fd >= 0;
}

/* On EMFILE: releases the descriptor that is reserved for one more client. */
static bool use_reserve(struct msi_server *server) {
    if (server->reserve_fd < 0) return false;
    close(server->reserve_fd);
    server->reserve_fd = -1;
    return true;
}

/* On EMFILE: accepts the client with the spare descriptor and closes it, so that it does not wait in vain. */
static void reject(struct msi_server *server, int listener) {
    msi_warn_once(store, "out of descriptors with %zu store clients; rejecting others (raise ulimit -n)",
                  server->n_conns);
    close(server->spare_fd);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) close(fd);
    server->rejected_until = msi_deadline(REJECTED_MS);
    server->spare_fd = open_spare();
}

static void on_client(struct msi_source *source, uint32_t events) {
    struct msi_server *server = msi_container(source, struct msi_listening, source)->server;
    (void)events;
    msi_server_has_reserve(server);
    for (;;) {
        int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            msi_conn_open(server, fd);
        } else if (errno == EMFILE || errno == ENFILE) {
            if (use_reserve(server)) continue;
            reject(server, source->fd);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

/* Polls the busy connections; returns how many had input. Serving one may close any other. */
static size_t poll_busy(struct msi_server *server) {
    struct msi_list seen;
    size_t hits = 0;
    msi_list_init(&seen);
    while (!msi_list_empty(&server->busy)) {
        struct msi_conn *conn = msi_container(server->busy.next, struct msi_conn, busy);
        msi_list_remove(&conn->busy);
        msi_list_push(&seen, &conn->busy);
        hits += msi_conn_poll(conn);
    }
    while (!msi_list_empty(&seen)) {
        struct msi_list *first = seen.next;
        msi_list_remove(first);
        msi_list_push(&server->busy, first);
    }
    return hits;
}

/*
 * Many clients send one request after the other. Most of them have sent the next one by the time all are
 * answered, so the server reads from them without epoll until fewer than half have input.
 */
static void sweep(struct msi_server *server) {
    size_t hits = server->n_busy;
    for (int i = 0; i < SWEEPS && hits >= SWEEP_FROM && 2 * hits >= server->n_busy; i++) {
        hits = poll_busy(server);
        msi_server_finish_round(server);
    }
    while (!msi_list_empty(&server->busy)) msi_list_remove(server->busy.next);
    server->n_busy = 0;
}

static void on_end(struct msi_timer *timer) {
    (void)timer; /* has_ended checks the time */
}

static bool has_ended(struct msi_server *server, struct msi_timer *end) {
    int64_t end_at = atomic_load_explicit(&server->end_at, memory_order_acquire);
    if (end_at == 0) return false;
    int64_t now = msi_now(), until = server->rejected_until;
    bool rejected = now < until; /* such a client may come again, and shall learn what the others know */
    msi_timer_set(server->loop, end, rejected && until < end_at ? until : end_at);
    return (server->n_own == 0 && !rejected) || now >= end_at;
}

static void *serve(void *context) {
    struct msi_server *server = context;
    struct msi_timer end;
    msi_timer_init(&end, on_end);
    msi_call_begin(NULL, NULL, server->rank);
    pthread_setname_np(pthread_self(), "muster-store");
    while (!has_ended(server, &end)) {
        msi_loop_run_once(server->loop);
        msi_server_finish_round(server);
        sweep(server);
    }
    msi_timer_clear(&end);
    for (struct msi_list *at = server->conns.next; at != &server->conns; at = at->next)
        msi_conn_send_ended(msi_container(at, struct msi_conn, node));
    return NULL;
}

static struct msi_server *allocate(const struct msi_settings *settings) {
    struct msi_server *server = calloc(1, sizeof *server);
    if (!server) return NULL;
    server->kv = msi_kv_new((size_t)settings->store_max_total, (size_t)settings->store_max_value);
    if (!server->kv) {
        free(server);
        return NULL;
    }
    msi_list_init(&server->conns);
    msi_list_init(&server->ready);
    msi_list_init(&server->unsent);
    msi_list_init(&server->busy);
    msi_list_init(&server->detached);
    server->tcp = server->local = (struct msi_listening){{on_client, -1}, server};
    server->spare_fd = server->reserve_fd = -1;
    do msi_random(&server->identity, sizeof server->identity);
    while (server->identity == 0);
    server->rank = msi_call_get_rank();
    server->max_total = (size_t)settings->store_max_total;
    server->stall_ns = settings->store_stall_ms * 1000000;
    server->limits = msi_store_limits(settings);
    return server;
}

static void release(struct msi_server *server) {
    while (!msi_list_empty(&server->conns))
        msi_conn_close(msi_container(server->conns.next, struct msi_conn, node), false);
    while (!msi_list_empty(&server->detached))
        msi_conn_close(msi_container(server->detached.next, struct msi_conn, node), false);
    if (server->tcp.source.fd >= 0) close(server->tcp.source.fd);
    if (server->local.source.fd >= 0) close(server->local.source.fd);
    if (server->spare_fd >= 0) close(server->spare_fd);
    if (server->reserve_fd >= 0) close(server->reserve_fd);
    msi_loop_close(server->loop);
    msi_kv_free(server->kv);
    msi_buf_free(&server->views);
    free(server);
}

mst_status msi_server_open(struct msi_address *address, const struct msi_settings *settings,
                           struct msi_server **server) {
    struct msi_server *made = allocate(settings);
    if (!made) return msi_fail_memory();
    struct msi_source *tcp = &made->tcp.source, *local = &made->local.source;
    mst_status st = msi_listen(address, &tcp->fd, &address->port);
    if (st == MST_OK) st = msi_loop_open(&made->loop);
    if (st == MST_OK) st = msi_loop_add(made->loop, tcp, EPOLLIN);
    if (st == MST_OK && settings->store_local) local->fd = msi_listen_local(tcp->fd);
    if (st == MST_OK && local->fd >= 0) st = msi_loop_add(made->loop, local, EPOLLIN);
    made->spare_fd = open_spare();
    made->reserve_fd = open_spare();
    int error = st == MST_OK ? msi_thread_start(&made->thread, serve, made) : 0;
    if (error) st = msi_fail_errno(error, "cannot start the store's thread");
    if (st != MST_OK) {
        release(made);
        return st;
    }
    msi_log(store, INFO, "serving the store on %s port %d", address->host, address->port);
    *server = made;
    return MST_OK;
}

void msi_server_close(struct msi_server *server, int64_t linger_ms) {
    if (!server) return;
    atomic_store_explicit(&server->end_at, msi_deadline(linger_ms), memory_order_release);
    msi_loop_wake(server->loop);
    pthread_join(server->thread, NULL);
    release(server);
}
