/* wireup.c - a link with another rank. See wireup.h. */
#include "wireup/wireup.h"
#include "base/error.h"
#include "wireup/sockets.h"

#include <stdio.h>
#include <unistd.h>

_Static_assert((int)MSI_MESSAGES < (int)MSI_BOARD_CHANNELS, "the board has room for offers of every channel");

static mst_status fail(struct msi_way *way, mst_status status) {
    snprintf(way->why, sizeof way->why, "%s", mst_last_error()->message);
    return status;
}

static void wake(void *arg) {
    const struct msi_way *way = arg;
    msi_board_nudge_one(way->board, way->place);
}

static mst_status open_shm(struct msi_comm *comm, int place, int side, struct msi_way *way) {
    way->board = comm->board;
    way->place = place;
    mst_status st = msi_link_open_shm(way->memory.base, side, wake, way, &way->link);
    if (st != MST_OK) msi_segment_close(&way->memory);
    if (st != MST_OK || !comm->crowded) return st;
    /* Where ranks take turns on a processor, nothing is learnt from how long a message took, and turns are what counts. */
    msi_link_shm_pulling(way->link, MSI_PULLING_NEVER);
    msi_link_shm_widen(way->link);
    return MST_OK;
}

/* Makes the link's memory and says on the board where it is. */
static mst_status offer(struct msi_comm *comm, int place, enum msi_channel channel, struct msi_way *way) {
    mst_status st = msi_segment_make("muster-link", msi_link_shm_bytes(), &way->memory);
    if (st == MST_OK) st = open_shm(comm, place, 0, way);
    if (st != MST_OK) return fail(way, st);
    uint64_t where = (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)(way->memory.fd + 1);
    /* Read by accept. */
    msi_board_post(comm->board, &msi_board_own(comm->board)->offers[channel][place], where);
    return MST_OK;
}

static mst_status accept(struct msi_comm *comm, int place, enum msi_channel channel, struct msi_way *way) {
    struct msi_board *board = comm->board;
    /* From offer. */
    uint64_t where =
        atomic_load_explicit(&board->areas[place].offers[channel][board->rank], memory_order_acquire);
    if (where == 0) return MST_OK;
    mst_status st =
        msi_segment_attach((int)(where >> 32), (int)(uint32_t)where - 1, msi_link_shm_bytes(), &way->memory);
    if (st == MST_OK) st = open_shm(comm, place, 1, way);
    if (st != MST_OK) return fail(way, st);
    way->open = true;
    msi_board_post(board, &msi_board_own(board)->accepted[channel][place], 1); /* read by is_accepted */
    return MST_OK;
}

static bool is_accepted(const struct msi_comm *comm, int place, enum msi_channel channel) {
    const struct msi_board *board = comm->board;
    /* From accept. */
    return atomic_load_explicit(&board->areas[place].accepted[channel][board->rank], memory_order_acquire) !=
           0;
}

/* The other side has mapped it: nobody needs the descriptor any more. */
static void settle(struct msi_way *way) {
    way->open = true;
    close(way->memory.fd);
    way->memory.fd = -1;
}

/* The connections are there: they become the link. */
static mst_status settle_streams(struct msi_way *way) {
    mst_status st = msi_streams_join(way->streams, &way->link);
    if (st != MST_OK) return fail(way, st);
    msi_streams_free(way->streams);
    way->streams = NULL;
    way->open = true;
    return MST_OK;
}

static mst_status dial(struct msi_comm *comm, int rank, enum msi_channel channel, struct msi_way *way) {
    if (!way->streams) way->streams = msi_streams_call(comm, rank, channel);
    mst_status st = way->streams ? msi_streams_dial(way->streams) : msi_fail_memory();
    if (st != MST_OK) return fail(way, st);
    return msi_streams_complete(way->streams) ? settle_streams(way) : MST_OK;
}

static mst_status take(struct msi_comm *comm, int rank, enum msi_channel channel, struct msi_way *way) {
    mst_status st = msi_streams_take(comm, rank, channel, &way->streams);
    if (st != MST_OK) return fail(way, st);
    return way->streams && msi_streams_complete(way->streams) ? settle_streams(way) : MST_OK;
}

mst_status msi_way_call(struct msi_comm *comm, int rank, enum msi_channel channel, struct msi_way *way) {
    int place = comm->places[rank];
    if (way->open) return MST_OK;
    if (place < 0) return dial(comm, rank, channel, way);
    if (!way->link) return offer(comm, place, channel, way);
    if (is_accepted(comm, place, channel)) settle(way);
    return MST_OK;
}

mst_status msi_way_answer(struct msi_comm *comm, int rank, enum msi_channel channel, struct msi_way *way) {
    int place = comm->places[rank];
    if (way->open) return MST_OK;
    return place >= 0 ? accept(comm, place, channel, way) : take(comm, rank, channel, way);
}

bool msi_way_offered(const struct msi_comm *comm, int rank, enum msi_channel channel) {
    int place = comm->places[rank];
    if (!comm->board || place < 0) return false;
    const struct msi_board *board = comm->board;
    return atomic_load_explicit(&board->areas[place].offers[channel][board->rank], memory_order_relaxed) != 0;
}

int msi_way_descriptor(const struct msi_way *way, short *events) {
    return way->streams ? msi_streams_descriptor(way->streams, events) : -1;
}

void msi_way_close(struct msi_way *way) {
    if (way->link) way->link->ops->close(way->link);
    msi_streams_free(way->streams);
    if (way->memory.base) msi_segment_close(&way->memory);
}
