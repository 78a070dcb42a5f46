/*
 * wireup.h - a link with another rank, made without ever waiting: one of the two calls, the other answers, and both try again
 * until it is open at both ends.
 *
 * Ranks of one host share memory, which the caller makes and offers on their board. Between hosts the caller dials, and
 * the answerer takes the connection from its door: one, or as many as the caller says (see sockets.h).
 */
#ifndef MSI_WIREUP_WIREUP_H
#define MSI_WIREUP_WIREUP_H

#include "comm/comm_internal.h"
#include "transport/link.h"

/* What a link is for: two ranks may have one for each. */
enum msi_channel { MSI_COLLECTIVES, MSI_MESSAGES };

/* A way that starts as zeros is new. It stays in place while it is used. */
struct msi_way {
    struct msi_link *link; /* NULL before it can be posted on */
    bool open;             /* at the other end too */
    char why[160];         /* it failed */

    struct msi_streams *streams;   /* connections that are being made; NULL: none */
    struct msi_segment memory;     /* the link's */
    const struct msi_board *board; /* where the other rank sleeps … */
    int place;                     /* … as this one */
};

/* One step of the rank that calls, or of the one that answers. Fails only where another try is of no use. */
mst_status msi_way_call(struct msi_comm *comm, int rank, enum msi_channel channel, struct msi_way *way);
mst_status msi_way_answer(struct msi_comm *comm, int rank, enum msi_channel channel, struct msi_way *way);

/* Has that rank of this host called? */
bool msi_way_offered(const struct msi_comm *comm, int rank, enum msi_channel channel);

/* What a sleeper polls for while the link is being made; -1: nothing. */
int msi_way_descriptor(const struct msi_way *way, short *events);

void msi_way_close(struct msi_way *way);

#endif
