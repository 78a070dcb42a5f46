/*
 * auth.h - authenticates connections on sockets: the secret of this process, and a handshake (handshake.h) on
 * a connected, non-blocking socket. Servers use gate.h.
 *
 * Clients call msi_auth_begin and then msi_auth_progress until it is no longer pending, or msi_auth_run,
 * which waits. With TLS, both do its handshake, too. Unix sockets need no handshake: their ends check the
 * user (msi_socket_is_same_user).
 */
#ifndef MSI_AUTH_AUTH_H
#define MSI_AUTH_AUTH_H

#include "auth/handshake.h"
#include "auth/tls.h"
#include "os/wait.h"

#include <pthread.h>

/* The secret of a process, and what it needs for TLS. Several threads may use it. */
struct msi_auth {
    pthread_mutex_t lock;
    bool bind;   /* MUSTER_AUTH_ADDRESSES */
    bool loaded; /* the user's secret is made and read when it is first needed */
    struct msi_secret secret;
    char file[MSI_SETTING_TEXT_MAX];  /* MUSTER_SECRET_FILE */
    char why[256];                    /* why there is no secret */
    const struct msi_tls_module *tls; /* NULL: no TLS */
    struct msi_tls_context *tls_context;
};

/* Fails if the files that the settings name cannot be used. settings NULL: there is no secret. */
mst_status msi_auth_init(struct msi_auth *auth, const struct msi_settings *settings);
/* Accepts a zeroed one. */
void msi_auth_end(struct msi_auth *auth);

/* A handshake on a socket. One thread uses it. It must not be moved. */
struct msi_auth_conn {
    struct msi_handshake handshake;
    struct msi_auth *auth;
    int fd;    /* borrowed */
    int error; /* with the code CLOSED: errno, or 0 if the other end has closed the connection */
    uint8_t (*judge)(void *context, const uint8_t bytes[MSI_AUTH_CONTEXT_BYTES]); /* servers: NULL, or … */
    void *judge_context;                                                          /* … of the owner */
    const char *host;    /* clients: where they connect to, which a certificate must name; borrowed */
    struct msi_tls *tls; /* the session; NULL: there is none (yet) */
    enum msi_tls_state tls_state;
    char tls_why[MSI_TLS_WHY]; /* with the code TLS_FAILED */
};

/* context NULL: zeros. Before: servers set judge and judge_context, clients host. */
void msi_auth_begin(struct msi_auth_conn *conn, struct msi_auth *auth, int fd, bool server,
                    enum msi_auth_role role, const uint8_t context[MSI_AUTH_CONTEXT_BYTES]);
/* Sends and receives what is possible. After DONE or REFUSED nothing is left to send. */
enum msi_handshake_state msi_auth_progress(struct msi_auth_conn *conn);
/* What to poll for while it is pending. */
short msi_auth_events(struct msi_auth_conn *conn);
/* After DONE: the connection, which the caller owns, with its TLS session. */
struct msi_stream msi_auth_take(struct msi_auth_conn *conn);
/* Frees the TLS session of a connection that was not taken. Any state; the socket stays open. */
void msi_auth_drop(struct msi_auth_conn *conn);
/* As a client, until it has ended. MST_OK, the status of the wait, or msi_auth_fail. */
mst_status msi_auth_run(struct msi_auth_conn *conn, const struct msi_wait *wait, const char *peer);

/*
 * The failure of a client that was refused: MST_ERR_CONFIG if secrets, addresses or TLS differ,
 * MST_ERR_VERSION, MST_ERR_UNREACHABLE if the connection was closed, else MST_ERR_PROTOCOL. peer names the
 * other end, as "the store at host:port".
 */
mst_status msi_auth_fail(const struct msi_auth_conn *conn, const char *peer);

#endif
