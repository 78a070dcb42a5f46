/*
 * tcp_conn.h - one connection of a client to a store server, ours or PyTorch's. Used by one thread at a time.
 *
 * A connection to a muster server is a session: if the TCP connection is lost, as by a reset, the client
 * connects again, within msi_socket_grace_ms, and repeats the batch that was in progress. The server does not
 * execute again what it has executed. See server_session.c. If the server is lost, the client connects to its
 * standby.
 */
#ifndef MSI_STORE_TCP_CONN_H
#define MSI_STORE_TCP_CONN_H

#include "auth/auth.h"
#include "store/store.h"

#include <stdatomic.h>

/* A server, as its clients' connections see it. */
enum { MSI_STORE_PLACES = 32 };
struct msi_store_target {
    struct msi_address
        places[MSI_STORE_PLACES]; /* of the server, of its standby, of the standby's standby, … */
    _Atomic int n_places;         /* a place is written before it counts (release, acquire) */
    _Atomic int place;            /* that serves, as far as this process knows (relaxed) */
    bool local;                   /* use a Unix socket if the server is on this host */
    bool open;                    /* do not authenticate */
    struct msi_auth auth;
    struct msi_store_limits limits;
    _Atomic int dialect;      /* of the server; -1: not known yet */
    _Atomic int64_t identity; /* of a muster server; 0: not known yet */
    _Atomic int first_term;   /* that this process has seen; see HELLO. Stored after the next (relaxed) */
    _Atomic int term;         /* that it has seen last (relaxed) */
    _Atomic int restoring;    /* connections that are being restored; a hint (relaxed) */
    _Atomic bool silent;      /* the server was lost because its host does not answer */
    _Atomic bool lost;        /* by the connection that tells the server that this process is alive */
};

/* Messages to send before the first request: none, HELLO, or VALIDATE and HELLO. */
enum msi_store_greeting { MSI_GREETING_NONE, MSI_GREETING_HELLO, MSI_GREETING_FULL };

struct msi_store_conn {
    struct msi_store_conn *next; /* in its owner's list */
    struct msi_stream stream;
    enum msi_dialect dialect;
    enum msi_store_greeting greeting; /* still to send */
    int place;                        /* of the server that it is connected to */
    bool authenticated;               /* or it need not be */
    bool broken;                      /* out of sync with the server: must be closed */
    struct msi_store_target *target;
    struct msi_buf out, in;
    char session[MSI_SESSION_BYTES];
    int64_t batch;       /* number of the last batch */
    int64_t batch_since; /* when it began */
    bool local;          /* a Unix socket */
    bool sent_session;   /* the server may know the session */
    bool has_session;    /* the server has confirmed it */
    bool disconnected;   /* the TCP connection is lost */
    bool refused;        /* the last attempt to connect again was refused */
    int attempts;        /* to connect again, since the server has last confirmed the session */
    int unanswered;      /* attempts that were accepted, but ended before that */
    int64_t lost_since;  /* when it was lost */
    int lost_error;      /* errno; 0: the server has closed it, so it has ended if it refuses connections */
};

mst_status msi_store_target_init(struct msi_store_target *target, const struct msi_address *address,
                                 const struct msi_settings *settings);
void msi_store_target_end(struct msi_store_target *target);
/* Clients try this address if the others refuse them. One thread at a time. */
void msi_store_target_add(struct msi_store_target *target, const struct msi_address *standby);
/* Is there a standby of the server at that place? */
bool msi_store_target_has_next(const struct msi_store_target *target, int place);
/* The address that serves, as far as this process knows. */
const struct msi_address *msi_store_target_address(struct msi_store_target *target);

/* Connects and, the first time, detects the dialect: M for muster, else C or A. */
mst_status msi_store_conn_open(struct msi_store_target *target, const struct msi_wait *wait,
                               struct msi_store_conn **conn);
void msi_store_conn_close(struct msi_store_conn *conn);
/* Names its session. The name begins with the token of the process, so a server in the same process knows its
 * own sessions. */
void msi_store_conn_name_session(struct msi_store_conn *conn);

/*
 * Executes requests of the connection's dialect as one batch; only the last may wait. Status as in
 * msi_store_ops.exec. After a failure other than that of a single request, check broken.
 */
mst_status msi_store_conn_run(struct msi_store_conn *conn, const struct msi_wait *wait,
                              struct msi_store_rpc *x, size_t n);

/* The same, but does not connect again if the connection is lost. */
mst_status msi_store_conn_run_once(struct msi_store_conn *conn, const struct msi_wait *wait,
                                   struct msi_store_rpc *x, size_t n);

/*
 * Waits for an event of poll on an idle connection. Sends something now and then: only then the kernel soon
 * finds out that the server's host does not answer.
 */
mst_status msi_store_conn_listen(struct msi_store_conn *conn, const struct msi_wait *wait, short events);

/* After an event on an idle connection: if it was lost, connects again and continues the session. */
mst_status msi_store_conn_check(struct msi_store_conn *conn, const struct msi_wait *wait);

/* Fails: the store is lost, as target->silent says. */
mst_status msi_store_fail_lost(struct msi_store_target *target, const char *why);

/* The same on a PyTorch server: emulates the operations that it lacks. */
mst_status msi_store_conn_run_compat(struct msi_store_conn *conn, const struct msi_wait *wait,
                                     struct msi_store_rpc *x, size_t n);

#endif
