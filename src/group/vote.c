/* vote.c - see vote.h. */
#include "group/vote.h"
#include "base/error.h"
#include "bootstrap/report.h"
#include "group/choice.h"
#include "wire/recovery.h"

#include <stdio.h>
#include <stdlib.h>

enum { LISTED_MOST = 8 };

/* A vote that this rank takes part in. */
struct vote_state {
    const struct msi_vote *vote;
    char in[MSI_KEY_MAX], result[MSI_KEY_MAX], events[MSI_KEY_MAX];
    struct msi_ballot *ballots;
    int missing; /* ranks that neither take part nor are lost */
};

static void fill_keys(struct vote_state *s, uint64_t number) {
    const mst_group *group = s->vote->group;
    const char *prefix = group->world->prefix, *kind = s->vote->kind;
    msi_key(s->in, "%s%s/%s.%llu/in", prefix, group->id, kind, (unsigned long long)number);
    msi_key(s->result, "%s%s/%s.%llu/result", prefix, group->id, kind, (unsigned long long)number);
    msi_key(s->events, "%sevents", prefix);
}

/* Finds the ballots, which share the memory of the lines. */
static void read_lines(struct vote_state *s, struct msi_str lines) {
    int rank;
    for (struct msi_str text; msi_ballot_next(&lines, s->vote->group->size, &rank, &text);)
        s->ballots[rank].text = text;
}

/* Finds the lost ranks, and counts the ranks that neither take part nor are lost. */
static void count_missing(struct vote_state *s) {
    mst_group *group = s->vote->group;
    s->missing = 0;
    pthread_mutex_lock(&group->world->lock);
    for (int r = 0; r < group->size; r++) {
        s->ballots[r].lost = group->world->lost_ranks[msi_group_global_rank(group, r)].order;
        s->missing += !s->ballots[r].text.p && !s->ballots[r].lost;
    }
    pthread_mutex_unlock(&group->world->lock);
}

/*
 * Proposes a decision. The first proposal, which may be another rank's, is appended to *decision. All
 * ranks have taken part in this vote, so that they do not need the previous one: deletes its keys.
 */
static mst_status propose(struct vote_state *s, const struct msi_wait *wait, struct msi_buf *decision) {
    struct msi_buf own = {0};
    struct vote_state last = {.vote = s->vote};
    mst_status st = s->vote->decide(s->vote->context, s->ballots, &own);
    if (st == MST_OK && own.failed) st = msi_fail_memory();
    fill_keys(&last, *s->vote->number - 1);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(s->result), .desired = msi_buf_str(&own)}},
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_cstr(last.in)}},
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_cstr(last.result)}},
    };
    if (st == MST_OK) st = msi_world_exec(s->vote->group->world, wait, x, *s->vote->number ? 3 : 1);
    if (st == MST_OK) {
        struct msi_str first = msi_store_reply_str(&x[0]);
        msi_buf_add(decision, first.p, first.n);
    }
    msi_store_rpc_free(x, 3);
    msi_buf_free(&own);
    return st;
}

/*
 * Appends a line, unless it is empty, and reads the result. Without a result it decides, if no rank
 * is missing. The decision stays empty if ranks are missing.
 */
static mst_status look(struct vote_state *s, struct msi_str line, const struct msi_wait *wait,
                       struct msi_buf *decision) {
    struct msi_world *world = s->vote->group->world;
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_APPEND, .key = msi_cstr(s->in), .value = line}},
        {.req = msi_read_request(msi_cstr(s->result))},
        {.req = msi_read_request(msi_cstr(s->in))},
    };
    int skip = line.n ? 0 : 1;
    /* A lost rank writes nothing more: the events are read before the lines. */
    mst_status st = msi_world_read_events(world, wait);
    if (st == MST_OK) st = msi_world_exec(world, wait, x + skip, (size_t)(3 - skip));
    if (st == MST_OK) {
        struct msi_str result = msi_store_reply_value(&x[1]);
        msi_buf_add(decision, result.p, result.n);
        read_lines(s, msi_store_reply_value(&x[2]));
        count_missing(s);
        if (!decision->len && !s->missing) st = propose(s, wait, decision);
    }
    for (int r = 0; r < s->vote->group->size; r++) s->ballots[r].text = msi_str(NULL, 0);
    msi_store_rpc_free(x, 3);
    return st;
}

/* Waits until there is a result or a rank is lost. */
static mst_status wait_for_news(struct vote_state *s, const struct msi_wait *wait) {
    struct msi_world *world = s->vote->group->world;
    struct msi_str result = msi_cstr(s->result);
    pthread_mutex_lock(&world->lock);
    int64_t seen = world->events_seen;
    pthread_mutex_unlock(&world->lock);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_GUARD, .key = msi_cstr(s->events), .number = seen}},
        {.req = {.op = MSI_OP_WAIT, .n = 1, .keys = &result}},
    };
    mst_status st = msi_world_exec(world, wait, x, 2);
    msi_store_rpc_free(x, 2);
    return st == MST_ERR_PEER_LOST ? MST_OK : st;
}

/* The deadline has passed: names the ranks that are missing. */
static mst_status say_late(struct vote_state *s) {
    const mst_group *group = s->vote->group;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_store_rpc x = {.req = msi_read_request(msi_cstr(s->in))};
    char list[600] = "", show[96], who[MSI_PROCESS_MAX + 32];
    int n = 0, first = -1;
    size_t used = 0;
    mst_status st = msi_world_exec(group->world, &wait, &x, 1);
    if (st == MST_OK) read_lines(s, msi_store_reply_value(&x));
    for (int r = 0; r < group->size && st == MST_OK; r++) {
        int rank = msi_group_global_rank(group, r);
        if (s->ballots[r].text.p || msi_world_rank_event(group->world, rank)) continue;
        if (first < 0) first = rank;
        if (n++ < LISTED_MOST && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", n > 1 ? ", " : "",
                                     msi_rank_show(group, rank, who, sizeof who));
    }
    msi_store_rpc_free(&x, 1);
    if (st != MST_OK) return st;
    if (n > LISTED_MOST && used < sizeof list)
        snprintf(list + used, sizeof list - used, " and %d more", n - LISTED_MOST);
    st = msi_fail(MST_ERR_STALLED, "end those ranks or find out where they are, then repeat the call",
                  "%d of %d ranks of %s reached %s in time or are lost; missing: %s", group->size - n,
                  group->size, msi_group_show(group, show, sizeof show), s->vote->call,
                  n ? list : "none any more");
    return msi_blame(st, first);
}

/* A global rank of the world that was lost first; -1: none. */
static int first_lost(struct msi_world *world) {
    int first = -1;
    pthread_mutex_lock(&world->lock);
    const struct msi_lost_rank *lost = world->lost_ranks;
    for (int r = 0; r < world->size; r++)
        if (lost[r].order && (first < 0 || lost[r].order < lost[first].order)) first = r;
    pthread_mutex_unlock(&world->lock);
    return first;
}

/* Rule 3 of vote.h. call NULL: this thread does not wait any more; others of this rank may. */
static void tell_recovery(struct msi_world *world, const char *call) {
    char name[32];
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    snprintf(name, sizeof name, "recovers/%d", world->rank);
    pthread_mutex_lock(&world->votes_lock);
    world->votes += call ? 1 : -1;
    if (call)
        msi_world_put(world, &wait, name, msi_cstr(call));
    else if (world->votes == 0)
        msi_world_delete(world, &wait, name);
    pthread_mutex_unlock(&world->votes_lock);
}

static mst_status fail_recovering(mst_group *group, int rank, const char *call) {
    static const char *const remedy = "call it on this rank, too; the group must be recreated";
    struct msi_world *world = group->world;
    char who[MSI_PROCESS_MAX + 32], dead[MSI_PROCESS_MAX + 32];
    int cause = first_lost(world);
    msi_rank_show(group, rank, who, sizeof who);
    if (cause < 0)
        return msi_blame(
            msi_fail(MST_ERR_PEER_LOST, remedy, "%s, for which this call waits, is in %.60s", who, call),
            rank);
    mst_status st =
        msi_fail(MST_ERR_PEER_LOST, remedy, "%s %s, and %s, for which this call waits, is in %.60s",
                 msi_rank_show(group, cause, dead, sizeof dead),
                 msi_world_rank_event(world, cause) == 'L' ? "has left" : "died", who, call);
    return msi_blame(st, cause);
}

/* Does a thread of this rank wait in a vote that ends calls? */
static bool takes_part(struct msi_world *world) {
    pthread_mutex_lock(&world->votes_lock);
    bool any = world->votes > 0;
    pthread_mutex_unlock(&world->votes_lock);
    return any;
}

mst_status msi_group_check_recovering(mst_group *group, const struct msi_waiting *at) {
    struct msi_world *world = group->world;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_store_rpc x[MSI_AWAITED_MOST] = {{.req = {.op = 0}}};
    char keys[MSI_AWAITED_MOST][MSI_KEY_MAX], call[64];
    int n = 0, ranks[MSI_AWAITED_MOST];
    /* Without a loss the others may wait for that thread only. */
    if (first_lost(world) < 0 && takes_part(world)) return MST_OK;
    for (; n < at->n_awaited && n < MSI_AWAITED_MOST; n++) {
        ranks[n] = msi_group_global_rank(group, at->awaited[n]);
        x[n].req = msi_read_request(msi_key(keys[n], "%srecovers/%d", world->prefix, ranks[n]));
    }
    mst_status st = n ? msi_world_exec(world, &wait, x, (size_t)n) : MST_OK;
    int found = -1;
    for (int i = 0; i < n && st == MST_OK && found < 0; i++)
        if (msi_store_reply_value(&x[i]).n) found = i;
    if (found >= 0) msi_str_copy(msi_store_reply_value(&x[found]), call, sizeof call);
    msi_store_rpc_free(x, (size_t)n);
    return found < 0 ? MST_OK : fail_recovering(group, ranks[found], call);
}

static mst_status take_part(struct vote_state *s, struct msi_str own, const struct msi_wait *wait,
                            struct msi_buf *decision) {
    struct msi_world *world = s->vote->group->world;
    struct msi_buf line = {0};
    msi_ballot_write(&line, s->vote->group->rank, own);
    mst_status st = line.failed ? msi_fail_memory() : look(s, msi_buf_str(&line), wait, decision);
    bool told = false;
    while (st == MST_OK && !decision->len && !decision->failed) {
        if (!told && (s->vote->ends_calls || first_lost(world) >= 0)) {
            tell_recovery(world, s->vote->call);
            told = true;
        }
        st = wait_for_news(s, wait);
        if (st == MST_OK) st = look(s, msi_str(NULL, 0), wait, decision);
    }
    if (told) tell_recovery(world, NULL);
    if (st == MST_OK && decision->failed) st = msi_fail_memory();
    msi_buf_free(&line);
    return st == MST_ERR_TIMEOUT ? say_late(s) : st;
}

mst_status msi_group_vote_began(const struct msi_vote *vote, const struct msi_wait *wait, bool *began) {
    struct vote_state s = {.vote = vote};
    fill_keys(&s, *vote->number);
    struct msi_store_rpc x = {.req = msi_read_request(msi_cstr(s.in))};
    mst_status st = msi_world_exec(vote->group->world, wait, &x, 1);
    *began = st == MST_OK && msi_store_reply_value(&x).n > 0;
    msi_store_rpc_free(&x, 1);
    return st;
}

mst_status msi_group_vote(const struct msi_vote *vote, struct msi_str own, const struct msi_wait *wait,
                          struct msi_buf *decision) {
    struct vote_state s = {.vote = vote, .ballots = calloc((size_t)vote->group->size, sizeof *s.ballots)};
    if (!s.ballots) return msi_fail_memory();
    fill_keys(&s, *vote->number);
    mst_status st = take_part(&s, own, wait, decision);
    if (st == MST_OK) ++*vote->number;
    free(s.ballots);
    return st;
}
