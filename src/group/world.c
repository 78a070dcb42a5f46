/* world.c - opening and closing a world. See world.h. */
#include "group/world.h"
#include "base/error.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

/* Opens the store that the place names: the given one, that of the url, or one of our own for a single
 * process. */
static mst_status open_store(struct msi_world *world, const mst_init_options *options,
                             const struct msi_place *place, const struct msi_settings *settings,
                             const struct msi_wait *wait) {
    mst_store_options store_options = {.size = sizeof store_options,
                                       .is_master = place->hosted && place->rank == 0};
    mst_status st;
    if (options->store) {
        world->store = options->store;
        return MST_OK;
    }
    if (place->url.scheme == MSI_SCHEME_FILE)
        st = msi_store_open_file(place->url.path, true, settings, wait, &world->store);
    else
        st = msi_store_open(&place->url, settings, wait, &store_options, &world->store);
    if (st == MST_ERR_PORT_TAKEN) {
        char what[400];
        snprintf(what, sizeof what, "%s", mst_last_error()->message);
        st = msi_fail(
            st, "choose another port there, or start the ranks with `muster run`, which finds a free one",
            "%s; rank 0 was told to host the store there by %s", what, place->met_by);
    }
    world->owns_store = st == MST_OK;
    /* The rank that hosts the store stays until the others have said goodbye. */
    if (st == MST_OK) world->store->linger_ms = settings->store_linger_ms;
    return st;
}

static void release(struct msi_world *world) {
    msi_roster_free(&world->roster);
    if (world->owns_store) msi_store_free(world->store);
    pthread_mutex_destroy(&world->lock);
    free(world->counts);
    free(world->gone);
    free(world);
}

static mst_status set_up(struct msi_world *world, const mst_init_options *options,
                         const struct msi_settings *settings) {
    struct msi_place place;
    mst_status st = msi_discover(options, &place);
    if (st != MST_OK) return st;
    world->rank = place.rank;
    world->size = place.world_size;
    world->hosted = place.hosted && !options->store;
    world->timeout_ms = options->timeout_ms ? options->timeout_ms : (int)settings->timeout_ms;
    int64_t join_ms = options->timeout_ms ? options->timeout_ms : settings->init_timeout_ms;
    struct msi_wait wait = {msi_deadline(join_ms), options->cancel};
    world->gone = calloc((size_t)world->size, 1);
    if (!world->gone) return msi_fail_memory();
    st = open_store(world, options, &place, settings, &wait);
    if (st == MST_OK) st = msi_join(world->store, &place, settings, &wait, world->prefix, &world->roster);
    return st;
}

mst_status msi_world_open(const mst_init_options *options, mst_group **group) {
    struct msi_settings settings;
    mst_status st = msi_settings_load(&settings, NULL);
    if (st != MST_OK) return st;
    struct msi_world *world = calloc(1, sizeof *world);
    if (!world) return msi_fail_memory();
    pthread_mutex_init(&world->lock, NULL);
    msi_list_init(&world->groups);
    st = set_up(world, options, &settings);
    if (st == MST_OK) {
        mst_group_options all = {.name = "world"};
        st = msi_group_new(world, NULL, world->size, &all, &world->all);
        if (st != MST_OK) msi_leave(world->store, world->prefix, world->rank);
    }
    if (st != MST_OK) {
        release(world);
        return st;
    }
    msi_log(group, INFO, "world of %d formed on %d host%s", world->size, world->roster.host_count,
            world->roster.host_count == 1 ? "" : "s");
    *group = world->all;
    return MST_OK;
}

mst_status msi_world_exec(struct msi_world *world, const struct msi_wait *wait, struct msi_exchange *x,
                          size_t n) {
    mst_status st = MST_ERR_STORE_LOST;
    if (!atomic_load_explicit(&world->cut_off, memory_order_relaxed))
        st = msi_store_exec(world->store, wait, x, n);
    if (st != MST_ERR_STORE_LOST) return st;
    atomic_store_explicit(&world->cut_off, true, memory_order_relaxed);
    if (!world->hosted)
        return msi_fail(st, "see why it ended; the world must be opened anew",
                        "the store of this world is gone");
    const struct msi_member *host = &world->roster.members[0];
    st = msi_fail(st, "look at rank 0's own output; the world must be opened anew",
                  "rank 0 (host %s, pid %d) died or left, and with it the store of this world",
                  host->host_name, host->pid);
    return msi_blame(st, 0);
}

void msi_world_close(struct msi_world *world) {
    while (!msi_list_empty(&world->groups)) {
        mst_group *group = msi_container(world->groups.next, mst_group, node);
        msi_group_forget(group);
        msi_group_free(group);
    }
    msi_world_forget(world);
    if (!atomic_load_explicit(&world->cut_off, memory_order_relaxed))
        msi_leave(world->store, world->prefix, world->rank);
    release(world);
}
