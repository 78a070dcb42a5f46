/* abort.c - a rank aborts a group: its calls end on all ranks. See world.h. */
#include "base/error.h"
#include "base/str.h"
#include "group/choice.h"

#include <stdio.h>

enum { WHERE_MAX = 160 };

/* The messages of an abort, and the group rank that they blame; -1: this rank. */
struct abort {
    int cause;
    char own[500], others[600];
};

/* " at train.c:33 (step)" */
static const char *show_site(const mst_site *site, char where[WHERE_MAX]) {
    where[0] = '\0';
    if (site->file)
        snprintf(where, WHERE_MAX, " at %.80s:%d (%.50s)", msi_base_name(site->file), site->line,
                 site->function);
    return where;
}

/* Ends the communicator for a kind of memory, which is made if no call has needed it: later calls find it. */
static mst_status abort_comm(mst_group *group, mst_memory memory, const struct abort *a) {
    struct msi_comm *comm;
    mst_status st = msi_group_comm_of(group, memory, &comm);
    return st == MST_OK ? msi_comm_abort(comm, a->cause, a->own, a->others) : st;
}

static mst_status abort_comms(mst_group *group, const struct abort *a) {
    mst_status st = abort_comm(group, MST_MEMORY_HOST, a);
    mst_status cuda = group->backends.of[MST_MEMORY_CUDA] ? abort_comm(group, MST_MEMORY_CUDA, a) : MST_OK;
    return cuda != MST_OK ? cuda : st;
}

mst_status msi_group_abort(mst_group *group, const mst_site *site, const char *reason) {
    char show[96], who[MSI_RANK_SHOW_MAX], where[WHERE_MAX], what[400];
    struct abort a = {.cause = -1};
    snprintf(what, sizeof what, "aborted %s%s%s%.200s", msi_group_show(group, show, sizeof show),
             show_site(site, where), reason && *reason ? ": " : "", reason ? reason : "");
    snprintf(a.own, sizeof a.own, "this rank %s", what);
    snprintf(a.others, sizeof a.others, "%s %s", msi_rank_show(group, group->world->rank, who, sizeof who),
             what);
    return abort_comms(group, &a);
}

/* The lost rank of which this rank knows, with the thread's error about it; -1: none. The store may not
 * know it yet. */
static int find_lost(mst_group *group) {
    struct msi_comm *comm = atomic_load_explicit(&group->comm, memory_order_acquire);
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    msi_group_report_ended(group, &wait);
    if (msi_group_check(group, true) == MST_ERR_PEER_LOST) return msi_group_rank_of(group, group->lost);
    if (!comm || msi_comm_check(comm) != MST_ERR_PEER_LOST) return -1;
    int culprit = mst_last_error()->culprit;
    return culprit >= 0 ? msi_group_rank_of(group, culprit) : -1;
}

/* The rank because of which the last call of this rank has failed, with an error about it; -1: none. */
static int find_stalled(mst_group *group) {
    char who[MSI_RANK_SHOW_MAX];
    int cause = msi_world_cause(group->world), rank = cause < 0 ? -1 : msi_group_rank_of(group, cause);
    if (rank < 0) return -1;
    msi_fail(MST_ERR_STALLED, NULL, "%s did not take part in a call in time",
             msi_rank_show(group, cause, who, sizeof who));
    return rank;
}

mst_status msi_group_leave_calls(mst_group *group, const mst_site *site, const char *call) {
    char who[MSI_RANK_SHOW_MAX], where[WHERE_MAX];
    struct abort a = {.cause = find_lost(group)};
    bool lost = a.cause >= 0;
    if (!lost) lost = (a.cause = find_stalled(group)) >= 0;
    show_site(site, where);
    snprintf(a.own, sizeof a.own, "this rank called %s%s", call, where);
    snprintf(a.others, sizeof a.others, "%.300s%s%s called %s%s", lost ? mst_last_error()->message : "",
             lost ? "; " : "", msi_rank_show(group, group->world->rank, who, sizeof who), call, where);
    return abort_comms(group, &a);
}

mst_status msi_group_check_abort(mst_group *group) {
    struct msi_comm *comm;
    mst_status st = msi_group_comm_of(group, MST_MEMORY_HOST, &comm);
    return st == MST_OK ? msi_comm_check_abort(comm) : st;
}
