/*
 * pairs.h - the pair groups of a ring: pair i is of the ranks i and (i+1) mod n. Its messages from i to i+1 are activations, or the
 * ids of tokens on the pair that closes the ring; those from i+1 to i are gradients. So nothing needs a tag.
 */
#ifndef MSI_PIPELINE_PAIRS_H
#define MSI_PIPELINE_PAIRS_H

#include "group/world.h"

/* Handles, as a program has them. */
struct msi_pairs {
    mst_group *pred, *succ; /* with the rank before, with the rank behind; NULL: the ring has one rank */
};

struct msi_pairs_kind {
    const char *label; /* what they are for */
    /* Theirs is exchanged with the world's backend, as that of groups is; who uses them joins them again then. */
    bool follow;
};

/* Of a group's ranks, who all call it. Nobody waits. */
mst_status msi_pairs_open(const mst_group *stages, const struct msi_pairs_kind *kind,
                          struct msi_pairs *pairs);
/*
 * Opens the comms of a rank's pairs; NULL: not that one. All ranks of the ring call it, and the two of a pair meet there, in an order in
 * which nobody waits in a circle, as ranks might at their first messages.
 */
mst_status msi_pairs_join(bool first_rank, struct msi_comm *pred, struct msi_comm *succ,
                          const struct msi_wait *wait);
/* This rank leaves because of the thread's last failure, which is its last one still: tells those on the other side. */
void msi_pairs_tell_end(const struct msi_pairs *pairs, mst_status status);
/* Also of pairs whose world has ended. */
void msi_pairs_close(struct msi_pairs *pairs);
/* The same because of the thread's last failure, which is its last one still. Returns status. */
mst_status msi_pairs_undo(struct msi_pairs *pairs, mst_status status);

/* One more group of the same ranks, with the same backends; msi_group_end ends it. */
mst_status msi_group_again(const mst_group *stages, const struct msi_pairs_kind *kind, mst_group **again);

#endif
