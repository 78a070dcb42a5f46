/*
 * dial.h - non-blocking connect to the listener of another rank, with authentication: begin, call progress
 * until it is no longer pending, end. The caller keeps the deadline and decides whether to retry.
 */
#ifndef MSI_TRANSPORT_DIAL_H
#define MSI_TRANSPORT_DIAL_H

#include "auth/auth.h"
#include "base/address.h"
#include "wire/hello.h"

#include <muster/status.h>

enum msi_dial_state { MSI_DIAL_PENDING, MSI_DIAL_DONE, MSI_DIAL_FAILED };

/* One thread uses it. The owner may read only state, status, why, remedy and unanswered. It must not be
 * moved. */
struct msi_dial {
    enum msi_dial_state state;
    /*
     * If FAILED: retry later after UNREACHABLE; SYSTEM is an error of this process; with any other status the
     * peer has refused the connection.
     */
    mst_status status;
    char why[400], remedy[240];
    bool unanswered; /* FAILED because no host answers at that address */

    enum { MSI_DIAL_CONNECTING, MSI_DIAL_AUTHENTICATING } step;
    int fd;
    int64_t since;   /* when it began to connect */
    int64_t look_at; /* see msi_socket_is_silent */
    struct msi_auth *auth;
    struct msi_auth_conn conn;
    uint8_t hello[MSI_HELLO_BYTES];
    char where[MSI_ADDRESS_TEXT_MAX];
    struct msi_address address;
};

/* Starts to connect. A host name is resolved first, which may block. auth is borrowed; NULL: no secret. */
void msi_dial_begin(struct msi_dial *dial, const struct msi_address *address, struct msi_auth *auth,
                    const struct msi_hello *hello);

/* On DONE, sets *stream to the connection, which the caller owns. */
enum msi_dial_state msi_dial_progress(struct msi_dial *dial, struct msi_stream *stream);

/* The descriptor and events to poll while it is pending. */
int msi_dial_descriptor(struct msi_dial *dial, short *events);

/* Frees the resources, in any state. May be called again. */
void msi_dial_end(struct msi_dial *dial);

#endif
