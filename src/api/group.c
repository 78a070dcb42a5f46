/* group.c - the public calls on worlds and groups: check the arguments. */
#include "api/api.h"
#include "base/error.h"
#include "base/options.h"
#include "os/host.h"

#include <muster/comm.h>
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
    }
    pthread_mutex_unlock(&default_lock);
    return st;
}

mst_status mst_destroy_process_group(mst_group *group) {
    mst_group *found = msi_call_group("mst_destroy_process_group", NULL, group);
    if (!found) return MST_ERR_STATE;
    if (msi_comm_in_callback())
        return msi_fail(MST_ERR_STATE, "destroy it after the callback has returned",
                        "a callback of a work cannot destroy a group");
    if (found->ranks) {
        msi_group_end(&group);
        return MST_OK;
    }
    pthread_mutex_lock(&default_lock);
    if (msi_default_world() == found) msi_set_default_world(NULL);
    pthread_mutex_unlock(&default_lock);
    uint64_t entered = msi_call_enter(found->size, 0, 0);
    msi_world_close(found->world, msi_print);
    return msi_call_leave(entered, MST_OK);
}

/* Prints the profile of a program that exits without ending its world, if the environment asks for it. */
__attribute__((destructor)) static void print_profile(void) {
    const mst_group *all = msi_default_world();
    if (all && all->world->forks == msi_forks()) msi_world_print_profile(all->world, msi_print);
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
    uint64_t entered = msi_call_enter(n, 0, 0);
    mst_group *made;
    struct msi_group_spec spec = {.ranks = sorted, .n = n, .options = &options};
    if (st == MST_OK) st = msi_group_make(world->world, &spec, &made);
    if (st == MST_OK) *group = made->handle;
    msi_call_leave(entered, st);
    free(sorted);
    return st;
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
