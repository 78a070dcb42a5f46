/*
 * sockets.h - the TCP connections with a rank of another host while they are being made. The rank that
 * connects decides how many (MUSTER_TCP_STREAMS), connects them all at once and numbers them in its hellos;
 * the other rank learns their number from the first hello.
 */
#ifndef MSI_WIREUP_SOCKETS_H
#define MSI_WIREUP_SOCKETS_H

#include "transport/link.h"
#include "wireup/peers.h"

struct msi_sockets;

/* Begins to connect to a rank, whose endpoint has this port; NULL without memory. */
struct msi_sockets *msi_sockets_connect(struct msi_peers *peers, int rank, int channel, int port);
/* One step of connecting. Fails only where a retry is useless. */
mst_status msi_sockets_dial(struct msi_sockets *sockets);

/* One step of accepting; *sockets stays NULL until the rank has connected. */
mst_status msi_sockets_accept(struct msi_peers *peers, int rank, int channel, struct msi_sockets **sockets);

/* Are all connected? Then msi_sockets_join makes them one link, which owns them. */
bool msi_sockets_complete(const struct msi_sockets *sockets);
mst_status msi_sockets_join(struct msi_sockets *sockets, struct msi_link **link);

/* The descriptor that a sleep polls; -1: none. */
int msi_sockets_descriptor(struct msi_sockets *sockets, short *events);

/* Closes what was not joined. NULL is fine. */
void msi_sockets_free(struct msi_sockets *sockets);

#endif
