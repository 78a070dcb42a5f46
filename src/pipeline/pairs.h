/*
 * pairs.h - the pair groups of a ring: pair i has the ranks i and (i+1) mod n. Its messages from i to i+1 are
 * activations, or token ids on the pair that closes the ring; those from i+1 to i are gradients. So no
 * message needs a tag.
 */
#ifndef MSI_PIPELINE_PAIRS_H
#define MSI_PIPELINE_PAIRS_H

#include "group/world.h"

struct msi_pairs {
    mst_group *pred,
        *succ; /* handles: with the rank before, with the rank after; NULL: the ring has one rank */
};

struct msi_pairs_kind {
    const char *label;
    bool follow; /* their backends follow the world's; after an exchange, join them again */
};

/* All ranks of the group call it. Does not wait. */
mst_status msi_pairs_open(const mst_group *stages, const struct msi_pairs_kind *kind,
                          struct msi_pairs *pairs);
/*
 * Opens the communicators of a rank's pairs; NULL: skip. All ranks of the ring call it. Both ranks of a pair
 * wait for each other, in an order without deadlock.
 */
mst_status msi_pairs_join(bool first_rank, struct msi_comm *pred, struct msi_comm *succ,
                          const struct msi_wait *wait);
/* Reports the thread's last failure to the neighbours before this rank leaves. Keeps it. */
void msi_pairs_report(const struct msi_pairs *pairs, mst_status status);
/* The world of the pairs may have ended. */
void msi_pairs_close(struct msi_pairs *pairs);
/* The same after a failure, which stays the thread's last one. Returns status. */
mst_status msi_pairs_undo(struct msi_pairs *pairs, mst_status status);

#endif
