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
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SWEEPS = 16, SWEEP_FROM = 8 };
enum { REJECTED_MS = 1000 }; /* in which a rejected client tries again */
enum { ACCEPTS = 64 };       /* before the clients are served again, also if others keep connecting */

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

/* On EMFILE: true if there is a descriptor for a client now. */
static bool handle_scarcity(void *context, int listener, int error) {
    if (error != EMFILE && error != ENFILE) return false;
    if (use_reserve(context)) return true;
    reject(context, listener);
    return false;
}

static void on_entrance(struct msi_source *source, uint32_t events) {
    struct msi_server *server = msi_container(source, struct msi_server, entrance);
    (void)events;
    msi_server_has_reserve(server);
    msi_gate_progress(server->gate);
}

static void admit(void *context, struct msi_stream stream, const uint8_t bytes[MSI_AUTH_CONTEXT_BYTES]) {
    (void)bytes;
    msi_conn_open(context, stream);
}

/* A client on the Unix socket. */
static void on_client(struct msi_source *source, uint32_t events) {
    struct msi_server *server = msi_container(source, struct msi_listening, source)->server;
    (void)events;
    msi_server_has_reserve(server);
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 && !msi_socket_is_same_user(fd)) {
            msi_warn_once(store, "rejected a process of another user on the Unix socket of the store");
            close(fd);
        } else if (fd >= 0) {
            msi_conn_open(server, (struct msi_stream){.fd = fd});
        } else if (errno == EMFILE || errno == ENFILE) {
            if (!handle_scarcity(server, source->fd, errno)) return;
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
    if (!server->finishing) msi_replica_finish(server);
    server->finishing = true;
    int64_t now = msi_now(), until = server->rejected_until;
    bool rejected = now < until; /* such a client may come again, and shall learn what the others know */
    msi_timer_set(server->loop, end, rejected && until < end_at ? until : end_at);
    return (server->n_own == 0 && !rejected) || now >= end_at;
}

static void close_listeners(struct msi_server *server) {
    struct msi_source *const all[] = {&server->tcp.source, &server->local.source, &server->former_tcp.source,
                                      &server->former_local.source};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i]->fd >= 0) close(all[i]->fd);
        all[i]->fd = -1;
    }
}

static void *serve(void *context) {
    struct msi_server *server = context;
    struct msi_timer end;
    msi_timer_init(&end, on_end);
    msi_call_begin(NULL, NULL, server->rank);
    pthread_setname_np(pthread_self(), "muster-store");
    if (server->standby && !msi_standby_follow(server)) {
        close_listeners(server); /* clients shall not wait for it */
        return NULL;
    }
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
    msi_list_init(&server->replicas);
    server->tcp = server->local = (struct msi_listening){{on_client, -1}, server};
    server->former_tcp = server->former_local = server->tcp;
    server->entrance = (struct msi_source){on_entrance, -1};
    server->spare_fd = server->reserve_fd = -1;
    do {
        msi_random(&server->identity, sizeof server->identity);
        server->identity &= ~(int64_t)MSI_TERM_MASK;
    } while (server->identity == 0);
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
    msi_gate_close(server->gate);
    close_listeners(server);
    msi_standby_free(server);
    msi_auth_end(&server->auth);
    if (server->spare_fd >= 0) close(server->spare_fd);
    if (server->reserve_fd >= 0) close(server->reserve_fd);
    msi_loop_close(server->loop);
    if (server->kv) msi_kv_free(server->kv);
    msi_buf_free(&server->views);
    free(server);
}

static mst_status accept_from(struct msi_server *server, struct msi_listening *tcp,
                              struct msi_listening *local) {
    mst_status st = msi_gate_listen(server->gate, tcp->source.fd);
    if (st == MST_OK && local->source.fd >= 0) st = msi_loop_add(server->loop, &local->source, EPOLLIN);
    return st;
}

mst_status msi_server_accept(struct msi_server *server) {
    mst_status st = accept_from(server, &server->tcp, &server->local);
    return st == MST_OK ? msi_loop_add(server->loop, &server->entrance, EPOLLIN) : st;
}

void msi_server_accept_at(struct msi_server *server, const struct msi_address *former, bool local) {
    int *tcp = &server->former_tcp.source.fd, port;
    if (msi_listen(former, tcp, &port) != MST_OK) return;
    if (local) server->former_local.source.fd = msi_listen_local(*tcp);
    accept_from(server, &server->former_tcp, &server->former_local);
}

static bool is_loopback(int fd) {
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF}, six[16] = {[15] = 1};
    struct msi_socket_end end;
    if (!msi_socket_end(fd, false, &end)) return false;
    if (!memcmp(end.address, mapped, sizeof mapped)) return end.address[sizeof mapped] == IN_LOOPBACKNET;
    return !memcmp(end.address, six, sizeof six);
}

static mst_status open_entrance(struct msi_server *server, const struct msi_settings *settings) {
    const struct msi_gate_config config = {.auth = &server->auth,
                                           .role = MSI_ROLE_STORE,
                                           .open = server->open,
                                           .context = server,
                                           .admit = admit,
                                           .scarce = handle_scarcity};
    mst_status st = msi_auth_init(&server->auth, settings);
    if (st == MST_OK) st = msi_gate_open(&config, &server->gate);
    if (st == MST_OK) server->entrance.fd = msi_gate_fd(server->gate);
    return st;
}

/* primary NULL: it is not a standby. */
static mst_status open_server(struct msi_address *address, const struct msi_address *primary,
                              const struct msi_settings *settings, const struct msi_wait *wait,
                              struct msi_server **server) {
    struct msi_server *made = allocate(settings);
    if (!made) return msi_fail_memory();
    made->open = settings->store_open;
    struct msi_source *tcp = &made->tcp.source, *local = &made->local.source;
    mst_status st = msi_listen(address, &tcp->fd, &address->port);
    if (st == MST_OK) st = open_entrance(made, settings);
    if (st == MST_OK) st = msi_loop_open(&made->loop);
    if (st == MST_OK && settings->store_local) local->fd = msi_listen_local(tcp->fd);
    made->spare_fd = open_spare();
    made->reserve_fd = open_spare();
    if (st == MST_OK)
        st = primary ? msi_standby_begin(made, primary, settings, wait) : msi_server_accept(made);
    int error = st == MST_OK ? msi_thread_start(&made->thread, serve, made) : 0;
    if (error) st = msi_fail_errno(error, "cannot start the store's thread");
    if (st != MST_OK) {
        release(made);
        return st;
    }
    if (made->open && !primary && !is_loopback(tcp->fd))
        msi_log(store, WARN,
                "the store on %s port %d is open: everyone who reaches it can read and change its keys",
                address->host, address->port);
    msi_log(store, INFO, "%s the store on %s port %d", primary ? "standing by for" : "serving", address->host,
            address->port);
    *server = made;
    return MST_OK;
}

mst_status msi_server_open(struct msi_address *address, const struct msi_settings *settings,
                           struct msi_server **server) {
    return open_server(address, NULL, settings, NULL, server);
}

mst_status msi_server_open_standby(struct msi_address *address, const struct msi_address *primary,
                                   const struct msi_settings *settings, const struct msi_wait *wait,
                                   struct msi_server **server) {
    return open_server(address, primary, settings, wait, server);
}

void msi_server_close(struct msi_server *server, int64_t linger_ms) {
    if (!server) return;
    atomic_store_explicit(&server->end_at, msi_deadline(linger_ms), memory_order_release);
    msi_standby_stop(server);
    msi_loop_wake(server->loop);
    pthread_join(server->thread, NULL);
    release(server);
}
