/*
 * p2p.h - messages between two ranks of a comm.
 *
 * From each rank to each other there is a link (see wireup.h), opened by the sender at its first message; between hosts, a rank
 * that was called before it had anything to send sends on that connection, so that what it says and that it has heard the
 * other travel together.
 *
 * A message is a head (length, tag, dtype) and a body. A receive that is posted takes the first message that fits, and its body
 * then goes straight into the receiver's buffer. A message that nobody has asked for yet is taken off the link into memory of
 * its own (unexpected.h), so that none stands in the way of another.
 *
 * The first message on a link is sent only when the other side has opened it too; later ones when the link has taken them.
 */
#ifndef MSI_P2P_P2P_H
#define MSI_P2P_P2P_H

#include "comm/comm_internal.h"

struct msi_p2p;

mst_status msi_p2p_new(struct msi_comm *comm, struct msi_p2p **p2p);
void msi_p2p_free(struct msi_p2p *p2p);
/* Ends all links of a comm that has failed: so the others learn of it. Nothing is advanced any more. */
void msi_p2p_hang_up(struct msi_p2p *p2p);

/* Begins a message that is described in the operation. */
void msi_p2p_begin(struct msi_p2p *p2p, struct mst_work *op);

/* As msi_comm_message_now, for a message of each kind. */
bool msi_p2p_send_now(struct msi_p2p *p2p, const struct msi_message *m);
bool msi_p2p_receive_now(struct msi_p2p *p2p, const struct msi_message *m);

/* Moves what can be moved; operations that are through are marked (message.through) or failed. True if anything moved. */
bool msi_p2p_advance(struct msi_p2p *p2p);

/* Opens the links that others have offered, also where this rank awaits no message: their first one waits for that. */
void msi_p2p_answer(struct msi_comm *comm);

/* What a sleeper polls for; writes at most max entries and returns how many. NULL has none. */
int msi_p2p_descriptors(const struct msi_p2p *p2p, struct pollfd *fds, int max);

/* Takes back an operation that failed. False if some of it has gone over the link already, which is useless then. */
bool msi_p2p_withdraw(struct msi_p2p *p2p, struct mst_work *op);

#endif
