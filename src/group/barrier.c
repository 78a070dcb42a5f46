/*
 * barrier.c - a barrier through the store. Each group has one count, which only grows. The b-th barrier ends
 * when it reaches b times the group's size. Each rank also publishes the number of its last barrier, so that
 * messages can name late ranks.
 */
#include "base/error.h"
#include "base/rank_list.h"
#include "bootstrap/report.h"
#include "group/choice.h"
#include "group/vote.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

enum { LOOK_MS = 50, LOOK_MOST_MS = 200 };

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
    size_t size = (size_t)group->size;
    struct msi_store_rpc *x = calloc(size, sizeof *x + MSI_KEY_MAX); /* the requests, then their keys */
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    if (!x) return msi_fail_memory();
    char(*keys)[MSI_KEY_MAX] = (void *)(x + size);
    for (int i = 0; i < group->size; i++)
        x[i].req = msi_read_request(msi_key(keys[i], "%s%s/at/%d", group->world->prefix, group->id, i));
    mst_status st = msi_world_exec(group->world, &wait, x, size);
    for (int i = 0; i < group->size && st == MST_OK; i++) {
        char text[24];
        at[i] = strtoull(msi_str_copy(msi_store_reply_value(&x[i]), text, sizeof text), NULL, 10);
    }
    msi_store_rpc_free(x, size);
    free(x);
    return st;
}

static void list_late(const mst_group *group, const uint64_t *at, struct msi_rank_list *late) {
    char who[MSI_RANK_SHOW_MAX];
    msi_rank_list_init(late, MSI_RANKS_LISTED);
    for (int i = 0; i < group->size; i++) {
        if (at[i] >= group->barriers || i == group->rank) continue;
        int rank = msi_group_global_rank(group, i);
        msi_rank_list_add(late, rank, msi_rank_show(group, rank, who, sizeof who));
    }
}

/* Lists the ranks that have not arrived. */
static mst_status find_late(const mst_group *group, struct msi_rank_list *late) {
    uint64_t *at = calloc((size_t)group->size, sizeof *at);
    if (!at) return msi_fail_memory();
    mst_status st = read_progress(group, at);
    if (st == MST_OK) list_late(group, at, late);
    free(at);
    return st;
}

static mst_status explain_stall(const mst_group *group) {
    struct msi_rank_list late;
    char show[96];
    mst_status st = find_late(group, &late);
    if (st != MST_OK) return st;
    st = msi_fail(MST_ERR_STALLED, "find out where those ranks are, or raise .timeout_ms",
                  "%d of %d ranks of %s arrived in time; missing: %s", group->size - late.n, group->size,
                  msi_group_show(group, show, sizeof show),
                  late.n ? late.text : "none, but the answer of the store was late");
    return msi_blame_missing(st, &late.ranks);
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

/* Fails if a rank that has not arrived recovers from the loss of another one instead. */
static mst_status check_recovering(mst_group *group, bool late, int *turn) {
    struct msi_waiting at = {.late = late};
    if (!late && !msi_world_has_events(group->world)) return MST_OK;
    uint64_t *arrived = calloc((size_t)group->size, sizeof *arrived);
    if (!arrived) return msi_fail_memory();
    mst_status st = read_progress(group, arrived);
    for (int i = 0; i < group->size && at.n_awaited < MSI_AWAITED_MOST; i++) {
        int r = (*turn + i) % group->size; /* others at the next look */
        if (arrived[r] < group->barriers && r != group->rank) at.awaited[at.n_awaited++] = r;
    }
    if (at.n_awaited) *turn = at.awaited[at.n_awaited - 1] + 1;
    free(arrived);
    return st == MST_OK ? msi_group_check_recovering(group, &at) : MST_OK;
}

static void write_slow(const mst_group *group, struct msi_slow *slow, int64_t deadline) {
    struct msi_rank_list late;
    char show[96];
    if (find_late(group, &late) == MST_OK && late.n)
        msi_slow_write(slow, deadline, NULL, msi_group_show(group, show, sizeof show), late.text);
    slow->due = INT64_MAX;
}

/* What a wait in the barrier needs beside its deadline. */
struct try {
    const struct msi_op_call *call; /* NULL: none */
    struct msi_slow slow;
    bool reported; /* the call was reported to ranks that do not come */
    int turn;      /* the first of the ranks at which it looks */
    bool given_up; /* the group has been aborted, or the calls differ */
};

/* Tries until the deadline. Looks around from time to time, and writes a line if it waits for long. */
static mst_status try_for(mst_group *group, const struct msi_wait *wait, enum attempt attempt,
                          struct try *try) {
    enum { SELDOM_MS = 800, OFTEN_MS = 2000, LATE_MS = 400 };
    int64_t often = msi_deadline(OFTEN_MS), late = msi_deadline(LATE_MS), look_ms = LOOK_MS;
    for (;; attempt = AGAIN) {
        int64_t soon = msi_deadline(msi_now() < often ? look_ms : SELDOM_MS);
        struct msi_wait part = msi_slow_part(&try->slow, wait);
        if (soon < part.deadline) part.deadline = soon;
        mst_status st = try_once(group, &part, attempt);
        if (st != MST_ERR_TIMEOUT || part.deadline == wait->deadline) return st;
        if (msi_slow_is_due(&try->slow, wait->deadline)) write_slow(group, &try->slow, wait->deadline);
        if (look_ms < LOOK_MOST_MS) look_ms *= 2;
        st = msi_group_check_abort(group);
        if (st == MST_OK) st = check_recovering(group, msi_now() > late, &try->turn);
        if (st == MST_OK && try->call) st = compare_calls(group, try->call, &try->reported);
        try->given_up = st != MST_OK;
        if (st != MST_OK) return st;
    }
}

/* This rank's number of the barrier is set. */
static mst_status pass(mst_group *group, const struct msi_wait *wait, const struct msi_op_call *call) {
    msi_call_sequence(group->barriers);
    if (group->size == 1) return MST_OK;
    struct try try = {.call = call, .slow = msi_slow_begin(group->world->slow_s, msi_now())};
    mst_status st = try_for(group, wait, FIRST, &try);
    while (st == MST_ERR_PEER_LOST && !try.given_up) {
        st = msi_group_check(group, true);
        if (st == MST_OK) st = try_for(group, wait, AGAIN, &try);
        /* The lost rank may have arrived before it was lost: then this barrier is complete. */
        else if (st == MST_ERR_PEER_LOST && try_once(group, wait, PEEK) == MST_OK)
            return MST_OK;
        else if (st == MST_ERR_PEER_LOST)
            return msi_group_check(group, false);
    }
    return st == MST_ERR_TIMEOUT ? explain_stall(group) : st;
}

mst_status msi_group_barrier(mst_group *group, const struct msi_wait *wait, const struct msi_op_call *call) {
    mst_status st = msi_group_check(group, false);
    if (st != MST_OK) return msi_group_told(group, st);
    group->barriers++;
    return msi_group_told(group, pass(group, wait, call));
}
