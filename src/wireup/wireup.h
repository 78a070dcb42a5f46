/*
 * wireup.h - makes a link with another rank, without blocking: one of the two calls, the other answers, and
 * both repeat that until the link is open at both ends.
 *
 * On one host the calling rank makes shared memory and offers it in the region. Between hosts the calling
 * rank connects as soon as the other has opened its endpoint, and the other takes the connections from there
 * (sockets.h). No other rank is needed.
 */
#ifndef MSI_WIREUP_WIREUP_H
#define MSI_WIREUP_WIREUP_H

#include "transport/link.h"
#include "wireup/peers.h"

/* What a link is for: two ranks may have one for each. */
enum msi_channel { MSI_COLLECTIVES, MSI_MESSAGES };

/* Zeroed, it is new. It must not be moved while it is used. */
struct msi_wireup {
    struct msi_link *link; /* NULL before it can be posted on */
    bool open;             /* at the other end too */
    char why[640];         /* the reason of a failure, and what to do if secrets differ */

    int look_ms;                         /* the rank's port was not known: time until the next lookup, … */
    int64_t look_at;                     /* … which is then; see os/clock.h */
    struct msi_sockets *sockets;         /* connections that are being made; NULL: none */
    struct msi_segment memory;           /* the link's */
    struct msi_held pages;               /* of the ring on which this rank sends */
    const struct msi_shm_region *region; /* where the other rank sleeps … */
    int slot;                            /* … with this number */
};

/* One step of the calling, or of the answering rank. Fails only where a retry is useless. */
mst_status msi_wireup_call(struct msi_peers *peers, int rank, enum msi_channel channel, struct msi_wireup *w);
mst_status msi_wireup_answer(struct msi_peers *peers, int rank, enum msi_channel channel,
                             struct msi_wireup *w);

/* Has that rank of this host called? */
bool msi_wireup_offered(const struct msi_peers *peers, int rank, enum msi_channel channel);

/* The descriptor that a sleep polls while the link is being made; -1: none. */
int msi_wireup_descriptor(const struct msi_wireup *w, short *events);

void msi_wireup_close(struct msi_wireup *w);

#endif
