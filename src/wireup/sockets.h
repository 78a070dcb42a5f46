/*
 * sockets.h - the connections with a rank of another host while they are being made. The rank that calls decides how many,
 * dials them all at once and says in each hello which it is; the one that answers learns their number from the first.
 */
#ifndef MSI_WIREUP_SOCKETS_H
#define MSI_WIREUP_SOCKETS_H

#include "transport/link.h"
#include "wireup/peers.h"

struct msi_sockets;

/*
 * How many a rank calls with: what was asked for; if that was left to us (0), one on this machine, and to others its share of
 * what the ranks of a host have together.
 */
int msi_sockets_wanted(const struct msi_peers *peers, int rank);

/* Begins to call a rank; NULL without memory. */
struct msi_sockets *msi_sockets_connect(struct msi_peers *peers, int rank, int channel);
/* One step of the caller. Fails only where another try is of no use. */
mst_status msi_sockets_dial(struct msi_sockets *sockets);

/* One step of the one that answers; *sockets stays NULL until somebody has called. */
mst_status msi_sockets_accept(struct msi_peers *peers, int rank, int channel, struct msi_sockets **sockets);

/* Are all there? Then they can be made one link, which owns them from then on. */
bool msi_sockets_complete(const struct msi_sockets *sockets);
mst_status msi_sockets_join(struct msi_sockets *sockets, struct msi_link **link);

/* What a sleeper polls for; -1: nothing. */
int msi_sockets_descriptor(const struct msi_sockets *sockets, short *events);

/* Gives up what was not joined. NULL is fine. */
void msi_sockets_free(struct msi_sockets *sockets);

#endif
