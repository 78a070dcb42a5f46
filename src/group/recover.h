/*
 * recover.h - the surviving ranks of a group go on without the lost ones: agreement, and new groups and
 * worlds. Decisions are votes (vote.h), so that all survivors get the same result.
 */
#ifndef MSI_GROUP_RECOVER_H
#define MSI_GROUP_RECOVER_H

#include "group/vote.h"

/*
 * *flags becomes the bitwise and of the flags of all ranks that take part. MST_ERR_PEER_LOST, with *flags
 * set, if a rank is lost that not all of them have acknowledged: the same on all ranks.
 */
mst_status msi_group_agree_flags(mst_group *group, const struct msi_wait *wait, uint64_t *flags);

/* Ends the calls on the group, and makes a group of the surviving ranks in their old order. */
mst_status msi_group_shrink(mst_group *group, const struct msi_wait *wait, const mst_group_options *options,
                            mst_group **survivors);

/*
 * Opens a world of the survivors of world, and of added processes that wait to join it. The old world becomes
 * world->previous of the new one. Its groups stay usable, but for the group of all its ranks.
 */
mst_status msi_world_reform(struct msi_world *world, int added, const mst_site *site,
                            const struct msi_wait *wait, mst_group **reformed);

/* Fails: the other ranks count this one as lost. */
mst_status msi_group_fail_excluded(const mst_group *group);

/* Fails if the group can no longer be used: a rank is lost, or the group has failed. */
mst_status msi_group_check_usable(mst_group *group);

#endif
