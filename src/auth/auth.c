/* auth.c - see auth.h. */
#include "auth/auth.h"
#include "auth/sha256.h"
#include "base/error.h"
#include "base/log.h"
#include "os/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Loads the secret; without one, why says why. */
static mst_status load(struct msi_auth *auth, bool make) {
    mst_status st = msi_secret_load(auth->file, make, &auth->secret);
    if (st != MST_OK) {
        snprintf(auth->why, sizeof auth->why, "%s", mst_last_error()->message);
        auth->secret.exists = false;
    }
    auth->loaded = true;
    return st;
}

/* Refuses a private key that other users can access. Its owner is this user, or root, whose file a group may
 * read. */
static mst_status check_private_key(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return MST_OK; /* the module says that it cannot be read */
    bool of_root = info.st_uid == 0 && geteuid() != 0;
    const char *wrong = NULL;
    if (!of_root && info.st_uid != geteuid())
        wrong = "belongs to another user";
    else if (info.st_mode & (of_root ? 0027 : 0077))
        wrong = "can be accessed by other users";
    if (!wrong) return MST_OK;
    return msi_fail(MST_ERR_CONFIG, "give the file to the user of the job, with mode 0600",
                    "the private key %s (MUSTER_TLS_KEY) %s", path, wrong);
}

static mst_status open_tls(struct msi_auth *auth, const struct msi_settings *settings) {
    char why[MSI_TLS_WHY];
    const struct msi_tls_config config = {.certificate = settings->tls_cert,
                                          .key = settings->tls_key,
                                          .authority = settings->tls_ca,
                                          .name = settings->tls_name,
                                          .rekey = MSI_TLS_REKEY};
    int files = (*config.certificate != 0) + (*config.key != 0) + (*config.authority != 0);
    if (files % 3 != 0)
        return msi_fail(MST_ERR_CONFIG, "set all three, or none to use the secret",
                        "of MUSTER_TLS_CERT, MUSTER_TLS_KEY and MUSTER_TLS_CA %d %s set", files,
                        files == 1 ? "is" : "are");
    mst_status st = files ? check_private_key(config.key) : MST_OK;
    if (st == MST_OK) st = msi_tls_load(settings->backend_path, &auth->tls);
    if (st != MST_OK) return st;
    auth->tls_context = auth->tls->open(&config, why);
    return auth->tls_context ? MST_OK
                             : msi_fail(MST_ERR_CONFIG,
                                        "check the files that MUSTER_TLS_CERT, MUSTER_TLS_KEY "
                                        "and MUSTER_TLS_CA name",
                                        "TLS cannot be used: %s", why);
}

mst_status msi_auth_init(struct msi_auth *auth, const struct msi_settings *settings) {
    *auth = (struct msi_auth){.bind = true, .loaded = true};
    pthread_mutex_init(&auth->lock, NULL);
    if (!settings) return MST_OK;
    auth->bind = settings->auth_addresses;
    strcpy(auth->file, settings->secret_file);
    mst_status st = load(auth, false);
    if (st == MST_OK || !*auth->file) st = settings->tls ? open_tls(auth, settings) : MST_OK;
    if (st != MST_OK) {
        msi_auth_end(auth);
        return st;
    }
    /* The launcher may have ended later, but the user's secret may exist. */
    if (auth->secret.source == MSI_SECRET_FROM_USER) auth->loaded = auth->secret.exists;
    return MST_OK;
}

void msi_auth_end(struct msi_auth *auth) {
    if (auth->bind || auth->loaded || *auth->file) pthread_mutex_destroy(&auth->lock);
    if (auth->tls_context) auth->tls->close(auth->tls_context);
    msi_wipe(auth, sizeof *auth);
}

/* The key, or NULL. The user's secret is made if it does not exist. */
static const uint8_t *find_key(struct msi_auth *auth) {
    if (!auth) return NULL;
    pthread_mutex_lock(&auth->lock);
    if (!auth->loaded) load(auth, true);
    pthread_mutex_unlock(&auth->lock);
    return auth->secret.exists ? auth->secret.key : NULL;
}

static void read_address(int fd, bool peer, uint8_t out[MSI_AUTH_ADDRESS]) {
    struct msi_socket_end end;
    _Static_assert(sizeof end == MSI_AUTH_ADDRESS, "has no padding");
    msi_socket_end(fd, peer, &end);
    memcpy(out, &end, sizeof end);
}

static bool same_user(void *argument) {
    return msi_socket_is_same_user(((struct msi_auth_conn *)argument)->fd);
}

static uint8_t judge(void *argument, const uint8_t context[MSI_AUTH_CONTEXT_BYTES]) {
    struct msi_auth_conn *conn = argument;
    return conn->judge ? conn->judge(conn->judge_context, context) : 0;
}

void msi_auth_begin(struct msi_auth_conn *conn, struct msi_auth *auth, int fd, bool server,
                    enum msi_auth_role role, const uint8_t context[MSI_AUTH_CONTEXT_BYTES]) {
    struct msi_handshake_config config = {.server = server,
                                          .role = role,
                                          .key = find_key(auth),
                                          .bind = !auth || auth->bind,
                                          .tls = auth && auth->tls && role != MSI_ROLE_CLOCK,
                                          .same_user = same_user,
                                          .judge = judge,
                                          .argument = conn};
    conn->auth = auth;
    conn->fd = fd;
    conn->error = 0;
    conn->tls = NULL;
    if (config.key) config.source = auth->secret.source;
    if (context) memcpy(config.context, context, sizeof config.context);
    read_address(fd, server, config.addresses.client);
    read_address(fd, !server, config.addresses.server);
    mst_status st = msi_secret_random(config.nonce, sizeof config.nonce);
    msi_handshake_begin(&conn->handshake, &config);
    if (st == MST_OK) return;
    conn->error = EIO;
    conn->handshake.state = MSI_AUTH_REFUSED;
    conn->handshake.code = MSI_AUTH_CLOSED;
}

static enum msi_handshake_state closed(struct msi_auth_conn *conn, int error) {
    struct msi_handshake *h = &conn->handshake;
    conn->error = error;
    if (h->state == MSI_AUTH_REFUSED) return h->state; /* the first reason counts */
    h->state = MSI_AUTH_REFUSED;
    h->code = MSI_AUTH_CLOSED;
    return h->state;
}

static enum msi_handshake_state fail_tls(struct msi_auth_conn *conn) {
    conn->tls_state = MSI_TLS_FAILED;
    conn->handshake.state = MSI_AUTH_REFUSED;
    conn->handshake.code = MSI_AUTH_TLS_FAILED;
    return MSI_AUTH_REFUSED;
}

/* After the handshake. */
static enum msi_handshake_state progress_tls(struct msi_auth_conn *conn) {
    const struct msi_handshake *h = &conn->handshake;
    uint8_t psk[MSI_SECRET_BYTES];
    _Static_assert((int)MSI_TLS_PSK == (int)MSI_SECRET_BYTES, "the derived key is the PSK");
    if (!conn->tls) {
        const struct msi_tls_begin begin = {.fd = conn->fd,
                                            .server = h->config.server,
                                            .ahead = h->config.role == MSI_ROLE_LINK,
                                            .host = conn->host,
                                            .psk = psk};
        snprintf(conn->tls_why, sizeof conn->tls_why, "no session for %s can be made",
                 conn->host ? conn->host : "this client");
        if (msi_handshake_key(h, MSI_KEY_TLS, psk))
            conn->tls = conn->auth->tls->begin(conn->auth->tls_context, &begin);
        msi_wipe(psk, sizeof psk);
        if (!conn->tls) return fail_tls(conn);
    }
    conn->tls_state = conn->auth->tls->handshake(conn->tls, conn->tls_why);
    if (conn->tls_state == MSI_TLS_CLOSED) return closed(conn, errno);
    if (conn->tls_state == MSI_TLS_FAILED) return fail_tls(conn);
    return conn->tls_state == MSI_TLS_DONE ? MSI_AUTH_DONE : MSI_AUTH_PENDING;
}

struct msi_stream msi_auth_take(struct msi_auth_conn *conn) {
    struct msi_stream stream = {conn->fd, conn->tls};
    conn->tls = NULL;
    return stream;
}

void msi_auth_drop(struct msi_auth_conn *conn) {
    if (conn->tls) conn->tls->ops->close(conn->tls);
    conn->tls = NULL;
}

enum msi_handshake_state msi_auth_progress(struct msi_auth_conn *conn) {
    struct msi_handshake *h = &conn->handshake;
    for (;;) {
        size_t n;
        const uint8_t *out = msi_handshake_output(h, &n);
        ssize_t done = 0;
        if (n && conn->error == 0) {
            done = msi_send(conn->fd, out, n);
            if (done > 0) msi_handshake_sent(h, (size_t)done);
        } else {
            uint8_t *in = msi_handshake_input(h, &n);
            if (h->state == MSI_AUTH_DONE && h->config.tls) return progress_tls(conn);
            if (h->state != MSI_AUTH_PENDING || !n) return h->state;
            done = msi_recv(conn->fd, in, n);
            if (done == 0) return closed(conn, 0);
            if (done > 0) msi_handshake_received(h, (size_t)done);
        }
        if (done < 0 && errno == EAGAIN) return MSI_AUTH_PENDING;
        if (done < 0 && errno != EINTR) return closed(conn, errno);
    }
}

short msi_auth_events(struct msi_auth_conn *conn) {
    size_t n;
    msi_handshake_output(&conn->handshake, &n);
    return n || (conn->tls && conn->tls_state == MSI_TLS_WRITES) ? POLLOUT : POLLIN;
}

mst_status msi_auth_run(struct msi_auth_conn *conn, const struct msi_wait *wait, const char *peer) {
    for (;;) {
        enum msi_handshake_state state = msi_auth_progress(conn);
        if (state == MSI_AUTH_DONE) return MST_OK;
        if (state == MSI_AUTH_REFUSED) return msi_auth_fail(conn, peer);
        mst_status st = msi_wait_fd(wait, conn->fd, msi_auth_events(conn), "authenticating");
        if (st != MST_OK) return st;
    }
}

static const char *show_address(const uint8_t in[MSI_AUTH_ADDRESS], char out[80]) {
    char text[INET6_ADDRSTRLEN] = "?";
    bool four = !memcmp(in, (uint8_t[12]){[10] = 0xFF, [11] = 0xFF}, 12);
    inet_ntop(four ? AF_INET : AF_INET6, in + (four ? 12 : 0), text, sizeof text);
    snprintf(out, 80, four ? "%s:%d" : "[%s]:%d", text, in[16] << 8 | in[17]);
    return out;
}

/* What the secret of the other end is. */
static const char *describe_source(enum msi_secret_source source) {
    static const char *const texts[] = {[MSI_SECRET_FROM_FILE] = "its MUSTER_SECRET_FILE",
                                        [MSI_SECRET_FROM_LAUNCHER] = "its launcher's",
                                        [MSI_SECRET_FROM_USER] = "~/.config/muster/secret on its host"};
    return texts[source];
}

static const char *describe_own(const struct msi_auth *auth) {
    return auth->secret.source == MSI_SECRET_FROM_LAUNCHER ? "its launcher's" : auth->secret.where;
}

static const char secret_remedy[] =
    "copy ~/.config/muster/secret from one host to the same path on the others (mode 0600), or set "
    "MUSTER_SECRET_FILE to the same file on all hosts";

static mst_status fail_addresses(const struct msi_auth_conn *conn, const char *peer) {
    enum { SEEN_AT = 4 }; /* in the answer */
    const uint8_t *theirs = conn->handshake.answer + SEEN_AT;
    const struct msi_auth_addresses *own = &conn->handshake.config.addresses;
    char texts[4][80];
    return msi_fail(MST_ERR_CONFIG,
                    "if the network between them translates addresses (NAT), set MUSTER_AUTH_ADDRESSES=0 on "
                    "all hosts; else somebody relays the connection",
                    "%s sees a connection from %s to %s, but this process sees one from %s to %s", peer,
                    show_address(theirs, texts[0]), show_address(theirs + MSI_AUTH_ADDRESS, texts[1]),
                    show_address(own->client, texts[2]), show_address(own->server, texts[3]));
}

/* The server tells in its answer whether it has a secret; it gives no answer if it refuses the hello. */
static mst_status fail_without_secret(const struct msi_auth_conn *conn, const char *peer) {
    const struct msi_handshake *h = &conn->handshake;
    if (h->config.key && h->config.tls)
        return msi_fail(MST_ERR_CONFIG, secret_remedy, "TLS needs a secret at both ends, and %s has none",
                        peer);
    if (h->config.key)
        return msi_fail(
            MST_ERR_CONFIG, secret_remedy,
            "%s has no secret, and this process cannot verify that it is of the same user on this "
            "host; this process uses %s",
            peer, describe_own(conn->auth));
    const char *why = conn->auth ? conn->auth->why : "";
    return msi_fail(MST_ERR_CONFIG, secret_remedy, "%s needs a secret, and this process has none%s%s", peer,
                    *why ? ": " : "", why);
}

mst_status msi_auth_fail(const struct msi_auth_conn *conn, const char *peer) {
    const struct msi_handshake *h = &conn->handshake;
    switch (h->code) {
    case MSI_AUTH_SECRET:
        return msi_fail(MST_ERR_CONFIG, secret_remedy,
                        "the secret of this process (%s) differs from that of %s (%s)",
                        describe_own(conn->auth), peer, describe_source(h->peer_source));
    case MSI_AUTH_NO_SECRET:
        return fail_without_secret(conn, peer);
    case MSI_AUTH_ADDRESSES:
        return fail_addresses(conn, peer);
    case MSI_AUTH_TLS:
        return msi_fail(MST_ERR_CONFIG, "set MUSTER_TLS to the same value on all hosts",
                        h->config.tls ? "%s does not use TLS, but this process does (MUSTER_TLS=1)"
                                      : "%s uses TLS, but this process does not (MUSTER_TLS is not 1)",
                        peer);
    case MSI_AUTH_TLS_FAILED:
        return msi_fail(MST_ERR_CONFIG,
                        "check that MUSTER_TLS_CERT, MUSTER_TLS_KEY, MUSTER_TLS_CA and MUSTER_TLS_NAME fit "
                        "together on both hosts",
                        "TLS with %s has failed: %s", peer, conn->tls_why);
    case MSI_AUTH_CLOSED:
        return msi_fail(MST_ERR_UNREACHABLE, NULL, "%s closed the connection without an answer%s%s", peer,
                        conn->error ? ": " : "", conn->error ? strerror(conn->error) : "");
    default:
        return msi_fail(h->code == MSI_AUTH_VERSION ? MST_ERR_VERSION : MST_ERR_PROTOCOL,
                        h->code == MSI_AUTH_VERSION ? "install the same version of muster on all hosts"
                                                    : "check the address and the port",
                        "%s refused the connection: %s", peer, msi_auth_code_text(h->code));
    }
}
