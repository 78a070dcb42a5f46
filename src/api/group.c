/* group.c - the public calls on worlds and groups: check the arguments. */
#include "api/api.h"
#include "base/error.h"
#include "base/options.h"
#include "os/host.h"

#include <muster/comm.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Held while the default world is opened or ended. */
static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER;

mst_status mst_world_open(const mst_init_options *given, mst_group **world) {
    mst_init_options options;
    msi_call_rank(-1);
    mst_status st = msi_options_begin("mst_world_open", &options, sizeof options, given);
    if (st == MST_OK) st = msi_check_timeout(options.timeout_ms);
    if (st == MST_OK && !world) st = msi_fail(MST_ERR_INVALID, NULL, "world is NULL");
    if (st == MST_OK) st = msi_world_open(&options, world);
    if (st == MST_OK) *world = (*world)->handle;
    return st;
}

mst_status mst_init_with(const mst_init_options *given) {
    mst_init_options options;
    msi_call_rank(msi_default_world() ? msi_default_world()->world->rank : -1);
    mst_status st = msi_options_begin("mst_init", &options, sizeof options, given);
    if (st == MST_OK) st = msi_check_timeout(options.timeout_ms);
    if (st != MST_OK) return st;
    pthread_mutex_lock(&default_lock);
    if (!msi_default_world()) {
        mst_group *world;
        st = msi_world_open(&options, &world);
        if (st == MST_OK) msi_set_default_world(world);
    } else {
        st = msi_group_check_use(msi_default_world());
    }
    pthread_mutex_unlock(&default_lock);
    return st;
}

mst_status mst_destroy_process_group(mst_group *group) {
    mst_group *found = msi_call_group("mst_destroy_process_group", NULL, group);
    if (!found) return MST_ERR_STATE;
    if (msi_comm_in_any_callback())
        return msi_fail(MST_ERR_STATE, "destroy it after the callback has returned",
                        "a callback of a work cannot destroy a group");
    if (found->ranks) {
        msi_group_end(&group);
        return MST_OK;
    }
    if (found->world->continued) return MST_OK; /* it ends with the world that continues it */
    msi_world_drain_callbacks(found->world);
    pthread_mutex_lock(&default_lock);
    if (msi_default_world() == found) msi_set_default_world(NULL);
    pthread_mutex_unlock(&default_lock);
    uint64_t entered = msi_call_enter(found->size, 0, 0);
    msi_world_close(found->world, msi_print);
    return msi_call_leave(entered, MST_OK);
}

mst_status mst_abort_with(mst_group *group, const char *reason, const mst_abort_options *given) {
    mst_abort_options o;
    mst_status st = msi_options_begin("mst_abort", &o, sizeof o, given);
    if (st != MST_OK) return st;
    mst_group *found = msi_call_group("mst_abort", &o.site, group);
    if (!found) return MST_ERR_STATE;
    return found->rank < 0 ? msi_fail_not_member(found) : msi_group_abort(found, &o.site, reason);
}

/* Prints the profile of a program that exits without ending its world, if the environment asks for it. */
__attribute__((destructor)) static void print_profile(void) {
    const mst_group *all = msi_default_world();
    if (all && all->world->forks == msi_forks()) msi_world_print_profile(all->world, msi_print);
}

static mst_status make(struct msi_world *world, const struct msi_group_spec *spec, mst_group **group) {
    mst_group *made;
    uint64_t entered = msi_call_enter(spec->n, 0, 0);
    mst_status st = msi_group_make(world, spec, &made);
    if (st == MST_OK) *group = made->handle;
    return msi_call_leave(entered, st);
}

static mst_status make_unnamed(struct msi_world *world, const int *sorted, int n,
                               const mst_group_options *options, mst_group **group) {
    return make(world, &(struct msi_group_spec){.ranks = sorted, .n = n, .options = options}, group);
}

/* The name is part of the key under which the members meet. */
static mst_status make_named(struct msi_world *world, const int *ranks, int n,
                             const mst_group_options *options, mst_group **group) {
    struct msi_buf text = {0};
    msi_buf_add_format(&text, "name %s", options->name);
    const struct msi_group_label label = {.text = msi_buf_text(&text), .ordered = true};
    const struct msi_group_spec spec = {.ranks = ranks, .n = n, .label = &label, .options = options};
    mst_status st = text.failed ? msi_fail_memory() : make(world, &spec, group);
    msi_buf_free(&text);
    return st;
}

mst_status mst_new_group_with(const int *ranks, int n, mst_group **group, const mst_group_options *given) {
    mst_group_options options;
    mst_status st = msi_options_begin("mst_new_group", &options, sizeof options, given);
    if (st == MST_OK) st = msi_check_timeout(options.timeout_ms);
    if (st != MST_OK) return st;
    mst_group *world = msi_call_group("mst_new_group", &options.site, options.world);
    if (!world) return MST_ERR_STATE;
    if (!ranks || !group || n < 1)
        return msi_fail(MST_ERR_INVALID, NULL, "%s",
                        !ranks   ? "ranks is NULL"
                        : !group ? "group is NULL"
                                 : "n is not positive");
    int *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted) return msi_fail_memory();
    memcpy(sorted, ranks, (size_t)n * sizeof *sorted);
    st = msi_group_check_ranks(sorted, n, world->world->size);
    if (st == MST_OK)
        st = options.name && *options.name ? make_named(world->world, ranks, n, &options, group)
                                           : make_unnamed(world->world, sorted, n, &options, group);
    free(sorted);
    return st;
}

/* What each rank of the parent passes to mst_split_group, and its rank there. */
struct split_rank {
    int color, key, rank;
};

static int compare_keys(const void *a, const void *b) {
    const struct split_rank *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Writes the global ranks with this color in the order of their keys; returns how many. Changes all. */
static int select_color(const mst_group *parent, int color, struct split_rank *all, int *ranks) {
    int n = 0;
    for (int r = 0; r < parent->size && color >= 0; r++)
        if (all[r].color == color) all[n++] = all[r];
    qsort(all, (size_t)n, sizeof *all, compare_keys);
    for (int i = 0; i < n; i++) ranks[i] = msi_group_global_rank(parent, all[i].rank);
    return n;
}

/* The label separates these groups from others of the same ranks, which members may make in another order. */
static mst_status make_color(const mst_group *parent, const int *ranks, int n, const mst_split_options *o,
                             mst_group **group) {
    char text[sizeof parent->id + sizeof "split "];
    snprintf(text, sizeof text, "split %s", parent->id);
    const char *inherited = parent->ranks && parent->own_backends ? parent->backends.text : NULL;
    const struct msi_group_label label = {.text = text};
    const mst_group_options options = {.size = sizeof options,
                                       .site = o->site,
                                       .timeout_ms =
                                           o->timeout_ms ? o->timeout_ms : msi_group_timeout(parent),
                                       .name = o->name,
                                       .backend = o->backend ? o->backend : inherited,
                                       .desc = o->desc};
    struct msi_group_spec spec = {.ranks = ranks, .n = n, .label = &label, .options = &options};
    return make(parent->world, &spec, group);
}

mst_status mst_split_group_with(int color, int key, mst_group **group, const mst_split_options *given) {
    mst_split_options options;
    mst_status st = msi_options_begin("mst_split_group", &options, sizeof options, given);
    if (st == MST_OK) st = msi_check_timeout(options.timeout_ms);
    if (st == MST_OK && !group) st = msi_fail(MST_ERR_INVALID, NULL, "group is NULL");
    if (st != MST_OK) {
        mst_group *told = options.group ? msi_group_of(options.group) : msi_default_world();
        return msi_group_reject(told, MSI_KIND_ALL_GATHER_INTO_TENSOR,
                                &(struct msi_op_call){"mst_split_group", options.site}, st);
    }
    const mst_group *parent = msi_call_group("mst_split_group", &options.site, options.group);
    if (!parent) return MST_ERR_STATE;
    if (parent->rank < 0) return msi_fail_not_member(parent);
    size_t n = (size_t)parent->size;
    struct split_rank own = {color, key, parent->rank}, *all = malloc(n * sizeof *all);
    int *ranks = malloc(n * sizeof *ranks);
    mst_call call = {
        .size = sizeof call, .site = options.site, .group = options.group, .cancel = options.cancel};
    st =
        all && ranks ? msi_all_gather_as("mst_split_group", all, &own, 3, MST_I32, &call) : msi_fail_memory();
    if (st == MST_OK)
        st = make_color(parent, ranks, select_color(parent, color, all, ranks), &options, group);
    free(ranks);
    free(all);
    return st;
}

/* Begins a call that makes one group of several. */
static mst_status begin_subgroups(const char *name, const mst_group_options *given, mst_group *const *mine,
                                  mst_group_options *options, struct msi_world **world) {
    mst_status st = msi_options_begin(name, options, sizeof *options, given);
    if (st == MST_OK) st = msi_check_timeout(options->timeout_ms);
    if (st != MST_OK) return st;
    mst_group *found = msi_call_group(name, &options->site, options->world);
    if (!found) return MST_ERR_STATE;
    *world = found->world;
    return mine ? MST_OK : msi_fail(MST_ERR_INVALID, NULL, "mine is NULL");
}

mst_status mst_new_subgroups_with(int size, mst_group **mine, const mst_group_options *given) {
    mst_group_options options;
    struct msi_world *world;
    mst_status st = begin_subgroups("mst_new_subgroups", given, mine, &options, &world);
    if (st != MST_OK) return st;
    if (size < 1 || world->size % size)
        return msi_fail(MST_ERR_INVALID, "give a divisor of the size of the world",
                        "a world of %d cannot be divided into groups of %d", world->size, size);
    int *ranks = malloc((size_t)size * sizeof *ranks);
    if (!ranks) return msi_fail_memory();
    for (int i = 0; i < size; i++) ranks[i] = world->rank / size * size + i;
    struct msi_group_spec spec = {.ranks = ranks, .n = size, .options = &options};
    st = make(world, &spec, mine);
    free(ranks);
    return st;
}

/* Copies all lists into all, which has total entries, checks that they are disjoint and finds the rank's. */
static mst_status find_list(const int *const *lists, const int *sizes, int n, const struct msi_world *world,
                            int *all, int *own) {
    int total = 0;
    *own = -1;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < sizes[i]; k++) {
            if (lists[i][k] == world->rank) *own = i;
            all[total++] = lists[i][k];
        }
    return msi_group_check_ranks(all, total, world->size);
}

/* Checks the lists themselves; *total is the number of their ranks, at most the size of the world. */
static mst_status check_lists(const int *const *lists, const int *sizes, int n, int world_size, int *total) {
    *total = 0;
    if (!lists || !sizes || n < 1)
        return msi_fail(MST_ERR_INVALID, NULL, "%s",
                        !lists   ? "lists is NULL"
                        : !sizes ? "sizes is NULL"
                                 : "n is not positive");
    for (int i = 0; i < n; i++) {
        if (!lists[i] || sizes[i] < 1)
            return msi_fail(MST_ERR_INVALID, NULL, "%s[%d] is %s", lists[i] ? "sizes" : "lists", i,
                            lists[i] ? "not positive" : "NULL");
        if (sizes[i] > world_size - *total)
            return msi_fail(MST_ERR_INVALID, "name each rank once",
                            "the lists have more ranks than the world of %d", world_size);
        *total += sizes[i];
    }
    return MST_OK;
}

mst_status mst_new_subgroups_by_enumeration_with(const int *const *lists, const int *sizes, int n,
                                                 mst_group **mine, const mst_group_options *given) {
    mst_group_options options;
    struct msi_world *world;
    int total, own;
    mst_status st = begin_subgroups("mst_new_subgroups_by_enumeration", given, mine, &options, &world);
    if (st == MST_OK) st = check_lists(lists, sizes, n, world->size, &total);
    if (st != MST_OK) return st;
    int *ranks = malloc((size_t)total * sizeof *ranks);
    if (!ranks) return msi_fail_memory();
    st = find_list(lists, sizes, n, world, ranks, &own);
    struct msi_group_spec spec = {.ranks = ranks, .n = own < 0 ? 0 : sizes[own], .options = &options};
    if (st == MST_OK && own >= 0) {
        memcpy(ranks, lists[own], (size_t)sizes[own] * sizeof *ranks);
        st = msi_group_check_ranks(ranks, sizes[own], world->size);
    }
    if (st == MST_OK) st = make(world, &spec, mine);
    free(ranks);
    return st;
}

mst_status mst_ack_lost_ranks(mst_group *group, int *ranks, int max, int *n) {
    int found, *count = n ? n : &found;
    mst_group *given = msi_call_group("mst_ack_lost_ranks", NULL, group);
    if (!given) return MST_ERR_STATE;
    if (given->rank < 0) return msi_fail_not_member(given);
    if (max < 0 || (max > 0 && !ranks))
        return msi_fail(MST_ERR_INVALID, "give an array of max ranks, or NULL and 0",
                        max < 0 ? "max is negative" : "ranks is NULL");
    return msi_group_acknowledge(given, ranks, max, count);
}

mst_status mst_group_set_timeout(mst_group *group, int timeout_ms) {
    mst_group *found = msi_call_group("mst_group_set_timeout", NULL, group);
    if (!found) return MST_ERR_STATE;
    if (timeout_ms <= 0) return msi_fail(MST_ERR_INVALID, NULL, "timeout_ms is %d, not positive", timeout_ms);
    msi_group_set_timeout(found, timeout_ms);
    return MST_OK;
}

mst_store *mst_get_group_store(mst_group *group) {
    mst_store *store = NULL;
    mst_group *found = msi_call_group("mst_get_group_store", NULL, group);
    if (!found) return NULL;
    if (found->rank < 0) {
        msi_fail_not_member(found);
        return NULL;
    }
    return msi_group_store(found, &store) == MST_OK ? store : NULL;
}

const char *mst_get_group_name(const mst_group *group) {
    const mst_group *found = msi_call_group("mst_get_group_name", NULL, group);
    return found ? found->name : NULL;
}

const char *mst_get_group_desc(const mst_group *group) {
    const mst_group *found = msi_call_group("mst_get_group_desc", NULL, group);
    if (!found) return NULL;
    return found->desc ? found->desc : "";
}

int mst_get_pg_count(const mst_group *world) {
    const mst_group *found = msi_call_group("mst_get_pg_count", NULL, world);
    return found ? msi_world_count_groups(found->world) : -1;
}

bool mst_is_available(void) {
    return true;
}

bool mst_is_initialized(void) {
    return msi_default_world() != NULL;
}

int mst_get_rank(const mst_group *group) {
    const mst_group *found = msi_call_group("mst_get_rank", NULL, group);
    return found ? found->rank : -1;
}

int mst_get_world_size(const mst_group *group) {
    const mst_group *found = msi_call_group("mst_get_world_size", NULL, group);
    return found && found->rank >= 0 ? found->size : -1;
}

int mst_get_group_rank(const mst_group *group, int global_rank) {
    const mst_group *found = msi_call_group("mst_get_group_rank", NULL, group);
    int rank = found ? msi_group_rank_of(found, global_rank) : -1;
    if (found && rank < 0) msi_fail(MST_ERR_INVALID, NULL, "rank %d is not in the group", global_rank);
    return rank;
}

int mst_get_global_rank(const mst_group *group, int group_rank) {
    const mst_group *found = msi_call_group("mst_get_global_rank", NULL, group);
    int rank = found ? msi_group_global_rank(found, group_rank) : -1;
    if (found && rank < 0)
        msi_fail(MST_ERR_INVALID, NULL, "the group has %d ranks; rank %d does not exist", found->size,
                 group_rank);
    return rank;
}

int mst_get_process_group_ranks(const mst_group *group, int *ranks, int capacity) {
    const mst_group *found = msi_call_group("mst_get_process_group_ranks", NULL, group);
    if (!found) return -1;
    for (int i = 0; ranks && i < found->size && i < capacity; i++) ranks[i] = msi_group_global_rank(found, i);
    return found->size;
}

static const struct msi_member *own_member(const mst_group *found) {
    return &found->world->members.members[found->world->rank];
}

int mst_get_local_rank(const mst_group *world) {
    const mst_group *found = msi_call_group("mst_get_local_rank", NULL, world);
    return found ? own_member(found)->local_rank : -1;
}

int mst_get_local_size(const mst_group *world) {
    const mst_group *found = msi_call_group("mst_get_local_size", NULL, world);
    return found ? found->world->members.local_sizes[own_member(found)->host] : -1;
}

int mst_get_host_count(const mst_group *world) {
    const mst_group *found = msi_call_group("mst_get_host_count", NULL, world);
    return found ? found->world->members.host_count : -1;
}

mst_status mst_get_rank_info(const mst_group *world, int rank, mst_rank_info *info) {
    const mst_group *found = msi_call_group("mst_get_rank_info", NULL, world);
    if (!found) return MST_ERR_STATE;
    const struct msi_members *members = &found->world->members;
    if (!info) return msi_fail(MST_ERR_INVALID, NULL, "info is NULL");
    if (rank < 0 || rank >= members->size)
        return msi_fail(MST_ERR_INVALID, NULL, "rank %d is not in this world of %d", rank, members->size);
    const struct msi_member *m = &members->members[rank];
    *info = (mst_rank_info){rank,   m->host,      m->local_rank, members->local_sizes[m->host],
                            m->pid, m->host_name, m->address};
    return MST_OK;
}

const char *mst_get_advertised_address(void) {
    static _Thread_local char address[64];
    struct msi_settings settings;
    const char *why;
    msi_call_begin("mst_get_advertised_address", NULL, msi_call_get_rank());
    mst_status st = msi_settings_load(&settings, NULL);
    if (st == MST_OK)
        st = msi_netif_choose(settings.advertise_addr, settings.socket_ifname, NULL, address, &why);
    return st == MST_OK ? address : NULL;
}
