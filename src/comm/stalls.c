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

static bool is_stopped(const struct msi_comm *comm, int rank) {
    return comm->ranks.slots[rank] >= 0 && msi_process_is_stopped(comm->ranks.pids[rank]);
}

static int find_stopped(const struct msi_comm *comm) {
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && is_stopped(comm, r)) return r;
    return -1;
}

static bool is_not_waiting(const struct msi_comm *comm, int rank) {
    return !comm->engine->is_waiting || !comm->engine->is_waiting(comm, rank);
}

/* Keeps the ranks for which that holds, unless it holds for none. */
static int keep_if(const struct msi_comm *comm, int *ranks, int n,
                   bool (*holds)(const struct msi_comm *comm, int rank)) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (holds(comm, ranks[i])) {
            int rank = ranks[kept];
            ranks[kept++] = ranks[i];
            ranks[i] = rank;
        }
    return kept ? kept : n;
}

/* The ranks that a collective waits for. */
struct late {
    bool came;                 /* all ranks have reached it; these have not finished their part */
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

/* The only late rank, or the one for which it waits. */
static void add_root(struct msi_comm *comm, int rank, struct late *late) {
    char who[200], text[260];
    int root = find_root(comm, rank), member = msi_comm_rank_of(comm, root);
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
    int n = store && ask ? msi_wait_report_missing(comm, work, ranks, comm->size)
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

static void find_late(struct msi_comm *comm, const struct mst_work *work, bool ask, int most,
                      struct late *late) {
    int *ranks = malloc((size_t)comm->size * sizeof *ranks);
    late->first = -1;
    late->came = false;
    msi_rank_list_init(&late->list, most);
    int n = ranks ? find_causes(comm, work, ask, ranks, late) : 0;
    if (n == 1 && ask)
        add_root(comm, ranks[0], late);
    else
        for (int i = 0; i < n; i++) add_late(comm, ranks[i], late);
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

int msi_comm_find_cause(struct msi_comm *comm, const struct mst_work *work, char *out, size_t size) {
    int peer = msi_comm_peer(work), cause = peer, rank;
    char who[200];
    if (comm->traits.uses_store && msi_wait_report_missing(comm, work, &rank, 1) > 0) cause = rank;
    if (msi_comm_silent_host(comm) >= 0) cause = msi_comm_silent_host(comm);
    if (!is_stopped(comm, peer) && find_stopped(comm) >= 0) cause = find_stopped(comm);
    if (cause >= 0) cause = msi_comm_rank_of(comm, find_root(comm, cause));
    if (cause < 0 || cause == peer || cause == comm->rank) return peer;
    snprintf(out, size, "; %s does not take part", msi_comm_show(comm, cause, who, sizeof who));
    return cause;
}

mst_status msi_comm_say_not_done(const struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    const struct mst_work *active = work; /* collectives run one after the other */
    struct late late = {.first = -1};
    msi_rank_list_init(&late.list, MSI_RANKS_LISTED);
    if (!msi_op_is_message(&work->op)) {
        active = msi_comm_next_active(comm, NULL);
        if (active && active->begun) find_late(comm, active, false, MSI_RANKS_LISTED, &late);
    } else if (msi_comm_peer(work) >= 0) {
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
    int peer = msi_comm_peer(work);
    if (!msi_op_is_message(&work->op)) {
        msi_call_signature_show(&work->op.signature, call, sizeof call);
        find_late(comm, work, true, MSI_RANKS_LISTED, &late);
    } else {
        show_message(&work->op, call, sizeof call);
        msi_rank_list_init(&late.list, MSI_RANKS_LISTED);
        if (peer >= 0) add_late(comm, peer, &late);
    }
    const char *others = msi_op_is_message(&work->op) ? "any rank" : "the other ranks";
    msi_slow_write(&work->slow, work->wait.deadline, call, msi_comm_show(comm, -1, group, sizeof group),
                   late.list.n ? late.list.text : others);
}
