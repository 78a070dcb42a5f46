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

/* Of a group's ranks, who all call it; label says what for. Nobody waits. */
mst_status msi_pairs_open(const mst_group *stages, const char *label, struct msi_pairs *pairs);
/* Also of pairs whose world has ended. */
void msi_pairs_close(struct msi_pairs *pairs);

/* One more group of the same ranks, with the same backends. */
mst_status msi_group_again(const mst_group *stages, const char *label, mst_group **again);
/* Ends such a group, if its world has not; *group becomes NULL. */
void msi_group_end(mst_group **group);

#endif
