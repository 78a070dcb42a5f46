/*
 * server_serve.c - requests of the store server: dialects, waits, replies.
 *
 * A waiting request stays at the front of its connection's buffer and is read again when its wait ends.
 * Meanwhile clients of dialect C and M may send CANCEL_WAIT; other requests queue up after it. A client of
 * dialect A cannot cancel; its next request ends the wait.
 *
 * If there is no memory for a large reply, it is deferred: its request stays at the front until other clients
 * have read their replies.
 */
#include "base/log.h"
#include "store/server_conn.h"
#include "wire/cursor.h"

#include <sys/socket.h>

enum {
    DETECT_BYTES = 5,
    WATCHING = 3,
    CANCELLED = 1,
    SMALL_REPLY = 64 << 10,  /* such replies are sent at the end of the iteration, also by a full store */
    WATCHED_MOST = 64 << 10, /* bytes of the keys that a connection watches */
    ON_DISCONNECT_MOST = 64 << 10,
};

/* The status byte that opens every reply of dialect M. */
static void answer_status(struct msi_conn *conn, mst_status st) {
    if (conn->dialect == MSI_DIALECT_M) msi_buf_add_u8(&conn->out, (uint8_t)st);
}

/* Upper limit of the reply's length: no value is longer than the whole map. */
static size_t reply_most(const struct msi_server *server, const struct msi_store_req *req) {
    size_t stored = msi_kv_bytes(server->kv);
    return req->n < 2 && stored <= SMALL_REPLY ? stored : msi_kv_reply_size(server->kv, req);
}

/* Is there memory for the reply? A full store still returns single values. */
static bool fits(const struct msi_server *server, const struct msi_store_req *req) {
    size_t reply = reply_most(server, req), idle = server->max_total / 4;
    return reply <= SMALL_REPLY || msi_server_has_room(server, 2 * reply) /* buffers double */ ||
           ((req->n < 2 || 2 * reply <= idle) && server->buffered < idle / 2);
}

/* Reports that a request has failed. Only dialect M has a reply for that; other clients are disconnected. */
static void refuse(struct msi_conn *conn, const struct msi_store_req *req, mst_status st) {
    answer_status(conn, st);
    if (conn->dialect == MSI_DIALECT_M) return;
    if (st == MST_ERR_LIMIT)
        msi_conn_doom(conn, "%s: the store is full (MUSTER_STORE_MAX_TOTAL)", msi_ops[req->op].name);
    else
        msi_conn_doom(conn, "%s of '%.*s': %s", msi_ops[req->op].name,
                      MSI_SHOW(req->n ? req->keys[0] : req->key), mst_status_text(st));
}

/* Answers a request that does not wait any longer. */
static void answer(struct msi_conn *conn, const struct msi_store_req *req) {
    size_t start = conn->out.len;
    bool once = conn->batch && msi_ops[req->op].once && !msi_ops[req->op].waits;
    if (once && msi_session_repeat(conn)) return;
    if (msi_ops[req->op].once && !msi_ops[req->op].waits) msi_replica_ship(conn->server, conn, req);
    answer_status(conn, MST_OK);
    mst_status st = fits(conn->server, req) ? msi_kv_apply(conn->server->kv, req, &conn->out) : MST_ERR_LIMIT;
    if (st != MST_OK) {
        if (conn->out.len > start) conn->out.len = start;
        refuse(conn, req, st);
    }
    if (once) msi_session_record(conn, start);
}

static void woken(struct msi_kv_waiter *waiter) {
    struct msi_conn *conn = msi_container(waiter, struct msi_conn, waiter);
    conn->waiting = false;
    msi_list_push(&conn->server->ready, &conn->ready);
}

/*
 * Answers, or returns true if the reply must wait until others have read theirs. answer() rejects a reply
 * that does not fit into the memory of an idle server.
 */
static bool answer_or_defer(struct msi_conn *conn, const struct msi_store_req *req) {
    struct msi_server *server = conn->server;
    size_t reply = reply_most(server, req), idle = server->max_total / 4;
    if (reply <= SMALL_REPLY || 2 * reply > idle || msi_server_has_room(server, 2 * reply)) {
        answer(conn, req);
        return false;
    }
    conn->waiter.status = MST_OK;
    msi_list_push(&server->ready, &conn->ready);
    return true;
}

/* True if the request waits or is deferred now. */
static bool begin_wait(struct msi_conn *conn, const struct msi_store_req *req) {
    struct msi_store_req guard = {.key = msi_buf_str(&conn->guard_key), .number = conn->guard_length};
    struct msi_store_req counted = *req;
    conn->waiter.wake = woken;
    bool waiting;
    if (req->op == MSI_OP_BARRIER && req->number < 0 && conn->dialect != MSI_DIALECT_M) {
        counted.number = 0; /* only muster's clients mean "counted before" by a negative number */
        req = &counted;
    }
    if (req->op == MSI_OP_BARRIER && msi_session_count_barrier(conn)) {
        counted.number = req->number > 0 ? -req->number : -1; /* this client was counted before */
        req = &counted;
    } else if (req->op == MSI_OP_BARRIER && req->number >= 0) {
        msi_replica_ship(conn->server, conn, req);
    }
    mst_status st =
        msi_kv_wait_begin(conn->server->kv, req, conn->has_guard ? &guard : NULL, &conn->waiter, &waiting);
    if (waiting) return true;
    conn->has_guard = false;
    if (st == MST_OK) return answer_or_defer(conn, req);
    refuse(conn, req, st);
    return false;
}

void msi_conn_count_kept(struct msi_conn *conn) {
    conn->kept = conn->guard_key.cap + conn->on_disconnect_key.cap + conn->on_disconnect_value.cap +
                 conn->on_silence_value.cap + conn->watched.cap + conn->done.cap;
}

static void keep(struct msi_conn *conn, struct msi_buf *buf, struct msi_str s) {
    buf->len = 0;
    msi_buf_add(buf, s.p, s.n);
    msi_conn_count_kept(conn);
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
    msi_conn_count_kept(conn);
    msi_kv_set_watch(conn->server->kv, msi_server_notify_watchers, conn->server);
    msi_buf_add_u8(&conn->out, WATCHING);
}

void msi_server_notify_watchers(void *context, enum msi_kv_event event, struct msi_str key,
                                struct msi_str before, struct msi_str after) {
    struct msi_server *server = context;
    for (struct msi_list *at = server->conns.next; at != &server->conns; at = at->next) {
        struct msi_conn *conn = msi_container(at, struct msi_conn, node);
        if (conn->doomed || !watches(conn, key)) continue;
        if (conn->out.len > MSI_SERVER_UNREAD) {
            msi_conn_doom(conn, "it does not read the changes of its watched keys");
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

static void set_on_disconnect(struct msi_conn *conn, const struct msi_store_req *req) {
    bool large = req->value.n > ON_DISCONNECT_MOST || req->desired.n > ON_DISCONNECT_MOST;
    bool full = req->key.n && !msi_server_has_reserve(conn->server);
    if (full || large) {
        answer_status(conn, large ? MST_ERR_LIMIT : MST_ERR_SYSTEM);
        return;
    }
    conn->has_on_disconnect = req->key.n > 0;
    keep(conn, &conn->on_disconnect_key, req->key);
    keep(conn, &conn->on_disconnect_value, req->value);
    keep(conn, &conn->on_silence_value, req->desired);
    if (conn->in_session) msi_replica_ship(conn->server, conn, req);
    answer_status(conn, MST_OK);
}

/* expected: the identity of the server that the client began with; 0: none yet. */
static void hello(struct msi_conn *conn, int64_t expected) {
    struct msi_server *server = conn->server;
    bool accepted = expected == 0 || expected == (server->identity & ~(int64_t)MSI_TERM_MASK);
    server->n_own += conn->dialect != MSI_DIALECT_M;
    conn->dialect = MSI_DIALECT_M;
    answer_status(conn, accepted ? MST_OK : MST_ERR_STORE_ENDED);
    if (accepted)
        msi_put_u64(&conn->out, (uint64_t)server->identity);
    else
        msi_conn_doom(conn, NULL);
}

bool msi_conn_execute(struct msi_conn *conn, const struct msi_store_req *req) {
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
    case MSI_OP_CANCEL_WAIT: /* the wait ended before the cancellation arrived */
        if (conn->dialect != MSI_DIALECT_M) msi_buf_add_u8(&conn->out, CANCELLED);
        break;
    case MSI_OP_WATCH_KEY:
        watch(conn, req->key);
        break;
    case MSI_OP_ON_DISCONNECT:
        set_on_disconnect(conn, req);
        break;
    case MSI_OP_SESSION:
        msi_session_begin(conn, req);
        break;
    case MSI_OP_BATCH:
        msi_session_batch(conn, req->number);
        break;
    case MSI_OP_REPLICATE:
        msi_replica_begin(conn);
        break;
    case MSI_OP_GUARD:
        conn->has_guard = true;
        conn->guard_length = req->number;
        keep(conn, &conn->guard_key, req->key);
        answer_status(conn, MST_OK);
        break;
    case MSI_OP_CHECK:
        if (req->n != 1 || !msi_str_equal(req->keys[0], msi_cstr(MSI_STORE_MARK_KEY))) {
            answer(conn, req);
            break;
        }
        answer_status(conn, MST_OK);
        msi_buf_add_u8(&conn->out, 0);
        break;
    default:
        return !answer_or_defer(conn, req);
    }
    return true;
}

/* Detects the dialect from the first bytes of a connection; false if more bytes are needed. */
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

/* True if the input after a waiting request cancels the wait; *done: bytes consumed. */
static bool is_cancelled(struct msi_conn *conn, const uint8_t *p, size_t n, size_t *done) {
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

/* Decodes a request that may arrive in pieces; returns its length, or 0 if it is incomplete or malformed. */
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

/* Reads and executes the request at p; returns its length, or 0: incomplete, waiting or malformed. */
static size_t serve_one(struct msi_conn *conn, const uint8_t *p, size_t n) {
    struct msi_server *server = conn->server;
    enum msi_store_op op = msi_op_find(conn->dialect, p[0]);
    if (op == MSI_OP_COUNT) {
        msi_conn_doom(conn, "%d is not an operation of the store's protocol", p[0]);
        return 0;
    }
    struct msi_store_req req;
    size_t len = conn->scan.at == 0 ? msi_store_read(op, p, n, &server->limits, &req) : 0;
    if (len == 0) len = scan_and_decode(conn, op, p, n, &req);
    if (len == 0) return 0;
    if (!msi_conn_execute(conn, &req)) {
        conn->waiting = msi_list_empty(&conn->ready); /* otherwise it is deferred */
        conn->request_len = len;
        return 0;
    }
    if (!msi_list_empty(&server->ready)) msi_server_resume(server);
    return len;
}

size_t msi_conn_serve(struct msi_conn *conn, const uint8_t *p, size_t n) {
    size_t done = 0;
    if (!msi_list_empty(&conn->ready)) return 0; /* the first request is not answered yet */
    while (done < n && !conn->doomed && conn->out.len <= MSI_SERVER_UNREAD) {
        size_t len = 0;
        if (!conn->waiting) {
            if (!conn->known && !detect(conn, p + done, n - done)) break;
            len = serve_one(conn, p + done, n - done);
        }
        if (conn->waiting && !is_cancelled(conn, p + done, n - done, &len)) break;
        if (len == 0) break;
        done += len;
    }
    if (conn->out.len) msi_conn_mark_unsent(conn);
    return done;
}

void msi_conn_send_ended(struct msi_conn *conn) {
    if (!msi_conn_pending(conn) || conn->dialect != MSI_DIALECT_M) return;
    uint8_t ended = MST_ERR_STORE_ENDED;
    ssize_t n = msi_stream_send(&conn->stream, &ended, 1);
    (void)n;
}

/* Answers a connection whose wait has ended. Its request is at the front of its buffer. */
static void resume(struct msi_conn *conn) {
    struct msi_server *server = conn->server;
    struct msi_store_req req;
    enum msi_store_op op = msi_op_find(conn->dialect, conn->in.data[0]);
    conn->has_guard = false;
    if (conn->waiter.status != MST_OK) {
        answer_status(conn, conn->waiter.status);
    } else if (msi_store_decode(op, conn->in.data + 1, conn->request_len - 1, &server->views, &req)) {
        answer(conn, &req);
    } else {
        msi_conn_doom(conn, "out of memory");
    }
    msi_buf_drop(&conn->in, conn->request_len);
    msi_conn_mark_unsent(conn);
    if (conn->in.len) msi_buf_drop(&conn->in, msi_conn_serve(conn, conn->in.data, conn->in.len));
    if (conn->out.len > SMALL_REPLY) msi_conn_settle(conn, false); /* many may wait for one large value */
}

void msi_server_resume(struct msi_server *server) {
    if (server->resuming) return;
    server->resuming = true;
    /* Many clients may wait for one large value: answer some after others have read theirs. */
    while (!msi_list_empty(&server->ready) &&
           (server->buffered < server->max_total / 8 || msi_server_has_room(server, server->max_total / 4))) {
        struct msi_conn *conn = msi_container(server->ready.next, struct msi_conn, ready);
        msi_list_remove(&conn->ready);
        if (!conn->doomed) resume(conn);
    }
    server->resuming = false;
}

void msi_server_finish_round(struct msi_server *server) {
    do {
        while (!msi_list_empty(&server->unsent)) {
            struct msi_conn *conn = msi_container(server->unsent.next, struct msi_conn, unsent);
            msi_list_remove(&conn->unsent);
            msi_conn_settle(conn, false);
        }
        msi_server_resume(server);
    } while (!msi_list_empty(&server->unsent));
}
