/* errors.c - what a comm says when an operation fails. See comm.h. */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "comm/wait_reports.h"
#include "engine/module/module.h"
#include "engine/net/net.h"

#include <muster/dtype.h>
#include <stdio.h>

enum { LISTED_MOST = 8, CUT_OFF_MS = 300 };

const char *msi_call_signature_show(const struct msi_call_signature *told, char *out, size_t size) {
    int used = snprintf(out, size, "%s", msi_kind_name(told->kind));
    size_t at = used < 0 ? 0 : (size_t)used;
    if (told->dtype && at < size)
        at += (size_t)snprintf(out + at, size - at, " of %llu %s", (unsigned long long)told->count,
                               mst_dtype_name((mst_dtype)told->dtype));
    enum msi_kind family = msi_kind_family(told->kind);
    bool reduces =
        family == MSI_KIND_ALL_REDUCE || family == MSI_KIND_REDUCE || family == MSI_KIND_REDUCE_SCATTER;
    if (told->flags && at < size) at += (size_t)snprintf(out + at, size - at, " with splits");
    if (reduces && at < size)
        at += (size_t)snprintf(out + at, size - at, " (%s)", mst_op_name((mst_op)told->op));
    if (told->root >= 0 && at < size)
        at += (size_t)snprintf(out + at, size - at, " with root %d", told->root);
    if (told->line && at < size)
        snprintf(out + at, size - at, " at %.*s:%u", (int)sizeof told->file, told->file, told->line);
    return out;
}

mst_status msi_comm_repeat(const struct msi_failure *f) {
    mst_status st = msi_fail(f->status, f->remedy, "%s", f->message);
    return msi_blame(st, f->global);
}

static bool spares_the_comm(const struct mst_work *op, mst_status status) {
    if (!op->begin) return status != MST_ERR_PEER_LOST; /* p2p knows whether the link can still be used */
    return op->host.nothing && !op->comm->engine &&
           (status == MST_ERR_STALLED || status == MST_ERR_CANCELLED);
}

void msi_comm_keep(struct msi_comm *comm, struct msi_failure *f, mst_status status, int culprit) {
    const mst_error_info *info = mst_last_error();
    f->culprit = culprit;
    f->global = info->culprit;
    if (f->global < 0 && culprit >= 0) f->global = comm->hooks.global(comm->hooks.context, culprit);
    snprintf(f->message, sizeof f->message, "%s", info->message);
    snprintf(f->remedy, sizeof f->remedy, "%s", info->remedy);
    f->status = status;
}

void msi_comm_fail(struct msi_comm *comm, struct mst_work *op, mst_status status, int culprit) {
    if (op->failure.status != MST_OK) return;
    msi_comm_keep(comm, &op->failure, status, culprit);
    if (!spares_the_comm(op, status)) msi_comm_give_up(comm, op);
}

void msi_comm_give_up(struct msi_comm *comm, const struct mst_work *op) {
    const struct msi_failure *f = &op->failure;
    if (comm->failure.status != MST_OK) return;
    comm->failure = *f;
    if (comm->net || comm->engine) msi_failure_report_post(comm, f);
    if (!comm->region || comm->net) return;
    uint64_t what = (uint64_t)f->status | (op->begin ? 0 : MSI_GAVE_UP_MESSAGE);
    uint64_t seq = op->begin && op->host.differing ? op->host.differing : comm->region->seq;
    /* Read by msi_comm_heard of the others. */
    msi_shm_region_post(comm->region, &msi_shm_region_own(comm->region)->gave_up,
                        seq << 32 | (uint64_t)(f->culprit + 1) << 8 | what);
}

void msi_comm_tell_end(struct msi_comm *comm, mst_status status) {
    struct msi_failure failure;
    msi_comm_keep(comm, &failure, status, msi_comm_rank_of(comm, mst_last_error()->culprit));
    msi_failure_report_post(comm, &failure);
}

/* That rank, if it is known to be gone, or another: one may hang up because of another. -1: none. */
static int who_is_gone(struct msi_comm *comm, int rank) {
    if (comm->hooks.is_gone(comm->hooks.context, rank)) return rank;
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && comm->hooks.is_gone(comm->hooks.context, r)) return r;
    return -1;
}

/* A connection ended, or memory cannot be mapped. If the rank has died, or why it gave up, the store knows soon after. */
mst_status msi_comm_say_cut_off(struct msi_comm *comm, mst_status status, int rank, const char *why) {
    void *context = comm->hooks.context;
    char who[200];
    struct msi_wait wait = {msi_deadline(CUT_OFF_MS), NULL};
    do {
        int culprit; /* who gave up says so before it leaves, and is asked for after that */
        if (comm->hooks.refresh(context) == MST_ERR_STORE_LOST) return MST_ERR_STORE_LOST;
        mst_status noted = msi_failure_report_read(comm, &culprit);
        if (noted != MST_OK) return msi_blame(noted, comm->hooks.global(context, culprit));
        int gone = who_is_gone(comm, rank);
        if (gone >= 0) return comm->hooks.say_lost(context, gone);
    } while (msi_wait_pause(&wait, CUT_OFF_MS / 10, "") == MST_OK);
    comm->hooks.show(context, rank, who, sizeof who);
    if (status == MST_ERR_SYSTEM || status == MST_ERR_MEMORY)
        return msi_fail(status, "see this process's limits on memory, mappings and descriptors",
                        "no way to %s: %s", who, why);
    return msi_fail(status, "look at that rank's own message; the group must be made anew",
                    "%s has given up this group: %s", who, why);
}

mst_status msi_comm_say(struct msi_comm *comm, const struct msi_shm_coll *op, int *culprit) {
    char who[200], theirs[200], ours[200];
    *culprit = op->culprit;
    if (op->culprit < 0) return msi_fail(op->status, NULL, "%s", op->what);
    /* Where a rank listened that is gone, another process may listen by now, which does not know us. */
    if (op->status == MST_ERR_PEER_LOST || op->status == MST_ERR_SYSTEM || op->status == MST_ERR_PROTOCOL)
        return msi_comm_say_cut_off(comm, op->status, op->culprit, op->what);
    uint64_t seq = op->differing ? op->differing : op->seq;
    const struct msi_call_signature *own = &op->told,
                                    *other = comm->net ? msi_net_signature(comm->net, op->culprit) : NULL;
    if (!other) other = &comm->region->areas[op->culprit].slots[seq % MSI_SLOTS].told;
    if (seq != op->seq) own = &msi_shm_region_own(comm->region)->slots[seq % MSI_SLOTS].told;
    comm->hooks.show(comm->hooks.context, op->culprit, who, sizeof who);
    return msi_fail(op->status, "all ranks of a group must make the same calls in the same order",
                    "as operation %llu of the group this rank called %s, but %s called %s: %s",
                    (unsigned long long)seq, msi_call_signature_show(own, ours, sizeof ours), who,
                    msi_call_signature_show(other, theirs, sizeof theirs), op->what);
}

/* On one host: those that have come and that the operation waits for all the same; returns how many. */
static int stuck(const struct mst_work *op, int *ranks, int max) {
    const struct msi_comm *comm = op->comm;
    int n = 0;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank || !op->host.needs(&op->host, r)) continue;
        if (n < max) ranks[n] = r;
        n++;
    }
    return n;
}

mst_status msi_comm_say_stalled(struct msi_comm *comm, const struct mst_work *op, int *culprit) {
    int ranks[LISTED_MOST], late = comm->net || comm->engine
                                       ? msi_wait_report_missing(comm, op, ranks, LISTED_MOST)
                                       : msi_shm_missing(comm->region, op->host.seq, ranks, LISTED_MOST);
    bool came = late == 0 && !comm->net && !comm->engine;
    if (came) late = stuck(op, ranks, LISTED_MOST);
    int listed = op->name_first && late > 1 ? 1 : late < LISTED_MOST ? late : LISTED_MOST;
    char list[800] = "", who[200], group[96];
    size_t used = 0;
    for (int i = 0; i < listed && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 comm->hooks.show(comm->hooks.context, ranks[i], who, sizeof who));
    if (late > listed && used < sizeof list)
        snprintf(list + used, sizeof list - used, " and %d more", late - listed);
    *culprit = late && !(came && late > 1) ? ranks[0] : -1; /* who came may itself wait for another */
    return msi_fail(MST_ERR_STALLED, "see where those ranks are; a longer wait is .timeout_ms",
                    "%d of %d ranks of %s came to %s in time; %s: %s", comm->size - (came ? 0 : late),
                    comm->size, comm->hooks.show(comm->hooks.context, -1, group, sizeof group), op->name,
                    came ? "not through with it" : "missing", late ? list : "nobody is known");
}

mst_status msi_comm_say_unmet(struct msi_comm *comm, const struct mst_work *op, int *culprit) {
    const struct msi_message *m = &op->message;
    char who[200] = "any rank";
    *culprit = m->met ? m->from : m->peer;
    if (*culprit >= 0) comm->hooks.show(comm->hooks.context, *culprit, who, sizeof who);
    return msi_fail(MST_ERR_STALLED, "see where that rank is; a longer wait is .timeout_ms",
                    m->send ? "%s has not received the message with tag %d in time"
                            : "no message of %s with tag %d came in time",
                    who, m->tag);
}
