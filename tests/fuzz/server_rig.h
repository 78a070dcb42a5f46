/* server_rig.h - the store server without its thread and listeners, for the fuzz targets that drive it. */
#ifndef MST_TESTS_SERVER_RIG_H
#define MST_TESTS_SERVER_RIG_H

#include "base/log.h"
#include "store/server_conn.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>

static inline struct msi_server *rig_open(size_t max_total, const struct msi_store_limits *limits) {
    char why[64];
    struct msi_server *server = calloc(1, sizeof *server);
    if (!server || msi_loop_open(&server->loop) != MST_OK) abort();
    msi_log_configure("off", why, sizeof why);
    server->kv = msi_kv_new(max_total, SIZE_MAX);
    msi_list_init(&server->conns);
    msi_list_init(&server->ready);
    msi_list_init(&server->unsent);
    msi_list_init(&server->busy);
    msi_list_init(&server->detached);
    msi_list_init(&server->replicas);
    server->max_total = max_total;
    server->stall_ns = INT64_C(3600) * 1000000000;
    server->limits = *limits;
    server->rank = -1;
    return server;
}

/* One round of the server's thread; never blocks. */
static inline void rig_round(struct msi_server *server) {
    msi_loop_wake(server->loop);
    msi_loop_run_once(server->loop);
    msi_server_finish_round(server);
    assert(msi_list_empty(&server->ready));
    assert(server->buffered + msi_kv_bytes(server->kv) < 4 * server->max_total);
}

/* The client's end of a new connection. */
static inline int rig_connect(struct msi_server *server) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) abort();
    msi_conn_open(server, (struct msi_stream){.fd = pair[1]});
    return pair[0];
}

static inline void rig_close(struct msi_server *server) {
    for (int i = 0; server->n_conns && i < 100; i++) rig_round(server);
    while (!msi_list_empty(&server->detached))
        msi_conn_close(msi_container(server->detached.next, struct msi_conn, node), false);
    assert(server->n_conns == 0 && server->buffered == 0);
    msi_kv_free(server->kv);
    msi_loop_close(server->loop);
    msi_buf_free(&server->views);
    free(server);
}

#endif
