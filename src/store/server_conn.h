/*
 * server_conn.h - what the parts of the store server share. All of it runs on the server's thread.
 *
 *   server.c        life cycle, listening, the round
 *   server_conn.c   bytes in and out of one connection, its end
 *   server_serve.c  requests: dialects, waits, replies
 */
#ifndef MSI_STORE_SERVER_CONN_H
#define MSI_STORE_SERVER_CONN_H

#include "os/loop.h"
#include "store/kv.h"
#include "store/server.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    MSI_SERVER_SCRATCH = 64 << 10,
    MSI_SERVER_UNREAD = 1 << 20, /* unread replies, in bytes, at which a client is served no further */
};

struct msi_server {
    struct msi_loop *loop;
    struct msi_source listener, local; /* local.fd: -1 where there is no second endpoint */
    int64_t identity;   /* random, never 0: tells it from an earlier server at the same address */
    int port, spare_fd; /* spare_fd: given up for a moment to turn a caller away when descriptors run out */
    struct msi_kv *kv;
    struct msi_store_limits limits;
    size_t max_total, buffered; /* buffered: bytes that connections hold */
    int silence_s;              /* see MUSTER_STORE_SILENCE_S */
    int64_t stall_ns;
    struct msi_list conns, ready,
        unsent;           /* all; to be answered after a wait or a deferral; with replies to send */
    struct msi_list busy; /* had something to say in this round */
    size_t n_busy;
    size_t n_conns, n_own; /* n_own: those in dialect M */
    bool resuming;
    int complaints; /* bad connections logged so far */
    struct msi_buf views;
    uint8_t scratch[MSI_SERVER_SCRATCH];
    pthread_t thread;
    int rank;               /* of the world that hosts it, for the log */
    _Atomic int64_t end_at; /* stored (release) by msi_server_close, loaded (acquire) each round; 0: go on */
};

/* What every request touches stands first, close together. */
struct msi_conn {
    struct msi_source source;
    struct msi_server *server;
    struct msi_list unsent, ready, busy;
    uint32_t events;
    enum msi_dialect dialect;
    bool known;     /* the dialect is */
    bool waiting;   /* the request at the front of in waits */
    bool doomed;    /* to be closed at the next safe point */
    bool undrained; /* the last read may have left something in the socket */
    bool has_guard, has_will;
    struct msi_buf in, out;
    struct msi_timer stall;
    struct msi_scan scan;
    size_t request_len; /* of the request in front that waits or is deferred */
    size_t accounted;   /* its share of the server's buffered */

    mst_status wait_status;
    struct msi_kv_waiter waiter;
    struct msi_buf guard_key, will_key, will_value, watched;
    size_t kept; /* bytes of these four */
    int64_t guard_length;
    struct msi_list node;
};

/* Is the request at the front of in still to be answered: because it waits, or because its reply is deferred? */
static inline bool msi_conn_pending(const struct msi_conn *conn) {
    return conn->waiting || !msi_list_empty(&conn->ready);
}

/* Takes a fresh socket. */
void msi_conn_open(struct msi_server *server, int fd);
/* Ends it; carries out its will unless the server is ending. */
void msi_conn_close(struct msi_conn *conn, bool with_will);
/* Ends it at the next safe point, with the reason in the log. */
void msi_conn_doom(struct msi_conn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Has its replies sent at the end of the round. */
void msi_conn_mark_unsent(struct msi_conn *conn);
/* Can connections hold so many bytes more? */
bool msi_server_has_room(const struct msi_server *server, size_t more);
/* Counts what the connection holds; if that is too much for the server, drops its replies and dooms it. */
void msi_conn_account(struct msi_conn *conn);
/* Looks whether it has something to say, without having been told so; true if it had. May close it. */
bool msi_conn_look(struct msi_conn *conn);
/* Sends what can be sent and updates events, timer and accounting; may close it. */
void msi_conn_settle(struct msi_conn *conn);

/* Serves the requests at the front of p; returns how many bytes are done with. */
size_t msi_conn_serve(struct msi_conn *conn, const uint8_t *p, size_t n);
/*
 * Answers connections whose wait has ended or whose reply was deferred, as far as memory allows, and goes on with
 * what they sent meanwhile. May close any connection.
 */
void msi_server_resume(struct msi_server *server);
/* Tells a connection of ours that waits that the store is ending. */
void msi_conn_say_ended(struct msi_conn *conn);
/* Tells watching connections of a change. */
msi_kv_watch msi_server_tell_watchers;

#endif
