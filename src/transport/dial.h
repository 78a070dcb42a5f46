/*
 * dial.h - connects to another rank's listener without ever waiting: begin, make progress until it is no
 * longer pending, end. Who dials keeps the deadline and decides whether to try again.
 */
#ifndef MSI_TRANSPORT_DIAL_H
#define MSI_TRANSPORT_DIAL_H

#include "base/address.h"
#include "wire/hello.h"

#include <muster/status.h>

enum msi_dial_state { MSI_DIAL_PENDING, MSI_DIAL_DONE, MSI_DIAL_FAILED };

/* Belongs to one thread. Only status and why are for its owner to read. */
struct msi_dial {
    enum msi_dial_state state;
    /* After FAILED. UNREACHABLE may pass, so begin again after a pause; SYSTEM is trouble of this process;
     * anything else is for good: the other side has refused. */
    mst_status status;
    char why[160];

    enum { MSI_DIAL_CONNECTING, MSI_DIAL_GREETING, MSI_DIAL_LISTENING } step;
    int fd;
    size_t at; /* bytes of the hello that are sent */
    uint8_t hello[MSI_HELLO_BYTES];
    char where[MSI_ADDRESS_TEXT_MAX];
};

/* Begins to connect; an address that is a name is looked up first, which may block. */
void msi_dial_begin(struct msi_dial *dial, const struct msi_address *address, const struct msi_hello *hello);

/* On DONE, *fd is a connected, non-blocking socket that is the caller's; else it is not written. */
enum msi_dial_state msi_dial_progress(struct msi_dial *dial, int *fd);

/* What to poll for while it is pending. */
int msi_dial_descriptor(const struct msi_dial *dial, short *events);

/* Gives up what it holds, in any state; again is fine. */
void msi_dial_end(struct msi_dial *dial);

#endif
