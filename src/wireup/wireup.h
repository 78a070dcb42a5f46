/*
 * wireup.h - a link with another rank, made without ever waiting: one of the two calls, the other answers, and both try again
 * until it is open at both ends.
 *
 * Ranks of one host share memory, which the caller makes and offers on their region. Between hosts the caller dials, and
 * the answerer takes the connection from its endpoint: one, or as many as the caller says (see sockets.h).
 */
#ifndef MSI_WIREUP_WIREUP_H
#define MSI_WIREUP_WIREUP_H


#include "transport/link.h"
#include "wireup/peers.h"

/* What a link is for: two ranks may have one for each. */
enum msi_channel { MSI_COLLECTIVES, MSI_MESSAGES };

/* A way that starts as zeros is new. It stays in place while it is used. */
struct msi_wireup {
    struct msi_link *link; /* NULL before it can be posted on */
    bool open;             /* at the other end too */
    char why[160];         /* it failed */

    struct msi_sockets *sockets;         /* connections that are being made; NULL: none */
    struct msi_segment memory;           /* the link's */
    const struct msi_shm_region *region; /* where the other rank sleeps … */
    int slot;                            /* … with this number */
};

/* One step of the rank that calls, or of the one that answers. Fails only where another try is of no use. */
mst_status msi_wireup_call(struct msi_peers *peers, int rank, enum msi_channel channel, struct msi_wireup *w);
mst_status msi_wireup_answer(struct msi_peers *peers, int rank, enum msi_channel channel,
                             struct msi_wireup *w);

/* Has that rank of this host called? */
bool msi_wireup_offered(const struct msi_peers *peers, int rank, enum msi_channel channel);

/* What a sleeper polls for while the link is being made; -1: nothing. */
int msi_wireup_descriptor(const struct msi_wireup *w, short *events);

void msi_wireup_close(struct msi_wireup *w);

#endif
