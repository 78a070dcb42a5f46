/* server_conn.c - input and output of one connection of the store server. See server_conn.h. */
#include "store/server_conn.h"
#include "base/log.h"
#include "os/socket.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    READ_STEP = 16 << 10,           /* smallest buffer for the rest of a message */
    QUEUE_WHILE_WAITING = 64 << 10, /* input that a client may send while its request waits */
    KEEP_BUFFER = 4 << 10,          /* larger buffers are freed when empty */
    COMPLAINTS_MOST = 64,
};

/* Events of a connection without pending input or output. */
#define QUIET_EVENTS (EPOLLET | EPOLLRDHUP | EPOLLIN)

static void on_stall(struct msi_timer *timer) {
    struct msi_conn *conn = msi_container(timer, struct msi_conn, stall);
    if (!msi_list_empty(&conn->unsent)) return; /* the server is late: settling sets it again */
    msi_conn_doom(conn, conn->out.len ? "it does not read its replies" : "it sent only a part of a message");
    msi_conn_settle(conn, false);
}

static bool held_back(const struct msi_conn *conn) {
    return conn->out.len > MSI_SERVER_UNREAD ||
           (msi_conn_pending(conn) && conn->in.len - conn->request_len > QUEUE_WHILE_WAITING);
}

/* With EPOLLET, changing the events makes epoll report pending input again. */
static void update_events(struct msi_conn *conn) {
    uint32_t events = EPOLLET | EPOLLRDHUP | (held_back(conn) ? 0 : EPOLLIN) | (conn->out.len ? EPOLLOUT : 0);
    if (events == conn->events && !conn->undrained) return;
    conn->events = events;
    conn->undrained = false;
    msi_loop_change(conn->server->loop, &conn->source, events);
}

static void update_stall(struct msi_conn *conn, bool progress) {
    bool pending = conn->out.len || (conn->in.len && !msi_conn_pending(conn));
    if (!pending) msi_timer_clear(&conn->stall);
    if (pending && (progress || !msi_timer_is_set(&conn->stall)))
        msi_timer_set(conn->server->loop, &conn->stall, msi_now() + conn->server->stall_ns);
}

/* A quarter of the memory is reserved for connections, so that a full store can still be read. */
bool msi_server_has_room(const struct msi_server *server, size_t more) {
    size_t held = server->buffered + more;
    return held <= server->max_total / 4 || held + msi_kv_bytes(server->kv) <= server->max_total;
}

void msi_conn_account(struct msi_conn *conn) {
    struct msi_server *server = conn->server;
    if (conn->in.len == 0 && conn->in.cap > KEEP_BUFFER) msi_buf_free(&conn->in);
    if (conn->out.len == 0 && conn->out.cap > KEEP_BUFFER) msi_buf_free(&conn->out);
    size_t held = conn->in.cap + conn->out.cap + conn->kept;
    if (held == conn->accounted && !conn->in.failed && !conn->out.failed) return;
    server->buffered += held - conn->accounted;
    conn->accounted = held;
    if (held > KEEP_BUFFER && !msi_server_has_room(server, 0)) {
        msi_conn_doom(conn, "the store is full (MUSTER_STORE_MAX_TOTAL is %zu bytes)", server->max_total);
        server->buffered -= conn->out.cap;
        conn->accounted -= conn->out.cap;
        msi_buf_free(&conn->out);
    }
    if (conn->in.failed || conn->out.failed) msi_conn_doom(conn, "out of memory");
}

/* The connection is lost. EPIPE: the client has closed it. */
static void fail(struct msi_conn *conn, int error) {
    if (error != EPIPE) conn->error = error;
    msi_conn_doom(conn, NULL);
}

/* True if it sent something. */
static bool send_some(struct msi_conn *conn) {
    size_t sent = 0;
    while (sent < conn->out.len) {
        ssize_t n = msi_stream_send(&conn->stream, conn->out.data + sent, conn->out.len - sent);
        if (n > 0) {
            sent += (size_t)n;
        } else if (errno != EINTR) {
            if (errno != EAGAIN) fail(conn, errno);
            break;
        }
    }
    if (sent) msi_buf_drop(&conn->out, sent);
    return sent > 0;
}

/* Nothing is buffered, and events, timer and accounting need no update. */
static bool is_quiet(const struct msi_conn *conn) {
    return conn->out.len == 0 && conn->in.len == 0 && !conn->doomed && !conn->undrained &&
           conn->events == QUIET_EVENTS && !msi_timer_is_set(&conn->stall) && !conn->out.failed &&
           conn->in.cap + conn->out.cap + conn->kept == conn->accounted;
}

void msi_conn_settle(struct msi_conn *conn, bool received) {
    bool full = conn->out.len > MSI_SERVER_UNREAD;
    if (conn->out.len && msi_list_empty(&conn->replica)) msi_replica_flush(conn->server);
    bool sent = conn->out.len && send_some(conn);
    if (is_quiet(conn)) return;
    if (full && conn->out.len <= MSI_SERVER_UNREAD && conn->in.len && !conn->waiting && !conn->doomed) {
        /* There is space again: serve the requests that were held back. */
        size_t done = msi_conn_serve(conn, conn->in.data, conn->in.len);
        msi_buf_drop(&conn->in, done);
    }
    msi_conn_account(conn);
    if (conn->doomed) {
        msi_conn_close(conn, true);
        return;
    }
    update_events(conn);
    update_stall(conn, received || sent);
}

void msi_conn_mark_unsent(struct msi_conn *conn) {
    if (msi_list_empty(&conn->unsent)) msi_list_push(&conn->server->unsent, &conn->unsent);
}

void msi_conn_doom(struct msi_conn *conn, const char *format, ...) {
    if (conn->doomed) return;
    conn->doomed = true;
    msi_conn_mark_unsent(conn);
    if (!format || conn->server->complaints > COMPLAINTS_MOST) return;
    char peer[MSI_ADDRESS_TEXT_MAX], why[200];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (conn->server->complaints++ < COMPLAINTS_MOST)
        msi_log(store, WARN, "closing the connection from %s: %s", msi_socket_peer(conn->source.fd, peer),
                why);
    else
        msi_log(store, WARN, "further bad connections to the store are not logged");
}

/* A TLS session stops when less than a record, READ_STEP, fits the buffer. */
static bool may_have_more(const struct msi_conn *conn, ssize_t n, size_t room) {
    size_t left = n > 0 ? room - (size_t)n : room;
    return left < (conn->stream.tls ? READ_STEP : 1) || (n < 0 && errno == EINTR);
}

/* One read; undrained if there may be more. */
static ssize_t receive(struct msi_conn *conn) {
    struct msi_server *server = conn->server;
    if (conn->in.len == 0) {
        ssize_t n = msi_stream_recv(&conn->stream, server->scratch, sizeof server->scratch);
        conn->undrained = may_have_more(conn, n, sizeof server->scratch);
        if (n <= 0) return n;
        size_t done = msi_conn_serve(conn, server->scratch, (size_t)n);
        msi_buf_add(&conn->in, server->scratch + done,
                    (size_t)n - done); /* incomplete and waiting requests */
        return n;
    }
    size_t missing = conn->scan.need > conn->in.len ? conn->scan.need - conn->in.len : 0;
    /* Allocate by the bytes that have arrived, not by the announced length. */
    size_t room = missing < conn->in.len ? missing : conn->in.len;
    if (room < READ_STEP) room = READ_STEP;
    if (!msi_buf_reserve(&conn->in, room)) return 1;
    room = conn->in.cap - conn->in.len;
    ssize_t n = msi_stream_recv(&conn->stream, conn->in.data + conn->in.len, room);
    conn->undrained = may_have_more(conn, n, room);
    if (n > 0) {
        conn->in.len += (size_t)n;
        msi_buf_drop(&conn->in, msi_conn_serve(conn, conn->in.data, conn->in.len));
    }
    return n;
}

static void mark_busy(struct msi_conn *conn) {
    if (!msi_list_empty(&conn->busy)) return;
    msi_list_push(&conn->server->busy, &conn->busy);
    conn->server->n_busy++;
}

static void on_ready(struct msi_source *source, uint32_t events) {
    struct msi_conn *conn = msi_container(source, struct msi_conn, source);
    bool progress = false;
    uint32_t hung_up = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    if ((events & EPOLLIN || hung_up) && !conn->doomed) {
        ssize_t n = receive(conn);
        if (hung_up) conn->undrained = true; /* end of file follows the last bytes */
        if (n == 0 && conn->in.len && !msi_conn_pending(conn))
            msi_conn_doom(conn, "it closed the connection in the middle of a message");
        if (n == 0) msi_conn_doom(conn, NULL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) fail(conn, errno);
        progress = n > 0;
    }
    struct msi_server *server = conn->server;
    if (conn->out.len && conn->out.len <= KEEP_BUFFER && !conn->undrained) {
        msi_conn_mark_unsent(conn); /* sent after all ready connections are served */
        mark_busy(conn);
        if (msi_timer_is_set(&conn->stall)) update_stall(conn, true);
        return;
    }
    msi_list_remove(&conn->unsent);
    msi_conn_settle(conn, progress); /* may free the connection, as the next call */
    msi_server_resume(server);
}

bool msi_conn_poll(struct msi_conn *conn) {
    if (conn->in.len || conn->out.len || conn->doomed || conn->events != QUIET_EVENTS) return false;
    ssize_t n = receive(conn);
    if (n < 0 && errno == EAGAIN) return false;
    /* The loop reports an error or end of file again, but the socket reports an error once. */
    if (n <= 0) conn->undrained = true;
    if (n < 0 && errno != EINTR && errno != EPIPE) conn->error = errno;
    msi_conn_mark_unsent(conn);
    return n > 0;
}

void msi_conn_open(struct msi_server *server, struct msi_stream stream) {
    struct msi_conn *conn = calloc(1, sizeof *conn);
    if (!conn) {
        msi_stream_close(&stream);
        return;
    }
    conn->server = server;
    conn->source = (struct msi_source){on_ready, stream.fd};
    conn->stream = stream;
    conn->events = QUIET_EVENTS;
    msi_timer_init(&conn->stall, on_stall);
    msi_list_init(&conn->ready);
    msi_list_init(&conn->unsent);
    msi_list_init(&conn->busy);
    msi_list_init(&conn->replica);
    if (msi_loop_add(server->loop, &conn->source, conn->events) != MST_OK) {
        msi_stream_close(&stream);
        free(conn);
        return;
    }
    msi_socket_tune(stream.fd);
    msi_socket_expect(stream.fd);
    msi_list_push(&server->conns, &conn->node);
    server->n_conns++;
}

void msi_conn_apply_on_disconnect(struct msi_conn *conn) {
    struct msi_server *server = conn->server;
    bool reset = conn->error == ECONNRESET || conn->error == ECONNABORTED, altered = conn->error == EBADMSG;
    bool silent = conn->error && !reset && !altered && conn->error != EPROTO;
    const struct msi_buf *value =
        silent && conn->on_silence_value.len ? &conn->on_silence_value : &conn->on_disconnect_value;
    if (!conn->has_on_disconnect) return;
    conn->has_on_disconnect = false;
    struct msi_store_req req = {
        .op = MSI_OP_APPEND, .key = msi_buf_str(&conn->on_disconnect_key), .value = msi_buf_str(value)};
    struct msi_buf reply = {0};
    msi_log(store, INFO, "a client has disconnected: %.*s", MSI_SHOW(req.value));
    if (conn->in_session) msi_replica_ship(server, conn, &(struct msi_store_req){.op = MSI_OP_ON_DISCONNECT});
    msi_replica_ship(server, NULL, &req);
    msi_kv_apply(server->kv, &req, &reply);
    msi_buf_free(&reply);
    msi_server_resume(server);
}

/* Closes the socket and removes the connection from all lists. */
static void disconnect(struct msi_conn *conn) {
    struct msi_server *server = conn->server;
    if (conn->waiting) msi_kv_wait_end(server->kv, &conn->waiter);
    conn->waiting = false;
    msi_loop_remove(server->loop, &conn->source);
    msi_stream_close(&conn->stream);
    msi_list_remove(&conn->ready);
    msi_list_remove(&conn->unsent);
    if (!msi_list_empty(&conn->busy)) server->n_busy--;
    msi_list_remove(&conn->busy);
    msi_list_remove(&conn->replica);
    server->n_conns--;
    server->n_own -= conn->dialect == MSI_DIALECT_M;
    msi_buf_free(&conn->in);
    msi_buf_free(&conn->out);
    msi_buf_free(&conn->guard_key);
    msi_buf_free(&conn->watched);
}

void msi_conn_close(struct msi_conn *conn, bool disconnected) {
    struct msi_server *server = conn->server;
    bool kept = disconnected && !conn->detached && msi_session_is_kept(conn);
    msi_timer_clear(&conn->stall);
    if (!conn->detached) disconnect(conn);
    msi_list_remove(&conn->node);
    if (disconnected && !(kept && conn->error)) {
        conn->forgotten |= conn->has_on_disconnect;
        msi_conn_apply_on_disconnect(conn);
    }
    if (kept) {
        msi_session_detach(conn);
        return;
    }
    if (conn->in_session) msi_replica_ship_end(conn);
    server->n_detached -= conn->detached;
    server->buffered -= conn->accounted;
    msi_buf_free(&conn->out); /* of a session that a standby has executed */
    msi_buf_free(&conn->on_disconnect_key);
    msi_buf_free(&conn->on_disconnect_value);
    msi_buf_free(&conn->on_silence_value);
    msi_buf_free(&conn->done);
    free(conn);
}
