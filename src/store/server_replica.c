/*
 * server_replica.c - sends every change of the store server's state to its standbys. See server_standby.c.
 *
 * A standby executes the same requests in the same order, in sessions with the same names. So it has the same
 * values, and the same replies for clients that repeat a batch. A request is sent to the standbys before its
 * reply is sent to the client: what a client knows survives the death of the server's process. It may be lost
 * with the server's host.
 */
#include "store/server_conn.h"

#include <string.h>

static void add_session(struct msi_buf *out, const struct msi_conn *conn) {
    static const char none[MSI_SESSION_BYTES];
    bool named = conn && conn->in_session;
    struct msi_str id = msi_str(named ? (const char *)conn->session : none, MSI_SESSION_BYTES);
    msi_store_encode(out, MSI_DIALECT_M,
                     &(struct msi_store_req){
                         .op = MSI_OP_SESSION, .key = id, .number = named && msi_session_is_own(conn)});
}

static void add_batch(struct msi_buf *out, const struct msi_conn *conn) {
    msi_store_encode(out, MSI_DIALECT_M, &(struct msi_store_req){.op = MSI_OP_BATCH, .number = conn->batch});
}

void msi_replica_ship(struct msi_server *server, struct msi_conn *conn, const struct msi_store_req *req) {
    bool begins = conn && conn->in_session && conn->batch && conn->shipped != conn->batch;
    for (struct msi_list *at = server->replicas.next; at != &server->replicas; at = at->next) {
        struct msi_conn *replica = msi_container(at, struct msi_conn, replica);
        add_session(&replica->out, conn);
        if (begins) add_batch(&replica->out, conn);
        msi_store_encode(&replica->out, MSI_DIALECT_M, req);
        msi_conn_mark_unsent(replica);
    }
    if (begins) conn->shipped = conn->batch;
}

void msi_replica_ship_end(struct msi_conn *conn) {
    msi_replica_ship(conn->server, conn,
                     &(struct msi_store_req){.op = MSI_OP_BATCH, .number = MSI_BATCH_LAST});
}

/* Appends what a standby must know of the session. */
static void add_state(struct msi_buf *out, struct msi_conn *conn) {
    struct msi_store_req record = {.op = MSI_OP_RECORD, .value = msi_buf_str(&conn->done)};
    struct msi_store_req on_disconnect = {.op = MSI_OP_ON_DISCONNECT,
                                          .key = msi_buf_str(&conn->on_disconnect_key),
                                          .value = msi_buf_str(&conn->on_disconnect_value),
                                          .desired = msi_buf_str(&conn->on_silence_value)};
    add_session(out, conn);
    if (conn->batch) add_batch(out, conn);
    if (conn->done.len) msi_store_encode(out, MSI_DIALECT_M, &record);
    if (conn->has_on_disconnect) msi_store_encode(out, MSI_DIALECT_M, &on_disconnect);
}

static void add_sessions(struct msi_buf *out, const struct msi_list *list, const struct msi_conn *standby) {
    for (struct msi_list *at = list->next; at != list; at = at->next) {
        struct msi_conn *conn = msi_container(at, struct msi_conn, node);
        if (conn->in_session && conn != standby && !conn->doomed) add_state(out, conn);
    }
}

/* Other standbys must know the batches that the new one gets to know. */
static void ship_batches(struct msi_server *server, const struct msi_list *list) {
    for (struct msi_list *at = list->next; at != list; at = at->next) {
        struct msi_conn *conn = msi_container(at, struct msi_conn, node);
        if (!conn->in_session || !conn->batch || conn->shipped == conn->batch) continue;
        for (struct msi_list *r = server->replicas.next; r != &server->replicas; r = r->next) {
            struct msi_conn *replica = msi_container(r, struct msi_conn, replica);
            add_session(&replica->out, conn);
            add_batch(&replica->out, conn);
        }
        conn->shipped = conn->batch;
    }
}

void msi_replica_begin(struct msi_conn *conn) {
    struct msi_server *server = conn->server;
    if (conn->dialect != MSI_DIALECT_M || !msi_list_empty(&conn->replica)) {
        msi_conn_doom(conn, "its REPLICATE is not expected");
        return;
    }
    ship_batches(server, &server->conns);
    ship_batches(server, &server->detached);
    msi_buf_add_u8(&conn->out, MST_OK);
    add_session(&conn->out, NULL);
    msi_kv_write_state(server->kv, &conn->out);
    add_sessions(&conn->out, &server->conns, conn);
    add_sessions(&conn->out, &server->detached, conn);
    msi_store_encode(&conn->out, MSI_DIALECT_M,
                     &(struct msi_store_req){.op = MSI_OP_HELLO, .number = server->identity});
    msi_list_push(&server->replicas, &conn->replica);
}

void msi_replica_flush(struct msi_server *server) {
    for (struct msi_list *at = server->replicas.next, *next; at != &server->replicas; at = next) {
        next = at->next;
        struct msi_conn *replica = msi_container(at, struct msi_conn, replica);
        if (replica->out.len) msi_conn_settle(replica, false);
    }
}

void msi_replica_finish(struct msi_server *server) {
    for (struct msi_list *at = server->replicas.next; at != &server->replicas; at = at->next) {
        struct msi_conn *replica = msi_container(at, struct msi_conn, replica);
        msi_store_encode(&replica->out, MSI_DIALECT_M, &(struct msi_store_req){.op = MSI_OP_FINISH});
    }
    msi_replica_flush(server); /* the server may end at once */
}
