/*
 * errors.c - which rank is to blame for a failure of a backend. Backends hardly know it. The store knows
 * which ranks died, which failed and why, and what waiting ranks have called. A rank that fails reports it
 * before it leaves: so ask first which ranks are lost, then for failures. See module.h.
 */
#include "base/error.h"
#include "comm/wait_reports.h"
#include "engine/module/module.h"
#include "os/pidfd.h"

#include <stdio.h>

enum { CUT_OFF_MS = 500 };

/* A rank that has left may have done its part: one that died comes first. */
static int find_lost(struct msi_comm *comm) {
    int left = -1;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank || !comm->hooks.is_gone(comm->hooks.context, r)) continue;
        if (comm->hooks.has_died(comm->hooks.context, r)) return r;
        if (left < 0) left = r;
    }
    return left;
}

/* A rank of this host whose process has ended without leaving, which a custom store does not report; -1:
 * none. */
static int find_ended(struct msi_comm *comm) {
    const int *pids = comm->ranks.pids;
    for (int r = 0; r < comm->size; r++) {
        if (comm->ranks.slots[r] < 0 || pids[r] == pids[comm->rank]) continue;
        if (comm->hooks.is_gone(comm->hooks.context, r) || !msi_process_has_ended(pids[r])) continue;
        /* A rank tells that it leaves before its process ends. */
        if (msi_comm_refresh(comm) == MST_OK && !comm->hooks.is_gone(comm->hooks.context, r)) return r;
    }
    return -1;
}

/* A slot has failed because a rank is lost or the network failed. If a rank died, the store knows it soon
 * after. */
static mst_status explain_loss(struct msi_comm *comm, mst_status status, int *culprit) {
    void *context = comm->hooks.context;
    struct msi_saved_error saved;
    msi_error_save(&saved, status);
    struct msi_wait wait = {msi_deadline(CUT_OFF_MS), NULL};
    do {
        if (msi_comm_refresh(comm) == MST_ERR_STORE_LOST) return msi_comm_say_store_lost(comm);
        mst_status reported = msi_failure_report_read(comm, -1, culprit);
        if (reported != MST_OK) return msi_blame(reported, msi_comm_global(comm, *culprit));
        *culprit = find_lost(comm);
        if (*culprit >= 0) return comm->hooks.say_lost(context, *culprit, false);
    } while (msi_wait_pause(&wait, CUT_OFF_MS / 20, "") == MST_OK);
    *culprit = find_ended(comm);
    if (*culprit >= 0) return comm->hooks.say_lost(context, *culprit, false);
    *culprit = msi_comm_rank_of(comm, saved.culprit);
    if (!saved.remedy[0])
        snprintf(saved.remedy, sizeof saved.remedy,
                 "look at the other ranks' output; the group must be recreated");
    return msi_error_restore(&saved);
}

mst_status msi_module_say(struct msi_comm *comm, mst_status status, int *culprit) {
    *culprit = msi_comm_rank_of(comm, mst_last_error()->culprit);
    bool lost = status == MST_ERR_PEER_LOST || status == MST_ERR_SYSTEM || status == MST_ERR_UNREACHABLE ||
                status == MST_ERR_TIMEOUT;
    return lost ? explain_loss(comm, status, culprit) : status;
}

static mst_status find_loss(struct msi_comm *comm, int *culprit) {
    msi_comm_refresh(comm);
    mst_status st = msi_failure_report_read(comm, -1, culprit);
    if (st != MST_OK) return st;
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && comm->hooks.has_died(comm->hooks.context, r)) {
            *culprit = r;
            return comm->hooks.say_lost(comm->hooks.context, r, false);
        }
    *culprit = find_ended(comm);
    return *culprit < 0 ? MST_OK : comm->hooks.say_lost(comm->hooks.context, *culprit, false);
}

void msi_module_watch_ranks(struct msi_module *m) {
    struct msi_comm *comm = m->comm;
    int culprit = -1;
    if (comm->failure.status != MST_OK) return;
    msi_comm_unlock(comm);
    mst_status st = find_loss(comm, &culprit);
    msi_comm_lock(comm);
    if (st == MST_OK || comm->failure.status != MST_OK) return;
    msi_comm_keep(comm, &comm->failure, st, culprit);
    msi_failure_report_post(comm, &comm->failure);
    msi_module_abort(m); /* ends operations on streams that wait for that rank */
}
