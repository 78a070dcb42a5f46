/*
 * gate.h - the entrance of a server: accepts TCP connections and authenticates them. The owner gets only
 * connections that have proved that they belong to the job.
 *
 *  1. One thread uses it. No function blocks. Poll msi_gate_fd for POLLIN, then call msi_gate_progress.
 *  2. A connection that is not authenticated costs a descriptor and a fixed slot. There are MSI_GATE_SLOTS
 *     slots; each lasts at most MSI_GATE_STALL_MS, and reads at most a hello and a proof (handshake.h).
 *  3. While all slots are taken, new connections wait in the kernel. For them, connections that take longer
 *     than a member would are closed: of the address that has most slots, the oldest first. So strangers
 *     delay members, but do not keep them out.
 *  4. Without descriptors, the oldest connection that is not authenticated is closed.
 */
#ifndef MSI_AUTH_GATE_H
#define MSI_AUTH_GATE_H

#include "auth/auth.h"

enum { MSI_GATE_SLOTS = 64, MSI_GATE_STALL_MS = 5000 };

struct msi_gate;

struct msi_gate_config {
    struct msi_auth *auth; /* borrowed; NULL: there is no secret */
    enum msi_auth_role role;
    bool open;     /* also accept connections that do not begin with a handshake */
    void *context; /* of the callbacks, which must not close the gate */
    /* Owns the authenticated connection. bytes: what the client says about it; NULL if it was accepted
     * without a handshake. */
    void (*admit)(void *context, struct msi_stream stream, const uint8_t bytes[MSI_AUTH_CONTEXT_BYTES]);
    /* Not 0: refuses an authenticated connection, and tells the client this number. May be NULL. */
    uint8_t (*judge)(void *context, const uint8_t bytes[MSI_AUTH_CONTEXT_BYTES]);
    /* There are no descriptors or no memory for a connection at this listening socket. True: try again. */
    bool (*scarce)(void *context, int listening, int error);
};

mst_status msi_gate_open(const struct msi_gate_config *config, struct msi_gate **gate);
/* Accepts from this listening socket, which is borrowed. At most two. */
mst_status msi_gate_listen(struct msi_gate *gate, int listening);
/* Has POLLIN if progress has work. The gate owns the descriptor. */
int msi_gate_fd(const struct msi_gate *gate);
/* Accepts and authenticates; calls the callbacks. */
void msi_gate_progress(struct msi_gate *gate);
/* How long a connection may take; the default is MSI_GATE_STALL_MS. */
void msi_gate_set_stall(struct msi_gate *gate, int stall_ms);
/* The number of connections that were refused. */
uint64_t msi_gate_refused(const struct msi_gate *gate);
/* Closes the connections that are not authenticated. Accepts NULL. */
void msi_gate_close(struct msi_gate *gate);

#endif
