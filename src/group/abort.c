/* abort.c - a rank aborts a group: its calls end on all ranks. See world.h. */
#include "base/error.h"
#include "base/str.h"
#include "group/choice.h"

#include <stdio.h>

/* Ends the communicator for a kind of memory, which is made if no call has needed it: later calls find it. */
static mst_status abort_comm(mst_group *group, mst_memory memory, const char *own, const char *others) {
    struct msi_comm *comm;
    mst_status st = msi_group_comm_of(group, memory, &comm);
    if (st == MST_OK) msi_comm_abort(comm, own, others);
    return st;
}

mst_status msi_group_abort(mst_group *group, const mst_site *site, const char *reason) {
    char show[96], who[MSI_PROCESS_MAX + 32], where[160] = "", what[400], own[500], others[600];
    if (site->file)
        snprintf(where, sizeof where, " at %.80s:%d (%.50s)", msi_base_name(site->file), site->line,
                 site->function);
    snprintf(what, sizeof what, "aborted %s%s%s%.200s", msi_group_show(group, show, sizeof show), where,
             reason && *reason ? ": " : "", reason ? reason : "");
    snprintf(own, sizeof own, "this rank %s", what);
    snprintf(others, sizeof others, "%s %s", msi_rank_show(group, group->world->rank, who, sizeof who), what);
    mst_status st = abort_comm(group, MST_MEMORY_HOST, own, others);
    if (st == MST_OK && group->backends.of[MST_MEMORY_CUDA])
        st = abort_comm(group, MST_MEMORY_CUDA, own, others);
    return st;
}

mst_status msi_group_check_abort(mst_group *group) {
    struct msi_comm *comm;
    mst_status st = msi_group_comm_of(group, MST_MEMORY_HOST, &comm);
    return st == MST_OK ? msi_comm_check_abort(comm) : st;
}
