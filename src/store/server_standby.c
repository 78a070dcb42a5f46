/*
 * server_standby.c - a standby of a store server, in another process: it receives every change, and serves
 * the clients once the server is lost. See server_replica.c.
 *
 * While it follows the server, its thread only reads the stream. Clients that come early wait: they are
 * accepted when it takes over. It takes over when the stream ends and nobody accepts connections at the
 * server's address, or its host does not answer. If the server accepts, the standby begins again.
 *
 * The sessions of the server's own process have ended with it. The other clients learn of its end as soon as
 * the standby, and have RETURN_MS to connect; if the server's host does not answer, msi_socket_grace_ms.
 */
#include "base/error.h"
#include "base/log.h"
#include "os/socket.h"
#include "store/server_conn.h"
#include "store/tcp_conn.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_STEP = 64 << 10, RETRY_MS = 10, CONNECT_MS = 20, RETURN_MS = 2000 };

struct msi_standby {
    struct msi_store_target target;
    struct msi_store_conn *stream;
    struct msi_conn anonymous; /* executes requests without a session */
    struct msi_conn *current;  /* the session whose requests follow */
    mst_cancel *stop;
    bool complete; /* it has the state of the server */
    bool finished; /* the server has ended in order */
    bool silent;   /* its host does not answer */
};

static void make_detached(struct msi_server *server, struct msi_conn *conn) {
    *conn = (struct msi_conn){.server = server, .dialect = MSI_DIALECT_M, .known = true, .detached = true};
    conn->source.fd = -1;
    msi_timer_init(&conn->stall, NULL);
    msi_list_init(&conn->ready);
    msi_list_init(&conn->unsent);
    msi_list_init(&conn->busy);
    msi_list_init(&conn->replica);
    msi_list_init(&conn->node);
}

/* The session of that name, which is made if it is new. */
static struct msi_conn *find_session(struct msi_server *server, const struct msi_store_req *req) {
    static const uint8_t none[MSI_SESSION_BYTES];
    struct msi_standby *standby = server->standby;
    if (req->key.n != MSI_SESSION_BYTES) return NULL;
    if (!memcmp(req->key.p, none, sizeof none)) return &standby->anonymous;
    for (struct msi_list *at = server->detached.next; at != &server->detached; at = at->next) {
        struct msi_conn *conn = msi_container(at, struct msi_conn, node);
        if (memcmp(conn->session, req->key.p, MSI_SESSION_BYTES) != 0) continue;
        conn->of_host = req->number != 0;
        return conn;
    }
    struct msi_conn *made = malloc(sizeof *made);
    if (!made) return NULL;
    make_detached(server, made);
    memcpy(made->session, req->key.p, MSI_SESSION_BYTES);
    made->in_session = true;
    made->of_host = req->number != 0;
    msi_list_push(&server->detached, &made->node);
    server->n_detached++;
    return made;
}

/* Executes a request of the stream; false if it cannot follow any longer. */
static bool replay(struct msi_server *server, const struct msi_store_req *req) {
    struct msi_standby *standby = server->standby;
    struct msi_conn *conn = standby->current;
    struct msi_kv_waiter waiter = {0};
    bool waiting = false;
    switch (req->op) {
    case MSI_OP_SESSION:
        standby->current = find_session(server, req);
        return standby->current != NULL;
    case MSI_OP_HELLO:
        server->identity = req->number;
        standby->complete = true;
        return true;
    case MSI_OP_FINISH:
        standby->finished = true;
        return true;
    case MSI_OP_RECORD:
        conn->done.len = 0;
        msi_buf_add(&conn->done, req->value.p, req->value.n);
        conn->repeat_at = conn->done.len;
        return !conn->done.failed;
    case MSI_OP_BATCH:
        if (req->number != MSI_BATCH_LAST) {
            msi_session_batch(conn, req->number);
        } else if (conn != &standby->anonymous) {
            standby->current = &standby->anonymous;
            conn->in_session = false;
            msi_conn_close(conn, false);
        }
        return true;
    case MSI_OP_BARRIER:
        msi_session_count_barrier(conn);
        msi_kv_wait_begin(server->kv, req, NULL, &waiter, &waiting);
        if (waiting) msi_kv_wait_end(server->kv, &waiter);
        return true;
    default:
        if (!msi_ops[req->op].once && req->op != MSI_OP_ON_DISCONNECT) return false;
        msi_conn_execute(conn, req);
        conn->out.len = 0;
        return !conn->out.failed;
    }
}

mst_status msi_standby_replay(struct msi_server *server, struct msi_buf *in) {
    size_t done = 0;
    while (done < in->len) {
        const uint8_t *p = in->data + done;
        struct msi_scan scan = {.at = 1};
        struct msi_store_req req;
        enum msi_store_op op = msi_op_find(MSI_DIALECT_M, p[0]);
        enum msi_scan_result got = op == MSI_OP_COUNT ? MSI_SCAN_BAD
                                                      : msi_store_scan(&scan, msi_ops[op].request, 0,
                                                                       &server->limits, p, in->len - done);
        if (got == MSI_SCAN_MORE) break;
        if (got == MSI_SCAN_BAD || !msi_store_decode(op, p + 1, scan.at - 1, &server->views, &req) ||
            !replay(server, &req))
            return msi_fail(MST_ERR_PROTOCOL, NULL, "it sent a request that cannot be executed");
        done += scan.at;
    }
    msi_buf_drop(in, done);
    return MST_OK;
}

/* Receives and executes a part of the stream. MST_ERR_STORE_LOST: it has ended. */
static mst_status receive(struct msi_server *server, const struct msi_wait *wait) {
    struct msi_store_conn *stream = server->standby->stream;
    if (!msi_buf_reserve(&stream->in, READ_STEP)) return msi_fail_memory();
    ssize_t n =
        msi_stream_recv(&stream->stream, stream->in.data + stream->in.len, stream->in.cap - stream->in.len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return msi_store_conn_listen(stream, wait, POLLIN);
    if (n <= 0) return MST_ERR_STORE_LOST;
    stream->in.len += (size_t)n;
    return msi_standby_replay(server, &stream->in);
}

/* Forgets the state. */
static void clear(struct msi_server *server) {
    server->standby->complete = false;
    server->standby->current = &server->standby->anonymous;
    while (!msi_list_empty(&server->detached)) {
        struct msi_conn *conn = msi_container(server->detached.next, struct msi_conn, node);
        conn->in_session = false;
        msi_conn_close(conn, false);
    }
    msi_kv_free(server->kv);
    server->kv = msi_kv_new(server->max_total, server->limits.max_value);
}

/* Connects and receives the state of the server. Keeps the old state if the server does not answer. */
static mst_status synchronize(struct msi_server *server, const struct msi_wait *wait) {
    struct msi_standby *standby = server->standby;
    struct msi_store_rpc x = {.req = {.op = MSI_OP_REPLICATE}};
    struct msi_store_conn *stream = NULL;
    struct msi_wait brief = {msi_deadline(CONNECT_MS), wait->cancel};
    mst_status st = msi_store_conn_open(&standby->target, standby->stream ? &brief : wait, &stream);
    if (st == MST_OK && stream->dialect != MSI_DIALECT_M)
        st = msi_fail(MST_ERR_UNSUPPORTED, NULL, "the store's server is not of this version of muster");
    /* A process that is being killed may accept a connection and reset it. The caller tries again, and learns
     * at once that it does not accept any more. */
    bool again = standby->stream != NULL;
    if (st == MST_OK) st = (again ? msi_store_conn_run_once : msi_store_conn_run)(stream, wait, &x, 1);
    msi_store_rpc_free(&x, 1);
    if (st != MST_OK) {
        msi_store_conn_close(stream);
        return st;
    }
    msi_store_conn_close(standby->stream);
    standby->stream = stream;
    clear(server);
    if (!server->kv) return msi_fail_memory();
    st = msi_standby_replay(server, &stream->in); /* what came with the reply */
    while (st == MST_OK && !standby->complete && !standby->finished) st = receive(server, wait);
    return st;
}

mst_status msi_standby_new(struct msi_server *server) {
    struct msi_standby *standby = calloc(1, sizeof *standby);
    if (!standby) return msi_fail_memory();
    server->standby = standby;
    make_detached(server, &standby->anonymous);
    standby->current = &standby->anonymous;
    return msi_cancel_new(&standby->stop);
}

mst_status msi_standby_begin(struct msi_server *server, const struct msi_address *primary,
                             const struct msi_settings *settings, const struct msi_wait *wait) {
    mst_status st = msi_standby_new(server);
    if (st != MST_OK) return st;
    st = msi_store_target_init(&server->standby->target, primary, settings);
    return st == MST_OK ? synchronize(server, wait) : st;
}

/* The stream has ended. Does the server still accept connections? Then begins again. */
static bool reconnect(struct msi_server *server) {
    struct msi_standby *standby = server->standby;
    /* Before its clients give it up. */
    struct msi_wait wait = {msi_deadline(msi_socket_grace_ms() / 2), standby->stop};
    do {
        int fd, error = 0;
        mst_status st =
            msi_connect_once(&standby->target.places[0], standby->target.local, &wait, &fd, &error);
        if (st == MST_OK) {
            close(fd);
            if (synchronize(server, &wait) == MST_OK) return true;
        } else if (error == ECONNREFUSED) {
            return false;
        }
    } while (msi_wait_pause(&wait, RETRY_MS, "connecting to the store again") == MST_OK);
    standby->silent = true;
    return false;
}

/* Begins to serve. */
static bool take_over(struct msi_server *server) {
    struct msi_list *at = server->detached.next;
    int64_t grace_ms = msi_socket_grace_ms();
    if (!server->standby->silent && grace_ms > RETURN_MS) grace_ms = RETURN_MS;
    char where[MSI_ADDRESS_TEXT_MAX];
    msi_log(store, WARN, "the store at %s is lost; this process serves it now",
            msi_address_format(&server->standby->target.places[0], where));
    server->identity =
        (server->identity & ~(int64_t)MSI_TERM_MASK) | ((server->identity + 1) & MSI_TERM_MASK);
    /* On the same host new clients find it where the lost one was. */
    const struct msi_store_target *target = &server->standby->target;
    msi_server_accept_at(server, &target->places[0], target->local);
    while (at != &server->detached) {
        struct msi_conn *conn = msi_container(at, struct msi_conn, node);
        at = at->next;
        if (server->standby->silent) conn->error = ETIMEDOUT;
        if (!conn->of_host) {
            msi_session_expect_return(conn, grace_ms);
            continue;
        }
        msi_conn_apply_on_disconnect(conn);
        msi_conn_close(conn, false);
    }
    return msi_server_accept(server) == MST_OK;
}

bool msi_standby_follow(struct msi_server *server) {
    struct msi_standby *standby = server->standby;
    struct msi_wait forever = {INT64_MAX, standby->stop};
    for (;;) {
        mst_status st = receive(server, &forever);
        if (standby->finished || msi_wait_cancelled(&forever)) return false;
        if (st == MST_OK) continue;
        if (st == MST_ERR_STORE_LOST && reconnect(server)) continue;
        if (msi_wait_cancelled(&forever)) return false;
        if (st == MST_ERR_STORE_LOST && standby->complete) return take_over(server);
        msi_log(store, WARN, "this process no longer follows the store: %s", mst_last_error()->message);
        return false;
    }
}

void msi_standby_stop(struct msi_server *server) {
    if (server->standby) mst_cancel_fire(server->standby->stop);
}

void msi_standby_free(struct msi_server *server) {
    struct msi_standby *standby = server->standby;
    if (!standby) return;
    msi_store_conn_close(standby->stream);
    msi_buf_free(&standby->anonymous.out);
    msi_buf_free(&standby->anonymous.done);
    mst_cancel_free(standby->stop);
    msi_store_target_end(&standby->target);
    free(standby);
}
