/* agree.c - mst_agree: the ranks of a group agree on flags although ranks die. See recover.h. */
#include "base/error.h"
#include "group/choice.h"
#include "group/recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A ballot is "FLAGS RANK RANK …" with the lost ranks that this rank has acknowledged. */
static void write_ballot(mst_group *group, uint64_t flags, struct msi_buf *text) {
    msi_buf_add_format(text, "%" PRIx64, flags);
    pthread_mutex_lock(&group->world->lock);
    for (int r = 0; group->acknowledged && r < group->size; r++)
        if (group->acknowledged[r]) msi_buf_add_format(text, " %d", r);
    pthread_mutex_unlock(&group->world->lock);
}

static bool acknowledges(struct msi_str ballot, int rank) {
    char number[16];
    size_t n = (size_t)snprintf(number, sizeof number, " %d", rank);
    for (size_t at = 0; at + n <= ballot.n; at++)
        if (!memcmp(ballot.p + at, number, n) && (at + n == ballot.n || ballot.p[at + n] == ' ')) return true;
    return false;
}

/* Is there a rank that takes part and has not acknowledged the loss of that rank? */
static bool is_news(const mst_group *group, const struct msi_ballot *ballots, int rank) {
    for (int r = 0; r < group->size; r++)
        if (ballots[r].text.p && !acknowledges(ballots[r].text, rank)) return true;
    return false;
}

/* The decision is "FLAGS RANK", with the first lost rank that not all have acknowledged, or -1. */
static mst_status decide(void *context, const struct msi_ballot *ballots, struct msi_buf *decision) {
    const mst_group *group = context;
    uint64_t flags = UINT64_MAX;
    int lost = -1;
    for (int r = 0; r < group->size; r++) {
        char text[24];
        if (ballots[r].text.p) flags &= strtoull(msi_str_copy(ballots[r].text, text, sizeof text), NULL, 16);
        bool first = ballots[r].lost && (lost < 0 || ballots[r].lost < ballots[lost].lost);
        if (first && is_news(group, ballots, r)) lost = r;
    }
    msi_buf_add_format(decision, "%" PRIx64 " %d", flags, lost);
    return MST_OK;
}

mst_status msi_group_agree_flags(mst_group *group, const struct msi_wait *wait, uint64_t *flags) {
    struct msi_vote vote = {group, "agree", "mst_agree", &group->agreements, decide, group, false};
    struct msi_buf own = {0}, decision = {0};
    char text[64];
    int lost = -1;
    write_ballot(group, *flags, &own);
    mst_status st =
        own.failed ? msi_fail_memory() : msi_group_vote(&vote, msi_buf_str(&own), wait, &decision);
    if (st == MST_OK &&
        sscanf(msi_str_copy(msi_buf_str(&decision), text, sizeof text), "%" SCNx64 " %d", flags, &lost) != 2)
        st = msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.60s' where a decision should be", text);
    msi_buf_free(&own);
    msi_buf_free(&decision);
    if (st != MST_OK || lost < 0 || lost >= group->size) return st;
    int rank = msi_group_global_rank(group, lost);
    char event = msi_world_rank_event(group->world, rank);
    return msi_group_fail_lost(group, rank, event ? event : 'D');
}
