/*
 * vote.h - the ranks of a group decide something together although ranks die meanwhile.
 *
 * Keys of the world, for the N-th vote of a kind in group G
 *   G/KIND.N/in      a line "RANK TEXT" for each rank that takes part; a rank's last line counts
 *   G/KIND.N/result  the decision; set once
 *
 *  1. A rank appends its line, and then reads events and lines. If every rank of the group takes part or is
 *     lost, it decides, and proposes the decision for the result. The first proposal is the decision of all
 *     ranks: the store executes one request at a time.
 *  2. Otherwise it waits for the result, or until a rank is lost. No rank waits for ever: the last line and
 *     the last loss are each read by a rank that then decides.
 *  3. A rank that waits in a vote does not serve other groups. Once a rank of the group is lost, or at once
 *     if the vote ends calls, it says so under the key recovers/RANK with the lost rank, the group and the
 *     name of the call. Calls of other ranks of the group that wait for it fail, so that these ranks can
 *     take part, and calls of other ranks if they wait for long: msi_group_check_recovering.
 *  4. A vote that has failed, at the deadline for example, may be repeated; it keeps its number.
 */
#ifndef MSI_GROUP_VOTE_H
#define MSI_GROUP_VOTE_H

#include "group/world.h"

/* What a rank of the group has brought to the vote. */
struct msi_ballot {
    struct msi_str text; /* p NULL: it has not taken part */
    int lost;            /* it has died or left: 1 for the first lost rank of the world, …; else 0 */
};

struct msi_vote {
    mst_group *group;
    const char *kind, *call;  /* the kind, and the name of the public call */
    _Atomic uint64_t *number; /* how many votes of the kind have been decided in the group */
    /* Writes a decision, which is not empty; ballots has an entry for each group rank. */
    mst_status (*decide)(void *context, const struct msi_ballot *ballots, struct msi_buf *decision);
    void *context;
    bool ends_calls; /* the ranks recover, perhaps from a failure without a loss */
};

/*
 * Takes part with own, a line of text, and appends the decision to *decision. MST_ERR_STALLED names ranks
 * that neither take part nor are lost.
 */
mst_status msi_group_vote(const struct msi_vote *vote, struct msi_str own, const struct msi_wait *wait,
                          struct msi_buf *decision);

/* Has a rank taken part in the vote that this rank has not reached yet? */
enum msi_vote_began { MSI_VOTE_NOT_BEGUN, MSI_VOTE_ANNOUNCED, MSI_VOTE_BEGAN };
mst_status msi_group_vote_began(const struct msi_vote *vote, const struct msi_wait *wait,
                                enum msi_vote_began *began);
/* The decision of the vote before came to nothing on this rank: tells the others to vote again. Keeps the
 * thread's failure. */
void msi_group_vote_announce(const struct msi_vote *vote);

/*
 * While an operation of the group waits: fails with MST_ERR_PEER_LOST if a rank that it waits for waits in a
 * vote. Blames the rank whose loss the vote is about, or the rank in the vote if none is lost.
 */
mst_status msi_group_check_recovering(mst_group *group, const struct msi_waiting *at);

#endif
