/* wireup.c - a link with another rank. See wireup.h. */
#include "wireup/wireup.h"
#include "base/error.h"
#include "wireup/sockets.h"

#include <stdio.h>
#include <unistd.h>

_Static_assert((int)MSI_MESSAGES < (int)MSI_SHM_REGION_CHANNELS,
               "the region has room for offers of every channel");

static mst_status fail(struct msi_wireup *way, mst_status status) {
    snprintf(way->why, sizeof way->why, "%s", mst_last_error()->message);
    return status;
}

static void wake(void *arg) {
    const struct msi_wireup *way = arg;
    msi_shm_region_wake_rank(way->region, way->place);
}

static mst_status open_shm(struct msi_comm *comm, int place, int side, struct msi_wireup *way) {
    way->region = comm->region;
    way->place = place;
    mst_status st = msi_link_open_shm(way->memory.base, side, wake, way, &way->link);
    if (st != MST_OK) msi_segment_close(&way->memory);
    if (st != MST_OK || !comm->oversubscribed) return st;
    /* Where ranks take turns on a processor, nothing is learnt from how long a message took, and turns are what counts. */
    msi_link_shm_cma(way->link, MSI_CMA_MODE_NEVER);
    msi_link_shm_widen(way->link);
    return MST_OK;
}

/* Makes the link's memory and says on the region where it is. */
static mst_status offer(struct msi_comm *comm, int place, enum msi_channel channel, struct msi_wireup *way) {
    mst_status st = msi_segment_make("muster-link", msi_link_shm_bytes(), &way->memory);
    if (st == MST_OK) st = open_shm(comm, place, 0, way);
    if (st != MST_OK) return fail(way, st);
    uint64_t where = (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)(way->memory.fd + 1);
    /* Read by accept. */
    msi_shm_region_post(comm->region, &msi_shm_region_own(comm->region)->offers[channel][place], where);
    return MST_OK;
}

static mst_status accept(struct msi_comm *comm, int place, enum msi_channel channel, struct msi_wireup *way) {
    struct msi_shm_region *region = comm->region;
    /* From offer. */
    uint64_t where =
        atomic_load_explicit(&region->areas[place].offers[channel][region->rank], memory_order_acquire);
    if (where == 0) return MST_OK;
    mst_status st =
        msi_segment_attach((int)(where >> 32), (int)(uint32_t)where - 1, msi_link_shm_bytes(), &way->memory);
    if (st == MST_OK) st = open_shm(comm, place, 1, way);
    if (st != MST_OK) return fail(way, st);
    way->open = true;
    msi_shm_region_post(region, &msi_shm_region_own(region)->accepted[channel][place],
                        1); /* read by is_accepted */
    return MST_OK;
}

static bool is_accepted(const struct msi_comm *comm, int place, enum msi_channel channel) {
    const struct msi_shm_region *region = comm->region;
    /* From accept. */
    return atomic_load_explicit(&region->areas[place].accepted[channel][region->rank],
                                memory_order_acquire) != 0;
}

/* The other side has mapped it: nobody needs the descriptor any more. */
static void settle(struct msi_wireup *way) {
    way->open = true;
    close(way->memory.fd);
    way->memory.fd = -1;
}

/* The connections are there: they become the link. */
static mst_status settle_streams(struct msi_wireup *way) {
    mst_status st = msi_sockets_join(way->streams, &way->link);
    if (st != MST_OK) return fail(way, st);
    msi_sockets_free(way->streams);
    way->streams = NULL;
    way->open = true;
    return MST_OK;
}

static mst_status dial(struct msi_comm *comm, int rank, enum msi_channel channel, struct msi_wireup *way) {
    if (!way->streams) way->streams = msi_sockets_connect(comm, rank, channel);
    mst_status st = way->streams ? msi_sockets_dial(way->streams) : msi_fail_memory();
    if (st != MST_OK) return fail(way, st);
    return msi_sockets_complete(way->streams) ? settle_streams(way) : MST_OK;
}

static mst_status take(struct msi_comm *comm, int rank, enum msi_channel channel, struct msi_wireup *way) {
    mst_status st = msi_sockets_accept(comm, rank, channel, &way->streams);
    if (st != MST_OK) return fail(way, st);
    return way->streams && msi_sockets_complete(way->streams) ? settle_streams(way) : MST_OK;
}

mst_status msi_wireup_call(struct msi_comm *comm, int rank, enum msi_channel channel,
                           struct msi_wireup *way) {
    int place = comm->places[rank];
    if (way->open) return MST_OK;
    if (place < 0) return dial(comm, rank, channel, way);
    if (!way->link) return offer(comm, place, channel, way);
    if (is_accepted(comm, place, channel)) settle(way);
    return MST_OK;
}

mst_status msi_wireup_answer(struct msi_comm *comm, int rank, enum msi_channel channel,
                             struct msi_wireup *way) {
    int place = comm->places[rank];
    if (way->open) return MST_OK;
    return place >= 0 ? accept(comm, place, channel, way) : take(comm, rank, channel, way);
}

bool msi_wireup_offered(const struct msi_comm *comm, int rank, enum msi_channel channel) {
    int place = comm->places[rank];
    if (!comm->region || place < 0) return false;
    const struct msi_shm_region *region = comm->region;
    return atomic_load_explicit(&region->areas[place].offers[channel][region->rank], memory_order_relaxed) !=
           0;
}

int msi_wireup_descriptor(const struct msi_wireup *way, short *events) {
    return way->streams ? msi_sockets_descriptor(way->streams, events) : -1;
}

void msi_wireup_close(struct msi_wireup *way) {
    if (way->link) way->link->ops->close(way->link);
    msi_sockets_free(way->streams);
    if (way->memory.base) msi_segment_close(&way->memory);
}
