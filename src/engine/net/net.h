/*
 * net.h - collectives of a comm whose ranks are on several hosts: plans, run over links of their own (see wireup.h).
 *
 *  1. Links are made when a plan first needs them; the rank with the lower number calls. The first operation is over only
 *     when all ranks of the host have opened their region.
 *  2. Before anything else each link carries, in each operation that uses it, a head that says what the sender called; who
 *     called something else is found out there.
 *  3. One operation is under way at a time, so that there is one plan, one run and one set of heads.
 */
#ifndef MSI_ENGINE_NET_NET_H
#define MSI_ENGINE_NET_NET_H

#include "comm/comm_internal.h"

struct msi_net;

mst_status msi_net_new(struct msi_comm *comm, struct msi_net **net);
void msi_net_free(struct msi_net *net);
/* Ends all links of a comm that has failed: so the others learn of it. Nothing is advanced any more. */
void msi_net_hang_up(struct msi_net *net);

/* As a host operation is advanced. */
enum msi_advance msi_net_advance(struct msi_net *net, struct mst_work *op);

/*
 * The operation waits: has a rank that it does not expect anything of said that it called something else? Then it has failed.
 * So a disagreement is found out where the ranks' plans do not even meet, as with different roots.
 */
bool msi_net_overhear(struct msi_net *net, struct mst_work *op);

/* This rank gives up a barrier, and the comm goes on: the others still need its part, so that comes before anything else. */
void msi_net_leave(struct msi_net *net, const struct mst_work *op);

/* Ranks that the operation still waits for: writes at most max and returns how many there are. */
int msi_net_missing(const struct msi_net *net, int *ranks, int max);
/* Is that rank one of them? */
bool msi_net_needs(const struct msi_net *net, int rank);

/* Ends the sleep of the thread that polls for the descriptors below: what it waits for is something else by now. */
void msi_net_wake(const struct msi_net *net);
/* Takes that back, once awake. */
void msi_net_awake(const struct msi_net *net);
/* What a sleeper polls for, one entry and one for each rank at most; returns how many. */
int msi_net_descriptors(const struct msi_net *net, struct pollfd *fds);

/* How many collectives were begun. */
uint64_t msi_net_count(const struct msi_net *net);
/* The name of the algorithm of the operation that is under way, or was last. */
const char *msi_net_algorithm(const struct msi_net *net);

/* What the culprit of a disagreement told. */
const struct msi_call_signature *msi_net_signature(const struct msi_net *net, int rank);

#endif
