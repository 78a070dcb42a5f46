/*
 * fuzz_server.c - the store server's side of two connections, without its thread: bytes go in through socket
 * pairs, piece by piece, and the loop runs in between. Input: pieces, each a byte (top bit: which connection;
 * rest: its length) and as many bytes. In the end all connections close, and all they held must be given
 * back.
 */
#include "base/log.h"
#include "store/server_conn.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNECTIONS = 2, MAX_TOTAL = 1 << 20, MAX_PIECE = 127 };

static struct msi_server *make_server(void) {
    char why[64];
    struct msi_server *server = calloc(1, sizeof *server);
    if (!server || msi_loop_open(&server->loop) != MST_OK) abort();
    msi_log_configure("off", why, sizeof why);
    server->kv = msi_kv_new(MAX_TOTAL, SIZE_MAX);
    msi_list_init(&server->conns);
    msi_list_init(&server->ready);
    msi_list_init(&server->unsent);
    msi_list_init(&server->busy);
    msi_list_init(&server->detached);
    server->max_total = MAX_TOTAL;
    server->stall_ns = INT64_C(3600) * 1000000000;
    server->limits = (struct msi_store_limits){
        .max_key = 256, .max_value = 16 << 10, .max_items = 256, .max_message = 64 << 10};
    server->rank = -1;
    return server;
}

/* One round of the server's thread; never blocks. */
static void run_round(struct msi_server *server) {
    msi_loop_wake(server->loop);
    msi_loop_run_once(server->loop);
    msi_server_finish_round(server);
    assert(msi_list_empty(&server->ready));
    assert(server->buffered + msi_kv_bytes(server->kv) < 4 * MAX_TOTAL);
}

static void drain(int fd) {
    char replies[4096];
    while (recv(fd, replies, sizeof replies, MSG_DONTWAIT) > 0) {
    }
}

static void free_server(struct msi_server *server) {
    for (int i = 0; server->n_conns && i < 100; i++) run_round(server);
    assert(server->n_conns == 0 && server->buffered == 0);
    msi_kv_free(server->kv);
    msi_loop_close(server->loop);
    msi_buf_free(&server->views);
    free(server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_server *server = make_server();
    int ends[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) abort();
        ends[i] = pair[0];
        msi_conn_open(server, pair[1]);
    }
    for (size_t at = 0; at < size;) {
        int end = ends[data[at] >> 7];
        size_t n = data[at] & MAX_PIECE, left = size - at - 1;
        if (n > left) n = left;
        ssize_t sent = send(end, data + at + 1, n, MSG_NOSIGNAL);
        (void)sent; /* the server may have ended it */
        run_round(server);
        for (int i = 0; n && i < CONNECTIONS; i++) drain(ends[i]); /* an empty piece leaves replies unread */
        at += 1 + n;
    }
    for (int i = 0; i < CONNECTIONS; i++) close(ends[i]);
    free_server(server);
    return 0;
}
