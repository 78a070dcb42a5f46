/*
 * p2p.h - point-to-point messages of the native engines: matching, unexpected messages, eager and rendezvous
 * transfer.
 *
 * Each rank sends to another on a link (wireup.h), which it opens at its first message. Between hosts, a rank
 * sends on the connection that the other rank has opened, if there is one by then.
 *
 * A message is a header (length, tag, dtype) and a body. A header is matched with the first posted receive
 * that fits; the body then goes straight into the receiver's buffer. A message without a posted receive is
 * unexpected: it is taken off the link into memory of its own (unexpected.h), so that it does not block
 * others. A probe finds an unexpected message as soon as its header has arrived. Links send small bodies
 * eagerly, and large ones between processes of a host by rendezvous (transport/rendezvous.h).
 *
 * The first send on a link is complete only when the other rank has opened the link too; a later send is
 * complete when the link has taken the message.
 */
#ifndef MSI_P2P_P2P_H
#define MSI_P2P_P2P_H

#include "p2p/unexpected.h"
#include "wireup/wireup.h"

enum { MSI_P2P_HEADER = 16 };

/* What is kept for one message under way, in work->state. */
struct msi_p2p_request {
    struct mst_work *work;
    struct msi_list node; /* in posted or sending */
    bool posted;          /* on a link */
    bool complete;
    unsigned char header[MSI_P2P_HEADER];
    struct msi_transfer header_transfer, body_transfer;
};

struct msi_p2p {
    struct msi_peers *peers;
    struct msi_list posted;  /* receives that have not matched a message, in order */
    struct msi_list sending; /* sends under way, in order */
    struct msi_unexpected unexpected;
    int incoming;               /* ranks from which a part of a message has arrived */
    int probes;                 /* that have found nothing yet */
    struct msi_p2p_peer *links; /* by rank; NULL before the first message */
};

void msi_p2p_init(struct msi_p2p *p2p, struct msi_peers *peers);
void msi_p2p_free(struct msi_p2p *p2p);
/* Closes all links of a communicator that has failed, so that ranks of other hosts learn of the failure. */
void msi_p2p_hang_up(struct msi_p2p *p2p);

/* Begins a message. */
mst_status msi_p2p_begin(struct msi_p2p *p2p, struct mst_work *work);
/* The message_now slot of engines whose state begins with a struct msi_p2p. */
bool msi_p2p_message_now(struct msi_comm *comm, struct msi_op *op);
/* Advances all messages and ends those that are complete or have failed. True if anything moved or ended. */
bool msi_p2p_progress(struct msi_p2p *p2p);

/* Can the message not arrive without the store, because its ranks have not found each other yet? */
bool msi_p2p_needs_store(const struct msi_p2p *p2p, const struct mst_work *work);

/* Is there a connection on which messages of that rank of another host can still arrive? */
bool msi_p2p_may_arrive(const struct msi_p2p *p2p, int rank);

/* Accepts the links that ranks of this host have offered, even if this rank expects no message: the first
 * message of the other rank is complete only then. */
void msi_p2p_accept(struct msi_p2p *p2p);

/* Writes the descriptors that a sleep polls, at most max; returns how many. */
int msi_p2p_poll_fds(const struct msi_p2p *p2p, struct pollfd *fds, int max);

#endif
