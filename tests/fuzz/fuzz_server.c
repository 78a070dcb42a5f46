/*
 * fuzz_server.c - the store server's side of two connections, without its thread: bytes go in through socket
 * pairs, piece by piece, and the loop runs in between. Input: pieces, each a byte (top bit: which connection;
 * rest: its length) and as many bytes. In the end all connections close, and all they held must be given
 * back. A standby follows the server, and must have the same state in the end.
 */
#include "base/hash.h"
#include "server_rig.h"

#include <stdio.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNECTIONS = 2, MAX_TOTAL = 1 << 20, MAX_PIECE = 127 };

static struct msi_server *make_server(void) {
    static const struct msi_store_limits limits = {
        .max_key = 256, .max_value = 16 << 10, .max_items = 256, .max_message = 64 << 10};
    return rig_open(MAX_TOTAL, &limits);
}

static void drain(int fd) {
    char replies[4096];
    while (recv(fd, replies, sizeof replies, MSG_DONTWAIT) > 0) {
    }
}

/* The standby's side of the stream. */
struct follower {
    struct msi_server *server;
    int end;
    struct msi_buf in;
    bool begun, lost;
};

static void follow(struct msi_server *server, struct follower *f) {
    const struct msi_store_req requests[] = {
        {.op = MSI_OP_VALIDATE, .number = MSI_STORE_MAGIC}, {.op = MSI_OP_HELLO}, {.op = MSI_OP_REPLICATE}};
    struct msi_buf out = {0};
    *f = (struct follower){.server = make_server()};
    if (msi_standby_new(f->server) != MST_OK) abort();
    f->end = rig_connect(server);
    for (int i = 0; i < 3; i++) msi_store_encode(&out, MSI_DIALECT_M, &requests[i]);
    ssize_t sent = send(f->end, out.data, out.len, MSG_NOSIGNAL);
    if (sent != (ssize_t)out.len) abort();
    msi_buf_free(&out);
}

/* Executes what has arrived. The server ends the stream if its memory is full. */
static void catch_up(struct follower *f) {
    enum { REPLIES = 1 + 8 + 1 }; /* to HELLO and REPLICATE */
    uint8_t bytes[4096];
    ssize_t n;
    while ((n = recv(f->end, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) msi_buf_add(&f->in, bytes, (size_t)n);
    f->lost |= n == 0;
    if (!f->begun && f->in.len >= REPLIES) {
        msi_buf_drop(&f->in, REPLIES);
        f->begun = true;
    }
    if (f->begun && msi_standby_replay(f->server, &f->in) != MST_OK) abort();
}

/* The same for equal states, in which keys may have another order. */
static uint64_t state_of(const struct msi_kv *kv, const struct msi_store_limits *limits) {
    static const uint64_t secret[2] = {1, 2};
    struct msi_buf state = {0};
    uint64_t sum = 0;
    msi_kv_write_state(kv, &state);
    for (size_t at = 0; at < state.len;) {
        struct msi_scan scan = {.at = 1};
        enum msi_store_op op = msi_op_find(MSI_DIALECT_M, state.data[at]);
        msi_store_scan(&scan, msi_ops[op].request, 0, limits, state.data + at, state.len - at);
        sum += msi_hash(state.data + at, scan.at, secret);
        at += scan.at;
    }
    msi_buf_free(&state);
    return sum;
}

static void check_follower(struct msi_server *server, struct follower *f) {
    for (int i = 0; server->n_conns > 1 && i < 100; i++) rig_round(server);
    catch_up(f);
    assert(f->lost || (f->begun && f->in.len == 0));
    assert(f->lost || state_of(server->kv, &server->limits) == state_of(f->server->kv, &server->limits));
    close(f->end);
    msi_buf_free(&f->in);
    msi_standby_free(f->server);
    rig_close(f->server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_server *server = make_server();
    int ends[CONNECTIONS];
    struct follower follower;
    follow(server, &follower);
    for (int i = 0; i < CONNECTIONS; i++) ends[i] = rig_connect(server);
    for (size_t at = 0; at < size;) {
        int end = ends[data[at] >> 7];
        size_t n = data[at] & MAX_PIECE, left = size - at - 1;
        if (n > left) n = left;
        ssize_t sent = send(end, data + at + 1, n, MSG_NOSIGNAL);
        (void)sent; /* the server may have ended it */
        rig_round(server);
        for (int i = 0; n && i < CONNECTIONS; i++) drain(ends[i]); /* an empty piece leaves replies unread */
        catch_up(&follower);
        at += 1 + n;
    }
    for (int i = 0; i < CONNECTIONS; i++) close(ends[i]);
    check_follower(server, &follower);
    rig_close(server);
    return 0;
}
