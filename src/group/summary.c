/*
 * summary.c - summarizes the profiles of a world: each rank publishes its profile in the store, and rank 0
 * collects them.
 *
 *     prof/R             version of rank R's last summary
 *     prof/R/AFTER.NTH   its profile of that version, until rank 0 has read it; the last KEPT stay
 *
 * Ranks need not have called the summary equally often. Their summaries are matched by version (AFTER.NTH).
 * AFTER is the number of the world's collectives that were begun before the summary, which is the same on all
 * ranks. NTH counts the summaries after that collective. Rank 0 takes the profile of a rank that is ahead as
 * it is, and waits until the deadline for a rank that is behind.
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

struct version {
    uint64_t after, nth;
};

/* Version of the summary at the end of the world, after all collectives. */
#define AT_END UINT64_MAX

struct msi_summed {
    struct version own[KEPT]; /* a ring of the last published versions */
    uint64_t count;
    struct version taken[]; /* on rank 0, by rank: the last version that was read */
};

void msi_summed_free(struct msi_summed *summed) {
    free(summed);
}

static bool is_later(struct version a, struct version b) {
    return a.after != b.after ? a.after > b.after : a.nth > b.nth;
}

static struct version next_version(struct version last, uint64_t after) {
    return (struct version){after, last.after == after ? last.nth + 1 : 1};
}

static struct msi_str stats_key(char out[MSI_KEY_MAX], const struct msi_world *world, int rank,
                                struct version at) {
    return msi_key(out, "%sprof/%d/%llu.%llu", world->prefix, rank, (unsigned long long)at.after,
                   (unsigned long long)at.nth);
}

static struct msi_str version_key(char out[MSI_KEY_MAX], const struct msi_world *world, int rank) {
    return msi_key(out, "%sprof/%d", world->prefix, rank);
}

static struct version parse_version(struct msi_str value) {
    char text[64];
    unsigned long long after, nth;
    bool valid = sscanf(msi_str_copy(value, text, sizeof text), "%llu %llu", &after, &nth) == 2;
    return valid ? (struct version){after, nth} : (struct version){0, 0};
}

/* ---- every other rank ---- */

static mst_status publish(struct msi_world *world, uint64_t after, const struct msi_wait *wait) {
    struct msi_summed *summed = world->summed;
    struct version *oldest = &summed->own[summed->count % KEPT];
    struct version last = summed->count ? summed->own[(summed->count - 1) % KEPT] : (struct version){0, 0};
    struct version now = next_version(last, after);
    char keys[3][MSI_KEY_MAX], version[64];
    struct msi_buf text = {0};
    snprintf(version, sizeof version, "%llu %llu", (unsigned long long)now.after,
             (unsigned long long)now.nth);
    mst_status st = msi_recorder_write(world->prof, &text);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_SET,
                 .key = stats_key(keys[0], world, world->rank, now),
                 .value = msi_buf_str(&text)}},
        {.req = {.op = MSI_OP_SET,
                 .key = version_key(keys[1], world, world->rank),
                 .value = msi_cstr(version)}},
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

/* Requests for AT_ONCE ranks, two for each; too large for the stack. */
struct requests {
    char keys[2 * AT_ONCE][MSI_KEY_MAX];
    struct msi_store_rpc x[2 * AT_ONCE];
    bool gone[AT_ONCE];
};

/* One summary on rank 0. */
struct round {
    struct msi_world *world;
    struct requests *requests;
    uint64_t after;
    struct msi_op_stats **stats; /* by rank; NULL: none yet */
    bool *late;                  /* by rank: it did not publish in time */
    bool *settled;               /* by rank: do not wait for it any more */
    bool *used;                  /* by rank: its profile can be deleted */
    bool failed;                 /* a rank is lost, so others may be behind for ever */
};

static struct version wanted_version(const struct round *round, int rank) {
    return next_version(round->world->summed->taken[rank], round->after);
}

static void add_profile(struct round *round, int rank, struct msi_str text) {
    round->settled[rank] = true;
    if (msi_op_stats_read(text.p, text.n, &round->stats[rank]) != MST_OK)
        msi_log(prof, WARN, "cannot read the profile of rank %d: %s", rank, mst_error());
}

/* Reads the profile of another version, if the rank is ahead or cannot get further. */
static mst_status read_other(struct round *round, int rank, struct version found,
                             const struct msi_wait *wait) {
    struct msi_world *world = round->world;
    struct version *taken = &world->summed->taken[rank];
    bool ahead = is_later(found, wanted_version(round, rank));
    bool stuck = round->failed && msi_world_rank_event(world, rank) != 'D' && is_later(found, *taken);
    if (!ahead && !stuck) return MST_OK;
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {.req = msi_read_request(stats_key(key, world, rank, found))};
    mst_status st = msi_world_exec(world, wait, &x, 1);
    struct msi_str text = st == MST_OK ? msi_store_reply_value(&x) : msi_str(NULL, 0);
    if (text.n) {
        add_profile(round, rank, text);
        if (!ahead) *taken = found; /* a profile that is ahead is read again when rank 0 gets there */
    }
    msi_store_rpc_free(&x, 1);
    return st;
}

/* Reads the profiles of n ranks in one exchange. */
static mst_status read_some(struct round *round, const int *ranks, int n, const struct msi_wait *wait) {
    struct msi_world *world = round->world;
    struct requests *requests = round->requests;
    struct msi_store_rpc *x = requests->x;
    memset(x, 0, sizeof requests->x);
    for (int i = 0; i < n; i++) {
        struct version wanted = wanted_version(round, ranks[i]);
        requests->gone[i] = msi_world_rank_event(world, ranks[i]); /* before reading: it published earlier */
        x[2 * i].req = msi_read_request(stats_key(requests->keys[2 * i], world, ranks[i], wanted));
        x[2 * i + 1].req = msi_read_request(version_key(requests->keys[2 * i + 1], world, ranks[i]));
    }
    mst_status st = msi_world_exec(world, wait, x, 2 * (size_t)n);
    for (int i = 0; i < n && st == MST_OK; i++) {
        struct msi_str text = msi_store_reply_value(&x[2 * i]);
        if (text.n) {
            add_profile(round, ranks[i], text);
            world->summed->taken[ranks[i]] = wanted_version(round, ranks[i]);
            round->used[ranks[i]] = true;
        } else {
            st = read_other(round, ranks[i], parse_version(msi_store_reply_value(&x[2 * i + 1])), wait);
        }
        if (requests->gone[i]) round->settled[ranks[i]] = true;
    }
    msi_store_rpc_free(x, 2 * (size_t)n);
    return st;
}

/* Lists up to AT_ONCE ranks from *next on that are not settled; returns their number. */
static int next_open(const struct round *round, int *next, int ranks[AT_ONCE]) {
    int n = 0;
    for (; *next < round->world->size && n < AT_ONCE; ++*next)
        if (!round->settled[*next]) ranks[n++] = *next;
    return n;
}

static mst_status read_all(struct round *round, const struct msi_wait *wait) {
    int ranks[AT_ONCE], next = 0, n;
    mst_status st = MST_OK;
    while (st == MST_OK && (n = next_open(round, &next, ranks)) > 0) st = read_some(round, ranks, n, wait);
    return st;
}

/* Waits until profiles arrive, a rank is lost, or it is time to look for ranks that are ahead. */
static mst_status wait_for(struct round *round, const int *ranks, int n, const struct msi_wait *wait) {
    struct msi_world *world = round->world;
    char(*keys)[MSI_KEY_MAX] = round->requests->keys, events[MSI_KEY_MAX];
    struct msi_str views[AT_ONCE];
    int64_t soon = msi_deadline(LOOK_MS);
    struct msi_wait some = {soon < wait->deadline ? soon : wait->deadline, wait->cancel};
    for (int i = 0; i < n; i++)
        views[i] = stats_key(keys[i], world, ranks[i], wanted_version(round, ranks[i]));
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

/* Deletes the profiles that were read. Ranks delete their other ones later. */
static void clean_up(const struct round *round, mst_cancel *cancel) {
    struct msi_world *world = round->world;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), cancel};
    for (int next = 0; next < world->size;) {
        struct msi_store_rpc *x = round->requests->x;
        size_t n = 0;
        memset(x, 0, sizeof round->requests->x);
        for (; next < world->size && n < AT_ONCE; next++) {
            if (!round->used[next]) continue;
            struct msi_str key = stats_key(round->requests->keys[n], world, next, world->summed->taken[next]);
            x[n++].req = (struct msi_store_req){.op = MSI_OP_DELETE_KEY, .key = key};
        }
        mst_status st = n ? msi_world_exec(world, &wait, x, n) : MST_OK;
        msi_store_rpc_free(x, n);
        if (st != MST_OK) return;
    }
}

/* Collects the profiles of all ranks until the deadline. Fails only if the caller cancels. */
static mst_status collect(struct round *round, const struct msi_wait *wait) {
    int ranks[AT_ONCE], next, n;
    mst_status st;
    for (int r = 0; r < round->world->size; r++) round->failed |= msi_world_rank_event(round->world, r) != 0;
    while ((st = read_all(round, wait)) == MST_OK) {
        next = 0;
        n = next_open(round, &next, ranks);
        if (n == 0) break;
        st = wait_for(round, ranks, n, wait);
        if (st != MST_OK) break;
    }
    if (st == MST_ERR_TIMEOUT) {
        for (int r = 0; r < round->world->size; r++) round->late[r] = !round->settled[r];
    } else if (st != MST_OK && st != MST_ERR_CANCELLED) {
        msi_log(prof, WARN, "cannot collect all profiles: %s", mst_error());
    }
    return st == MST_ERR_CANCELLED ? st : MST_OK;
}

/* Reads this rank's own profile, without the store. */
static mst_status read_own(struct round *round) {
    struct msi_buf text = {0};
    mst_status st = msi_recorder_write(round->world->prof, &text);
    if (st == MST_OK) add_profile(round, round->world->rank, msi_buf_str(&text));
    msi_buf_free(&text);
    return st;
}

static mst_status write_summary(const struct round *round, bool show_straggler, bool json,
                                struct msi_buf *out) {
    struct msi_summary *summary;
    mst_status st = msi_summary_make(round->stats, round->world->size, show_straggler, &summary);
    if (st != MST_OK) return st;
    summary->late = round->late;
    if (json)
        msi_summary_json(summary, out);
    else
        msi_summary_text(summary, out);
    msi_summary_free(summary);
    return out->failed ? msi_fail_memory() : MST_OK;
}

static mst_status collect_and_write(struct msi_world *world, uint64_t after, const struct msi_wait *wait,
                                    bool show_straggler, bool json, struct msi_buf *out) {
    size_t n = (size_t)world->size;
    bool *flags = calloc(3 * n, sizeof *flags);
    struct round round = {.world = world,
                          .after = after,
                          .requests = malloc(sizeof *round.requests),
                          .stats = calloc(n, sizeof(struct msi_op_stats *))};
    mst_status st = flags && round.requests && round.stats ? MST_OK : msi_fail_memory();
    if (st == MST_OK) {
        round.late = flags;
        round.settled = flags + n;
        round.used = flags + 2 * n;
        st = read_own(&round);
    }
    if (st == MST_OK) st = collect(&round, wait);
    if (st == MST_OK) clean_up(&round, wait->cancel);
    if (st == MST_OK) st = write_summary(&round, show_straggler, json, out);
    for (int r = 0; round.stats && r < world->size; r++) msi_op_stats_free(round.stats[r]);
    free(round.stats);
    free(round.requests);
    free(flags);
    return st;
}

static mst_status summarize(struct msi_world *world, uint64_t after, const struct msi_wait *wait,
                            bool show_straggler, bool json, struct msi_buf *out) {
    if (!world->summed) {
        size_t taken = world->rank ? 0 : (size_t)world->size * sizeof(struct version);
        world->summed = calloc(1, sizeof *world->summed + taken);
        if (!world->summed) return msi_fail_memory();
    }
    if (world->rank) return publish(world, after, wait);
    return collect_and_write(world, after, wait, show_straggler, json, out);
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
        summarize(world, AT_END, &wait, true, false, &text) == MST_OK && text.len)
        print(text.data, text.len);
    msi_buf_free(&text);
}
