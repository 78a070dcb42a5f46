/*
 * net.h - collectives of a comm whose ranks are on several hosts: plans, run over links of their own.
 *
 *  1. Links are made when a plan first needs them; the rank with the lower number connects.
 *  2. Before anything else each link carries, in each operation that uses it, a head that says what the sender called; who
 *     called something else is found out there.
 *  3. One operation is under way at a time, so that there is one plan, one run and one set of heads.
 */
#ifndef MSI_BACKEND_NET_H
#define MSI_BACKEND_NET_H

#include "backend/comm_internal.h"

struct msi_net;

mst_status msi_net_new(struct msi_comm *comm, struct msi_net **net);
void msi_net_free(struct msi_net *net);
/* Ends all links of a comm that has failed: so the others learn of it. Nothing is advanced any more. */
void msi_net_hang_up(struct msi_net *net);

/* As a host operation is advanced. */
enum msi_advance msi_net_advance(struct msi_net *net, struct mst_work *op);

/* Ranks that the operation still waits for: writes at most max and returns how many there are. */
int msi_net_missing(const struct msi_net *net, int *ranks, int max);
static inline bool msi_net_needs(const struct msi_net *net, int rank) {
    int missing[MSI_BOARD_RANKS], n = msi_net_missing(net, missing, MSI_BOARD_RANKS);
    for (int i = 0; i < n && i < MSI_BOARD_RANKS; i++)
        if (missing[i] == rank) return true;
    return false;
}

/* What a sleeper polls for; writes at most max entries and returns how many. */
int msi_net_descriptors(const struct msi_net *net, struct pollfd *fds, int max);

/* What the culprit of a disagreement told. */
const struct msi_told *msi_net_told(const struct msi_net *net, int rank);

/* The door's listener, for messages. */
struct msi_dial;
void msi_net_call(struct msi_net *net, int rank, uint32_t channel, struct msi_dial *dial);
int msi_net_take(struct msi_net *net, int rank, uint32_t channel);

#endif
