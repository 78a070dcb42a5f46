/*
 * sockets.h - the connections with a rank of another host while they are being made. The rank that calls decides how many,
 * dials them all at once and says in each hello which it is; the one that answers learns their number from the first.
 */
#ifndef MSI_WIREUP_SOCKETS_H
#define MSI_WIREUP_SOCKETS_H

#include "comm/comm_internal.h"

struct msi_streams;

/*
 * How many a rank calls with: what was asked for; if that was left to us (0), one on this machine, and to others its share of
 * what the ranks of a host have together.
 */
int msi_streams_wanted(const struct msi_comm *comm, int rank);

/* Begins to call a rank; NULL without memory. */
struct msi_streams *msi_streams_call(struct msi_comm *comm, int rank, int channel);
/* One step of the caller. Fails only where another try is of no use. */
mst_status msi_streams_dial(struct msi_streams *streams);

/* One step of the one that answers; *streams stays NULL until somebody has called. */
mst_status msi_streams_take(struct msi_comm *comm, int rank, int channel, struct msi_streams **streams);

/* Are all there? Then they can be made one link, which owns them from then on. */
bool msi_streams_complete(const struct msi_streams *streams);
mst_status msi_streams_join(struct msi_streams *streams, struct msi_link **link);

/* What a sleeper polls for; -1: nothing. */
int msi_streams_descriptor(const struct msi_streams *streams, short *events);

/* Gives up what was not joined. NULL is fine. */
void msi_streams_free(struct msi_streams *streams);

#endif
