/*
 * peers.h - how this rank reaches the other ranks of its communicator of its host: their
 * shared region. Links are made from this, see wireup.h. Used under the communicator's rules for threads.
 *
 * Keys, under the communicator's: region/H, where the shared region of host H is. The first rank of a host
 * that comes makes it; the key is deleted once all ranks of the host have it open. Until then each of them
 * keeps a descriptor of it. If the rank that made it dies or leaves before, the others find it in each other,
 * or make a new one if no rank has it.
 */
#ifndef MSI_WIREUP_PEERS_H
#define MSI_WIREUP_PEERS_H

#include "comm/comm_internal.h"
#include "transport/shm_region.h"
#include "wireup/memory.h"

struct msi_peers {
    struct msi_comm *comm;
    /* of this host; NULL before it was opened, and for the only rank of one of several hosts */
    struct msi_shm_region *region;
    struct msi_held cells; /* of this rank, in the region */
    bool made;             /* this rank has made the region */
    bool all_here;         /* all ranks of this host have opened the region */
};

/* Opens the region of this host, as far as it is not open. May block until wait ends. */
mst_status msi_peers_open_region(struct msi_peers *peers, const struct msi_wait *wait);
/* All ranks of this host have opened the region: deletes its key, and counts the processors that they have
 * together. */
void msi_peers_set_all_here(struct msi_peers *peers);
/* Called before this rank uses its cells in operation seq of the region. */
void msi_peers_hold_more(struct msi_peers *peers, bool small, bool big);
static inline void msi_peers_hold_small(struct msi_peers *peers, uint64_t seq) {
    struct msi_shm_region *region = peers->region;
    region->cells_seq = seq;
    if (!region->small_held) msi_peers_hold_more(peers, true, false);
}
static inline void msi_peers_hold_big(struct msi_peers *peers, uint64_t seq) {
    struct msi_shm_region *region = peers->region;
    region->cells_seq = seq;
    if (!region->big_held) msi_peers_hold_more(peers, false, true);
}
/* Tells the ranks of this host that this one has destroyed the group. Twice is harmless. */
void msi_peers_leave(const struct msi_peers *peers);
/* Closes the region. Ranks of this host that have not opened it yet may still do so. */
void msi_peers_close(struct msi_peers *peers);

/* Has that rank of this host destroyed the group? */
bool msi_peers_has_left(const struct msi_peers *peers, int rank);
/* The global rank because of which the last call of that rank of this host has failed; waits: or for which it
 * waits; -1: none. */
int msi_peers_cause_of(const struct msi_peers *peers, int rank, bool waits);
/* Changes when a call of a rank of this host fails because of another rank, or a rank begins to recover; 0:
 * none has. */
uint64_t msi_peers_news(const struct msi_peers *peers);

#endif
