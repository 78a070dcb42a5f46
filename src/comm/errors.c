/* errors.c - how a communicator reports a failed operation. See comm.h. */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "comm/wait_reports.h"
#include "os/exit.h"
#include "os/pidfd.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CUT_OFF_MS = 300,
    ASK_MS = 1000,
    GRACE_MS = 250,   /* after the deadline, to ask which ranks are missing, if the store answers */
    SILENT_MS = 1000, /* between questions to a store that does not answer */
    ACCUSE_MS = 500,  /* a store that does not answer for that time is stopped rather than slow */
    /* The call of the last rank that can serve the store fails that much later: the others read why. They ask
     * the store more often. On one host they also read it in shared memory. */
    LEARN_MS = 250,
    LEARN_HERE_MS = 20,
    LEARN_LOOK_MS = 5,
};

/* Since when the store has not answered; 0: it answers, or a standby has taken over meanwhile. */
static int64_t silent_since(const struct msi_comm *comm) {
    int64_t since = atomic_load_explicit(&comm->waiting.silent_since, memory_order_relaxed);
    int host = atomic_load_explicit(&comm->waiting.silent_host, memory_order_relaxed);
    return since && host == comm->hooks.store_host(comm->hooks.context) ? since : 0;
}

bool msi_comm_may_ask(struct msi_comm *comm, int most_ms, struct msi_wait *wait) {
    int64_t now = msi_now(), end = now + (int64_t)most_ms * 1000000;
    int64_t until = atomic_load_explicit(&comm->waiting.until, memory_order_relaxed);
    bool silent = silent_since(comm) != 0;
    if (until && !silent) until += (int64_t)GRACE_MS * 1000000;
    if (until && until <= now) return false;
    if (silent &&
        now < atomic_load_explicit(&comm->waiting.asked, memory_order_relaxed) + (int64_t)SILENT_MS * 1000000)
        return false;
    atomic_store_explicit(&comm->waiting.asked, now, memory_order_relaxed);
    atomic_store_explicit(&comm->waiting.asked_host, comm->hooks.store_host(comm->hooks.context),
                          memory_order_relaxed);
    *wait = (struct msi_wait){until && until < end ? until : end, NULL};
    return true;
}

mst_status msi_comm_asked(struct msi_comm *comm, mst_status status) {
    _Atomic int64_t *since = &comm->waiting.silent_since;
    if (status != MST_ERR_TIMEOUT) {
        atomic_store_explicit(since, 0, memory_order_relaxed);
    } else if (!silent_since(comm)) {
        atomic_store_explicit(&comm->waiting.silent_host,
                              atomic_load_explicit(&comm->waiting.asked_host, memory_order_relaxed),
                              memory_order_relaxed);
        atomic_store_explicit(since, atomic_load_explicit(&comm->waiting.asked, memory_order_relaxed),
                              memory_order_relaxed);
    }
    return status;
}

static bool store_is_silent(const struct msi_comm *comm) {
    int64_t since = silent_since(comm);
    return since && msi_now() - since >= (int64_t)ACCUSE_MS * 1000000;
}

mst_status msi_comm_refresh(struct msi_comm *comm) {
    struct msi_wait wait;
    if (!msi_comm_may_ask(comm, ASK_MS, &wait)) return MST_ERR_TIMEOUT;
    return msi_comm_asked(comm, comm->hooks.refresh(comm->hooks.context, &wait));
}

mst_status msi_comm_repeat(const struct msi_failure *f) {
    mst_status st = msi_fail(f->status, f->remedy, "%s", f->message);
    msi_blame_missing(st, &f->missing);
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
    /* The message may blame an earlier cause than the rank with which the operation failed. */
    if (status == MST_ERR_STORE_LOST) culprit = -1; /* the other rank is not the cause */
    f->global = info->culprit >= 0 ? info->culprit : msi_comm_global(comm, culprit);
    f->culprit = msi_comm_rank_of(comm, f->global);
    f->missing = *msi_get_missing();
    snprintf(f->message, sizeof f->message, "%s", info->message);
    snprintf(f->remedy, sizeof f->remedy, "%s", info->remedy);
    f->status = status;
}

void msi_comm_end_aborted(struct msi_comm *comm) {
    if (comm->failure.status != MST_OK) return;
    comm->failure = comm->abort.failure;
    if (comm->engine->announce_abort) comm->engine->announce_abort(comm);
}

/*
 * Is another thread of this rank aborting the group? It tells the other ranks first, and these may fail
 * before it has told this one. Waits for that with the lock, which that thread does not need before.
 */
static bool is_aborting(struct msi_comm *comm) {
    enum { ABORT_MS = 1000 };
    /* Both are stored by msi_comm_abort. */
    if (!atomic_load_explicit(&comm->abort.called, memory_order_relaxed)) return false;
    int64_t until = msi_deadline(ABORT_MS);
    while (!atomic_load_explicit(&comm->abort.known, memory_order_acquire) && msi_now() < until)
        sched_yield();
    return atomic_load_explicit(&comm->abort.known, memory_order_acquire);
}

void msi_comm_fail(struct msi_comm *comm, struct mst_work *work, mst_status status, int culprit) {
    if (work->failure.status != MST_OK) return;
    if (comm->failure.status == MST_OK && is_aborting(comm)) {
        msi_comm_end_aborted(comm);
        work->failure = comm->failure;
        return;
    }
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

/*
 * A dead rank, because of which another one may have given up; -1: none. A rank that has left may have done
 * so after its part of the operation.
 */
static int find_dead(struct msi_comm *comm) {
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && comm->hooks.has_died(comm->hooks.context, r)) return r;
    return -1;
}

/* Tells the group why ranks of this host have ended. The store may have ended, too. */
static void note_causes(struct msi_comm *comm) {
    if (!comm->engine->cause_of || !comm->joined) return;
    for (int r = 0; r < comm->size; r++) {
        int cause = r != comm->rank ? comm->engine->cause_of(comm, r, false) : -1;
        if (cause >= 0 &&
            (comm->hooks.is_gone(comm->hooks.context, r) || msi_process_has_ended(comm->ranks.pids[r])))
            comm->hooks.note_cause(comm->hooks.context, r, cause);
    }
}

void msi_comm_note_causes(struct msi_comm *comm) {
    msi_comm_lock(comm);
    note_causes(comm);
    msi_comm_unlock(comm);
}

mst_status msi_comm_say_lost(struct msi_comm *comm, int rank, bool only_it) {
    void *context = comm->hooks.context;
    char who[200], group[96];
    note_causes(comm);
    if (msi_comm_has_ended(comm, rank) || comm->hooks.is_gone(context, rank) ||
        !msi_comm_has_left(comm, rank))
        return comm->hooks.say_lost(context, rank, only_it);
    int cause = comm->hooks.unreported(context); /* because of which it may have left */
    if (cause >= 0 && comm->hooks.has_died(context, cause))
        return comm->hooks.say_lost(context, cause, false);
    return msi_fail(MST_ERR_PEER_LOST,
                    "let all ranks finish their calls on a group before one of them destroys it",
                    "%s has destroyed %s", msi_comm_show(comm, rank, who, sizeof who),
                    msi_comm_show(comm, -1, group, sizeof group));
}

int msi_comm_silent_host(struct msi_comm *comm) {
    int host = comm->hooks.store_host(comm->hooks.context);
    return host != comm->rank && comm->traits.uses_store && store_is_silent(comm) ? host : -1;
}

mst_status msi_comm_say_store_lost(struct msi_comm *comm) {
    void *context = comm->hooks.context;
    int cause = comm->hooks.unreported(context), host = comm->hooks.store_host(context);
    if (cause >= 0 && cause != host && comm->hooks.has_died(context, cause))
        return msi_comm_say_lost(comm, cause, false);
    /* The kernel knows of deaths on this host that the store cannot report any more. */
    if (comm->engine->find_victim) {
        int victim = comm->engine->find_victim(comm);
        if (victim >= 0 && victim != host) return msi_comm_say_lost(comm, victim, false);
    }
    return MST_ERR_STORE_LOST;
}

/* This rank lacks something, so that it cannot communicate with another one: that one is not the cause. */
static mst_status say_own_lack(struct msi_comm *comm, mst_status status, int rank, const char *why) {
    char who[200];
    msi_fail(status, "check the limits of this process on memory, mappings and descriptors",
             "cannot reach %s: %s", msi_comm_show(comm, rank, who, sizeof who), why);
    return msi_blame(status, msi_comm_global(comm, comm->rank));
}

/* The deadline, or that of the call of this rank with what may_ask adds to it. */
static int64_t limit_to_call(const struct msi_comm *comm, int64_t deadline) {
    int64_t until = atomic_load_explicit(&comm->waiting.until, memory_order_relaxed);
    int64_t most = until + (int64_t)GRACE_MS * 1000000;
    return until && most < deadline ? most : deadline;
}

/* The two have different secrets, or different versions: neither is lost. */
static bool is_refused(mst_status status) {
    return status == MST_ERR_CONFIG || status == MST_ERR_VERSION;
}

/* A rank that has left may have refused to make this collective (NULL: a message), and said so before. */
static mst_status say_gone(struct msi_comm *comm, struct mst_work *collective, int rank, bool only_it) {
    int culprit;
    bool left = collective && comm->engine->skip && !comm->hooks.has_died(comm->hooks.context, rank);
    mst_status st = MST_OK;
    if (left) st = msi_rejection_read(comm, collective->seq, &collective->op.signature, &culprit);
    return st == MST_OK ? msi_comm_say_lost(comm, rank, only_it) : st;
}

/* The connection to a rank has ended. collective: see say_gone. */
static mst_status say_cut_off(struct msi_comm *comm, struct mst_work *collective, mst_status status, int rank,
                              const char *why, bool only_it) {
    if (status == MST_ERR_MEMORY) return say_own_lack(comm, status, rank, why);
    if (is_refused(status)) {
        char peer[200];
        return msi_fail(status, NULL, "cannot connect to %s: %s",
                        msi_comm_show(comm, rank, peer, sizeof peer), why);
    }
    void *context = comm->hooks.context;
    char who[200], store[200];
    struct msi_wait wait = {msi_deadline(CUT_OFF_MS), NULL};
    int pause = 1; /* the store usually learns of a death within a millisecond */
    int64_t restoring = 0;
    mst_status more;
    do {
        /* a rank that fails says so before it leaves: ask for failures after asking for lost ranks */
        int culprit;
        if (msi_comm_refresh(comm) == MST_ERR_STORE_LOST) return msi_comm_say_store_lost(comm);
        mst_status reported = msi_failure_report_read(comm, -1, &culprit);
        if (reported != MST_OK) return reported;
        if (comm->hooks.is_gone(context, rank)) return say_gone(comm, collective, rank, only_it);
        int other = only_it ? comm->hooks.unreported(context) : find_dead(comm);
        if (other >= 0) return msi_comm_say_lost(comm, other, false);
        more = msi_wait_pause(&wait, pause, "");
        pause = pause * 2 < CUT_OFF_MS / 10 ? pause * 2 : CUT_OFF_MS / 10;
        if (restoring == 0) { /* the store may tell the cause soon */
            restoring = comm->hooks.restore_ms(context);
            if (restoring) wait.deadline = limit_to_call(comm, msi_deadline(restoring));
        }
    } while (more == MST_OK || (restoring && msi_now() < wait.deadline));
    if (msi_comm_has_left(comm, rank) || msi_comm_has_ended(comm, rank))
        return msi_comm_say_lost(comm, rank, only_it);
    if (status == MST_ERR_SYSTEM) return say_own_lack(comm, status, rank, why);
    msi_comm_show(comm, rank, who, sizeof who);
    int host = msi_comm_silent_host(comm);
    if (host >= 0 && host != rank) {
        msi_fail(status, "find out where that rank is; the group must be recreated",
                 "%s, which hosts the store, does not answer, and %s gave up this group: %s",
                 msi_comm_show(comm, host, store, sizeof store), who, why);
        return msi_blame(status, msi_comm_global(comm, host));
    }
    return msi_fail(status, "look at that rank's own message; the group must be recreated",
                    "%s gave up this group: %s", who, why);
}

mst_status msi_comm_say_cut_off(struct msi_comm *comm, mst_status status, int rank, const char *why,
                                bool only_it) {
    return say_cut_off(comm, NULL, status, rank, why, only_it);
}

static mst_status say_fault(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    struct msi_fault *fault = &work->fault;
    char who[200], theirs[200], ours[200], lengths[120];
    if (fault->culprit < 0) return msi_fail(fault->status, NULL, "%s", fault->why);
    /* Another process, which does not know the group, may listen at the address of a lost rank by now. */
    if (fault->status == MST_ERR_PEER_LOST || fault->status == MST_ERR_SYSTEM ||
        fault->status == MST_ERR_PROTOCOL || is_refused(fault->status))
        return say_cut_off(comm, msi_op_is_message(&work->op) ? NULL : work, fault->status, fault->culprit,
                           fault->why, false);
    /* The thread's last failure says it all. */
    if (fault->status == MST_ERR_STORE_LOST) return msi_comm_say_store_lost(comm);
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

/* The lost ranks of the group, as far as this rank knows. */
static int count_lost(struct msi_comm *comm) {
    int n = 0;
    for (int r = 0; r < comm->size; r++) n += r != comm->rank && comm->hooks.is_gone(comm->hooks.context, r);
    return n;
}

void msi_comm_let_others_learn(struct msi_comm *comm, mst_status status) {
    if (comm->size == 1 || !comm->hooks.keeps_store(comm->hooks.context)) return;
    struct msi_wait wait = {msi_deadline(comm->ranks.one_host ? LEARN_HERE_MS : LEARN_MS), NULL};
    msi_comm_lock(comm);
    bool failed = comm->failure.status != MST_OK, reports = comm->traits.uses_store;
    int lost = count_lost(comm), told = comm->waiting.told;
    bool known = failed ? told < 0 || !reports : status != MST_ERR_PEER_LOST || told < 0 || told >= lost;
    if (!known) comm->waiting.told = failed ? -1 : lost;
    msi_comm_unlock(comm);
    if (known) return;
    msi_exit_not_before(msi_deadline(MSI_EXIT_DELAY_MS));
    struct msi_saved_error error;
    msi_error_save(&error, status);
    do comm->hooks.refresh(comm->hooks.context, &wait);
    while (!msi_failure_report_by_all(comm) && msi_wait_pause(&wait, LEARN_LOOK_MS, "") == MST_OK);
    msi_error_restore(&error);
}
