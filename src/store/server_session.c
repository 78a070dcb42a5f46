/*
 * server_session.c - sessions of the store server: a client whose connection was lost connects again and
 * continues.
 *
 * The end of file means that the client has closed its connection or has died: its on_disconnect value is
 * applied at once. After an error, such as a reset, the client may be alive: the value is applied after the
 * grace time, unless the client has returned.
 *
 * In both cases the connection stays as a detached session, without a socket, for as long as its client may
 * take to detect the loss and to repeat its last batch. Thereby a request is executed once, or its client
 * gets an error. A client that closes its connection in order ends the session before.
 */
#include "os/clock.h"
#include "os/host.h"
#include "os/socket.h"
#include "store/server_conn.h"
#include "wire/cursor.h"

#include <string.h>

enum {
    RECORD_MOST = 256 << 10,  /* bytes of the replies of a batch; a batch with more cannot be repeated */
    KEEP_RECORD = 4 << 10,    /* a larger buffer is freed at the next batch */
    DETACHED_MOST = 64 << 10, /* sessions */
};

static struct msi_conn *find_in(const struct msi_list *list, const struct msi_conn *other,
                                struct msi_str id) {
    for (struct msi_list *at = list->next; at != list; at = at->next) {
        struct msi_conn *conn = msi_container(at, struct msi_conn, node);
        if (conn != other && conn->in_session && !memcmp(conn->session, id.p, MSI_SESSION_BYTES)) return conn;
    }
    return NULL;
}

static void move(struct msi_buf *to, struct msi_buf *from) {
    msi_buf_free(to);
    *to = *from;
    *from = (struct msi_buf){0};
}

bool msi_session_is_own(const struct msi_conn *conn) {
    const uint64_t own = msi_process_token();
    return !memcmp(conn->session, &own, sizeof own);
}

/* Continues the session of another connection, which may not know yet that it was lost. */
static void take_over(struct msi_conn *conn, struct msi_conn *old) {
    conn->has_on_disconnect = old->has_on_disconnect;
    conn->batch = old->batch;
    conn->repeat_at = old->done.len;
    move(&conn->on_disconnect_key, &old->on_disconnect_key);
    move(&conn->on_disconnect_value, &old->on_disconnect_value);
    move(&conn->on_silence_value, &old->on_silence_value);
    move(&conn->done, &old->done);
    msi_conn_count_kept(conn);
    conn->shipped = old->shipped;
    old->has_on_disconnect = old->in_session = false; /* the session goes on */
    msi_conn_close(old, false);
}

void msi_session_begin(struct msi_conn *conn, const struct msi_store_req *req) {
    static const char none[MSI_SESSION_BYTES]; /* stands for "no session" in the stream to a standby */
    if (req->key.n != MSI_SESSION_BYTES || conn->in_session || !memcmp(req->key.p, none, sizeof none)) {
        msi_conn_doom(conn, "its SESSION is malformed");
        return;
    }
    struct msi_server *server = conn->server;
    struct msi_conn *old = find_in(&server->detached, conn, req->key);
    if (!old) old = find_in(&server->conns, conn, req->key);
    if (old && req->number == MSI_SESSION_NEW) { /* names are random; a standby would confuse the two */
        msi_conn_doom(conn, "another client has its session");
        return;
    }
    mst_status st = MST_OK;
    if (!old && req->number == MSI_SESSION_EXISTS) st = MST_ERR_NOT_FOUND;
    if (old ? old->forgotten : req->number != MSI_SESSION_NEW && msi_now() < server->overflowed_until)
        st = MST_ERR_STATE;
    msi_buf_add_u8(&conn->out, (uint8_t)st);
    if (st != MST_OK) {
        msi_conn_doom(conn, NULL); /* the requests that follow must not be executed */
        return;
    }
    memcpy(conn->session, req->key.p, MSI_SESSION_BYTES);
    conn->in_session = true;
    if (old) take_over(conn, old);
}

/* How long sessions are kept, in nanoseconds. */
static int64_t keep_ns(void) {
    return msi_socket_timeout() * INT64_C(1000000000);
}

bool msi_session_is_kept(struct msi_conn *conn) {
    struct msi_server *server = conn->server;
    if (!conn->in_session || msi_socket_is_local(conn->source.fd)) return false;
    if (server->n_detached < DETACHED_MOST && msi_server_has_room(server, 0)) return true;
    server->overflowed_until = msi_now() + keep_ns();
    return false;
}

static void on_time(struct msi_timer *timer) {
    struct msi_conn *conn = msi_container(timer, struct msi_conn, stall);
    if (!conn->has_on_disconnect) {
        msi_conn_close(conn, false);
        return;
    }
    conn->forgotten = true;
    msi_timer_set(conn->server->loop, timer, msi_now() + keep_ns());
    msi_conn_apply_on_disconnect(conn);
}

void msi_session_expect_return(struct msi_conn *conn, int64_t grace_ms) {
    int64_t ns = conn->has_on_disconnect ? grace_ms * 1000000 : keep_ns();
    msi_timer_init(&conn->stall, on_time);
    msi_timer_set(conn->server->loop, &conn->stall, msi_now() + ns);
}

void msi_session_detach(struct msi_conn *conn) {
    struct msi_server *server = conn->server;
    conn->detached = true;
    server->n_detached++;
    msi_list_push(&server->detached, &conn->node);
    server->buffered -= conn->accounted;
    msi_conn_count_kept(conn);
    conn->accounted = conn->kept;
    server->buffered += conn->accounted;
    msi_session_expect_return(conn, msi_socket_grace_ms());
}

void msi_session_batch(struct msi_conn *conn, int64_t number) {
    conn->repeat_at = 0;
    if (number == MSI_BATCH_LAST && conn->in_session) {
        msi_replica_ship_end(conn);
        conn->in_session = false;
    }
    if (number == conn->batch) return;
    conn->batch = number;
    conn->forgotten = false;
    conn->done.len = 0;
    if (conn->done.cap <= KEEP_RECORD && !conn->done.failed) return;
    msi_buf_free(&conn->done);
    msi_conn_count_kept(conn);
}

bool msi_session_repeat(struct msi_conn *conn) {
    if (conn->repeat_at == conn->done.len) return false;
    struct msi_reader r = msi_reader(conn->done.data + conn->repeat_at, conn->done.len - conn->repeat_at);
    uint32_t n = msi_read_u32(&r);
    msi_buf_add(&conn->out, r.p, n);
    conn->repeat_at += sizeof n + n;
    return true;
}

bool msi_session_count_barrier(struct msi_conn *conn) {
    if (!conn->batch) return false;
    if (msi_session_repeat(conn)) return true;
    msi_session_record(conn, conn->out.len);
    return false;
}

void msi_session_record(struct msi_conn *conn, size_t start) {
    size_t n = conn->out.len - start, before = conn->done.cap;
    if (conn->forgotten) return;
    if (conn->done.len + n <= RECORD_MOST) {
        msi_put_u32(&conn->done, (uint32_t)n);
        if (n) msi_buf_add(&conn->done, conn->out.data + start, n);
        conn->forgotten = conn->done.failed || conn->out.failed;
    } else {
        conn->forgotten = true;
    }
    conn->repeat_at = conn->done.len;
    if (conn->done.cap != before) msi_conn_count_kept(conn);
}
