/* tcp_conn.c - one connection of a store client. See tcp_conn.h. */
#include "store/tcp_conn.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "os/host.h"
#include "os/socket.h"
#include "wire/cursor.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_STEP = 16 << 10,
    CANCEL_GRACE_MS = 250,
    REFUSED_MS = 500, /* what has reset a connection may also reset the next one, but not for long */
    RETRY_MS = 20,
    UNANSWERED = 5, /* connections that end before the hello: another program listens there */
    REJECTED = 2,   /* the same of Unix sockets: the server is full */
};

static mst_status lost(struct msi_store_conn *conn, int error, const char *doing) {
    char why[160];
    conn->broken = true;
    snprintf(why, sizeof why, "%s%s%s", doing, error ? ": " : "", error ? strerror(error) : "");
    return msi_store_fail_lost(conn->target, why);
}

/* The TCP connection is lost, but perhaps not the server. The first reason counts until it is restored. */
static mst_status disconnected(struct msi_store_conn *conn, int error, const char *doing) {
    if (conn->attempts == 0) {
        conn->lost_since = msi_now();
        conn->lost_error = conn->local ? 0 : error; /* no network resets a local one */
    }
    conn->disconnected = true;
    return lost(conn, error, doing);
}

/* Sends out. Replies stay in the socket: a batch is too short to fill the buffers of both sides. */
static mst_status send_all(struct msi_store_conn *conn, const struct msi_wait *wait) {
    if (conn->out.failed) return msi_fail_memory();
    for (size_t sent = 0; sent < conn->out.len;) {
        ssize_t n = msi_stream_send(&conn->stream, conn->out.data + sent, conn->out.len - sent);
        if (n > 0) {
            sent += (size_t)n;
        } else if (errno == EAGAIN) {
            mst_status st = msi_wait_fd(wait, conn->stream.fd, POLLOUT, "sending to the store");
            if (st != MST_OK) {
                conn->broken = true;
                return st;
            }
        } else if (errno != EINTR) {
            return disconnected(conn, errno, "while sending");
        }
    }
    conn->out.len = 0;
    return MST_OK;
}

/* Reads at least a byte. Allocates by the bytes that have arrived, not by an announced length. */
static mst_status receive(struct msi_store_conn *conn, const struct msi_wait *wait) {
    if (!msi_buf_reserve(&conn->in, READ_STEP)) return msi_fail_memory();
    for (;;) {
        ssize_t n = msi_stream_recv(&conn->stream, conn->in.data + conn->in.len, conn->in.cap - conn->in.len);
        if (n > 0) {
            conn->in.len += (size_t)n;
            return MST_OK;
        }
        if (n == 0) return disconnected(conn, 0, "it closed the connection");
        if (errno == EAGAIN) {
            mst_status st = msi_wait_fd(wait, conn->stream.fd, POLLIN, "waiting for the store");
            if (st != MST_OK) return st;
        } else if (errno != EINTR) {
            return disconnected(conn, errno, "while waiting for an answer");
        }
    }
}

/* Reads a reply with that signature and moves it into reply. On an error it consumes nothing. */
static mst_status read_reply(struct msi_store_conn *conn, const struct msi_wait *wait, const char *signature,
                             uint64_t n_values, struct msi_buf *reply) {
    struct msi_scan scan = {0};
    for (;;) {
        enum msi_scan_result got =
            msi_store_scan(&scan, signature, n_values, &conn->target->limits, conn->in.data, conn->in.len);
        if (got == MSI_SCAN_DONE) break;
        if (got == MSI_SCAN_BAD) {
            conn->broken = true;
            return msi_fail(MST_ERR_PROTOCOL, NULL, "the store answered with %s", scan.why);
        }
        mst_status st = receive(conn, wait);
        if (st != MST_OK) return st;
    }
    msi_buf_add(reply, conn->in.data, scan.at);
    msi_buf_drop(&conn->in, scan.at);
    return reply->failed ? msi_fail_memory() : MST_OK;
}

/* A reply of dialect M: its status byte, then the reply of dialect C. */
static mst_status read_own_reply(struct msi_store_conn *conn, const struct msi_wait *wait,
                                 struct msi_store_rpc *x) {
    while (conn->in.len == 0) {
        mst_status st = receive(conn, wait);
        if (st != MST_OK) return st;
    }
    uint8_t status = conn->in.data[0];
    if (status >= MST_STATUS_COUNT) {
        conn->broken = true;
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the store answered with status %d", status);
    }
    if (status != MST_OK) {
        msi_buf_drop(&conn->in, 1);
        x->status = status;
        if (status == MST_ERR_STORE_ENDED) {
            conn->broken = true;
            char where[MSI_ADDRESS_TEXT_MAX];
            return msi_fail(MST_ERR_STORE_ENDED, "find out why its host closed it, and open it again",
                            "the process that hosts the store at %s has closed it",
                            msi_address_format(&conn->target->places[conn->place], where));
        }
        return status == MST_ERR_PEER_LOST ? status : MST_OK;
    }
    char signature[4] = "c";
    strcpy(signature + 1, msi_ops[x->req.op].reply);
    mst_status st = read_reply(conn, wait, signature, x->req.n, &x->reply);
    if (st == MST_OK) msi_buf_drop(&x->reply, 1);
    return st;
}

static mst_status read_one(struct msi_store_conn *conn, const struct msi_wait *wait,
                           struct msi_store_rpc *x) {
    x->status = MST_OK;
    if (conn->dialect == MSI_DIALECT_M) return read_own_reply(conn, wait, x);
    return read_reply(conn, wait, msi_ops[x->req.op].reply, x->req.n, &x->reply);
}

/*
 * Cancels a waiting request after the deadline, so that the connection stays in sync. If the reply crosses
 * the cancellation, it counts.
 */
static mst_status cancel_wait(struct msi_store_conn *conn, const struct msi_wait *grace, mst_status why,
                              struct msi_store_rpc *x) {
    struct msi_store_req cancel = {.op = MSI_OP_CANCEL_WAIT};
    if (!msi_store_encode(&conn->out, conn->dialect, &cancel)) {
        conn->broken = true; /* dialect A cannot cancel */
        return why;
    }
    mst_status st = send_all(conn, grace);
    if (st == MST_OK) st = read_one(conn, grace, x);
    bool answered = st == MST_OK && x->status == MST_OK;
    if (st == MST_OK && conn->dialect == MSI_DIALECT_C) {
        answered = x->reply.data[0] == 0;
        struct msi_store_rpc second = {.req = cancel};
        if (answered) st = read_one(conn, grace, &second);
        msi_buf_free(&second.reply);
    }
    if (st != MST_OK && st != MST_ERR_PEER_LOST) conn->broken = true;
    if (answered || st == MST_ERR_PEER_LOST) return st;
    msi_buf_free(&x->reply);
    return why;
}

/* Reads the n outstanding replies after the deadline, so that the connection stays in sync. */
static mst_status read_late(struct msi_store_conn *conn, mst_status why, struct msi_store_rpc *x, size_t n) {
    struct msi_wait grace = {msi_deadline(CANCEL_GRACE_MS), NULL};
    mst_status st = why == MST_ERR_TIMEOUT && !msi_ops[x[n - 1].req.op].waits ? why : MST_OK;
    for (size_t i = 0; i < n && st == MST_OK && !conn->broken; i++) {
        if (msi_ops[x[i].req.op].waits) return cancel_wait(conn, &grace, why, &x[i]);
        st = read_one(conn, &grace, &x[i]);
    }
    if (st != MST_OK) conn->broken = true;
    return why;
}

/* Adds the greeting to out; true if a reply follows. */
static bool add_greeting(struct msi_store_conn *conn) {
    _Atomic int64_t *identity = &conn->target->identity; /* relaxed: orders nothing else */
    struct msi_store_req validate = {.op = MSI_OP_VALIDATE, .number = MSI_STORE_MAGIC};
    struct msi_store_req hello = {.op = MSI_OP_HELLO,
                                  .number = atomic_load_explicit(identity, memory_order_relaxed)};
    enum msi_store_greeting greeting = conn->greeting;
    conn->greeting = MSI_GREETING_NONE;
    if (greeting == MSI_GREETING_FULL && conn->dialect != MSI_DIALECT_A)
        msi_store_encode(&conn->out, MSI_DIALECT_C, &validate);
    if (greeting == MSI_GREETING_NONE || conn->dialect != MSI_DIALECT_M) return false;
    msi_store_encode(&conn->out, MSI_DIALECT_C, &hello);
    struct msi_store_req session = {.op = MSI_OP_SESSION,
                                    .key = msi_str(conn->session, sizeof conn->session),
                                    .number = conn->has_session    ? MSI_SESSION_EXISTS
                                              : conn->sent_session ? MSI_SESSION_MAY_EXIST
                                                                   : MSI_SESSION_NEW};
    msi_store_encode(&conn->out, MSI_DIALECT_M, &session);
    conn->sent_session = true;
    return true;
}

void msi_store_conn_name_session(struct msi_store_conn *conn) {
    uint64_t token = msi_process_token();
    msi_random(conn->session, sizeof conn->session);
    memcpy(conn->session, &token, sizeof token);
}

/*
 * The server does not continue the session. It forgets a session some time after its connection was lost, as
 * that of a connection that was idle for long. The timeout has not passed since the batch began, so no
 * session has been forgotten in which it was executed: a new session may execute it.
 */
static mst_status end_session(struct msi_store_conn *conn, mst_status why) {
    int64_t age = msi_now() - conn->batch_since;
    mst_status st = lost(conn, 0, "it has given up this client, which was disconnected");
    if (why != MST_ERR_NOT_FOUND || age > msi_socket_timeout() * INT64_C(1000000000)) return st;
    msi_store_conn_name_session(conn);
    conn->has_session = conn->sent_session = false;
    conn->disconnected = true;
    return st;
}

/* Another program may have the address of a standby that has ended. Then the next place is tried. */
static mst_status leave_place(struct msi_store_conn *conn, const char *why) {
    mst_status st = lost(conn, 0, why);
    if (!msi_store_target_has_next(conn->target, conn->place)) return st;
    conn->place++;
    conn->attempts = conn->unanswered = 0;
    conn->disconnected = true;
    return st;
}

/* All connections of a client must reach the same server, not a later one at its address. */
static mst_status read_hello(struct msi_store_conn *conn, const struct msi_wait *wait) {
    struct msi_store_rpc hello = {.req = {.op = MSI_OP_HELLO}};
    int64_t unknown = 0;
    mst_status st = read_one(conn, wait, &hello);
    struct msi_reader r = msi_reader(hello.reply.data, hello.reply.len);
    int64_t number = (int64_t)msi_read_u64(&r), identity = number & ~(int64_t)MSI_TERM_MASK;
    int term = (int)(number & MSI_TERM_MASK);
    msi_buf_free(&hello.reply);
    if (st == MST_ERR_STORE_ENDED && msi_store_target_has_next(conn->target, conn->place))
        return leave_place(conn, "another store has its address");
    if (st != MST_OK) return st;
    bool first = atomic_compare_exchange_strong_explicit(&conn->target->identity, &unknown, identity,
                                                         memory_order_relaxed, memory_order_relaxed);
    if (!first && unknown != identity) return leave_place(conn, "another store has its address");
    if (first) atomic_store_explicit(&conn->target->first_term, term, memory_order_relaxed);
    atomic_store_explicit(&conn->target->term, term, memory_order_relaxed);
    struct msi_store_rpc session = {.req = {.op = MSI_OP_SESSION}};
    st = read_one(conn, wait, &session);
    msi_buf_free(&session.reply);
    if (st != MST_OK) return st;
    if (session.status != MST_OK) return end_session(conn, session.status);
    conn->has_session = true;
    conn->attempts = conn->unanswered = 0;
    if (atomic_load_explicit(&conn->target->place, memory_order_relaxed) < conn->place)
        atomic_store_explicit(&conn->target->place, conn->place, memory_order_relaxed);
    return MST_OK;
}

/* Begins a batch if a request must be executed once. */
static void add_batch(struct msi_store_conn *conn, const struct msi_store_rpc *x, size_t n) {
    struct msi_store_req batch = {.op = MSI_OP_BATCH, .number = conn->batch};
    for (size_t i = 0; i < n; i++) {
        if (!msi_ops[x[i].req.op].once) continue;
        msi_store_encode(&conn->out, conn->dialect, &batch);
        return;
    }
}

/*
 * How long authentication and hello may take: as long as a request, because a standby accepts connections
 * only when it takes over. After the connection was lost: twice as long as a standby may take for that. Who
 * does not answer then is another program, which has got the address.
 */
static struct msi_wait greeting_wait(const struct msi_store_conn *conn, const struct msi_wait *wait) {
    int64_t end = msi_deadline(2 * msi_socket_grace_ms());
    return (struct msi_wait){conn->attempts && end < wait->deadline ? end : wait->deadline, wait->cancel};
}

static mst_status authenticate(struct msi_store_conn *conn, const struct msi_wait *wait) {
    struct msi_auth_conn auth = {0};
    char where[MSI_ADDRESS_TEXT_MAX], peer[MSI_ADDRESS_TEXT_MAX + 16];
    if (conn->local || conn->target->open) return MST_OK;
    snprintf(peer, sizeof peer, "the store at %s",
             msi_address_format(&conn->target->places[conn->place], where));
    auth.host = conn->target->places[conn->place].host;
    msi_auth_begin(&auth, &conn->target->auth, conn->stream.fd, false, MSI_ROLE_STORE, NULL);
    mst_status st = msi_auth_run(&auth, wait, peer);
    if (st == MST_OK)
        conn->stream = msi_auth_take(&auth);
    else
        msi_auth_drop(&auth);
    if (st == MST_ERR_UNREACHABLE) return disconnected(conn, auth.error, "while authenticating");
    if (st != MST_OK) conn->broken = true;
    return st;
}

/* Executes the requests on this TCP connection. */
static mst_status run_batch(struct msi_store_conn *conn, const struct msi_wait *wait, struct msi_store_rpc *x,
                            size_t n) {
    struct msi_wait greeted = greeting_wait(conn, wait);
    mst_status authenticated = conn->authenticated ? MST_OK : authenticate(conn, &greeted);
    if (authenticated != MST_OK) return authenticated;
    conn->authenticated = true;
    enum msi_store_greeting greeting = conn->greeting;
    bool expects_hello = add_greeting(conn);
    if (conn->dialect == MSI_DIALECT_M) add_batch(conn, x, n);
    for (size_t i = 0; i < n; i++)
        if (!msi_store_encode(&conn->out, conn->dialect, &x[i].req)) {
            conn->out.len = 0;
            conn->greeting = greeting;
            return msi_fail(MST_ERR_UNSUPPORTED, NULL, "the server of this store does not support %s",
                            msi_ops[x[i].req.op].name);
        }
    mst_status st = send_all(conn, wait);
    if (st == MST_OK && expects_hello) st = read_hello(conn, &greeted);
    if (st != MST_OK) conn->broken = true;
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        st = read_one(conn, wait, &x[i]);
        if (st == MST_ERR_TIMEOUT || st == MST_ERR_CANCELLED) {
            st = read_late(conn, st, x + i, n - i);
            return st == MST_ERR_TIMEOUT || st == MST_ERR_CANCELLED
                       ? msi_fail(st, NULL, "%s", mst_status_text(st))
                       : st;
        }
    }
    if (st != MST_OK && st != MST_ERR_PEER_LOST) conn->broken = true;
    return st;
}

/* One attempt to connect again. MST_ERR_UNREACHABLE: try again. */
static mst_status try_again(struct msi_store_conn *conn, const struct msi_wait *wait) {
    struct msi_store_target *target = conn->target;
    int error;
    mst_status st =
        msi_connect_once(&target->places[conn->place], target->local, wait, &conn->stream.fd, &error);
    if (st == MST_OK || st == MST_ERR_CANCELLED) return st;
    conn->refused = error == ECONNREFUSED;
    if (conn->refused && msi_store_target_has_next(target, conn->place)) {
        conn->place++;
        conn->attempts = 0; /* does not pause */
        return MST_ERR_UNREACHABLE;
    }
    /* Stored by the thread that watches another connection; a hint. */
    bool known = atomic_load_explicit(&target->lost, memory_order_relaxed);
    bool brief = msi_now() - conn->lost_since < REFUSED_MS * INT64_C(1000000);
    if (known || (conn->refused && (!conn->lost_error || !brief)))
        return lost(conn, error, "it does not accept a new connection");
    return st;
}

/* Until when it tries to connect to this place. The places that are left share the time. */
static int64_t try_until(struct msi_store_conn *conn) {
    int left = atomic_load_explicit(&conn->target->n_places, memory_order_acquire) - conn->place;
    int64_t now = msi_now(), end = conn->lost_since + msi_socket_grace_ms() * 1000000;
    return end > now ? now + (end - now) / left : now;
}

/* Connects again after the TCP connection was lost. The next batch continues the session. */
static mst_status restore(struct msi_store_conn *conn, const struct msi_wait *wait) {
    int64_t until = try_until(conn);
    bool last = until < wait->deadline;
    struct msi_wait brief = {last ? until : wait->deadline, wait->cancel};
    msi_stream_close(&conn->stream);
    conn->authenticated = false;
    conn->in.len = conn->out.len = 0;
    mst_status st = MST_ERR_UNREACHABLE;
    while (st == MST_ERR_UNREACHABLE) {
        st = conn->attempts++ ? msi_wait_pause(&brief, RETRY_MS, "connecting to the store again") : MST_OK;
        if (st == MST_OK) st = try_again(conn, &brief);
    }
    if (st == MST_ERR_TIMEOUT && last && msi_store_target_has_next(conn->target, conn->place)) {
        conn->place++;
        conn->attempts = 0;
        return restore(conn, wait);
    }
    if (st == MST_ERR_TIMEOUT && last) {
        if (!conn->refused) atomic_store_explicit(&conn->target->silent, true, memory_order_relaxed);
        return lost(conn, conn->lost_error, "cannot connect again");
    }
    if (st != MST_OK) return st;
    conn->local = msi_socket_is_local(conn->stream.fd);
    if (!conn->local) msi_socket_expect(conn->stream.fd);
    conn->greeting = MSI_GREETING_FULL;
    conn->broken = conn->disconnected = false;
    char where[MSI_ADDRESS_TEXT_MAX];
    msi_log(store, INFO, "connected to the store at %s again",
            msi_address_format(&conn->target->places[conn->place], where));
    return MST_OK;
}

/*
 * Were new connections closed, by a server that accepts no more clients? If only the first one was, the next
 * one may learn that the server does not know the session, and the one after it names a new one.
 */
static bool is_rejected(const struct msi_store_conn *conn) {
    return conn->local && !conn->has_session && conn->unanswered >= REJECTED &&
           !msi_store_target_has_next(conn->target, conn->place);
}

/* After a greeting that ended with that status: has another program the address? */
static bool is_another(struct msi_store_conn *conn, const struct msi_wait *wait, mst_status st) {
    if (st == MST_ERR_STORE_LOST) return ++conn->unanswered == UNANSWERED;
    if (st == MST_ERR_TIMEOUT) return msi_now() < wait->deadline;
    return st == MST_ERR_PROTOCOL || st == MST_ERR_CONFIG || st == MST_ERR_VERSION;
}

/* After the batch has ended with that status: repeats it while the TCP connection gets lost. */
static mst_status repeat_batch(struct msi_store_conn *conn, const struct msi_wait *wait,
                               struct msi_store_rpc *x, size_t n, mst_status st) {
    while (st == MST_ERR_STORE_LOST && conn->disconnected && conn->dialect == MSI_DIALECT_M &&
           !is_rejected(conn)) {
        atomic_fetch_add_explicit(&conn->target->restoring, 1, memory_order_relaxed);
        st = restore(conn, wait);
        atomic_fetch_sub_explicit(&conn->target->restoring, 1, memory_order_relaxed);
        if (st != MST_OK) break;
        msi_store_rpc_free(x, n);
        st = run_batch(conn, wait, x, n);
        if (conn->attempts && is_another(conn, wait, st))
            st = leave_place(conn, "another program has its address");
    }
    return st;
}

mst_status msi_store_conn_run_once(struct msi_store_conn *conn, const struct msi_wait *wait,
                                   struct msi_store_rpc *x, size_t n) {
    conn->batch++;
    conn->batch_since = msi_now();
    return run_batch(conn, wait, x, n);
}

mst_status msi_store_conn_run(struct msi_store_conn *conn, const struct msi_wait *wait,
                              struct msi_store_rpc *x, size_t n) {
    conn->batch++;
    conn->batch_since = msi_now();
    return repeat_batch(conn, wait, x, n, run_batch(conn, wait, x, n));
}

mst_status msi_store_conn_listen(struct msi_store_conn *conn, const struct msi_wait *wait, short events) {
    struct msi_store_req nothing = {.op = MSI_OP_BATCH, .number = conn->batch}; /* has no reply */
    for (;;) {
        struct msi_wait part = {msi_deadline(msi_socket_timeout() * INT64_C(1000) / 6), wait->cancel};
        if (conn->local || part.deadline > wait->deadline) part.deadline = wait->deadline;
        mst_status st = msi_wait_fd(&part, conn->stream.fd, events, "waiting for the store");
        if (st != MST_ERR_TIMEOUT || part.deadline == wait->deadline) return st;
        if (conn->out.len == 0) msi_store_encode(&conn->out, MSI_DIALECT_M, &nothing);
        ssize_t n = msi_stream_send(&conn->stream, conn->out.data, conn->out.len);
        if (n > 0) msi_buf_drop(&conn->out, (size_t)n); /* the next read reports a failure */
    }
}

mst_status msi_store_conn_check(struct msi_store_conn *conn, const struct msi_wait *wait) {
    char byte;
    ssize_t n = msi_stream_recv(&conn->stream, &byte, 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return MST_OK;
    if (n > 0) return lost(conn, 0, "it sent what was not asked for");
    return repeat_batch(conn, wait, NULL, 0, disconnected(conn, n ? errno : 0, "while idle"));
}

/* The server need not keep the session. If the message does not arrive, it keeps it for some time. */
static void leave(struct msi_store_conn *conn) {
    struct msi_store_req last = {.op = MSI_OP_BATCH, .number = MSI_BATCH_LAST};
    if (!msi_store_encode(&conn->out, conn->dialect, &last) || conn->out.failed) return;
    ssize_t n = msi_stream_send(&conn->stream, conn->out.data, conn->out.len);
    (void)n;
}

void msi_store_conn_close(struct msi_store_conn *conn) {
    if (!conn) return;
    if (conn->has_session && !conn->broken) leave(conn);
    msi_stream_close(&conn->stream);
    msi_buf_free(&conn->out);
    msi_buf_free(&conn->in);
    free(conn);
}
