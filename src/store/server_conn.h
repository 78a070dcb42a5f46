/*
 * server_conn.h - shared by the files of the store server. All of it runs on the server's thread.
 *
 *   server.c        life cycle, listener, main loop
 *   server_conn.c   input and output of one connection, and its end
 *   server_serve.c  requests: dialects, waits, replies
 *   server_session.c  sessions: clients whose connection was lost and that may connect again
 *   server_replica.c  sends all changes to a standby server
 *   server_standby.c  the standby: receives them, and takes over when the server is lost
 */
#ifndef MSI_STORE_SERVER_CONN_H
#define MSI_STORE_SERVER_CONN_H

#include "auth/gate.h"
#include "os/loop.h"
#include "store/kv.h"
#include "store/server.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    MSI_SERVER_SCRATCH = 64 << 10,
    MSI_SERVER_UNREAD = 1 << 20, /* bytes of unread replies at which the server stops serving a client */
};

struct msi_listening {
    struct msi_source source;
    struct msi_server *server;
};

struct msi_server {
    struct msi_loop *loop;
    /* TCP and Unix sockets; fd -1: none. former: of a standby that serves, at the lost server's address. */
    struct msi_listening tcp, local, former_tcp, former_local;
    struct msi_auth auth;
    struct msi_gate *gate; /* authenticates TCP connections */
    struct msi_source entrance;
    bool open;              /* also serves clients that do not authenticate */
    int64_t identity;       /* random, never 0: distinguishes it from an earlier server at the same address;
                               with the term, see HELLO */
    int64_t rejected_until; /* until then, clients that were rejected may come again */
    int spare_fd;           /* closed for a moment to reject a client on EMFILE */
    int reserve_fd;         /* closed on EMFILE to accept one more client; -1: in use */
    struct msi_kv *kv;
    struct msi_store_limits limits;
    size_t max_total, buffered; /* buffered: bytes that connections hold */
    int64_t stall_ns;
    struct msi_list conns, ready, unsent; /* all; waiting to be answered; with replies to send */
    struct msi_list busy;                 /* sent a request in this iteration */
    struct msi_list detached;             /* sessions without a connection; see server_session.c */
    struct msi_list replicas;             /* connections of standbys */
    size_t n_detached;
    int64_t overflowed_until; /* a session may have been forgotten too early, until that time */
    size_t n_busy;
    size_t n_conns, n_own;    /* n_own: those in dialect M */
    bool resuming, finishing; /* finishing: standbys know that it ends */
    int complaints;           /* number of logged connection errors */
    struct msi_buf views;
    uint8_t scratch[MSI_SERVER_SCRATCH];
    struct msi_standby *standby; /* NULL: it is not a standby */
    pthread_t thread;
    int rank;               /* of the world that hosts it, for the log */
    _Atomic int64_t end_at; /* 0: serve; stored (release) by msi_server_close, loaded (acquire) each round */
};

/* Members that every request uses come first. */
struct msi_conn {
    struct msi_source source;
    struct msi_stream stream; /* its descriptor is that of source, too */
    struct msi_server *server;
    struct msi_list unsent, ready, busy, replica;
    uint32_t events;
    enum msi_dialect dialect;
    bool known;     /* the dialect */
    bool waiting;   /* the first request of in waits */
    bool doomed;    /* will be closed at the next safe point */
    bool undrained; /* the socket may hold more input */
    bool has_guard, has_on_disconnect;
    struct msi_buf in, out;
    struct msi_timer stall;
    struct msi_scan scan;
    size_t request_len; /* of the first request, which waits or is deferred */
    size_t accounted;   /* its share of the server's buffered */

    struct msi_kv_waiter waiter;
    struct msi_buf guard_key, on_disconnect_key, on_disconnect_value, on_silence_value, watched;
    struct msi_buf done; /* replies of the batch to requests that are executed once: u32 length and bytes */
    size_t kept;         /* bytes of these six */
    int64_t guard_length;
    struct msi_list node;

    bool in_session, detached;
    bool forgotten; /* its session cannot be continued: a reply was too long to keep, or it counts as lost */
    int error;      /* errno with which the connection was lost; 0: it was closed */
    uint8_t session[MSI_SESSION_BYTES];
    int64_t batch;    /* its number; 0: none */
    int64_t shipped;  /* the number that standbys know */
    bool of_host;     /* of a standby: a session of the process that hosts the server */
    size_t repeat_at; /* in done: replies before it were sent in this batch */
};

/* Is the first request of in waiting or deferred? */
static inline bool msi_conn_pending(const struct msi_conn *conn) {
    return conn->waiting || !msi_list_empty(&conn->ready);
}

/*
 * Could the server accept one more client now? The last descriptor is for the first connection of a rank: the
 * second one, which sets an on_disconnect value, is refused. Then the rank tells the others that it fails.
 */
bool msi_server_has_reserve(struct msi_server *server);
/* Takes ownership of a new connection. */
void msi_conn_open(struct msi_server *server, struct msi_stream stream);
/*
 * Closes it. disconnected: applies its on_disconnect value, or detaches its session; false when the server
 * ends.
 */
void msi_conn_close(struct msi_conn *conn, bool disconnected);
/* Closes it at the next safe point and logs the reason. */
void msi_conn_doom(struct msi_conn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Queues its replies for the end of the iteration. */
void msi_conn_mark_unsent(struct msi_conn *conn);
/* Can the connections hold this many more bytes? */
bool msi_server_has_room(const struct msi_server *server, size_t more);
/* Updates kept. */
void msi_conn_count_kept(struct msi_conn *conn);
/* Updates the memory accounting of the connection; over the limit, drops its replies and dooms it. */
void msi_conn_account(struct msi_conn *conn);
/* Reads without an event of the loop; true if there was input. May close it. */
bool msi_conn_poll(struct msi_conn *conn);
/*
 * Sends as much as possible and updates events, timer and accounting; may close it. received: the client has
 * just sent something.
 */
void msi_conn_settle(struct msi_conn *conn, bool received);

/* Appends its on_disconnect value to the key, if it has one. */
void msi_conn_apply_on_disconnect(struct msi_conn *conn);

/* Answers SESSION. */
void msi_session_begin(struct msi_conn *conn, const struct msi_store_req *req);
/* Is the session to be kept after the connection has ended? */
bool msi_session_is_kept(struct msi_conn *conn);
/* Is it a session of this process? Its name begins with the process's token: name_session in tcp_conn.c. */
bool msi_session_is_own(const struct msi_conn *conn);
/* After the connection was closed: keeps the session until the client connects again or the time is over. */
void msi_session_detach(struct msi_conn *conn);
/* Begins a batch of requests, or repeats it. */
void msi_session_batch(struct msi_conn *conn, int64_t number);
/* Was the next request of the batch that is executed once executed before? Then appends its reply again. */
bool msi_session_repeat(struct msi_conn *conn);
/* Keeps the reply, which begins at that place of out. */
void msi_session_record(struct msi_conn *conn, size_t start);

/* Executes one request; false if it waits or is deferred. */
bool msi_conn_execute(struct msi_conn *conn, const struct msi_store_req *req);
/* Appends to a barrier's count what the session's batch must know of it; true if it was counted before. */
bool msi_session_count_barrier(struct msi_conn *conn);
/* Arms the timer of a detached session. Its on_disconnect value is applied after the grace time. */
void msi_session_expect_return(struct msi_conn *conn, int64_t grace_ms);

/* server_replica.c: answers REPLICATE. */
void msi_replica_begin(struct msi_conn *conn);
/* A client's request has changed the state; conn NULL: the server itself did. */
void msi_replica_ship(struct msi_server *server, struct msi_conn *conn, const struct msi_store_req *req);
/* The session has ended. */
void msi_replica_ship_end(struct msi_conn *conn);
/* Sends what was shipped. A reply must not be sent before. */
void msi_replica_flush(struct msi_server *server);
/* The server ends in order. */
void msi_replica_finish(struct msi_server *server);

/* server_standby.c: makes the server a standby without a state. */
mst_status msi_standby_new(struct msi_server *server);
/* Executes the complete requests of the stream in in, and drops them from it. */
mst_status msi_standby_replay(struct msi_server *server, struct msi_buf *in);
/* Connects to the server at that address and receives its state. */
mst_status msi_standby_begin(struct msi_server *server, const struct msi_address *primary,
                             const struct msi_settings *settings, const struct msi_wait *wait);
/* Receives changes. True: the server is lost, and this one serves now. False: it must not serve. */
bool msi_standby_follow(struct msi_server *server);
/* From another thread: ends msi_standby_follow. */
void msi_standby_stop(struct msi_server *server);
void msi_standby_free(struct msi_server *server);
/* Begins to accept clients. */
mst_status msi_server_accept(struct msi_server *server);
/* Accepts clients also at that address, if it is free and belongs to this host. */
void msi_server_accept_at(struct msi_server *server, const struct msi_address *former, bool local);

/* Serves the requests in p; returns the number of consumed bytes. */
size_t msi_conn_serve(struct msi_conn *conn, const uint8_t *p, size_t n);
/*
 * Answers connections whose wait has ended or whose reply was deferred, if memory allows, and serves their
 * next requests. May close any connection.
 */
void msi_server_resume(struct msi_server *server);
/* Sends the replies of an iteration of the loop. Settling may close connections and wake others. */
void msi_server_finish_round(struct msi_server *server);
/* Sends MST_ERR_STORE_ENDED to a waiting muster client. */
void msi_conn_send_ended(struct msi_conn *conn);
/* Sends a change to the connections that watch the key. */
msi_kv_watch msi_server_notify_watchers;

#endif
