/* shrink.c - mst_shrink_group: a group of the surviving ranks. See recover.h. */
#include "base/error.h"
#include "group/choice.h"
#include "group/recover.h"

#include <stdio.h>
#include <stdlib.h>

/* The decision is the list of the group ranks that survive: "0 1 3". */
static mst_status decide(void *context, const struct msi_ballot *ballots, struct msi_buf *decision) {
    const mst_group *group = context;
    for (int r = 0; r < group->size; r++)
        if (ballots[r].text.p && !ballots[r].lost)
            msi_buf_add_format(decision, "%s%d", decision->len ? " " : "", r);
    return MST_OK;
}

/* Reads a list of group ranks and writes their global ranks; -1: the list is invalid. */
static int read_ranks(const mst_group *group, const char *text, int *ranks) {
    int n = 0, last = -1;
    for (char *end; *text; text = end) {
        long rank = strtol(text, &end, 10);
        if (end == text || rank <= last || rank >= group->size) return -1;
        last = (int)rank;
        ranks[n++] = msi_group_global_rank(group, last);
    }
    return n;
}

/* The label names the vote: groups with the same label belong together. */
static mst_status make_group(mst_group *group, const int *ranks, int n, const mst_group_options *options,
                             mst_group **survivors) {
    char text[sizeof group->id + 40];
    snprintf(text, sizeof text, "shrink %s %llu", group->id, (unsigned long long)group->shrinks);
    const struct msi_group_label label = {.text = text, .once = true};
    mst_group_options own = *options;
    if (!own.timeout_ms) own.timeout_ms = msi_group_timeout(group);
    if (!own.name) own.name = group->ranks ? group->name : "survivors";
    if (!own.backend && group->ranks && group->own_backends) own.backend = group->backends.text;
    const struct msi_group_spec spec = {.ranks = ranks, .n = n, .label = &label, .options = &own};
    return msi_group_make(group->world, &spec, survivors);
}

mst_status msi_group_fail_excluded(const mst_group *group) {
    char show[96];
    mst_status st =
        msi_fail(MST_ERR_PEER_LOST, "end this process, or let it join again with .join; check its network",
                 "the other ranks of %s go on without this rank: its connection to the store "
                 "ended, so that they count it as lost",
                 msi_group_show(group, show, sizeof show));
    return msi_blame(st, group->world->rank);
}

mst_status msi_group_shrink(mst_group *group, const struct msi_wait *wait, const mst_group_options *options,
                            mst_group **survivors) {
    struct msi_vote vote = {group, "shrink", "mst_shrink_group", &group->shrinks, decide, group, true};
    struct msi_buf decision = {0};
    int *ranks = malloc((size_t)group->size * sizeof *ranks), n = 0;
    mst_status st =
        ranks ? msi_group_leave_calls(group, &options->site, "mst_shrink_group") : msi_fail_memory();
    if (st == MST_OK) st = msi_group_vote(&vote, msi_cstr("-"), wait, &decision);
    msi_buf_add_u8(&decision, 0);
    if (st == MST_OK && decision.failed) st = msi_fail_memory();
    if (st == MST_OK) n = read_ranks(group, (const char *)decision.data, ranks);
    if (st == MST_OK && n < 1)
        st = msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.60s' where the survivors should be",
                      (const char *)decision.data);
    bool survives = false;
    for (int i = 0; i < n; i++) survives |= ranks[i] == group->world->rank;
    if (st == MST_OK && !survives) st = msi_group_fail_excluded(group);
    if (st == MST_OK) st = make_group(group, ranks, n, options, survivors);
    if (st == MST_OK) msi_world_renew_standby(*survivors, wait);
    msi_buf_free(&decision);
    free(ranks);
    return st;
}

mst_status msi_group_check_usable(mst_group *group) {
    mst_status st = msi_group_check(group, true);
    for (int i = 0; i < group->n_comms && st == MST_OK; i++)
        if (group->comms[i].table && group->comms[i].comm) st = msi_comm_check(group->comms[i].comm);
    return st == MST_OK ? msi_group_check_abort(group) : st;
}
