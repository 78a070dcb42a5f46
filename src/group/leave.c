/*
 * leave.c - leaving a group or a world. Each rank counts itself out, and the last one deletes the keys. If a
 * rank died, the keys stay until the store ends.
 */
#include "base/log.h"
#include "bootstrap/report.h"
#include "group/world.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POLL_MOST_MS = 16, HOST_LEAVES_MS = 100, HOST_ENDS_MS = 30 };

/* Counts this rank out of the group whose keys begin so, or of the world; true if it was the last. */
static bool count_out(struct msi_world *world, const char *group, int size) {
    char key[MSI_KEY_MAX];
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_ADD, .key = msi_key(key, "%s%sout", world->prefix, group), .number = 1}};
    bool last = msi_world_exec(world, &wait, &x, 1) == MST_OK && msi_store_reply_number(&x) >= size;
    msi_store_rpc_free(&x, 1);
    return last;
}

/* Deletes n named keys and a numbered one for each rank, in one batch. */
static void delete_keys(struct msi_world *world, const char *const *names, size_t n, const char *numbered,
                        int size) {
    size_t total = n + (size_t)size;
    char(*keys)[MSI_KEY_MAX] = malloc(total * sizeof *keys);
    struct msi_store_rpc *x = calloc(total, sizeof *x);
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    for (size_t i = 0; keys && x && i < total; i++) {
        struct msi_str key = i < n ? msi_key(keys[i], "%s%s", world->prefix, names[i])
                                   : msi_key(keys[i], "%s%s%d", world->prefix, numbered, (int)(i - n));
        x[i].req = (struct msi_store_req){.op = MSI_OP_DELETE_KEY, .key = key};
    }
    if (keys && x) {
        msi_world_exec(world, &wait, x, total);
        msi_store_rpc_free(x, total);
    }
    free(x);
    free(keys);
}

void msi_group_leave(mst_group *group) {
    static const char *const names[] = {"all",        "out",        "backend",    "differ",     "for",
                                        "tuning",     "monitored",  "list",       "gave_up.0",  "gave_up.1",
                                        "gave_up.2",  "gave_up.3",  "rejected.0", "rejected.1", "rejected.2",
                                        "rejected.3", "rejected.4", "rejected.5", "rejected.6", "rejected.7",
                                        "",           "/came",      "/all",       "/end"};
    enum { NAMES = sizeof names / sizeof *names, EXCHANGE = NAMES - 4 };
    char keys[NAMES][96], at[64], prefix[64];
    const char *all[NAMES];
    if (group->rank < 0 || group->size == 1) return;
    if (group->barriers == 0 && !group->declared && !group->agreed && group->exchanges == 0) return;
    snprintf(prefix, sizeof prefix, "%s/", group->id);
    if (!count_out(group->world, prefix, group->size)) return;
    for (int i = 0; i < NAMES; i++) {
        if (i < EXCHANGE)
            snprintf(keys[i], sizeof keys[i], "%s/%s", group->id, names[i]);
        else
            snprintf(keys[i], sizeof keys[i], "%s/exchange.%d%s", group->id, group->exchanges, names[i]);
        all[i] = keys[i];
    }
    snprintf(at, sizeof at, "%s/at/", group->id);
    delete_keys(group->world, all, NAMES, at, group->size);
}

/* The K of the world's prefix "muster/RUN/K/", and the key of the number of ended worlds of RUN. */
static int64_t number_of(const struct msi_world *world, char ended[MSI_KEY_MAX]) {
    size_t run = strlen(world->prefix) - 1;
    while (world->prefix[run - 1] != '/') run--;
    msi_key(ended, "%.*sended", (int)run, world->prefix);
    return atoll(world->prefix + run);
}

/* Counts the world as ended if all worlds before it are; true on success. */
static bool count_ended(struct msi_world *world) {
    char key[MSI_KEY_MAX], before[24], after[24];
    int64_t k = number_of(world, key);
    snprintf(before, sizeof before, "%lld", (long long)k - 1);
    snprintf(after, sizeof after, "%lld", (long long)k);
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_COMPARE_SET,
                                      .key = msi_cstr(key),
                                      .value = msi_cstr(before),
                                      .desired = msi_cstr(after)}};
    bool counted = msi_world_exec(world, &wait, &x, 1) == MST_OK &&
                   msi_str_equal(msi_store_reply_str(&x), msi_cstr(after));
    msi_store_rpc_free(&x, 1);
    return counted;
}

/*
 * Reports that this rank leaves. The other ranks' calls on it fail from now on. If the last rank has ended
 * the world and deleted the events meanwhile, this rank deletes its report. A custom store may end after the
 * report: rank 0 deletes the events after all ranks have reported.
 */
static void report_leaving(struct msi_world *world) {
    static const char *const events = "events";
    bool outlives = !world->hosted && !msi_store_is_custom(msi_store_base(world->store));
    char key[MSI_KEY_MAX], ended[MSI_KEY_MAX], line[32];
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    int64_t k = number_of(world, ended);
    snprintf(line, sizeof line, "L %d\n", world->rank);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_APPEND,
                 .key = msi_key(key, "%s%s", world->prefix, events),
                 .value = msi_cstr(line)}},
        {.req = {.op = MSI_OP_ON_DISCONNECT}},
        {.req = {.op = MSI_OP_ADD, .key = msi_cstr(ended)}}, /* reads it */
    };
    mst_status st = msi_world_exec(world, &wait, x, outlives ? 3 : 2);
    if (outlives && st == MST_OK && msi_store_reply_number(&x[2]) >= k) delete_keys(world, &events, 1, "", 0);
    msi_store_rpc_free(x, 3);
}

/* A custom store does not report deaths, but calls of this rank may have failed because of them. */
static int count_left(struct msi_world *world) {
    int left = 0;
    pthread_mutex_lock(&world->lock);
    for (int r = 0; r < world->size; r++)
        left += r == world->rank || world->lost_ranks[r].order || world->lost_ranks[r].failed;
    pthread_mutex_unlock(&world->lock);
    return left;
}

/* Waits for an event that is not read yet, such as that another rank leaves. */
static mst_status wait_for_event(struct msi_world *world, const struct msi_wait *wait) {
    char keys[2][MSI_KEY_MAX];
    struct msi_str never = msi_key(keys[0], "%snever", world->prefix);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_GUARD,
                 .key = msi_key(keys[1], "%sevents", world->prefix),
                 .number = world->events_seen}},
        {.req = {.op = MSI_OP_WAIT, .n = 1, .keys = &never}},
    };
    mst_status st = msi_world_exec(world, wait, x, 2);
    msi_store_rpc_free(x, 2);
    return st == MST_ERR_PEER_LOST ? MST_OK : st;
}

/* The rank that may host the store waits until all other ranks have left or died. They do not wait for this
 * rank: those that open another store at the same place may meet this one, so that it must end soon. A custom
 * store notices events seldom. */
static void wait_for_others(struct msi_world *world) {
    struct msi_wait wait = {msi_deadline(world->linger_ms), NULL};
    bool polls = msi_store_is_custom(msi_store_base(world->store));
    mst_status st = msi_world_read_events(world, &wait);
    for (int ms = 1; st == MST_OK && count_left(world) < world->size; ms = ms < POLL_MOST_MS ? 2 * ms : ms) {
        st = polls ? msi_wait_pause(&wait, ms, "waiting for the others to leave")
                   : wait_for_event(world, &wait);
        if (st == MST_OK) st = msi_world_read_events(world, &wait);
    }
    int left = count_left(world);
    if (left < world->size)
        msi_log(group, WARN,
                "ending the store that other ranks still use: %d of %d ranks have not left; "
                "MUSTER_STORE_LINGER_MS and the timeout of the world set how long to wait for them",
                world->size - left, world->size);
}

/* Can the store end with this process? muster does not know where a custom store is hosted. PyTorch's is
 * hosted by rank 0. */
static bool may_host_store(struct msi_world *world) {
    if (world->hosted) return world->rank == msi_world_store_host(world);
    const struct mst_store *store = msi_store_base(world->store);
    return msi_store_hosts(store) || (world->rank == 0 && msi_store_is_custom(store));
}

static bool is_lost(struct msi_world *world, int rank) {
    pthread_mutex_lock(&world->lock);
    bool is = world->lost_ranks[rank].order || world->lost_ranks[rank].failed;
    pthread_mutex_unlock(&world->lock);
    return is;
}

/* Rank 0 may host a custom store, and ends it after all others have left. A program that opens another world
 * at the same place at once would meet the old store, so this rank leaves after rank 0 has begun to, if that
 * is soon. */
static void wait_for_host(struct msi_world *world) {
    struct msi_wait wait = {msi_deadline(HOST_LEAVES_MS), NULL};
    mst_status st = is_lost(world, 0) ? MST_OK : msi_world_read_events(world, &wait);
    for (int ms = 1; st == MST_OK && !is_lost(world, 0); ms = ms < POLL_MOST_MS ? 2 * ms : ms) {
        st = msi_wait_pause(&wait, ms, "waiting for rank 0 to leave");
        if (st == MST_OK) st = msi_world_read_events(world, &wait);
    }
}

/* Gives rank 0 the time to end the store, if it has begun to leave. */
static void let_host_end(struct msi_world *world) {
    struct msi_wait wait = {msi_deadline(HOST_ENDS_MS), NULL};
    if (msi_world_rank_event(world, 0) == 'L')
        msi_wait_pause(&wait, 2 * HOST_ENDS_MS, "waiting for rank 0 to end the store");
}

void msi_world_leave(struct msi_world *world, bool ends) {
    static const char *const names[] = {"params", "arrived", "members", "locations",
                                        "all",    "events",  "out",     "prof/zero"};
    bool waits = ends && may_host_store(world), counts = !world->hosted; /* else keys end with the store */
    bool follows = ends && world->rank > 0 && msi_store_is_custom(msi_store_base(world->store));
    if (follows) wait_for_host(world);
    bool last = counts && !waits && count_out(world, "", world->size);
    report_leaving(world);                /* the last use of a store whose host waits for it */
    msi_endpoint_close(&world->endpoint); /* with the connections that no group has taken */
    if (waits) wait_for_others(world);
    if (follows) let_host_end(world);
    if (counts && waits) last = count_out(world, "", world->size);
    if (!last || !count_ended(world)) return;
    delete_keys(world, names, sizeof names / sizeof *names, "rank/", world->size);
    delete_keys(world, NULL, 0, "cause/", world->size);
    if (world->summed) delete_keys(world, NULL, 0, "prof/", world->size);
}
