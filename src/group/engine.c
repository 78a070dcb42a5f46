/* engine.c - makes the communicators of a group, picks their engine, and implements the hooks of
 * comm/comm.h. */
#include "base/error.h"
#include "engine/engines.h"
#include "group/choice.h"
#include "group/vote.h"
#include "os/socket.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAKEOVER_MS = 2000 };
/* Orders of losses that the store has not reported. */
enum { REPLACED = (1 << 30) - 1, NOTED, IMPLIED = INT_MAX };

/*
 * A rank is lost, and so is the store, which cannot report it. Such losses count after all that the store has
 * reported: first that of a rank that hosted the store before a standby took over; then others, in the order
 * in which this rank learns of them; last that of the rank that hosted the store, if only the end of the
 * store tells it, because the rank may have ended because of the others.
 */
static void note_gone(struct msi_world *world, int rank, int order) {
    const struct msi_member *members = world->members.members;
    int host = msi_world_store_host(world);
    bool silent = host >= 0 && members[rank].host == members[host].host && msi_world_store_is_silent(world);
    pthread_mutex_lock(&world->lock);
    struct msi_lost_rank *lost = &world->lost_ranks[rank];
    bool earlier = order == REPLACED ? lost->order > REPLACED : lost->order == IMPLIED && order == NOTED;
    if (!lost->order || earlier) {
        if (order == NOTED) order += world->noted++;
        *lost = (struct msi_lost_rank){'D', order, silent, lost->cause, false};
    }
    pthread_mutex_unlock(&world->lock);
}

static mst_status refresh(void *context, const struct msi_wait *wait) {
    struct msi_world *world = ((mst_group *)context)->world;
    mst_status st = msi_world_read_events(world, wait);
    int host = st == MST_ERR_STORE_LOST ? msi_world_store_host(world) : -1;
    if (host < 0 || host == world->rank) return st;
    for (int t = 0; t < MSI_STORE_HOSTS && world->store_ranks[t] >= 0 && world->store_ranks[t] != host; t++)
        note_gone(world, world->store_ranks[t], REPLACED);
    note_gone(world, host, IMPLIED);
    return st;
}

/* Is a rank lost with the host of that rank? */
static bool has_lost_host_of(struct msi_world *world, int rank) {
    const struct msi_member *members = world->members.members;
    bool lost = false;
    pthread_mutex_lock(&world->lock);
    for (int r = 0; r < world->size; r++)
        lost |= world->lost_ranks[r].silent && members[r].host == members[rank].host;
    pthread_mutex_unlock(&world->lock);
    return lost;
}

/* Can a standby take over? */
static bool has_standby(struct msi_world *world) {
    int ranks[2];
    msi_world_store_ranks(world, ranks);
    return world->standby_port && ranks[1] >= 0 && !msi_world_rank_event(world, ranks[1]) &&
           !has_lost_host_of(world, ranks[1]);
}

bool msi_world_keeps_store(struct msi_world *world) {
    int ranks[2];
    msi_world_store_ranks(world, ranks);
    return world->hosted && ranks[has_standby(world)] == world->rank;
}

static bool keeps_store(void *context) {
    return msi_world_keeps_store(((const mst_group *)context)->world);
}

static int64_t restore_ms(void *context) {
    struct msi_world *world = ((const mst_group *)context)->world;
    if (!msi_store_is_restoring(world->store)) return 0;
    return has_standby(world) ? TAKEOVER_MS : msi_socket_grace_ms();
}

static int store_host(void *context) {
    const mst_group *group = context;
    int host = msi_world_store_host(group->world);
    return host >= 0 ? msi_group_rank_of(group, host) : -1;
}

static char how_gone(const mst_group *group, int rank) {
    return msi_world_rank_event(group->world, msi_group_global_rank(group, rank));
}

static bool is_gone(void *context, int rank) {
    return how_gone(context, rank) != 0;
}

static bool has_died(void *context, int rank) {
    return how_gone(context, rank) == 'D';
}

static int unreported(void *context) {
    mst_group *group = context;
    struct msi_world *world = group->world;
    pthread_mutex_lock(&world->lock);
    int rank = group->lost;
    if (rank < 0 || world->lost_ranks[rank].event == 'L') rank = msi_group_first_lost(group, -1);
    if (group->reported && rank == group->lost) rank = -1;
    pthread_mutex_unlock(&world->lock);
    return rank < 0 ? -1 : msi_group_rank_of(group, rank);
}

static void reported(void *context, int global) {
    mst_group *group = context;
    pthread_mutex_lock(&group->world->lock);
    group->reported |= global >= 0 && (group->lost == global || group->blamed == global);
    pthread_mutex_unlock(&group->world->lock);
}

static void failed(void *context, mst_status status, const struct msi_wait *wait) {
    msi_world_tell_cause(((const mst_group *)context)->world, status, wait);
}

static void waits(void *context, int global, const struct msi_wait *wait) {
    msi_world_tell_wait(((const mst_group *)context)->world, global, wait);
}

static int read_cause(void *context, int global, bool waits, const struct msi_wait *wait) {
    return msi_world_read_cause(((const mst_group *)context)->world, global, waits, wait);
}

static void succeeded(void *context) {
    msi_world_take_cause_back(((const mst_group *)context)->world);
}

static void note_cause(void *context, int rank, int global) {
    const mst_group *group = context;
    msi_world_note_cause(group->world, msi_group_global_rank(group, rank), global);
}

static bool is_acknowledged(void *context, int rank) {
    mst_group *group = context;
    pthread_mutex_lock(&group->world->lock);
    bool is = group->acknowledged && group->acknowledged[rank];
    pthread_mutex_unlock(&group->world->lock);
    return is;
}

/*
 * Has a rank of this host ended after this host lost the store with its network? Probably because of that: it
 * is not to blame. What the store has reported before counts.
 */
static bool ended_because_of_store(struct msi_world *world, int rank) {
    const struct msi_member *members = world->members.members;
    if (members[rank].host != members[world->rank].host || !msi_world_store_is_silent(world)) return false;
    bool reported = false;
    pthread_mutex_lock(&world->lock);
    for (int r = 0; r < world->size; r++)
        reported |= world->lost_ranks[r].order && world->lost_ranks[r].order < REPLACED;
    pthread_mutex_unlock(&world->lock);
    return !reported;
}

static mst_status say_lost(void *context, int rank, bool only_it) {
    mst_group *group = context;
    int global = msi_group_global_rank(group, rank);
    if (ended_because_of_store(group->world, global)) return msi_world_fail_store(group->world);
    /* Stored when the store is lost; orders nothing. */
    if (atomic_load_explicit(&group->world->cut_off, memory_order_relaxed))
        note_gone(group->world, global, NOTED);
    char how = how_gone(group, rank);
    pthread_mutex_lock(&group->world->lock);
    group->world->lost_ranks[global].failed = true;
    bool is_news = group->reported && group->lost != global && how == 'D';
    pthread_mutex_unlock(&group->world->lock);
    mst_status st = only_it && is_news ? MST_OK : msi_group_say_first_lost(group, global);
    return st != MST_OK ? st : msi_group_fail_ended(group, global, how ? how : 'D');
}

static int global(void *context, int rank) {
    return msi_group_global_rank(context, rank);
}

static const char *address(void *context, int rank) {
    const mst_group *group = context;
    return group->world->members.members[msi_group_global_rank(group, rank)].address;
}

static const char *show(void *context, int rank, char *out, size_t size) {
    const mst_group *group = context;
    if (rank < 0) return msi_group_show(group, out, size);
    return msi_rank_show(group, msi_group_global_rank(group, rank), out, size);
}

/* A request that waits fails when a rank of the group is lost, or was lost before. */
mst_status msi_group_exec(void *context, const struct msi_wait *wait, struct msi_store_rpc *x, size_t n) {
    mst_group *group = context;
    struct msi_world *world = group->world;
    if (n != 1 || !msi_ops[x->req.op].waits) return msi_world_exec(world, wait, x, n);
    char key[MSI_KEY_MAX];
    for (bool first = true;; first = false) {
        mst_status st = msi_group_check(group, !first);
        if (st != MST_OK) return st;
        pthread_mutex_lock(&world->lock);
        int64_t seen = world->events_seen;
        pthread_mutex_unlock(&world->lock);
        struct msi_store_rpc both[] = {
            {.req = {.op = MSI_OP_GUARD, .key = msi_key(key, "%sevents", world->prefix), .number = seen}},
            {.req = x->req}};
        st = msi_world_exec(world, wait, both, 2);
        x->reply = both[1].reply;
        both[1].reply = (struct msi_buf){0};
        msi_store_rpc_free(both, 2);
        if (st != MST_ERR_PEER_LOST) return st;
        msi_store_rpc_free(x, 1);
    }
}

static mst_status agree(void *context, const struct msi_wait *wait) {
    return msi_group_agree(context, wait);
}

static mst_status look(void *context, const struct msi_waiting *at) {
    mst_status st = at->late ? msi_group_check_choice(context, at) : MST_OK;
    return st == MST_OK ? msi_group_check_recovering(context, at) : st;
}

/* The hosts of the group's ranks, numbered from 0 in the order of their first rank; returns how many. */
static int number_hosts(const mst_group *group, int *hosts, int *largest) {
    const struct msi_members *members = &group->world->members;
    int *number = calloc((size_t)members->host_count, 2 * sizeof *number), n = 0;
    *largest = 0;
    for (int r = 0; number && r < group->size; r++) {
        int host = members->members[msi_group_global_rank(group, r)].host,
            *ranks = &number[members->host_count + host];
        if (number[host] == 0) number[host] = ++n;
        hosts[r] = number[host] - 1;
        if (++*ranks > *largest) *largest = *ranks;
    }
    free(number);
    return n;
}

/*
 * Each communicator of a group has its own prefix of keys in the store. A group has one communicator for each
 * backend, whatever memory that serves.
 */
static void name_comm(const mst_group *group, const mst_backend *table, const char *generation,
                      char out[MSI_KEY_MAX]) {
    int n = snprintf(out, MSI_KEY_MAX, "%s%s", group->world->prefix, group->id);
    if (table || generation[0])
        snprintf(out + n, MSI_KEY_MAX - (size_t)n, "/engine.%s%s%s",
                 table ? table->name : msi_native_backend.name, generation[0] ? "." : "", generation);
}

static mst_status make_comm(mst_group *group, const mst_backend *table, const char *generation,
                            struct msi_comm **comm) {
    struct msi_world *world = group->world;
    const struct msi_members *members = &world->members;
    char key[MSI_KEY_MAX];
    size_t n = (size_t)group->size;
    int *pids = calloc(n, 2 * sizeof *pids);
    if (!pids) return msi_fail_memory();
    int *hosts = pids + n;
    if (table == &msi_native_backend) table = world->forced ? &msi_native_composed : NULL;
    name_comm(group, table, generation, key);
    struct msi_comm_options options = {.key = key,
                                       .rank = group->rank,
                                       .size = group->size,
                                       .pids = pids,
                                       .hosts = hosts,
                                       .local_ranks =
                                           members->local_sizes[members->members[world->rank].host],
                                       .config = {.endpoint = &world->endpoint,
                                                  .tuning = &world->tuning,
                                                  .slow_s = world->slow_s,
                                                  .spin_us = world->spin_us,
                                                  .cma = world->cma,
                                                  .nt_stores = world->nt_stores,
                                                  .team = world->team,
                                                  .sockets = world->streams,
                                                  .world_size = world->size,
                                                  .local_rank = members->members[world->rank].local_rank,
                                                  .backend = table,
                                                  .forced = world->forced,
                                                  .stage = world->stage,
                                                  .check = world->check}};
    for (int r = 0; r < group->size; r++) pids[r] = members->members[msi_group_global_rank(group, r)].pid;
    options.n_hosts = number_hosts(group, hosts, &options.largest);
    options.engine = table ? &msi_module_engine : options.n_hosts == 1 ? &msi_shm_engine : &msi_net_engine;
    struct msi_comm_hooks hooks = {
        .context = group,
        .exec = msi_group_exec,
        .refresh = refresh,
        .keeps_store = keeps_store,
        .restore_ms = restore_ms,
        .store_host = store_host,
        .is_gone = is_gone,
        .has_died = has_died,
        .unreported = unreported,
        .reported = reported,
        .failed = failed,
        .waits = waits,
        .succeeded = succeeded,
        .read_cause = read_cause,
        .note_cause = note_cause,
        .is_acknowledged = is_acknowledged,
        .say_lost = say_lost,
        .global = global,
        .address = address,
        .show = show,
        .agree = agree,
        .look = look,
    };
    mst_status st = options.n_hosts ? msi_comm_new(&options, &hooks, comm) : msi_fail_memory();
    free(pids);
    return st;
}

/* The group's entry for that backend; NULL without memory. */
static struct msi_group_comm *find_entry(mst_group *group, const mst_backend *table) {
    for (int i = 0; i < group->n_comms; i++)
        if (group->comms[i].table == table) return &group->comms[i];
    struct msi_group_comm *more = realloc(group->comms, (size_t)(group->n_comms + 1) * sizeof *more);
    if (!more) return NULL;
    group->comms = more;
    more[group->n_comms] = (struct msi_group_comm){.table = table};
    return &more[group->n_comms++];
}

/* The group's communicator for that backend; creates it if there is none. */
static mst_status find_comm(mst_group *group, const mst_backend *table, struct msi_comm **comm) {
    struct msi_group_comm *entry = find_entry(group, table);
    if (!entry) return msi_fail_memory();
    mst_status st = entry->comm ? MST_OK : make_comm(group, table, entry->generation, &entry->comm);
    if (st == MST_OK) *comm = entry->comm;
    return st;
}

void msi_group_list_failed(const mst_group *group, struct msi_buf *out) {
    for (int i = 0; i < group->n_comms; i++) {
        const struct msi_group_comm *entry = &group->comms[i];
        if (entry->table && entry->comm && msi_comm_has_failed(entry->comm))
            msi_buf_add_format(out, " %s/%s", group->id, entry->table->name);
    }
}

mst_status msi_group_renew(mst_group *group, const mst_backend *table, const char *generation) {
    struct msi_group_comm *entry = find_entry(group, table);
    if (!entry) return msi_fail_memory();
    if (entry->comm) {
        entry->table = NULL;
        entry = find_entry(group, table);
    }
    if (!entry) return msi_fail_memory();
    snprintf(entry->generation, sizeof entry->generation, "%s", generation);
    return MST_OK;
}

static mst_status say_not_member(const mst_group *group) {
    char text[96];
    return msi_fail(MST_ERR_NOT_MEMBER, NULL, "rank %d is not in %s", group->world->rank,
                    msi_group_show(group, text, sizeof text));
}

/* Held while a communicator is made: threads may make the first call on a group at the same time. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

mst_status msi_group_comm_of(mst_group *group, mst_memory memory, struct msi_comm **comm) {
    const mst_backend *host = group->backends.of[MST_MEMORY_HOST],
                      *device = group->backends.of[MST_MEMORY_CUDA];
    if (group->rank < 0) return say_not_member(group);
    bool to_device = device && (memory == MST_MEMORY_CUDA || !host);
    _Atomic(struct msi_comm *) *kept = to_device ? &group->device : &group->comm;
    *comm = atomic_load_explicit(kept, memory_order_acquire);
    if (*comm) return MST_OK;
    pthread_mutex_lock(&making);
    mst_status st = find_comm(group, to_device ? device : host, comm);
    /* Loaded above, and by msi_group_comm. */
    if (st == MST_OK) atomic_store_explicit(kept, *comm, memory_order_release);
    pthread_mutex_unlock(&making);
    return st;
}

/* Callbacks may make a communicator meanwhile, and set callbacks in another one. */
bool msi_group_drain_callbacks(mst_group *group) {
    bool any = false;
    for (int i = 0, n = 1; i < n; i++) {
        pthread_mutex_lock(&making);
        n = group->n_comms;
        struct msi_comm *comm = i < n ? group->comms[i].comm : NULL;
        pthread_mutex_unlock(&making);
        if (comm) any |= msi_comm_drain_callbacks(comm);
    }
    return any;
}

/* The memory of the buffer decides; a call without a buffer uses the backend for the host, if there is
 * one. */
mst_status msi_group_find_comm(mst_group *group, const void *buffer, struct msi_comm **comm,
                               mst_memory *memory) {
    const mst_backend *host = group->backends.of[MST_MEMORY_HOST],
                      *device = group->backends.of[MST_MEMORY_CUDA];
    mst_memory where = MST_MEMORY_HOST;
    if (device && device->memory_of)
        where = buffer ? device->memory_of(buffer) : host ? MST_MEMORY_HOST : MST_MEMORY_CUDA;
    mst_status st = msi_group_comm_of(group, where, comm);
    if (st == MST_OK) *memory = where;
    return st;
}
