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

/*
 * Has the other rank of a message died or left? A broken connection alone is a failure of the group. A
 * receive from any source without a message has no connection.
 */
static bool has_lost_its_peer(const struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    int peer = msi_comm_peer(work);
    return peer < 0 || comm->hooks.is_gone(comm->hooks.context, peer) || msi_comm_has_ended(comm, peer) ||
           msi_comm_has_left(comm, peer);
}

/* Rule 3 of comm.h: may the communicator continue? */
static bool spares_the_comm(const struct mst_work *work, mst_status status) {
    /* p2p/ knows whether its link is usable. A backend may fail as a whole if a rank is lost. */
    if (msi_op_is_message(&work->op))
        return status != MST_ERR_PEER_LOST || (!work->comm->config.backend && has_lost_its_peer(work));
    return work->op.desc.kind == MST_KIND_BARRIER && work->comm->traits.barrier_survives &&
           (status == MST_ERR_STALLED || status == MST_ERR_CANCELLED);
}

void msi_comm_keep(struct msi_comm *comm, struct msi_failure *f, mst_status status, int culprit) {
    const mst_error_info *info = mst_last_error();
    /* The message may blame a rank that was lost before this one: the other ranks must blame the same. */
    int blamed = info->culprit >= 0 ? msi_comm_rank_of(comm, info->culprit) : -1;
    f->culprit = blamed >= 0 ? blamed : culprit;
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

/* A lost rank, because of which another one may have left; -1: none. */
static int find_lost(struct msi_comm *comm) {
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && comm->hooks.is_gone(comm->hooks.context, r)) return r;
    return -1;
}

mst_status msi_comm_say_lost(struct msi_comm *comm, int rank, bool only_it) {
    void *context = comm->hooks.context;
    char who[200], group[96];
    if (msi_comm_has_ended(comm, rank) || comm->hooks.is_gone(context, rank) ||
        !msi_comm_has_left(comm, rank))
        return comm->hooks.say_lost(context, rank, only_it);
    int cause = comm->hooks.unreported(context); /* because of which it may have left */
    if (cause >= 0) return comm->hooks.say_lost(context, cause, false);
    return msi_fail(MST_ERR_PEER_LOST,
                    "let all ranks finish their calls on a group before one of them destroys it",
                    "%s has destroyed %s", msi_comm_show(comm, rank, who, sizeof who),
                    msi_comm_show(comm, -1, group, sizeof group));
}

mst_status msi_comm_say_cut_off(struct msi_comm *comm, mst_status status, int rank, const char *why,
                                bool only_it) {
    void *context = comm->hooks.context;
    char who[200];
    struct msi_wait wait = {msi_deadline(CUT_OFF_MS), NULL};
    int pause = 1; /* the store usually learns of a death within a millisecond */
    mst_status more;
    do {
        /* a rank that fails says so before it leaves: ask for failures after asking for lost ranks */
        int culprit;
        if (comm->hooks.refresh(context) == MST_ERR_STORE_LOST) return MST_ERR_STORE_LOST;
        mst_status reported = msi_failure_report_read(comm, -1, &culprit);
        if (reported != MST_OK) return msi_blame(reported, msi_comm_global(comm, culprit));
        if (comm->hooks.is_gone(context, rank)) return msi_comm_say_lost(comm, rank, only_it);
        int other = only_it ? comm->hooks.unreported(context) : find_lost(comm);
        if (other >= 0) return msi_comm_say_lost(comm, other, false);
        more = msi_wait_pause(&wait, pause, "");
        pause = pause * 2 < CUT_OFF_MS / 10 ? pause * 2 : CUT_OFF_MS / 10;
    } while (more == MST_OK);
    if (msi_comm_has_left(comm, rank)) return msi_comm_say_lost(comm, rank, only_it);
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
    char who[200], theirs[200], ours[200], lengths[120];
    if (fault->culprit < 0) return msi_fail(fault->status, NULL, "%s", fault->why);
    /* Another process, which does not know the group, may listen at the address of a lost rank by now. */
    if (fault->status == MST_ERR_PEER_LOST || fault->status == MST_ERR_SYSTEM ||
        fault->status == MST_ERR_PROTOCOL)
        return msi_comm_say_cut_off(comm, fault->status, fault->culprit, fault->why, false);
    if (fault->status == MST_ERR_STORE_LOST) return fault->status; /* the thread's last failure says it all */
    mst_status aborted = msi_comm_check_abort(comm); /* its call there does not count any more */
    if (aborted != MST_OK) return aborted;
    uint64_t seq = fault->seq ? fault->seq : work->seq;
    const struct msi_call_signature *own = comm->engine->signature_of(work, comm->rank);
    mst_status rejected = msi_rejection_read(comm, seq, own, &fault->culprit);
    if (rejected != MST_OK) return rejected;
    const struct msi_call_signature *other = comm->engine->signature_of(work, fault->culprit);
    const char *counts = NULL;
    if (!fault->seq) /* else an earlier operation differed */
        counts = msi_op_compare_counts(&work->op, other, fault->culprit, lengths, sizeof lengths);
    msi_comm_show(comm, fault->culprit, who, sizeof who);
    return msi_fail(fault->status, "all ranks of a group must make the same calls in the same order",
                    "operation %llu of the group is %s on this rank, but %s called %s: %s",
                    (unsigned long long)seq, msi_call_signature_show(own, ours, sizeof ours), who,
                    msi_call_signature_show(other, theirs, sizeof theirs), counts ? counts : fault->why);
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

/* The ranks that a collective waits for, of which at most some are listed. */
struct late {
    bool came;    /* all ranks have reached it; these have not finished their part */
    int n, first; /* how many, and the first of them */
    char list[800];
};

static void find_late(struct msi_comm *comm, const struct mst_work *work, int most, struct late *late) {
    bool store = comm->traits.uses_store;
    int ranks[LISTED_MOST], n = store ? msi_wait_report_missing(comm, work, ranks, LISTED_MOST)
                                      : comm->engine->missing(work, ranks, LISTED_MOST);
    late->came = n == 0 && !store;
    if (late->came) n = stuck(work, ranks, LISTED_MOST);
    int listed = n < most ? n : most;
    char who[200];
    size_t used = 0, size = sizeof late->list;
    late->list[0] = '\0';
    for (int i = 0; i < listed && used < size; i++)
        used += (size_t)snprintf(late->list + used, size - used, "%s%s", i ? ", " : "",
                                 msi_comm_show(comm, ranks[i], who, sizeof who));
    if (n > listed && used < size) snprintf(late->list + used, size - used, " and %d more", n - listed);
    late->n = n;
    late->first = n ? ranks[0] : -1;
}

mst_status msi_comm_say_stalled(struct msi_comm *comm, const struct mst_work *work, int *culprit) {
    struct late late;
    char group[96];
    find_late(comm, work, work->op.name_first ? 1 : LISTED_MOST, &late);
    /* a rank that came may itself wait for another */
    *culprit = late.came && late.n > 1 ? -1 : late.first;
    return msi_fail(MST_ERR_STALLED, "find out where those ranks are, or raise .timeout_ms",
                    "%d of %d ranks of %s reached %s in time; %s: %s", comm->size - (late.came ? 0 : late.n),
                    comm->size, msi_comm_show(comm, -1, group, sizeof group), work->op.name,
                    late.came ? "not finished" : "missing", late.n ? late.list : "none is known");
}

/* "mst_send of 4 f32 with tag 7 at train.c:33" */
static void show_message(const struct msi_op *op, char *out, size_t size) {
    char count[64] = "", where[200] = "", tag[24] = "any tag";
    if (op->desc.tag != MST_ANY_TAG) snprintf(tag, sizeof tag, "tag %d", op->desc.tag);
    if (op->desc.dtype)
        snprintf(count, sizeof count, " of %zu %s", op->desc.count, mst_dtype_name(op->desc.dtype));
    if (op->site.file) snprintf(where, sizeof where, " at %s:%d", op->site.file, op->site.line);
    snprintf(out, size, "%s%s with %s%s", op->name, count, tag, where);
}

void msi_comm_write_slow(struct msi_comm *comm, struct mst_work *work) {
    struct late late = {.list = "any rank"};
    char call[300], group[96];
    int peer = msi_comm_peer(work);
    if (!msi_op_is_message(&work->op)) {
        msi_call_signature_show(&work->op.signature, call, sizeof call);
        find_late(comm, work, LISTED_MOST, &late);
    } else {
        show_message(&work->op, call, sizeof call);
        if (peer >= 0) msi_comm_show(comm, peer, late.list, sizeof late.list);
    }
    msi_slow_write(&work->slow, work->wait.deadline, call, msi_comm_show(comm, -1, group, sizeof group),
                   late.list[0] ? late.list : "the other ranks");
}
