/* way.c - a link with another rank. See way.h. */
#include "backend/way.h"
#include "base/error.h"

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

static void begin_dial(struct msi_comm *comm, int rank, enum msi_channel channel, struct msi_dial *dial) {
    void *context = comm->hooks.context;
    struct msi_address to = {.port = comm->ports[rank]};
    struct msi_hello hello = {comm->door->world, comm->number,
                              (uint32_t)comm->hooks.global(context, comm->rank),
                              (uint32_t)comm->hooks.global(context, rank), channel};
    snprintf(to.host, sizeof to.host, "%s", comm->hooks.address(context, rank));
    msi_dial_begin(dial, &to, &hello);
}

static mst_status open_tcp(struct msi_way *way, int fd) {
    mst_status st = msi_link_open_tcp(fd, &way->link);
    way->open = st == MST_OK;
    return st == MST_OK ? MST_OK : fail(way, st);
}

static mst_status dial(struct msi_comm *comm, int rank, enum msi_channel channel, struct msi_way *way) {
    int fd = -1;
    if (!way->dialling) begin_dial(comm, rank, channel, &way->dial);
    way->dialling = true;
    enum msi_dial_state state = msi_dial_progress(&way->dial, &fd);
    if (state == MSI_DIAL_PENDING) return MST_OK;
    way->dialling = false;
    if (state == MSI_DIAL_DONE) return open_tcp(way, fd);
    msi_dial_end(&way->dial);
    if (way->dial.status == MST_ERR_UNREACHABLE) return MST_OK; /* again, until the deadline */
    return fail(way, msi_fail(way->dial.status, NULL, "%s", way->dial.why));
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
    if (place >= 0) return accept(comm, place, channel, way);
    msi_listener_progress(comm->door->listener);
    int fd = msi_listener_take(comm->door->listener, comm->number,
                               comm->hooks.global(comm->hooks.context, rank), (int)channel);
    return fd < 0 ? MST_OK : open_tcp(way, fd);
}

bool msi_way_offered(const struct msi_comm *comm, int rank, enum msi_channel channel) {
    int place = comm->places[rank];
    if (!comm->board || place < 0) return false;
    const struct msi_board *board = comm->board;
    return atomic_load_explicit(&board->areas[place].offers[channel][board->rank], memory_order_relaxed) != 0;
}

int msi_way_descriptor(const struct msi_way *way, short *events) {
    return way->dialling ? msi_dial_descriptor(&way->dial, events) : -1;
}

void msi_way_close(struct msi_way *way) {
    if (way->link) way->link->ops->close(way->link);
    if (way->dialling) msi_dial_end(&way->dial);
    if (way->memory.base) msi_segment_close(&way->memory);
}
