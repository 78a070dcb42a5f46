/*
 * topology.h - proving who shares a host. The first rank of a host offers a segment through the store;
 * whoever can map it and finds the right number inside shares that host, whatever host names or variables
 * say.
 */
#ifndef MSI_BOOTSTRAP_TOPOLOGY_H
#define MSI_BOOTSTRAP_TOPOLOGY_H

#include "base/str.h"
#include "os/segment.h"

#include <stdint.h>

struct msi_topology {
    struct msi_segment mine;   /* made here; kept while others may still want to map it */
    struct msi_segment shared; /* the host's, if another rank made it; else the host's is mine */
    uint64_t host;             /* the number inside: ranks with the same one share a host */
};

enum { MSI_OFFER_MAX = 64 };

/* Makes this rank's segment and writes its offer. */
mst_status msi_topology_offer(struct msi_topology *topology, char offer[MSI_OFFER_MAX]);

/* Takes the offer that came first on this host, own or another's; one that proves wrong leaves this rank
 * alone. */
void msi_topology_accept(struct msi_topology *topology, struct msi_str offer);

/* True for the first rank of the host that says this place, which shall publish it. */
bool msi_topology_publishes(struct msi_topology *topology, uint64_t place);

/* Everybody has mapped what they could. */
void msi_topology_close(struct msi_topology *topology);

#endif
