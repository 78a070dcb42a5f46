/*
 * server_serve.c - requests of the store server: telling the dialects apart, waiting, answering.
 *
 * A request that waits stays at the front of its connection's buffer; when its wait ends it is read again and
 * answered. Meanwhile dialect C and M clients may send CANCEL_WAIT; what else they send stands behind. A
 * dialect A client cannot cancel: it just sends its next request, which therefore ends the wait.
 *
 * A large reply for which there is no memory now is deferred: its request stays in front too, until others have
 * read theirs.
 */
#include "base/log.h"
#include "store/server_conn.h"
#include "wire/cursor.h"

#include <sys/socket.h>

enum {
    DETECT_BYTES = 5,
    WATCHING = 3,
    CANCELLED = 1,
    SMALL_REPLY =
        64 << 10, /* such replies may wait for the end of the round, and are given also by a full store */
    WATCHED_MOST = 64 << 10, /* bytes of the keys that a connection watches */
    WILL_MOST = 64 << 10,
};

/* The status byte that opens every reply of dialect M. */
static void answer_status(struct msi_conn *conn, mst_status st) {
    if (conn->dialect == MSI_DIALECT_M) msi_buf_add_u8(&conn->out, (uint8_t)st);
}

/* How long the reply is at most: no single value is longer than all that is stored. */
static size_t reply_most(const struct msi_server *server, const struct msi_store_req *req) {
    size_t stored = msi_kv_bytes(server->kv);
    return req->n < 2 && stored <= SMALL_REPLY ? stored : msi_kv_reply_size(server->kv, req);
}

/* Is there memory for the reply? What was taken in can be got again, also from a full store, while others hold little.
 */
static bool fits(const struct msi_server *server, const struct msi_store_req *req) {
    size_t reply = reply_most(server, req), idle = server->max_total / 4;
    return reply <= SMALL_REPLY || msi_server_has_room(server, 2 * reply) /* buffers double */ ||
           ((req->n < 2 || 2 * reply <= idle) && server->buffered < idle / 2);
}

/* Answers a request that need not wait any more. */
static void answer(struct msi_conn *conn, const struct msi_store_req *req) {
    size_t start = conn->out.len;
    answer_status(conn, MST_OK);
    mst_status st = fits(conn->server, req) ? msi_kv_apply(conn->server->kv, req, &conn->out) : MST_ERR_LIMIT;
    if (st == MST_OK) return;
    if (conn->out.len > start) conn->out.len = start;
    answer_status(conn, st);
    if (conn->dialect == MSI_DIALECT_M) return;
    if (st == MST_ERR_LIMIT)
        msi_conn_doom(conn, "%s: the store is full (MUSTER_STORE_MAX_TOTAL)", msi_ops[req->op].name);
    else
        msi_conn_doom(conn, "%s of '%.*s': %s", msi_ops[req->op].name,
                      MSI_SHOW(req->n ? req->keys[0] : req->key), mst_status_text(st));
}

static void woken(struct msi_kv_waiter *waiter, mst_status st) {
    struct msi_conn *conn = msi_container(waiter, struct msi_conn, waiter);
    conn->wait_status = st;
    conn->waiting = false;
    msi_list_push(&conn->server->ready, &conn->ready);
}

/*
 * Answers, unless the reply must wait until others have read theirs: then true, and the request stays in front. One
 * that would not fit into the memory of an idle server is refused by answer().
 */
static bool answer_or_defer(struct msi_conn *conn, const struct msi_store_req *req) {
    struct msi_server *server = conn->server;
    size_t reply = reply_most(server, req), idle = server->max_total / 4;
    if (reply <= SMALL_REPLY || 2 * reply > idle || msi_server_has_room(server, 2 * reply)) {
        answer(conn, req);
        return false;
    }
    conn->wait_status = MST_OK;
    msi_list_push(&server->ready, &conn->ready);
    return true;
}

/* True if the request waits or is deferred now. */
static bool begin_wait(struct msi_conn *conn, const struct msi_store_req *req) {
    struct msi_kv_guard guard = {msi_buf_str(&conn->guard_key), conn->guard_length};
    conn->waiter.wake = woken;
    bool waiting;
    mst_status st =
        msi_kv_wait_begin(conn->server->kv, req, conn->has_guard ? &guard : NULL, &conn->waiter, &waiting);
    if (!waiting) conn->has_guard = false;
    if (waiting) return true;
    if (st == MST_OK) {
        return answer_or_defer(conn, req);
    } else {
        answer_status(conn, st);
        if (conn->dialect != MSI_DIALECT_M)
            msi_conn_doom(conn, "%s: %s", msi_ops[req->op].name, mst_status_text(st));
    }
    return false;
}

static void count_kept(struct msi_conn *conn) {
    conn->kept = conn->guard_key.cap + conn->will_key.cap + conn->will_value.cap + conn->watched.cap;
}

static void keep(struct msi_conn *conn, struct msi_buf *buf, struct msi_str s) {
    buf->len = 0;
    msi_buf_add(buf, s.p, s.n);
    count_kept(conn);
}

static bool watches(const struct msi_conn *conn, struct msi_str key) {
    struct msi_reader keys = msi_reader(conn->watched.data, conn->watched.len);
    while (keys.left)
        if (msi_str_equal(msi_read_str(&keys), key)) return true;
    return false;
}

static void watch(struct msi_conn *conn, struct msi_str key) {
    if (conn->watched.len > WATCHED_MOST) {
        msi_conn_doom(conn, "it watches too many keys");
        return;
    }
    if (!watches(conn, key)) msi_put_str(&conn->watched, key);
    count_kept(conn);
    msi_kv_set_watch(conn->server->kv, msi_server_tell_watchers, conn->server);
    msi_buf_add_u8(&conn->out, WATCHING);
}

void msi_server_tell_watchers(void *context, enum msi_kv_event event, struct msi_str key,
                              struct msi_str before, struct msi_str after) {
    struct msi_server *server = context;
    for (struct msi_list *at = server->conns.next; at != &server->conns; at = at->next) {
        struct msi_conn *conn = msi_container(at, struct msi_conn, node);
        if (conn->doomed || !watches(conn, key)) continue;
        if (conn->out.len > MSI_SERVER_UNREAD) {
            msi_conn_doom(conn, "it does not read of the changes that it watches for");
            continue;
        }
        msi_buf_add_u8(&conn->out, (uint8_t)event);
        msi_put_str(&conn->out, key);
        msi_put_str(&conn->out, before);
        msi_put_str(&conn->out, after);
        msi_conn_account(conn);
        msi_conn_mark_unsent(conn);
    }
}

static void set_will(struct msi_conn *conn, const struct msi_store_req *req) {
    if (req->value.n > WILL_MOST) {
        answer_status(conn, MST_ERR_LIMIT);
        return;
    }
    conn->has_will = req->key.n > 0;
    keep(conn, &conn->will_key, req->key);
    keep(conn, &conn->will_value, req->value);
    answer_status(conn, MST_OK);
}

/* A client whose server this is not began with an earlier one at this address: what it asks was meant for that. */
static void hello(struct msi_conn *conn, int64_t meant) {
    struct msi_server *server = conn->server;
    bool welcome = meant == 0 || meant == server->identity;
    server->n_own += conn->dialect != MSI_DIALECT_M;
    conn->dialect = MSI_DIALECT_M;
    answer_status(conn, welcome ? MST_OK : MST_ERR_STORE_ENDED);
    if (welcome)
        msi_put_u64(&conn->out, (uint64_t)server->identity);
    else
        msi_conn_doom(conn, NULL);
}

static bool asks_for_mark(const struct msi_store_req *req) {
    return req->n == 1 && msi_str_equal(req->keys[0], msi_cstr(MSI_STORE_MARK_KEY));
}

/* Carries out one request; false if it waits or is deferred. */
static bool perform(struct msi_conn *conn, const struct msi_store_req *req) {
    if (msi_ops[req->op].waits) return !begin_wait(conn, req);
    switch (req->op) {
    case MSI_OP_VALIDATE:
        if (req->number != MSI_STORE_MAGIC) msi_conn_doom(conn, "its VALIDATE has the wrong number");
        break;
    case MSI_OP_HELLO:
        hello(conn, req->number);
        break;
    case MSI_OP_PING:
        answer_status(conn, MST_OK);
        msi_put_u32(&conn->out, (uint32_t)req->number);
        break;
    case MSI_OP_CANCEL_WAIT: /* nothing waits any more: the cancel crossed the answer */
        if (conn->dialect != MSI_DIALECT_M) msi_buf_add_u8(&conn->out, CANCELLED);
        break;
    case MSI_OP_WATCH_KEY:
        watch(conn, req->key);
        break;
    case MSI_OP_WILL:
        set_will(conn, req);
        break;
    case MSI_OP_GUARD:
        conn->has_guard = true;
        conn->guard_length = req->number;
        keep(conn, &conn->guard_key, req->key);
        answer_status(conn, MST_OK);
        break;
    case MSI_OP_CHECK:
        if (asks_for_mark(req)) {
            answer_status(conn, MST_OK);
            msi_buf_add_u8(&conn->out, 0);
            break;
        }
        answer(conn, req);
        break;
    default:
        return !answer_or_defer(conn, req);
    }
    return true;
}

/* Tells the dialects apart by the first bytes of a connection; false until enough of them are there. */
static bool detect(struct msi_conn *conn, const uint8_t *p, size_t n) {
    static const uint8_t validate[DETECT_BYTES] = {0x00, 0xCE, 0xF7, 0x85, 0x3C};
    size_t same = 0;
    while (same < n && same < DETECT_BYTES && p[same] == validate[same]) same++;
    if (same == n && n < DETECT_BYTES) {
        conn->scan.need = DETECT_BYTES;
        return false;
    }
    conn->known = true;
    conn->dialect = same == DETECT_BYTES ? MSI_DIALECT_C : MSI_DIALECT_A;
    return true;
}

/* What came behind a request that waits: returns true if the wait was called off, leaving *done bytes served.
 */
static bool called_off(struct msi_conn *conn, const uint8_t *p, size_t n, size_t *done) {
    if (n <= conn->request_len) return false;
    bool a = conn->dialect == MSI_DIALECT_A;
    if (!a && msi_op_find(conn->dialect, p[conn->request_len]) != MSI_OP_CANCEL_WAIT) return false;
    msi_kv_wait_end(conn->server->kv, &conn->waiter);
    conn->waiting = conn->has_guard = false;
    if (conn->dialect == MSI_DIALECT_M) answer_status(conn, MST_ERR_CANCELLED);
    if (conn->dialect == MSI_DIALECT_C) msi_buf_add_u8(&conn->out, CANCELLED);
    *done = conn->request_len + !a;
    return true;
}

/* A request of any kind, which may come in pieces: its length, or 0 if it is not complete or bad. */
static size_t scan_and_decode(struct msi_conn *conn, enum msi_store_op op, const uint8_t *p, size_t n,
                              struct msi_store_req *req) {
    struct msi_server *server = conn->server;
    if (conn->scan.at == 0) conn->scan = (struct msi_scan){.at = 1};
    enum msi_scan_result got = msi_store_scan(&conn->scan, msi_ops[op].request, 0, &server->limits, p, n);
    if (got == MSI_SCAN_BAD) msi_conn_doom(conn, "%s with %s", msi_ops[op].name, conn->scan.why);
    if (got != MSI_SCAN_DONE) return 0;
    size_t len = conn->scan.at;
    conn->scan = (struct msi_scan){0};
    if (msi_store_decode(op, p + 1, len - 1, &server->views, req)) return len;
    msi_conn_doom(conn, "out of memory");
    return 0;
}

/* Reads and carries out the request at p; its length, or 0 if it is incomplete, waits or is bad. */
static size_t serve_one(struct msi_conn *conn, const uint8_t *p, size_t n) {
    struct msi_server *server = conn->server;
    enum msi_store_op op = msi_op_find(conn->dialect, p[0]);
    if (op == MSI_OP_COUNT) {
        msi_conn_doom(conn, "%d is no operation of the store's protocol", p[0]);
        return 0;
    }
    struct msi_store_req req;
    size_t len = conn->scan.at == 0 ? msi_store_read(op, p, n, &server->limits, &req) : 0;
    if (len == 0) len = scan_and_decode(conn, op, p, n, &req);
    if (len == 0) return 0;
    if (!perform(conn, &req)) {
        conn->waiting = msi_list_empty(&conn->ready); /* else it is deferred */
        conn->request_len = len;
        return 0;
    }
    if (!msi_list_empty(&server->ready)) msi_server_resume(server);
    return len;
}

size_t msi_conn_serve(struct msi_conn *conn, const uint8_t *p, size_t n) {
    size_t done = 0;
    if (!msi_list_empty(&conn->ready)) return 0; /* the request in front is still to be answered */
    while (done < n && !conn->doomed && conn->out.len <= MSI_SERVER_UNREAD) {
        size_t len = 0;
        if (!conn->waiting) {
            if (!conn->known && !detect(conn, p + done, n - done)) break;
            len = serve_one(conn, p + done, n - done);
        }
        if (conn->waiting && !called_off(conn, p + done, n - done, &len)) break;
        if (len == 0) break;
        done += len;
    }
    if (conn->out.len) msi_conn_mark_unsent(conn);
    return done;
}

void msi_conn_say_ended(struct msi_conn *conn) {
    if (!msi_conn_pending(conn) || conn->dialect != MSI_DIALECT_M) return;
    uint8_t ended = MST_ERR_STORE_ENDED;
    ssize_t n = send(conn->source.fd, &ended, 1, MSG_NOSIGNAL);
    (void)n;
}

/* Answers one connection whose wait has ended. Its request is still at the front of its buffer. */
static void resume(struct msi_conn *conn) {
    struct msi_server *server = conn->server;
    struct msi_store_req req;
    enum msi_store_op op = msi_op_find(conn->dialect, conn->in.data[0]);
    conn->has_guard = false;
    if (conn->wait_status != MST_OK) {
        answer_status(conn, conn->wait_status);
    } else if (msi_store_decode(op, conn->in.data + 1, conn->request_len - 1, &server->views, &req)) {
        answer(conn, &req);
    } else {
        msi_conn_doom(conn, "out of memory");
    }
    msi_buf_drop(&conn->in, conn->request_len);
    msi_conn_mark_unsent(conn);
    if (conn->in.len) msi_buf_drop(&conn->in, msi_conn_serve(conn, conn->in.data, conn->in.len));
    if (conn->out.len > SMALL_REPLY) msi_conn_settle(conn); /* many may wait for one large value */
}

void msi_server_resume(struct msi_server *server) {
    if (server->resuming) return;
    server->resuming = true;
    /* Where many wait for one large value, some are answered when others have read theirs. */
    while (!msi_list_empty(&server->ready) &&
           (server->buffered < server->max_total / 8 || msi_server_has_room(server, server->max_total / 4))) {
        struct msi_conn *conn = msi_container(server->ready.next, struct msi_conn, ready);
        msi_list_remove(&conn->ready);
        if (!conn->doomed) resume(conn);
    }
    server->resuming = false;
}
