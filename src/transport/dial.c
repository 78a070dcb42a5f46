/* dial.c - see dial.h. */
#include "transport/dial.h"
#include "os/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((format(printf, 3, 4))) static void fail(struct msi_dial *dial, mst_status status,
                                                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(dial->why, sizeof dial->why, format, args);
    va_end(args);
    msi_dial_end(dial);
    dial->status = status;
    dial->state = MSI_DIAL_FAILED;
}

static void fail_errno(struct msi_dial *dial, int error) {
    dial->unanswered = dial->step == MSI_DIAL_CONNECTING && error != ECONNREFUSED;
    fail(dial, MST_ERR_UNREACHABLE, "%s: %s", dial->where, strerror(error));
}

void msi_dial_begin(struct msi_dial *dial, const struct msi_address *address, struct msi_auth *auth,
                    const struct msi_hello *hello) {
    *dial = (struct msi_dial){
        .state = MSI_DIAL_PENDING, .fd = -1, .since = msi_now(), .auth = auth, .address = *address};
    msi_address_format(address, dial->where);
    msi_hello_write(hello, dial->hello);
    mst_status st = msi_connect_begin(address, &dial->fd);
    if (st != MST_OK) fail(dial, st, "%s", mst_last_error()->message);
}

static void check_connected(struct msi_dial *dial) {
    struct pollfd ask = {.fd = dial->fd, .events = POLLOUT};
    if (poll(&ask, 1, 0) <= 0) return;
    int error = msi_socket_error(dial->fd);
    if (error) {
        fail_errno(dial, error);
        return;
    }
    dial->step = MSI_DIAL_AUTHENTICATING;
    dial->conn.host = dial->address.host;
    msi_auth_begin(&dial->conn, dial->auth, dial->fd, false, MSI_ROLE_LINK, dial->hello);
}

static mst_status status_of(uint8_t answer) {
    switch (answer) {
    case MSI_HELLO_BUSY:
        return MST_ERR_UNREACHABLE;
    case MSI_HELLO_VERSION:
        return MST_ERR_VERSION;
    default:
        return MST_ERR_PROTOCOL;
    }
}

static void authenticate(struct msi_dial *dial) {
    char peer[MSI_ADDRESS_TEXT_MAX + 16];
    enum msi_handshake_state state = msi_auth_progress(&dial->conn);
    const struct msi_handshake *handshake = &dial->conn.handshake;
    if (state == MSI_AUTH_PENDING) return;
    if (state == MSI_AUTH_DONE) {
        dial->state = MSI_DIAL_DONE;
        return;
    }
    if (handshake->code == MSI_AUTH_CONTEXT) {
        fail(dial, status_of(handshake->detail), "%s refused the connection: %s", dial->where,
             msi_hello_answer_text(handshake->detail));
        return;
    }
    if (handshake->code == MSI_AUTH_CLOSED && dial->conn.error) {
        fail_errno(dial, dial->conn.error);
        return;
    }
    snprintf(peer, sizeof peer, "the rank at %s", dial->where);
    mst_status st = msi_auth_fail(&dial->conn, peer);
    const mst_error_info *error = mst_last_error();
    snprintf(dial->remedy, sizeof dial->remedy, "%s", error->remedy ? error->remedy : "");
    fail(dial, st, "%s", error->message);
}

/* The peer listens before it tells its port. If its host does not answer, the attempt fails for good. */
static void check_silence(struct msi_dial *dial) {
    bool silent = dial->step == MSI_DIAL_CONNECTING
                      ? msi_now() - dial->since >= msi_socket_timeout() * INT64_C(1000000000)
                      : msi_socket_is_silent(dial->fd, &dial->look_at);
    if (silent) fail(dial, MST_ERR_PEER_LOST, "%s: %s", dial->where, strerror(ETIMEDOUT));
}

enum msi_dial_state msi_dial_progress(struct msi_dial *dial, struct msi_stream *stream) {
    if (dial->state == MSI_DIAL_PENDING && dial->step == MSI_DIAL_CONNECTING) check_connected(dial);
    if (dial->state == MSI_DIAL_PENDING && dial->step == MSI_DIAL_AUTHENTICATING) authenticate(dial);
    if (dial->state == MSI_DIAL_PENDING) check_silence(dial);
    if (dial->state == MSI_DIAL_DONE && dial->fd >= 0) {
        *stream = msi_auth_take(&dial->conn);
        dial->fd = -1;
    }
    return dial->state;
}

int msi_dial_descriptor(struct msi_dial *dial, short *events) {
    *events = dial->step == MSI_DIAL_CONNECTING ? POLLOUT : msi_auth_events(&dial->conn);
    return dial->fd;
}

void msi_dial_end(struct msi_dial *dial) {
    msi_auth_drop(&dial->conn);
    if (dial->fd >= 0) close(dial->fd);
    dial->fd = -1;
}
