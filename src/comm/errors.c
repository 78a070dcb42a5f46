/* errors.c - how a communicator reports a failed operation. See comm.h. */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "comm/wait_reports.h"

#include <stdio.h>

enum { LISTED_MOST = 8, CUT_OFF_MS = 300 };

mst_status msi_comm_repeat(const struct msi_failure *f) {
    mst_status st = msi_fail(f->status, f->remedy, "%s", f->message);
    return msi_blame(st, f->global);
}

/* Rule 3 of comm.h: may the communicator continue? */
static bool spares_the_comm(const struct mst_work *work, mst_status status) {
    /* p2p/ knows whether its link is usable */
    if (msi_op_is_message(&work->op)) return status != MST_ERR_PEER_LOST;
    return work->op.desc.kind == MST_KIND_BARRIER && work->comm->traits.barrier_survives &&
           (status == MST_ERR_STALLED || status == MST_ERR_CANCELLED);
}

void msi_comm_keep(struct msi_comm *comm, struct msi_failure *f, mst_status status, int culprit) {
    const mst_error_info *info = mst_last_error();
    f->culprit = culprit;
    f->global = info->culprit;
    if (f->global < 0 && culprit >= 0) f->global = msi_comm_global(comm, culprit);
    snprintf(f->message, sizeof f->message, "%s", info->message);
    snprintf(f->remedy, sizeof f->remedy, "%s", info->remedy);
    f->status = status;
}

void msi_comm_fail(struct msi_comm *comm, struct mst_work *work, mst_status status, int culprit) {
    if (work->failure.status != MST_OK) return;
    msi_comm_keep(comm, &work->failure, status, culprit);
    if (!spares_the_comm(work, status)) msi_comm_give_up(comm, work);
}

void msi_comm_give_up(struct msi_comm *comm, const struct mst_work *work) {
    if (comm->failure.status != MST_OK) return;
    comm->failure = work->failure;
    if (comm->traits.uses_store) msi_failure_report_post(comm, &comm->failure);
    if (comm->engine->announce_failure) comm->engine->announce_failure(work);
}

void msi_comm_tell_end(struct msi_comm *comm, mst_status status) {
    struct msi_failure failure;
    msi_comm_keep(comm, &failure, status, msi_comm_rank_of(comm, mst_last_error()->culprit));
    msi_failure_report_post(comm, &failure);
}

mst_status msi_comm_check_own_abort(struct msi_comm *comm) {
    /* Stored by msi_comm_abort. */
    bool known = atomic_load_explicit(&comm->abort.known, memory_order_acquire);
    return known ? msi_comm_repeat(&comm->abort.failure) : MST_OK;
}

mst_status msi_comm_check_abort(struct msi_comm *comm) {
    int culprit;
    mst_status st = msi_comm_check_own_abort(comm);
    if (st == MST_OK) st = msi_failure_report_read(comm, MSI_ABORTS_ONLY, &culprit);
    return st;
}

/* The given rank if it is known to be lost, else another lost rank, since a rank may leave because of
 * another; -1: none. */
static int find_lost(struct msi_comm *comm, int rank) {
    if (comm->hooks.is_gone(comm->hooks.context, rank)) return rank;
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && comm->hooks.is_gone(comm->hooks.context, r)) return r;
    return -1;
}

/* A connection ended, or memory cannot be mapped. The store knows soon after if a rank has died, or why it
 * failed. */
mst_status msi_comm_say_cut_off(struct msi_comm *comm, mst_status status, int rank, const char *why) {
    void *context = comm->hooks.context;
    char who[200];
    struct msi_wait wait = {msi_deadline(CUT_OFF_MS), NULL};
    do {
        /* a rank that fails says so before it leaves: ask for failures after asking for lost ranks */
        int culprit;
        if (comm->hooks.refresh(context) == MST_ERR_STORE_LOST) return MST_ERR_STORE_LOST;
        mst_status reported = msi_failure_report_read(comm, -1, &culprit);
        if (reported != MST_OK) return msi_blame(reported, msi_comm_global(comm, culprit));
        int lost = find_lost(comm, rank);
        if (lost >= 0) return comm->hooks.say_lost(context, lost);
    } while (msi_wait_pause(&wait, CUT_OFF_MS / 10, "") == MST_OK);
    msi_comm_show(comm, rank, who, sizeof who);
    if (status == MST_ERR_SYSTEM || status == MST_ERR_MEMORY)
        return msi_fail(status, "check the limits of this process on memory, mappings and descriptors",
                        "cannot reach %s: %s", who, why);
    return msi_fail(status, "look at that rank's own message; the group must be recreated",
                    "%s gave up this group: %s", who, why);
}

static mst_status say_fault(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    struct msi_fault *fault = &work->fault;
    char who[200], theirs[200], ours[200];
    if (fault->culprit < 0) return msi_fail(fault->status, NULL, "%s", fault->why);
    /* Another process, which does not know the group, may listen at the address of a lost rank by now. */
    if (fault->status == MST_ERR_PEER_LOST || fault->status == MST_ERR_SYSTEM ||
        fault->status == MST_ERR_PROTOCOL)
        return msi_comm_say_cut_off(comm, fault->status, fault->culprit, fault->why);
    if (fault->status == MST_ERR_STORE_LOST) return fault->status; /* the thread's last failure says it all */
    mst_status aborted = msi_comm_check_abort(comm); /* its call there does not count any more */
    if (aborted != MST_OK) return aborted;
    uint64_t seq = fault->seq ? fault->seq : work->seq;
    const struct msi_call_signature *own = comm->engine->signature_of(work, comm->rank);
    mst_status rejected = msi_rejection_read(comm, seq, own, &fault->culprit);
    if (rejected != MST_OK) return rejected;
    const struct msi_call_signature *other = comm->engine->signature_of(work, fault->culprit);
    msi_comm_show(comm, fault->culprit, who, sizeof who);
    return msi_fail(fault->status, "all ranks of a group must make the same calls in the same order",
                    "operation %llu of the group is %s on this rank, but %s called %s: %s",
                    (unsigned long long)seq, msi_call_signature_show(own, ours, sizeof ours), who,
                    msi_call_signature_show(other, theirs, sizeof theirs), fault->why);
}

void msi_comm_fail_fault(struct mst_work *work) {
    mst_status st = say_fault(work);
    msi_comm_fail(work->comm, work, st, work->fault.culprit);
}

/* Ranks that have reached the operation, but from which it still needs something; returns how many. */
static int stuck(const struct mst_work *work, int *ranks, int max) {
    const struct msi_comm *comm = work->comm;
    int n = 0;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank || !comm->engine->waits_for(work, r)) continue;
        if (n < max) ranks[n] = r;
        n++;
    }
    return n;
}

mst_status msi_comm_say_stalled(struct msi_comm *comm, const struct mst_work *work, int *culprit) {
    bool store = comm->traits.uses_store;
    int ranks[LISTED_MOST], late = store ? msi_wait_report_missing(comm, work, ranks, LISTED_MOST)
                                         : comm->engine->missing(work, ranks, LISTED_MOST);
    bool came = late == 0 && !store;
    if (came) late = stuck(work, ranks, LISTED_MOST);
    int listed = work->op.name_first && late > 1 ? 1 : late < LISTED_MOST ? late : LISTED_MOST;
    char list[800] = "", who[200], group[96];
    size_t used = 0;
    for (int i = 0; i < listed && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 msi_comm_show(comm, ranks[i], who, sizeof who));
    if (late > listed && used < sizeof list)
        snprintf(list + used, sizeof list - used, " and %d more", late - listed);
    *culprit = late && !(came && late > 1) ? ranks[0] : -1; /* a rank that came may itself wait for another */
    return msi_fail(MST_ERR_STALLED, "find out where those ranks are, or raise .timeout_ms",
                    "%d of %d ranks of %s reached %s in time; %s: %s", comm->size - (came ? 0 : late),
                    comm->size, msi_comm_show(comm, -1, group, sizeof group), work->op.name,
                    came ? "not finished" : "missing", late ? list : "none is known");
}
