/*
 * barrier.c - a barrier through the store. Each group has one count, which only grows. The b-th barrier ends
 * when it reaches b times the group's size. Each rank also publishes the number of its last barrier, so that
 * messages can name late ranks.
 */
#include "base/error.h"
#include "bootstrap/report.h"
#include "group/world.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

enum { LISTED_MOST = 8, LOOK_MS = 300 };

/* FIRST arrives and waits, AGAIN only waits, both until a rank of the world is lost; PEEK does not wait. */
enum attempt { FIRST, AGAIN, PEEK };
static mst_status try_once(mst_group *group, const struct msi_wait *wait, enum attempt attempt) {
    struct msi_world *world = group->world;
    char keys[3][MSI_KEY_MAX], text[24];
    int64_t target = (int64_t)group->barriers * group->size;
    snprintf(text, sizeof text, "%llu", (unsigned long long)group->barriers);
    pthread_mutex_lock(&world->lock);
    int64_t seen = attempt == PEEK ? -1 : world->events_seen;
    pthread_mutex_unlock(&world->lock);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_SET,
                 .key = msi_key(keys[0], "%s%s/at/%d", world->prefix, group->id, group->rank),
                 .value = msi_cstr(text)}},
        {.req = {.op = MSI_OP_GUARD, .key = msi_key(keys[1], "%sevents", world->prefix), .number = seen}},
        {.req = {.op = MSI_OP_BARRIER,
                 .key = msi_key(keys[2], "%s%s/all", world->prefix, group->id),
                 .number = attempt == FIRST ? target : -target}},
    };
    mst_status st = msi_world_exec(world, wait, x, 3);
    msi_store_rpc_free(x, 3);
    return st;
}

/* Reads the number of each rank's last barrier in one batch. */
static mst_status read_progress(const mst_group *group, uint64_t *at) {
    char(*keys)[MSI_KEY_MAX] = calloc((size_t)group->size, sizeof *keys);
    struct msi_store_rpc *x = calloc((size_t)group->size, sizeof *x);
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    mst_status st = keys && x ? MST_OK : msi_fail_memory();
    for (int i = 0; i < group->size && st == MST_OK; i++)
        x[i].req = msi_read_request(msi_key(keys[i], "%s%s/at/%d", group->world->prefix, group->id, i));
    if (st == MST_OK) st = msi_world_exec(group->world, &wait, x, (size_t)group->size);
    for (int i = 0; i < group->size && st == MST_OK; i++) {
        char text[24];
        at[i] = strtoull(msi_str_copy(msi_store_reply_value(&x[i]), text, sizeof text), NULL, 10);
    }
    if (x) msi_store_rpc_free(x, (size_t)group->size);
    free(x);
    free(keys);
    return st;
}

static mst_status fail_stalled(const mst_group *group, const uint64_t *at) {
    char list[512] = "", show[96];
    size_t used = 0;
    int late = 0, first = -1;
    for (int i = 0; i < group->size; i++) {
        if (at[i] >= group->barriers || i == group->rank) continue;
        int rank = msi_group_global_rank(group, i);
        const struct msi_member *m = &group->world->members.members[rank];
        if (first < 0) first = rank;
        if (late++ >= LISTED_MOST || used >= sizeof list) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%srank %d (host %s, pid %d)",
                                 late > 1 ? ", " : "", rank, m->host_name, m->pid);
    }
    if (late > LISTED_MOST && used < sizeof list)
        snprintf(list + used, sizeof list - used, " and %d more", late - LISTED_MOST);
    mst_status st = msi_fail(MST_ERR_STALLED, "find out where those ranks are, or raise .timeout_ms",
                             "%d of %d ranks of %s arrived in time; missing: %s", group->size - late,
                             group->size, msi_group_show(group, show, sizeof show),
                             late ? list : "none, but the answer of the store was late");
    return msi_blame(st, first);
}

static mst_status explain_stall(mst_group *group) {
    uint64_t *at = calloc((size_t)group->size, sizeof *at);
    if (!at) return msi_fail_memory();
    mst_status st = read_progress(group, at);
    if (st == MST_OK) st = fail_stalled(group, at);
    free(at);
    return st;
}

/*
 * Ranks of other hosts may wait in another call. Reports the barrier to them, once, in the place of the
 * group's next collective, and fails if they have failed the group.
 */
static mst_status compare_calls(mst_group *group, const struct msi_op_call *call, bool *reported) {
    struct msi_comm *comm;
    struct msi_op op = {.call = MSI_KIND_MONITORED_BARRIER,
                        .flags = MSI_SIGNED_MONITORED,
                        .site = call->site,
                        .desc.root = -1};
    struct msi_file_tail tail = {NULL, ""};
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    char name[64], text[400], show[200];
    if (msi_group_comm_of(group, MST_MEMORY_HOST, &comm) != MST_OK) return MST_OK;
    msi_op_sign(&op, &tail, group->size);
    if (!*reported) {
        snprintf(name, sizeof name, "%s/monitored", group->id);
        snprintf(text, sizeof text, "%llu %llu %d %s", (unsigned long long)msi_comm_next_number(comm),
                 (unsigned long long)group->barriers, group->world->rank,
                 msi_call_signature_show(&op.signature, show, sizeof show));
        msi_world_put(group->world, &wait, name, msi_cstr(text));
        *reported = true;
    }
    return msi_comm_look(comm, &op.signature);
}

/* Waits for a while, so that an abort of the group is noticed. MST_ERR_TIMEOUT: not all have arrived. */
static mst_status try_for_a_while(mst_group *group, const struct msi_wait *wait, enum attempt attempt) {
    int64_t moment = msi_deadline(LOOK_MS);
    struct msi_wait some = {moment < wait->deadline ? moment : wait->deadline, wait->cancel};
    return try_once(group, &some, attempt);
}

/* Not all have arrived: have ranks been lost, has one aborted the group, or do they wait in another call? */
static mst_status find_reason(mst_group *group, bool lost, const struct msi_op_call *call, bool *reported) {
    if (lost) return msi_group_check(group, true);
    mst_status st = msi_group_check_abort(group);
    return st == MST_OK && call ? compare_calls(group, call, reported) : st;
}

static mst_status wait_for_all(mst_group *group, const struct msi_wait *wait,
                               const struct msi_op_call *call) {
    bool reported = false;
    mst_status st = try_for_a_while(group, wait, FIRST);
    while (st == MST_ERR_TIMEOUT || st == MST_ERR_PEER_LOST) {
        bool lost = st == MST_ERR_PEER_LOST;
        if (!lost && msi_now() >= wait->deadline) return st;
        st = find_reason(group, lost, call, &reported);
        /* The lost rank may have arrived before it was lost: then this barrier is complete. */
        if (lost && st == MST_ERR_PEER_LOST)
            return try_once(group, wait, PEEK) == MST_OK ? MST_OK : msi_group_check(group, false);
        if (st != MST_OK) return st;
        st = try_for_a_while(group, wait, AGAIN);
    }
    return st;
}

mst_status msi_group_barrier(mst_group *group, const struct msi_wait *wait, const struct msi_op_call *call) {
    mst_status st = msi_group_check(group, false);
    if (st != MST_OK) return st;
    group->barriers++;
    msi_call_sequence(group->barriers);
    if (group->size == 1) return MST_OK;
    st = wait_for_all(group, wait, call);
    return st == MST_ERR_TIMEOUT ? explain_stall(group) : st;
}
