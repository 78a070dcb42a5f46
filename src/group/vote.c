/* vote.c - see vote.h. */
#include "group/vote.h"
#include "base/error.h"
#include "base/rank_list.h"
#include "bootstrap/report.h"
#include "group/choice.h"
#include "group/recover.h"
#include "wire/recovery.h"

#include <stdio.h>
#include <stdlib.h>

enum { RECOVERY_MAX = 128, PART_MS = 50, PART_LONG_MS = 400, PART_MOST_MS = 1000 };

/* A vote that this rank takes part in. */
struct vote_state {
    const struct msi_vote *vote;
    char in[MSI_KEY_MAX], result[MSI_KEY_MAX], events[MSI_KEY_MAX];
    struct msi_ballot *ballots;
    int missing;                /* ranks that neither take part nor are lost, … */
    int late[MSI_AWAITED_MOST]; /* … and the first of them, by their ranks in the world */
    int64_t part_ms;            /* of the next wait */
    /* Once other ranks know of the vote: in world->votes, with the value of recovers/RANK. */
    struct msi_list node;
    char told[RECOVERY_MAX];
    int cause;
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
        int global = msi_group_global_rank(group, r);
        s->ballots[r].lost = group->world->lost_ranks[global].order;
        if (s->ballots[r].text.p || s->ballots[r].lost) continue;
        if (s->missing < MSI_AWAITED_MOST) s->late[s->missing] = global;
        s->missing++;
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
    if (st == MST_OK && msi_world_excludes(world)) return msi_group_fail_excluded(s->vote->group);
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

/* Waits until there is a result, a rank is lost, or some time has passed. */
static mst_status wait_for_news(struct vote_state *s, const struct msi_wait *whole) {
    struct msi_world *world = s->vote->group->world;
    struct msi_wait part = {msi_deadline(s->part_ms), whole->cancel}, *wait = &part;
    s->part_ms = s->part_ms * 2 < PART_MOST_MS ? s->part_ms * 2 : PART_MOST_MS;
    if (whole->deadline < part.deadline) part.deadline = whole->deadline;
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
    if (st == MST_ERR_TIMEOUT && part.deadline < whole->deadline)
        st = msi_group_report_ended(s->vote->group, whole);
    return st == MST_ERR_PEER_LOST ? MST_OK : st;
}

/* The deadline has passed: names the ranks that are missing. */
static mst_status say_late(struct vote_state *s) {
    const mst_group *group = s->vote->group;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_store_rpc x = {.req = msi_read_request(msi_cstr(s->in))};
    char show[96], who[MSI_RANK_SHOW_MAX];
    struct msi_rank_list late;
    msi_rank_list_init(&late, MSI_RANKS_LISTED);
    mst_status st = msi_world_exec(group->world, &wait, &x, 1);
    if (st == MST_OK) read_lines(s, msi_store_reply_value(&x));
    for (int r = 0; r < group->size && st == MST_OK; r++) {
        int rank = msi_group_global_rank(group, r);
        if (s->ballots[r].text.p || msi_world_rank_event(group->world, rank)) continue;
        msi_rank_list_add(&late, rank, msi_rank_show(group, rank, who, sizeof who));
    }
    msi_store_rpc_free(&x, 1);
    if (st != MST_OK) return st;
    st = msi_fail(MST_ERR_STALLED, "end those ranks or find out where they are, then repeat the call",
                  "%d of %d ranks of %s reached %s in time or are lost; missing: %s", group->size - late.n,
                  group->size, msi_group_show(group, show, sizeof show), s->vote->call,
                  late.n ? late.text : "none any more");
    return msi_blame_missing(st, &late.ranks);
}

static int first_lost(const mst_group *group) {
    pthread_mutex_lock(&group->world->lock);
    int first = msi_group_first_lost(group, -1);
    pthread_mutex_unlock(&group->world->lock);
    return first;
}

/* Rule 3 of vote.h. The key has the last one of the votes in which threads of this rank wait. */
static void write_recovery(struct msi_world *world) {
    bool recovers = !msi_list_empty(&world->votes);
    char name[32];
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    snprintf(name, sizeof name, "recovers/%d", world->rank);
    if (!recovers)
        msi_world_delete(world, &wait, name);
    else
        msi_world_put(world, &wait, name,
                      msi_cstr(msi_container(world->votes.prev, struct vote_state, node)->told));
    msi_endpoint_tell_recovery(&world->endpoint, recovers); /* ranks of this host look into the store */
}

static void tell_recovery(struct vote_state *s, int cause) {
    const struct msi_vote *vote = s->vote;
    struct msi_world *world = vote->group->world;
    pthread_mutex_lock(&world->votes_lock);
    if (!s->told[0]) msi_list_push(&world->votes, &s->node);
    s->cause = cause;
    snprintf(s->told, sizeof s->told, "%d %s %s %llu %s", cause, vote->group->id, vote->kind,
             (unsigned long long)*vote->number, vote->call);
    write_recovery(world);
    pthread_mutex_unlock(&world->votes_lock);
}

static void end_recovery(struct vote_state *s) {
    struct msi_world *world = s->vote->group->world;
    if (!s->told[0]) return;
    pthread_mutex_lock(&world->votes_lock);
    msi_list_remove(&s->node);
    write_recovery(world);
    pthread_mutex_unlock(&world->votes_lock);
}

/* Does a thread of this rank wait in a vote that others know of? */
static bool takes_part(struct msi_world *world) {
    pthread_mutex_lock(&world->votes_lock);
    bool any = !msi_list_empty(&world->votes);
    pthread_mutex_unlock(&world->votes_lock);
    return any;
}

/* What recovers/RANK says. */
struct recovery {
    int cause; /* the lost rank; -1: none is known */
    char id[48], kind[16], call[61];
    unsigned long long number;
};

/* Parses the value of recovers/RANK; false: that rank waits in no vote. */
static bool read_recovery(const struct msi_world *world, const char *text, struct recovery *r) {
    return sscanf(text, "%d %47s %15s %llu %60s", &r->cause, r->id, r->kind, &r->number, r->call) == 5 &&
           r->cause < world->size;
}

/* Is this rank a member of the group, and has it not done that vote? */
static bool is_needed(struct msi_world *world, const struct recovery *r) {
    bool needed = false;
    pthread_mutex_lock(&world->lock);
    for (const struct msi_list *at = world->groups.next; at != &world->groups && !needed; at = at->next) {
        const mst_group *group = msi_container(at, mst_group, node);
        uint64_t done = !strcmp(r->kind, "shrink")  ? group->shrinks
                        : !strcmp(r->kind, "agree") ? group->agreements
                                                    : world->reforms;
        needed = group->rank >= 0 && !strcmp(group->id, r->id) && done <= r->number;
    }
    pthread_mutex_unlock(&world->lock);
    return needed;
}

/* A call waits for a rank that waits in a vote. */
static mst_status say_recovering(mst_group *group, int rank, const struct recovery *r) {
    static const char *const remedy = "call it on this rank, too; the group must be recreated";
    char who[MSI_RANK_SHOW_MAX], dead[MSI_RANK_SHOW_MAX];
    msi_rank_show(group, rank, who, sizeof who);
    if (r->cause < 0)
        return msi_blame(
            msi_fail(MST_ERR_PEER_LOST, remedy, "%s, for which this call waits, is in %s", who, r->call),
            rank);
    bool left = msi_world_rank_event(group->world, r->cause) == 'L';
    mst_status st =
        msi_fail(MST_ERR_PEER_LOST, remedy, "%s %s, and %s, for which this call waits, is in %s",
                 msi_rank_show(group, r->cause, dead, sizeof dead), left ? "has left" : "died", who, r->call);
    return msi_blame(st, r->cause);
}

/*
 * text is the value of recovers/RANK. Before the call has waited for long, and if it waits for any sender, it
 * fails only if the vote needs this rank: another vote may be over soon. Without a loss the others may wait
 * for another thread of this rank.
 */
static mst_status fail_recovering(mst_group *group, int rank, const char *text,
                                  const struct msi_waiting *at) {
    struct msi_world *world = group->world;
    struct recovery r;
    if (!read_recovery(world, text, &r)) return MST_OK;
    if (r.cause < 0 && (!at->late || takes_part(world))) return MST_OK;
    if ((!at->late || at->any) && !is_needed(world, &r)) return MST_OK;
    return say_recovering(group, rank, &r);
}

mst_status msi_group_check_recovering(mst_group *group, const struct msi_waiting *at) {
    struct msi_world *world = group->world;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_store_rpc x[MSI_AWAITED_MOST] = {{.req = {.op = 0}}};
    char keys[MSI_AWAITED_MOST][MSI_KEY_MAX], text[RECOVERY_MAX];
    int n = 0, ranks[MSI_AWAITED_MOST];
    if (!at->late && !msi_world_has_events(world)) return MST_OK;
    for (; n < at->n_awaited && n < MSI_AWAITED_MOST; n++) {
        ranks[n] = msi_group_global_rank(group, at->awaited[n]);
        x[n].req = msi_read_request(msi_key(keys[n], "%srecovers/%d", world->prefix, ranks[n]));
    }
    mst_status st = n ? msi_world_exec(world, &wait, x, (size_t)n) : MST_OK;
    bool answered = st == MST_OK;
    st = MST_OK;
    for (int i = 0; i < n && answered && st == MST_OK; i++) {
        msi_str_copy(msi_store_reply_value(&x[i]), text, sizeof text);
        st = fail_recovering(group, ranks[i], text, at);
    }
    msi_store_rpc_free(x, (size_t)n);
    return st;
}

/* Does a thread of this rank take part in that vote? */
static bool is_in(struct msi_world *world, const struct recovery *r) {
    bool in = false;
    pthread_mutex_lock(&world->votes_lock);
    for (const struct msi_list *at = world->votes.next; at != &world->votes && !in; at = at->next) {
        const struct msi_vote *vote = msi_container(at, struct vote_state, node)->vote;
        in = !strcmp(vote->group->id, r->id) && !strcmp(vote->kind, r->kind);
    }
    pthread_mutex_unlock(&world->votes_lock);
    return in;
}

/*
 * Does a rank that is missing in an agreement wait for this one in a vote that ends calls, such as that of
 * mst_shrink_world? Then the two would wait for each other until the deadline.
 */
static mst_status yield_to_recovery(struct vote_state *s) {
    mst_group *group = s->vote->group;
    struct msi_world *world = group->world;
    mst_status st = MST_OK;
    if (s->vote->ends_calls || s->part_ms < PART_LONG_MS) return MST_OK;
    for (int i = 0; i < s->missing && i < MSI_AWAITED_MOST && st == MST_OK; i++) {
        struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
        struct msi_buf value = {0};
        struct recovery r;
        char name[32], text[RECOVERY_MAX];
        snprintf(name, sizeof name, "recovers/%d", s->late[i]);
        bool found = msi_world_read(world, &wait, name, &value) == MST_OK &&
                     read_recovery(world, msi_str_copy(msi_buf_str(&value), text, sizeof text), &r);
        if (found && strcmp(r.kind, s->vote->kind) != 0 && is_needed(world, &r) && !is_in(world, &r))
            st = say_recovering(group, s->late[i], &r);
        msi_buf_free(&value);
    }
    return st;
}

static mst_status take_part(struct vote_state *s, struct msi_str own, const struct msi_wait *wait,
                            struct msi_buf *decision) {
    struct msi_buf line = {0};
    msi_ballot_write(&line, s->vote->group->rank, own);
    mst_status st = line.failed ? msi_fail_memory() : look(s, msi_buf_str(&line), wait, decision);
    while (st == MST_OK && !decision->len && !decision->failed) {
        int cause = first_lost(s->vote->group);
        if (s->told[0] ? cause >= 0 && s->cause < 0 : cause >= 0 || s->vote->ends_calls)
            tell_recovery(s, cause);
        st = wait_for_news(s, wait);
        if (st == MST_OK) st = look(s, msi_str(NULL, 0), wait, decision);
        if (st == MST_OK && !decision->len) st = yield_to_recovery(s);
    }
    end_recovery(s);
    if (st == MST_OK && decision->failed) st = msi_fail_memory();
    msi_buf_free(&line);
    return st == MST_ERR_TIMEOUT ? say_late(s) : st;
}

mst_status msi_group_vote_began(const struct msi_vote *vote, const struct msi_wait *wait,
                                enum msi_vote_began *began) {
    struct vote_state s = {.vote = vote};
    int rank;
    fill_keys(&s, *vote->number);
    struct msi_store_rpc x = {.req = msi_read_request(msi_cstr(s.in))};
    mst_status st = msi_world_exec(vote->group->world, wait, &x, 1);
    struct msi_str lines = st == MST_OK ? msi_store_reply_value(&x) : msi_cstr(""), text;
    *began = lines.n ? MSI_VOTE_ANNOUNCED : MSI_VOTE_NOT_BEGUN;
    if (msi_ballot_next(&lines, vote->group->size, &rank, &text)) *began = MSI_VOTE_BEGAN;
    msi_store_rpc_free(&x, 1);
    return st;
}

void msi_group_vote_announce(const struct msi_vote *vote) {
    struct vote_state s = {.vote = vote};
    struct msi_saved_error error;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    fill_keys(&s, *vote->number);
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_APPEND, .key = msi_cstr(s.in), .value = msi_cstr("again\n")}}; /* no ballot */
    msi_error_save(&error, mst_last_error()->status);
    msi_world_exec(vote->group->world, &wait, &x, 1);
    msi_store_rpc_free(&x, 1);
    msi_error_restore(&error);
}

mst_status msi_group_vote(const struct msi_vote *vote, struct msi_str own, const struct msi_wait *wait,
                          struct msi_buf *decision) {
    struct vote_state s = {
        .vote = vote, .part_ms = PART_MS, .ballots = calloc((size_t)vote->group->size, sizeof *s.ballots)};
    if (!s.ballots) return msi_fail_memory();
    fill_keys(&s, *vote->number);
    mst_status st = take_part(&s, own, wait, decision);
    if (st == MST_OK) ++*vote->number;
    free(s.ballots);
    return msi_group_told(vote->group, st);
}
