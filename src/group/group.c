/* group.c - groups of ranks, and lost ranks. See world.h. */
#include "base/error.h"
#include "base/hash.h"
#include "bootstrap/report.h"
#include "group/recover.h"
#include "os/exit.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

/* Number of groups made of the same ranks and label: part of the group's id. */
struct msi_group_count {
    uint64_t hash[2];
    unsigned count;
};

/* Sets the group's number and where it is counted; false without memory. */
static bool count_group(struct msi_world *world, mst_group *group, const uint64_t hash[2]) {
    size_t i = 0;
    while (i < world->n_counts && memcmp(world->counts[i].hash, hash, sizeof world->counts[i].hash) != 0) i++;
    if (i == world->n_counts) {
        struct msi_group_count *counts = realloc(world->counts, (i + 1) * sizeof *counts);
        if (!counts) return false;
        world->counts = counts;
        counts[world->n_counts++] = (struct msi_group_count){{hash[0], hash[1]}, 0};
    }
    group->counted_at = i;
    group->number = ++world->counts[i].count;
    return true;
}

static int compare_ranks(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Hashes the set of the group's ranks, and the label; false without memory. */
static bool hash_group(const mst_group *group, const struct msi_group_label *label, uint64_t hash[2]) {
    static const uint64_t seeds[2][2] = {{1, 2}, {3, 4}};
    size_t bytes = (size_t)group->size * sizeof *group->ranks;
    int *sorted = malloc(bytes + 1);
    if (!sorted) return false;
    memcpy(sorted, group->ranks, bytes);
    if (!group->ascending) qsort(sorted, (size_t)group->size, sizeof *sorted, compare_ranks);
    for (int i = 0; i < 2; i++) {
        uint64_t seed[2] = {seeds[i][0], seeds[i][1]};
        if (label) seed[0] = msi_hash(label->text, strlen(label->text), seeds[i]);
        hash[i] = msi_hash(sorted, bytes, seed);
    }
    free(sorted);
    return true;
}

/* Sets the group's part of the keys, which is the same on all its ranks; false without memory. */
static bool name_group(struct msi_world *world, mst_group *group, const struct msi_group_label *label) {
    uint64_t hash[2];
    if (!group->ranks) {
        snprintf(group->id, sizeof group->id, "g");
        return true;
    }
    if (!hash_group(group, label, hash)) return false;
    bool once = label && label->once;
    if (!once && !count_group(world, group, hash)) return false;
    snprintf(group->id, sizeof group->id, "g%016llx%016llx.%u", (unsigned long long)hash[0],
             (unsigned long long)hash[1], once ? 1 : group->number);
    return true;
}

static bool shares_host(const mst_group *group) {
    const struct msi_members *members = &group->world->members;
    int host = members->members[group->world->rank].host;
    for (int r = 0; r < group->size; r++)
        if (members->members[msi_group_global_rank(group, r)].host != host) return false;
    return true;
}

/* Copies as many whole UTF-8 characters as fit. */
static void copy_name(char to[MSI_GROUP_NAME_MAX], const char *name) {
    size_t n = strnlen(name, MSI_GROUP_NAME_MAX);
    if (n == MSI_GROUP_NAME_MAX)
        for (n--; n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80;) n--;
    memcpy(to, name, n);
    to[n] = '\0';
}

/* Copies the ranks and the description; false without memory. */
static bool copy_parts(mst_group *made, const struct msi_group_spec *spec) {
    size_t bytes = (size_t)spec->n * sizeof *made->ranks;
    if (spec->ranks && !(made->ranks = malloc(bytes + 1))) return false; /* not NULL for an empty group */
    if (spec->ranks) memcpy(made->ranks, spec->ranks, bytes);
    made->ascending = true;
    for (int i = 1; spec->ranks && i < spec->n; i++) made->ascending &= spec->ranks[i - 1] < spec->ranks[i];
    return !spec->options->desc || (made->desc = strdup(spec->options->desc));
}

static mst_status fail_to_make(mst_group *made) {
    free(made->desc);
    free(made->ranks);
    free(made);
    return msi_fail_memory();
}

mst_status msi_group_new(struct msi_world *world, const struct msi_group_spec *spec, mst_group **group) {
    static atomic_uint generation; /* must only change; orders nothing */
    int n = spec->n;
    mst_group *made = msi_handle_alloc(sizeof *made);
    if (!made) return msi_fail_memory();
    made->handle = msi_handle_make(made, atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed));
    made->world = world;
    made->size = n;
    made->lost = made->blamed = -1;
    int timeout_ms = world->all ? msi_group_timeout(world->all) : world->timeout_ms;
    msi_group_set_timeout(made, spec->options->timeout_ms ? spec->options->timeout_ms : timeout_ms);
    if (!copy_parts(made, spec)) return fail_to_make(made);
    made->rank = msi_group_rank_of(made, world->rank);
    made->own_backends = spec->backends != NULL;
    made->backends = spec->backends ? *spec->backends : world->all->backends;
    made->one_host = shares_host(made);
    copy_name(made->name, spec->options->name ? spec->options->name : "");
    pthread_mutex_lock(&world->lock);
    /* A group that is not made must not be counted: this rank's next one would have another id. */
    bool added = msi_handle_add(made->handle), named = added && name_group(world, made, spec->label);
    if (named) msi_list_push(&world->groups, &made->node);
    pthread_mutex_unlock(&world->lock);
    if (added && !named) msi_handle_remove(made->handle);
    if (!named) return fail_to_make(made);
    if (made->rank >= 0)
        made->flight = msi_flight_group_add(world->prefix, made->id, made->name, made->ranks, made->size);
    *group = made;
    return MST_OK;
}

void msi_group_report_end(mst_group *group, mst_status status) {
    struct msi_saved_error error;
    msi_error_save(&error, status);
    for (int i = 0; i < group->n_comms; i++)
        if (group->comms[i].comm) msi_comm_tell_end(group->comms[i].comm, status);
    msi_error_restore(&error);
}

void msi_group_free(mst_group *group) {
    msi_handle_remove(group->handle);
    pthread_mutex_lock(&group->world->lock);
    msi_list_remove(&group->node);
    pthread_mutex_unlock(&group->world->lock);
    for (int i = 0; i < group->n_comms; i++) msi_comm_free(group->comms[i].comm);
    if (group->rank >= 0) msi_flight_group_remove(group->flight); /* after its works have ended */
    msi_store_free(group->store);
    free(group->acknowledged);
    free(group->prepared);
    free(group->comms);
    free(group->desc);
    free(group->ranks);
    free(group);
}

void msi_group_discard(mst_group *group) {
    struct msi_world *world = group->world;
    pthread_mutex_lock(&world->lock);
    if (group->number && world->counts[group->counted_at].count == group->number)
        world->counts[group->counted_at].count--;
    pthread_mutex_unlock(&world->lock);
    msi_group_free(group);
}

mst_status msi_group_make(struct msi_world *world, const struct msi_group_spec *spec, mst_group **group) {
    struct msi_backends backends;
    struct msi_group_spec own = *spec;
    const char *backend = spec->options->backend;
    mst_group *made;
    mst_status st = backend ? msi_backends_parse(backend, world->backend_path, &backends) : MST_OK;
    if (st != MST_OK) return st;
    own.backends = backend ? &backends : NULL;
    st = msi_group_new(world, &own, &made);
    if (st != MST_OK) return st;
    struct msi_wait wait = {msi_deadline(msi_group_timeout(made)), NULL};
    if (backend) st = msi_group_agree(made, &wait);
    if (st == MST_OK && spec->label && spec->label->ordered) st = msi_group_declare_order(made, &wait);
    if (st == MST_OK)
        *group = made;
    else if (st == MST_ERR_MISMATCH) /* others fail, too */
        msi_group_free(made);
    else
        msi_group_discard(made);
    return st;
}

mst_status msi_group_duplicate(const mst_group *group, const char *label, mst_group **handle) {
    int *ranks = calloc((size_t)group->size, sizeof *ranks);
    if (!ranks) return msi_fail_memory();
    for (int i = 0; i < group->size; i++) ranks[i] = msi_group_global_rank(group, i);
    const struct msi_group_label what = {.text = label};
    mst_group_options options = {
        .size = sizeof options, .timeout_ms = msi_group_timeout(group), .name = label};
    struct msi_group_spec spec = {ranks, group->size, &what, NULL, &options};
    if (group->own_backends && group->ranks) spec.backends = &group->backends; /* else the world's */
    mst_group *made;
    mst_status st = msi_group_new(group->world, &spec, &made);
    if (st == MST_OK) *handle = made->handle;
    free(ranks);
    return st;
}

mst_status msi_group_refuse(const mst_group *group) {
    if (!group)
        return msi_fail(MST_ERR_STATE, "use a group after it was created and before it is destroyed",
                        "the group was destroyed, or the handle is invalid");
    return msi_fail(MST_ERR_STATE, "only the parent may use it; start more ranks with `muster run`",
                    "this process was forked after the world was opened; it is not a rank of it");
}

void msi_group_end(mst_group **handle) {
    mst_group *group = *handle ? msi_group_of(*handle) : NULL;
    if (group) {
        msi_group_drain_callbacks(group);
        msi_group_leave(group);
        msi_group_free(group);
    }
    *handle = NULL;
}

mst_status msi_group_check_ranks(int *ranks, int n, int world_size) {
    qsort(ranks, (size_t)n, sizeof *ranks, compare_ranks);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= world_size)
            return msi_fail(MST_ERR_INVALID, NULL, "rank %d is not in this world of %d", ranks[i],
                            world_size);
        if (i && ranks[i] == ranks[i - 1])
            return msi_fail(MST_ERR_INVALID, NULL, "rank %d is named twice", ranks[i]);
    }
    return MST_OK;
}

int msi_group_global_rank(const mst_group *group, int group_rank) {
    if (group_rank < 0 || group_rank >= group->size) return -1;
    return group->ranks ? group->ranks[group_rank] : group_rank;
}

int msi_group_rank_of(const mst_group *group, int global_rank) {
    if (!group->ranks) return global_rank >= 0 && global_rank < group->size ? global_rank : -1;
    for (int i = 0; !group->ascending && i < group->size; i++)
        if (group->ranks[i] == global_rank) return i;
    if (!group->ascending) return -1;
    const int *found =
        bsearch(&global_rank, group->ranks, (size_t)group->size, sizeof *group->ranks, compare_ranks);
    return found ? (int)(found - group->ranks) : -1;
}

const char *msi_group_show(const mst_group *group, char *out, size_t size) {
    if (!group->ranks)
        snprintf(out, size, "the world");
    else if (group->name[0])
        snprintf(out, size, "group '%s'", group->name);
    else if (group->size == 0)
        snprintf(out, size, "an empty group");
    else
        snprintf(out, size, "a group of %d rank%s", group->size, group->size == 1 ? "" : "s");
    return out;
}

mst_status msi_group_store(mst_group *group, struct mst_store **store) {
    struct msi_world *world = group->world;
    char prefix[MSI_KEY_MAX];
    mst_status st = MST_OK;
    snprintf(prefix, sizeof prefix, "%s%s/user", world->prefix, group->id);
    pthread_mutex_lock(&world->lock);
    if (!group->store) {
        st = msi_store_open_prefix(world->store, prefix, &group->store);
        if (st == MST_OK) group->store->timeout_ms = msi_group_timeout(group);
    }
    *store = group->store;
    pthread_mutex_unlock(&world->lock);
    return st;
}

int msi_world_count_groups(struct msi_world *world) {
    int n = 0;
    pthread_mutex_lock(&world->lock);
    for (const struct msi_list *at = world->groups.next; at != &world->groups; at = at->next) n++;
    pthread_mutex_unlock(&world->lock);
    return n;
}

/* Reads all events again. The first event of a rank counts. */
mst_status msi_world_read_events(struct msi_world *world, const struct msi_wait *wait) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {.req = msi_read_request(msi_key(key, "%sevents", world->prefix))};
    mst_status st = msi_world_exec(world, wait, &x, 1);
    if (st == MST_OK) {
        struct msi_str events = msi_store_reply_value(&x), text = events;
        pthread_mutex_lock(&world->lock);
        struct msi_event event;
        for (int order = 1; msi_event_next(&text, &event); order++) {
            if (event.rank == world->rank)
                world->excluded |= event.kind == 'D';
            else if (event.rank < world->size && !world->lost_ranks[event.rank].order)
                world->lost_ranks[event.rank] = (struct msi_lost_rank){
                    event.kind, order, event.silent, world->lost_ranks[event.rank].cause, false};
        }
        world->events_seen = (int64_t)events.n;
        pthread_mutex_unlock(&world->lock);
    }
    msi_store_rpc_free(&x, 1);
    return st;
}

static mst_status fail_silent(const mst_group *group, int rank) {
    char show[96];
    const struct msi_member *m = &group->world->members.members[rank];
    if (msi_world_store_is_silent(group->world))
        return msi_world_fail_store(group->world); /* its host, too */
    mst_status st =
        msi_fail(MST_ERR_PEER_LOST, "check that host and the network",
                 "rank %d (host %s, pid %d) is lost: its host does not answer; %s cannot continue", rank,
                 m->host_name, m->pid, msi_group_show(group, show, sizeof show));
    return msi_blame(st, rank);
}

mst_status msi_group_fail_lost(const mst_group *group, int rank, char event) {
    char show[96];
    const struct msi_member *m = &group->world->members.members[rank];
    pthread_mutex_lock(&group->world->lock);
    bool silent = group->world->lost_ranks[rank].silent, excluded = group->world->excluded;
    pthread_mutex_unlock(&group->world->lock);
    if (excluded) return msi_group_fail_excluded(group);
    if (event == 'D' && msi_world_keeps_store(group->world))
        msi_exit_not_before(msi_deadline(MSI_EXIT_DELAY_MS)); /* the others must be able to read it, too */
    if (silent) return fail_silent(group, rank);
    mst_status st =
        msi_fail(MST_ERR_PEER_LOST,
                 event == 'D' ? "look at that rank's own output; the group must be recreated without it"
                              : "a rank that has left its world cannot take part in calls",
                 "rank %d (host %s, pid %d) %s; %s cannot continue", rank, m->host_name, m->pid,
                 event == 'D' ? "died, or ended without mst_destroy_process_group" : "has left",
                 msi_group_show(group, show, sizeof show));
    return msi_blame(st, rank);
}

int msi_group_first_lost(const mst_group *group, int needed) {
    const struct msi_lost_rank *lost = group->world->lost_ranks;
    int first = -1;
    bool counts = false; /* first does; else it has only left */
    for (int i = 0; i < group->size; i++) {
        int rank = msi_group_global_rank(group, i);
        if (!lost[rank].order) continue;
        bool own = lost[rank].event != 'L' || rank == needed;
        if (first < 0 || own > counts || (own == counts && lost[rank].order < lost[first].order))
            first = rank;
        counts |= own;
    }
    return first;
}

mst_status msi_group_check(mst_group *group, bool read) {
    struct msi_world *world = group->world;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    mst_status st = read ? msi_world_read_events(world, &wait) : MST_OK;
    if (st != MST_OK) return st;
    st = msi_group_say_first_lost(group, -1);
    if (st == MST_OK) return st;
    pthread_mutex_lock(&world->lock);
    group->reported = true;
    pthread_mutex_unlock(&world->lock);
    return st;
}

/* Under the world's lock: the rank to blame, unless that was a death before. */
static void find_first_lost(mst_group *group, int needed) {
    const struct msi_lost_rank *lost = group->world->lost_ranks;
    if (group->lost >= 0 && lost[group->lost].event != 'L') return;
    int first = msi_group_first_lost(group, needed);
    if (first == group->lost) return;
    group->lost = first;
    group->reported = false;
}

mst_status msi_group_say_first_lost(mst_group *group, int needed) {
    struct msi_world *world = group->world;
    char event = 0;
    pthread_mutex_lock(&world->lock);
    find_first_lost(group, needed);
    int lost = group->lost;
    if (lost >= 0) event = world->lost_ranks[lost].event;
    pthread_mutex_unlock(&world->lock);
    if (lost < 0) return MST_OK;
    mst_status st = msi_group_fail_ended(group, lost, event);
    pthread_mutex_lock(&world->lock);
    group->blamed = mst_last_error()->culprit;
    pthread_mutex_unlock(&world->lock);
    return st;
}

mst_status msi_group_acknowledge(mst_group *group, int *ranks, int max, int *n) {
    struct msi_world *world = group->world;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    mst_status st = msi_world_read_events(world, &wait);
    if (st != MST_OK && st != MST_ERR_STORE_LOST) return st; /* without a store, those that are known */
    *n = 0;
    pthread_mutex_lock(&world->lock);
    if (!group->acknowledged) group->acknowledged = calloc((size_t)group->size, sizeof(bool));
    for (int r = 0; r < group->size && group->acknowledged; r++) {
        if (world->lost_ranks[msi_group_global_rank(group, r)].event != 'D') continue;
        group->acknowledged[r] = true;
        if (*n < max) ranks[*n] = r;
        ++*n;
    }
    bool done = group->acknowledged;
    pthread_mutex_unlock(&world->lock);
    return done ? MST_OK : msi_fail_memory();
}
