/* stalls.c - which ranks keep an operation waiting. See comm_internal.h. */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "comm/wait_reports.h"
#include "os/host.h"

#include <stdio.h>
#include <stdlib.h>

enum { CAUSE_MS = 200, HOPS_MOST = 8 };

/* Ranks that have reached the operation, but from which it still needs something; returns how many. */
static int stuck(const struct mst_work *work, int *ranks) {
    const struct msi_comm *comm = work->comm;
    int n = 0;
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && comm->engine->waits_for(work, r)) ranks[n++] = r;
    return n;
}

static bool is_stopped(struct msi_comm *comm, int rank) {
    return comm->ranks.slots[rank] >= 0 && msi_process_is_stopped(comm->ranks.pids[rank]);
}

static int find_stopped(struct msi_comm *comm) {
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && is_stopped(comm, r)) return r;
    return -1;
}

static bool is_not_waiting(struct msi_comm *comm, int rank) {
    return !comm->engine->is_waiting || !comm->engine->is_waiting(comm, rank);
}

/* Keeps the ranks for which that holds, unless it holds for none. */
static int keep_if(struct msi_comm *comm, int *ranks, int n, bool (*holds)(struct msi_comm *comm, int rank)) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (holds(comm, ranks[i])) {
            int rank = ranks[kept];
            ranks[kept++] = ranks[i];
            ranks[i] = rank;
        }
    return kept ? kept : n;
}

/* The ranks that an operation waits for. */
struct late {
    bool came;                 /* collective: all ranks have reached it; these have not finished their part */
    bool all_wait;             /* message from any rank: all ranks that can send it wait themselves */
    int first;                 /* the first of them in the group; -1: none */
    struct msi_rank_list list; /* by their ranks in the world */
};

static void add_late(struct msi_comm *comm, int rank, struct late *late) {
    char who[200];
    if (late->first < 0) late->first = rank;
    msi_rank_list_add(&late->list, msi_comm_global(comm, rank), msi_comm_show(comm, rank, who, sizeof who));
}

/* The global rank that a global rank waits for, perhaps in another group; -1: none is known. */
static int awaited_by(struct msi_comm *comm, int global) {
    struct msi_wait wait;
    int rank = msi_comm_rank_of(comm, global), cause = -1;
    if (rank >= 0 && comm->engine->cause_of) cause = comm->engine->cause_of(comm, rank, true);
    if (cause >= 0 || !msi_comm_may_ask(comm, CAUSE_MS, &wait)) return cause;
    return comm->hooks.read_cause(comm->hooks.context, global, true, &wait);
}

/* The global rank that keeps a late rank waiting in another group, or that rank itself. */
static int find_root(struct msi_comm *comm, int rank) {
    int first = msi_comm_global(comm, rank), root = first;
    for (int i = 0; i < HOPS_MOST; i++) {
        int next = awaited_by(comm, root);
        if (next < 0 || next == first || next == msi_comm_global(comm, comm->rank)) break;
        root = next;
    }
    return root;
}

static bool is_listed(const struct late *late, int global) {
    for (int i = 0; i < late->list.ranks.n; i++)
        if (late->list.ranks.ranks[i] == global) return true;
    return false;
}

/* A late rank, or the one for which it waits. */
static void add_root(struct msi_comm *comm, int rank, struct late *late) {
    char who[200], text[260];
    int root = find_root(comm, rank), member = msi_comm_rank_of(comm, root);
    if (is_listed(late, root)) return;
    if (member >= 0) {
        add_late(comm, member, late);
        return;
    }
    snprintf(text, sizeof text, "rank %d (of another group, in which %s waits)", root,
             msi_comm_show(comm, rank, who, sizeof who));
    msi_rank_list_add(&late->list, root, text);
}

/* Finds the ranks, without those that wait themselves. ask: also asks the store. Returns how many. */
static int find_causes(struct msi_comm *comm, const struct mst_work *work, bool ask, int *ranks,
                       struct late *late) {
    bool store = comm->traits.uses_store;
    int n = store && ask ? msi_wait_report_missing(comm, work, ranks, comm->size, NULL)
                         : comm->engine->missing(work, ranks, comm->size);
    int host = msi_comm_silent_host(comm);
    if (host >= 0) { /* so the others cannot tell for whom they wait */
        ranks[0] = host;
        return 1;
    }
    late->came = n == 0 && !store;
    if (late->came) n = stuck(work, ranks);
    int stopped = keep_if(comm, ranks, n, is_stopped), cause = late->came ? find_stopped(comm) : -1;
    if (cause >= 0 && (n == 0 || !is_stopped(comm, ranks[0]))) { /* they wait for it */
        ranks[0] = cause;
        return 1;
    }
    return stopped < n ? stopped : keep_if(comm, ranks, n, is_not_waiting);
}

static bool is_from_any(const struct mst_work *work) {
    return msi_op_is_message(&work->op) && msi_comm_peer(work) < 0;
}

/* Has the rank left, or died, so that it sends nothing? */
static bool has_gone(const struct msi_comm *comm, int rank) {
    return comm->hooks.is_gone(comm->hooks.context, rank) || msi_comm_has_ended(comm, rank) ||
           msi_comm_has_left(comm, rank);
}

/* Waits for no rank, in this group or in another one, as far as ranks of this host know. */
static bool is_free_here(struct msi_comm *comm, int rank) {
    if (!is_not_waiting(comm, rank)) return false;
    return !comm->engine->cause_of || comm->engine->cause_of(comm, rank, true) < 0;
}

/* The same; asks the store, too. */
static bool is_free(struct msi_comm *comm, int rank) {
    return is_free_here(comm, rank) && awaited_by(comm, msi_comm_global(comm, rank)) < 0;
}

/*
 * Finds the ranks that can send a message from any rank, without those that wait themselves, as above. A rank
 * that waits for this one, or for one of those, keeps nobody waiting.
 */
static int find_senders(struct msi_comm *comm, const struct mst_work *work, bool ask, int *ranks,
                        struct late *late) {
    int n = 0, host = msi_comm_silent_host(comm);
    if (host >= 0) {
        ranks[0] = host;
        return 1;
    }
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && !has_gone(comm, r)) ranks[n++] = r;
    int stopped = keep_if(comm, ranks, n, is_stopped);
    if (n && is_stopped(comm, ranks[0])) return stopped;
    if (n && ask && comm->traits.uses_store)
        n = msi_wait_report_missing(comm, work, ranks, comm->size, &late->all_wait);
    if (late->all_wait) return n;
    bool (*holds)(struct msi_comm *, int) = ask ? is_free : is_free_here;
    int kept = keep_if(comm, ranks, n, holds);
    late->all_wait = n && !holds(comm, ranks[0]);
    return kept;
}

static void find_late(struct msi_comm *comm, const struct mst_work *work, bool ask, int most,
                      struct late *late) {
    int *ranks = malloc((size_t)comm->size * sizeof *ranks), n = 0;
    late->first = -1;
    late->came = late->all_wait = false;
    msi_rank_list_init(&late->list, most);
    if (ranks) n = (is_from_any(work) ? find_senders : find_causes)(comm, work, ask, ranks, late);
    for (int i = 0; i < n; i++)
        (ask && (n == 1 || late->all_wait) ? add_root : add_late)(comm, ranks[i], late);
    free(ranks);
}

mst_status msi_comm_say_stalled(struct msi_comm *comm, const struct mst_work *work, int *culprit) {
    struct late late;
    char group[96];
    find_late(comm, work, true, work->op.name_first ? 1 : MSI_RANKS_LISTED, &late);
    const struct msi_rank_list *list = &late.list;
    /* a rank that came may itself wait for another */
    bool several = late.came && list->n > 1;
    *culprit = several ? -1 : late.first;
    mst_status st =
        msi_fail(MST_ERR_STALLED, "find out where those ranks are, or raise .timeout_ms",
                 "%d of %d ranks of %s reached %s in time; %s: %s", comm->size - (late.came ? 0 : list->n),
                 comm->size, msi_comm_show(comm, -1, group, sizeof group), work->op.name,
                 late.came ? "not finished" : "missing", list->n ? list->text : "none is known");
    msi_blame_missing(st, &list->ranks);
    return several ? msi_blame(st, -1) : st;
}

/* Lists the ranks that have left or died. */
static void list_gone(struct msi_comm *comm, struct msi_rank_list *gone) {
    char who[200], text[220];
    msi_rank_list_init(gone, MSI_RANKS_LISTED);
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank || !has_gone(comm, r)) continue;
        bool died = comm->hooks.has_died(comm->hooks.context, r);
        snprintf(text, sizeof text, "%s has %s", msi_comm_show(comm, r, who, sizeof who),
                 died ? "died" : "left");
        msi_rank_list_add(gone, msi_comm_global(comm, r), text);
    }
}

static const char *show_tag(const struct mst_work *work, char out[32]) {
    snprintf(out, 32, "any tag");
    if (work->op.desc.tag >= 0) snprintf(out, 32, "tag %d", work->op.desc.tag);
    return out;
}

/* No message from any rank arrived in time. */
static mst_status say_not_sent(struct msi_comm *comm, const struct mst_work *work, int *culprit) {
    char tag[32];
    struct late late;
    struct msi_rank_list gone;
    list_gone(comm, &gone);
    find_late(comm, work, true, MSI_RANKS_LISTED, &late);
    bool one = late.list.n == 1;
    const char *how = late.all_wait && !one ? "; these wait themselves: " : "; not sent by ";
    mst_status st = msi_fail(MST_ERR_STALLED, "find out where those ranks are, or raise .timeout_ms",
                             "no message from any rank with %s arrived in time%s%s%s%s", show_tag(work, tag),
                             late.list.n ? how : "", late.list.text, gone.n ? "; " : "", gone.text);
    *culprit = one ? late.first : -1;
    msi_blame_missing(st, &late.list.ranks);
    return one ? st : msi_blame(st, -1);
}

/* The rank that the message needs, or another one for which that waits; out says that then. */
static int find_cause(struct msi_comm *comm, const struct mst_work *work, char *out, size_t size) {
    int peer = msi_comm_peer(work), cause = peer, rank;
    char who[200];
    if (comm->traits.uses_store && msi_wait_report_missing(comm, work, &rank, 1, NULL) > 0) cause = rank;
    if (msi_comm_silent_host(comm) >= 0) cause = msi_comm_silent_host(comm);
    if (!is_stopped(comm, peer) && find_stopped(comm) >= 0) cause = find_stopped(comm);
    if (cause >= 0) cause = msi_comm_rank_of(comm, find_root(comm, cause));
    if (cause < 0 || cause == peer || cause == comm->rank) return peer;
    snprintf(out, size, "; %s does not take part", msi_comm_show(comm, cause, who, sizeof who));
    return cause;
}

mst_status msi_comm_say_unmatched(struct msi_comm *comm, const struct mst_work *work, int *culprit) {
    char who[200], tag[32], cause[300] = "";
    if (is_from_any(work)) return say_not_sent(comm, work, culprit);
    msi_comm_show(comm, msi_comm_peer(work), who, sizeof who);
    *culprit = find_cause(comm, work, cause, sizeof cause);
    return msi_fail(MST_ERR_STALLED, "find out where that rank is, or raise .timeout_ms",
                    work->op.desc.kind == MST_KIND_SEND ? "%s has not received the message with %s in time%s"
                                                        : "no message from %s with %s arrived in time%s",
                    who, show_tag(work, tag), cause);
}

mst_status msi_comm_say_not_done(const struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    const struct mst_work *active = work; /* collectives run one after the other */
    struct late late = {.first = -1};
    msi_rank_list_init(&late.list, MSI_RANKS_LISTED);
    if (!msi_op_is_message(&work->op)) {
        active = msi_comm_next_active(comm, NULL);
        if (active && active->begun) find_late(comm, active, false, MSI_RANKS_LISTED, &late);
    } else if (is_from_any(work)) {
        find_late(comm, work, false, MSI_RANKS_LISTED, &late);
    } else {
        add_late(comm, msi_comm_peer(work), &late);
    }
    mst_status st = msi_fail(MST_ERR_TIMEOUT, "wait again, or give .timeout_ms", "%s is not done yet%s%s",
                             work->op.name, late.list.n ? "; it waits for " : "", late.list.text);
    msi_blame_missing(st, &late.list.ranks);
    return late.list.n == 1 ? st : msi_blame(st, -1);
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
    struct late late = {.first = -1};
    char call[300], group[96];
    bool message = msi_op_is_message(&work->op);
    if (message)
        show_message(&work->op, call, sizeof call);
    else
        msi_call_signature_show(&work->op.signature, call, sizeof call);
    if (message && !is_from_any(work)) {
        msi_rank_list_init(&late.list, MSI_RANKS_LISTED);
        add_late(comm, msi_comm_peer(work), &late);
    } else {
        find_late(comm, work, true, MSI_RANKS_LISTED, &late);
    }
    msi_slow_write(&work->slow, work->wait.deadline, call, msi_comm_show(comm, -1, group, sizeof group),
                   late.list.n ? late.list.text
                   : message   ? "any rank"
                               : "the other ranks");
}
