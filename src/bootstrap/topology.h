/*
 * topology.h - finds the ranks that share a host. The first rank of a host offers a memory segment through
 * the store. A rank that can map it and finds the expected number in it shares the host, independently of
 * host names.
 */
#ifndef MSI_BOOTSTRAP_TOPOLOGY_H
#define MSI_BOOTSTRAP_TOPOLOGY_H

#include "base/str.h"
#include "os/segment.h"

#include <stdint.h>

struct msi_topology {
    struct msi_segment mine;   /* made by this rank; kept until all ranks have tried to map it */
    struct msi_segment shared; /* the host's segment, if another rank made it */
    uint64_t host;             /* the number in the segment; ranks with the same number share a host */
};

enum { MSI_OFFER_MAX = 64 };

/* Makes this rank's segment and writes its offer. */
mst_status msi_topology_offer(struct msi_topology *topology, char offer[MSI_OFFER_MAX]);

/* Maps the host's first offer, which may be this rank's own. If this process cannot reach it, this rank
 * counts as a host. MST_ERR_SYSTEM, MST_ERR_MEMORY: this process lacks descriptors or memory. */
mst_status msi_topology_accept(struct msi_topology *topology, struct msi_str offer);

/* True for the first rank of the host with this location; that rank publishes it. */
bool msi_topology_publishes(struct msi_topology *topology, uint64_t location);

/* After all ranks have tried to map the segments. */
void msi_topology_close(struct msi_topology *topology);

#endif
