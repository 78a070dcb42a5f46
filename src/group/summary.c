/*
 * summary.c - the summary of a world's profile: each rank leaves what it recorded in the store, and rank 0 takes it from there.
 *
 *     prof/R             the moment of rank R's last summary
 *     prof/R/AFTER.NTH   what it left at that moment, until rank 0 takes it; it leaves no more than its last KEPT
 *
 * Ranks need not have called equally often to be summed up together: they meet by the moment. That is the number of collectives of
 * the world that were begun before, which all ranks count alike, and the how many-th summary it is there. A rank that has come past
 * the moment is taken as it is; for one that is behind rank 0 waits, until its deadline.
 */
#include "prof/summary/summary.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/report.h"
#include "group/choice.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 4, AT_ONCE = 64, LOOK_MS = 200 };

struct moment {
    uint64_t after, nth;
};

/* So many collectives are begun before the end of the world, wherever ranks have come. */
#define THE_END UINT64_MAX

struct msi_summed {
    struct moment own[KEPT]; /* this rank's last, a ring */
    uint64_t count;
    struct moment taken[]; /* on rank 0, by rank: the last that was taken */
};

void msi_summed_free(struct msi_summed *summed) {
    free(summed);
}

static bool is_later(struct moment a, struct moment b) {
    return a.after != b.after ? a.after > b.after : a.nth > b.nth;
}

static struct moment next_moment(struct moment last, uint64_t after) {
    return (struct moment){after, last.after == after ? last.nth + 1 : 1};
}

static struct msi_str stats_key(char out[MSI_KEY_MAX], const struct msi_world *world, int rank,
                                struct moment at) {
    return msi_key(out, "%sprof/%d/%llu.%llu", world->prefix, rank, (unsigned long long)at.after,
                   (unsigned long long)at.nth);
}

static struct msi_str head_key(char out[MSI_KEY_MAX], const struct msi_world *world, int rank) {
    return msi_key(out, "%sprof/%d", world->prefix, rank);
}

static struct moment read_head(struct msi_str head) {
    char text[64];
    unsigned long long after, nth;
    bool is = sscanf(msi_str_copy(head, text, sizeof text), "%llu %llu", &after, &nth) == 2;
    return is ? (struct moment){after, nth} : (struct moment){0, 0};
}

/* ---- every other rank ---- */

static mst_status publish(struct msi_world *world, uint64_t after, const struct msi_wait *wait) {
    struct msi_summed *summed = world->summed;
    struct moment *oldest = &summed->own[summed->count % KEPT];
    struct moment last = summed->count ? summed->own[(summed->count - 1) % KEPT] : (struct moment){0, 0};
    struct moment now = next_moment(last, after);
    char keys[3][MSI_KEY_MAX], head[64];
    struct msi_buf text = {0};
    snprintf(head, sizeof head, "%llu %llu", (unsigned long long)now.after, (unsigned long long)now.nth);
    mst_status st = msi_recorder_write(world->prof, &text);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_SET,
                 .key = stats_key(keys[0], world, world->rank, now),
                 .value = msi_buf_str(&text)}},
        {.req = {.op = MSI_OP_SET, .key = head_key(keys[1], world, world->rank), .value = msi_cstr(head)}},
        {.req = {.op = MSI_OP_DELETE_KEY, .key = stats_key(keys[2], world, world->rank, *oldest)}}};
    size_t n = summed->count < KEPT ? 2 : 3;
    if (st == MST_OK) st = msi_world_exec(world, wait, x, n);
    msi_store_rpc_free(x, n);
    msi_buf_free(&text);
    if (st != MST_OK) return st;
    *oldest = now;
    summed->count++;
    return MST_OK;
}

/* ---- rank 0 ---- */

/* For requests on AT_ONCE ranks, two for each; too much for a stack. */
struct room {
    char keys[2 * AT_ONCE][MSI_KEY_MAX];
    struct msi_store_rpc x[2 * AT_ONCE];
    bool gone[AT_ONCE];
};

/* Those of whom there is nothing yet, and what came of the others. */
struct round {
    struct msi_world *world;
    struct room *room;
    uint64_t after;
    struct msi_op_stats **tallies; /* by rank */
    bool *late;                    /* by rank: it is there, and has not come */
    bool *settled;                 /* by rank: nothing more is waited for */
    bool *used;                    /* by rank: what it left can be deleted */
    bool failed;                   /* a rank is gone, and others may have come less far for it */
};

static struct moment wanted_of(const struct round *round, int rank) {
    return next_moment(round->world->summed->taken[rank], round->after);
}

static void take(struct round *round, int rank, struct msi_str text) {
    round->settled[rank] = true;
    if (msi_op_stats_read(text.p, text.n, NULL, &round->tallies[rank]) != MST_OK)
        msi_log(prof, WARN, "the profile of rank %d cannot be read: %s", rank, mst_error());
}

/* What the rank left at another moment than the one it was wanted at, if that will do. */
static mst_status take_other(struct round *round, int rank, struct moment head, const struct msi_wait *wait) {
    struct msi_world *world = round->world;
    struct moment *taken = &world->summed->taken[rank];
    bool ahead = is_later(head, wanted_of(round, rank));
    bool stuck = round->failed && msi_world_rank_event(world, rank) != 'D' && is_later(head, *taken);
    if (!ahead && !stuck) return MST_OK;
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {.req = msi_read_request(stats_key(key, world, rank, head))};
    mst_status st = msi_world_exec(world, wait, &x, 1);
    struct msi_str text = st == MST_OK ? msi_store_reply_value(&x) : msi_str(NULL, 0);
    if (text.n) {
        take(round, rank, text);
        if (!ahead) *taken = head; /* that ahead is wanted again, when rank 0 has come as far */
    }
    msi_store_rpc_free(&x, 1);
    return st;
}

/* Looks for what n ranks left, in one go. */
static mst_status look_at(struct round *round, const int *ranks, int n, const struct msi_wait *wait) {
    struct msi_world *world = round->world;
    struct room *room = round->room;
    struct msi_store_rpc *x = room->x;
    memset(x, 0, sizeof room->x);
    for (int i = 0; i < n; i++) {
        struct moment wanted = wanted_of(round, ranks[i]);
        room->gone[i] =
            msi_world_rank_event(world, ranks[i]); /* asked first: what it left was there before it went */
        x[2 * i].req = msi_read_request(stats_key(room->keys[2 * i], world, ranks[i], wanted));
        x[2 * i + 1].req = msi_read_request(head_key(room->keys[2 * i + 1], world, ranks[i]));
    }
    mst_status st = msi_world_exec(world, wait, x, 2 * (size_t)n);
    for (int i = 0; i < n && st == MST_OK; i++) {
        struct msi_str text = msi_store_reply_value(&x[2 * i]);
        if (text.n) {
            take(round, ranks[i], text);
            world->summed->taken[ranks[i]] = wanted_of(round, ranks[i]);
            round->used[ranks[i]] = true;
        } else {
            st = take_other(round, ranks[i], read_head(msi_store_reply_value(&x[2 * i + 1])), wait);
        }
        if (room->gone[i]) round->settled[ranks[i]] = true;
    }
    msi_store_rpc_free(x, 2 * (size_t)n);
    return st;
}

/* Up to AT_ONCE ranks from *next on that are not settled; returns how many. */
static int next_open(const struct round *round, int *next, int ranks[AT_ONCE]) {
    int n = 0;
    for (; *next < round->world->size && n < AT_ONCE; ++*next)
        if (!round->settled[*next]) ranks[n++] = *next;
    return n;
}

static mst_status look_at_all(struct round *round, const struct msi_wait *wait) {
    int ranks[AT_ONCE], next = 0, n;
    mst_status st = MST_OK;
    while (st == MST_OK && (n = next_open(round, &next, ranks)) > 0) st = look_at(round, ranks, n, wait);
    return st;
}

/* Until some have come, something became of a rank, or it is time to look whether one has come past the moment. */
static mst_status wait_for(struct round *round, const int *ranks, int n, const struct msi_wait *wait) {
    struct msi_world *world = round->world;
    char(*keys)[MSI_KEY_MAX] = round->room->keys, events[MSI_KEY_MAX];
    struct msi_str views[AT_ONCE];
    int64_t soon = msi_deadline(LOOK_MS);
    struct msi_wait some = {soon < wait->deadline ? soon : wait->deadline, wait->cancel};
    for (int i = 0; i < n; i++) views[i] = stats_key(keys[i], world, ranks[i], wanted_of(round, ranks[i]));
    pthread_mutex_lock(&world->lock);
    int64_t seen = world->events_seen;
    pthread_mutex_unlock(&world->lock);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_GUARD, .key = msi_key(events, "%sevents", world->prefix), .number = seen}},
        {.req = {.op = MSI_OP_WAIT, .n = (size_t)n, .keys = views}}};
    mst_status st = msi_world_exec(world, &some, x, 2);
    msi_store_rpc_free(x, 2);
    if (st == MST_ERR_PEER_LOST) {
        round->failed = true;
        st = msi_world_read_events(world, wait);
    }
    return st == MST_ERR_TIMEOUT && msi_now() < wait->deadline ? MST_OK : st;
}

/* What was taken is deleted, in few requests; what is left over its ranks delete in time. */
static void clean_up(const struct round *round, mst_cancel *cancel) {
    struct msi_world *world = round->world;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), cancel};
    for (int next = 0; next < world->size;) {
        struct msi_store_rpc *x = round->room->x;
        size_t n = 0;
        memset(x, 0, sizeof round->room->x);
        for (; next < world->size && n < AT_ONCE; next++) {
            if (!round->used[next]) continue;
            struct msi_str key = stats_key(round->room->keys[n], world, next, world->summed->taken[next]);
            x[n++].req = (struct msi_store_req){.op = MSI_OP_DELETE_KEY, .key = key};
        }
        mst_status st = n ? msi_world_exec(world, &wait, x, n) : MST_OK;
        msi_store_rpc_free(x, n);
        if (st != MST_OK) return;
    }
}

/* Of all ranks, as far as they come. Fails if the caller has cancelled it. */
static mst_status collect(struct round *round, const struct msi_wait *wait) {
    int ranks[AT_ONCE], next, n;
    mst_status st;
    for (int r = 0; r < round->world->size; r++) round->failed |= msi_world_rank_event(round->world, r) != 0;
    while ((st = look_at_all(round, wait)) == MST_OK) {
        next = 0;
        n = next_open(round, &next, ranks);
        if (n == 0) break;
        st = wait_for(round, ranks, n, wait);
        if (st != MST_OK) break;
    }
    if (st == MST_ERR_TIMEOUT) {
        for (int r = 0; r < round->world->size; r++) round->late[r] = !round->settled[r];
    } else if (st != MST_OK && st != MST_ERR_CANCELLED) {
        msi_log(prof, WARN, "not all profiles can be had: %s", mst_error());
    }
    return st == MST_ERR_CANCELLED ? st : MST_OK;
}

/* This rank's own goes the same way, but for the store. */
static mst_status take_own(struct round *round) {
    struct msi_buf text = {0};
    mst_status st = msi_recorder_write(round->world->prof, &text);
    if (st == MST_OK) take(round, round->world->rank, msi_buf_str(&text));
    msi_buf_free(&text);
    return st;
}

static mst_status write_summary(const struct round *round, bool show_straggler, bool json,
                                struct msi_buf *out) {
    struct msi_summary *summary;
    mst_status st = msi_summary_make(round->tallies, round->world->size, show_straggler, &summary);
    if (st != MST_OK) return st;
    summary->late = round->late;
    if (json)
        msi_summary_json(summary, out);
    else
        msi_summary_text(summary, out);
    msi_summary_free(summary);
    return out->failed ? msi_fail_memory() : MST_OK;
}

static mst_status sum_up(struct msi_world *world, uint64_t after, const struct msi_wait *wait,
                         bool show_straggler, bool json, struct msi_buf *out) {
    size_t n = (size_t)world->size;
    bool *marks = calloc(3 * n, sizeof *marks);
    struct round round = {.world = world,
                          .after = after,
                          .room = malloc(sizeof *round.room),
                          .tallies = calloc(n, sizeof(struct msi_op_stats *))};
    mst_status st = marks && round.room && round.tallies ? MST_OK : msi_fail_memory();
    if (st == MST_OK) {
        round.late = marks;
        round.settled = marks + n;
        round.used = marks + 2 * n;
        st = take_own(&round);
    }
    if (st == MST_OK) st = collect(&round, wait);
    if (st == MST_OK) clean_up(&round, wait->cancel);
    if (st == MST_OK) st = write_summary(&round, show_straggler, json, out);
    for (int r = 0; round.tallies && r < world->size; r++) msi_op_stats_free(round.tallies[r]);
    free(round.tallies);
    free(round.room);
    free(marks);
    return st;
}

static mst_status summarize(struct msi_world *world, uint64_t after, const struct msi_wait *wait,
                            bool show_straggler, bool json, struct msi_buf *out) {
    if (!world->summed) {
        size_t taken = world->rank ? 0 : (size_t)world->size * sizeof(struct moment);
        world->summed = calloc(1, sizeof *world->summed + taken);
        if (!world->summed) return msi_fail_memory();
    }
    if (world->rank) return publish(world, after, wait);
    return sum_up(world, after, wait, show_straggler, json, out);
}

mst_status msi_world_summarize(struct msi_world *world, const struct msi_wait *wait, bool show_straggler,
                               bool json, struct msi_buf *out) {
    return summarize(world, world->all->operations, wait, show_straggler, json, out);
}

void msi_world_print_profile(struct msi_world *world, msi_printer print) {
    struct msi_buf text = {0};
    struct msi_wait wait = {msi_deadline(world->linger_ms), NULL};
    if (world->prof && world->prints_profile &&
        !atomic_load_explicit(&world->cut_off, memory_order_relaxed) &&
        summarize(world, THE_END, &wait, true, false, &text) == MST_OK && text.len)
        print(text.data, text.len);
    msi_buf_free(&text);
}
