/* wireup.c - see wireup.h. */
#include "wireup/wireup.h"
#include "base/error.h"
#include "wireup/endpoint.h"
#include "wireup/sockets.h"

#include <stdio.h>
#include <unistd.h>

enum { LOOK_MOST_MS = 50 }; /* between lookups of a port */

_Static_assert((int)MSI_MESSAGES < (int)MSI_SHM_REGION_CHANNELS,
               "the region has room for offers of every channel");

static mst_status fail(struct msi_wireup *w, mst_status status) {
    const mst_error_info *error = mst_last_error();
    bool advised = status == MST_ERR_CONFIG && error->remedy && *error->remedy;
    snprintf(w->why, sizeof w->why, "%s%s%s", error->message, advised ? "; " : "",
             advised ? error->remedy : "");
    return status;
}

static void wake(void *arg) {
    const struct msi_wireup *w = arg;
    msi_shm_region_wake_rank(w->region, w->slot);
}

static bool hold(void *arg, size_t bytes, bool must) {
    struct msi_wireup *w = arg;
    return msi_memory_hold(&w->pages, bytes, must);
}

static bool empty(struct msi_held *held) {
    return msi_link_shm_empty(msi_container(held, struct msi_wireup, pages)->link);
}

static mst_status open_shm(const struct msi_peers *peers, int slot, int side, struct msi_wireup *w) {
    w->region = peers->region;
    w->slot = slot;
    mst_status st = msi_link_open_shm(w->memory.base, side, wake, w, &w->link);
    if (st != MST_OK) {
        msi_segment_close(&w->memory);
        return st;
    }
    w->pages = (struct msi_held){.comm = peers->comm, .empty = empty};
    msi_memory_keep(&peers->comm->config.endpoint->memory, MSI_LINK_SHM_REST);
    msi_link_shm_limit(w->link, hold);
    msi_link_shm_team(w->link, peers->comm->config.team);
    msi_link_shm_copies(w->link, msi_comm_cma_mode(peers->comm), peers->comm->config.nt_stores);
    if (peers->comm->ranks.oversubscribed) msi_link_shm_widen(w->link);
    return MST_OK;
}

/* Makes the link's memory and writes into the region where it is. */
static mst_status offer(struct msi_peers *peers, int slot, enum msi_channel channel, struct msi_wireup *w) {
    mst_status st = msi_segment_make("muster-link", msi_link_shm_bytes(), &w->memory);
    if (st == MST_OK) st = open_shm(peers, slot, 0, w);
    if (st != MST_OK) return fail(w, st);
    uint64_t where = (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)(w->memory.fd + 1);
    struct msi_offer *own = msi_shm_region_offer(peers->region, peers->region->rank, channel, slot);
    atomic_store_explicit(&own->inode, msi_segment_inode(&w->memory), memory_order_relaxed);
    msi_shm_region_post(peers->region, &own->where, where); /* read by accept, with inode */
    return MST_OK;
}

static mst_status accept(struct msi_peers *peers, int slot, enum msi_channel channel, struct msi_wireup *w) {
    struct msi_shm_region *region = peers->region;
    const struct msi_offer *found = msi_shm_region_offer(region, slot, channel, region->rank);
    uint64_t where = atomic_load_explicit(&found->where, memory_order_acquire); /* from offer, with inode */
    uint64_t inode = atomic_load_explicit(&found->inode, memory_order_relaxed);
    if (where == 0) return MST_OK;
    mst_status st = msi_segment_attach((int)(where >> 32), (int)(uint32_t)where - 1, inode,
                                       msi_link_shm_bytes(), &w->memory);
    if (st == MST_OK) st = open_shm(peers, slot, 1, w);
    if (st != MST_OK) return fail(w, st);
    w->open = true;
    /* Read by is_accepted. */
    msi_shm_region_post(region, &msi_shm_region_offer(region, region->rank, channel, slot)->accepted, 1);
    return MST_OK;
}

static bool is_accepted(const struct msi_peers *peers, int slot, enum msi_channel channel) {
    const struct msi_shm_region *region = peers->region;
    /* From accept. */
    return atomic_load_explicit(&msi_shm_region_offer(region, slot, channel, region->rank)->accepted,
                                memory_order_acquire) != 0;
}

/* The connections are there: they become the link. */
static mst_status settle_sockets(struct msi_wireup *w) {
    mst_status st = msi_sockets_join(w->sockets, &w->link);
    if (st != MST_OK) return fail(w, st);
    msi_sockets_free(w->sockets);
    w->sockets = NULL;
    w->open = true;
    return MST_OK;
}

/* Looks up the rank's port now and then, until the rank has published it; then begins to connect. */
static mst_status begin_dial(struct msi_peers *peers, int rank, enum msi_channel channel,
                             struct msi_wireup *w) {
    int port;
    if (w->look_ms && msi_now() < w->look_at) return MST_OK;
    mst_status st = msi_endpoint_find(peers->comm, rank, &port);
    if (st != MST_OK) return st;
    if (port == 0) {
        w->look_ms = w->look_ms == 0 ? 1 : w->look_ms < LOOK_MOST_MS / 2 ? 2 * w->look_ms : LOOK_MOST_MS;
        w->look_at = msi_deadline(w->look_ms);
        return MST_OK;
    }
    w->sockets = msi_sockets_connect(peers, rank, channel, port);
    return w->sockets ? MST_OK : msi_fail_memory();
}

static mst_status dial(struct msi_peers *peers, int rank, enum msi_channel channel, struct msi_wireup *w) {
    mst_status st = w->sockets ? MST_OK : begin_dial(peers, rank, channel, w);
    if (st == MST_OK && w->sockets) st = msi_sockets_dial(w->sockets);
    if (st != MST_OK) return fail(w, st);
    return w->sockets && msi_sockets_complete(w->sockets) ? settle_sockets(w) : MST_OK;
}

static mst_status take(struct msi_peers *peers, int rank, enum msi_channel channel, struct msi_wireup *w) {
    mst_status st = msi_sockets_accept(peers, rank, channel, &w->sockets);
    if (st != MST_OK) return fail(w, st);
    return w->sockets && msi_sockets_complete(w->sockets) ? settle_sockets(w) : MST_OK;
}

mst_status msi_wireup_call(struct msi_peers *peers, int rank, enum msi_channel channel,
                           struct msi_wireup *w) {
    int slot = peers->comm->ranks.slots[rank];
    if (w->open) return MST_OK;
    if (slot < 0) return dial(peers, rank, channel, w);
    if (!w->link) return offer(peers, slot, channel, w);
    if (is_accepted(peers, slot, channel)) {
        w->open = true;
        close(w->memory.fd); /* the other rank has mapped it */
        w->memory.fd = -1;
    }
    return MST_OK;
}

mst_status msi_wireup_answer(struct msi_peers *peers, int rank, enum msi_channel channel,
                             struct msi_wireup *w) {
    int slot = peers->comm->ranks.slots[rank];
    if (w->open) return MST_OK;
    return slot >= 0 ? accept(peers, slot, channel, w) : take(peers, rank, channel, w);
}

bool msi_wireup_offered(const struct msi_peers *peers, int rank, enum msi_channel channel) {
    int slot = peers->comm->ranks.slots[rank];
    if (!peers->region || slot < 0) return false;
    const struct msi_shm_region *region = peers->region;
    return atomic_load_explicit(&msi_shm_region_offer(region, slot, channel, region->rank)->where,
                                memory_order_relaxed) != 0;
}

int msi_wireup_descriptor(const struct msi_wireup *w, short *events) {
    return w->sockets ? msi_sockets_descriptor(w->sockets, events) : -1;
}

void msi_wireup_close(struct msi_wireup *w) {
    if (w->pages.comm) {
        msi_memory_release(&w->pages);
        msi_memory_unkeep(&w->pages.comm->config.endpoint->memory, MSI_LINK_SHM_REST);
    }
    if (w->link) w->link->ops->close(w->link);
    msi_sockets_free(w->sockets);
    if (w->memory.base) msi_segment_close(&w->memory);
}
