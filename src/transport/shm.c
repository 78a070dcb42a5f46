/*
 * shm.c - a link through shared memory: a ring of cells in each direction (ring.h), and a rendezvous for
 * large sends, which the receiver reads from the sender's memory (rendezvous.h).
 */
#include "base/error.h"
#include "base/fence.h"
#include "base/lines.h"
#include "base/nt_copy.h"
#include "os/team.h"
#include "transport/link.h"
#include "transport/maps.h"
#include "transport/rendezvous.h"
#include "transport/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    BURST = 4,          /* cells moved in one direction before the other is served */
    CMA_STEP = 1 << 20, /* bytes that a thread reads by CMA before the other direction is served */
    PAGE = 4096,
};

/* Which pages of its outgoing ring a link has: none, the heads of the first MSI_RING_CELLS cells, all of
 * these cells, or all cells. */
enum extent { NO_PAGES, HEADS, CELLS, WIDE };

struct region {
    struct msi_rendezvous_side sides[2];
    struct msi_ring rings[2]; /* by the sending side */
};
_Static_assert(sizeof(struct msi_rendezvous_side) == MSI_RING_LINE, "sides have their own lines");
_Static_assert(sizeof(struct region) ==
                   2 * MSI_RING_LINE + 2 * (MSI_RING_LINE + MSI_RING_CELLS_WIDE * sizeof(struct msi_cell)),
               "layout of the shared memory");

struct shm {
    struct msi_link link;
    void (*posted)(void *arg);
    bool (*hold)(void *arg, size_t bytes, bool must);
    void *arg;
    enum extent held;
    struct msi_ring_out out;
    struct msi_ring_in in;
    size_t at, len;                   /* read position and length of the open cell; len 0: no cell is open */
    bool in_peer;                     /* its bytes are in the peer's memory … */
    struct msi_rendezvous_offer from; /* … there */
    struct msi_maps *maps;            /* of that memory; NULL before the first buffer that can be mapped */
    uint64_t offer; /* number of the cell that offers the first send for a rendezvous; 0: none */
    struct msi_rendezvous rendezvous;
    struct msi_team *team; /* reads by CMA */
};

static void wake(const struct shm *shm) {
    if (shm->posted) shm->posted(shm->arg);
}

/* Queued bytes, up to limit and up to the next send that may use a rendezvous. */
static size_t queued(const struct msi_list *queue, size_t limit) {
    size_t n = 0;
    for (const struct msi_list *node = queue->next; node != queue; node = node->next) {
        const struct msi_transfer *transfer = msi_container(node, struct msi_transfer, node);
        size_t left = msi_transfer_left(transfer);
        if (n && transfer->done == 0 && left >= MSI_RENDEZVOUS_FROM) break;
        if (left >= limit - n) return limit;
        n += left;
    }
    return n;
}

/* Is the next cell free? */
static bool has_room(struct shm *shm) {
    if (msi_ring_has_room(&shm->out)) return true;
    if (msi_ring_update(&shm->out)) return msi_ring_has_room(&shm->out);
    msi_link_fail(&shm->link, MST_ERR_PROTOCOL, "the peer reports more emptied cells than were filled");
    return false;
}

static bool hold(struct shm *shm, enum extent extent, bool must) {
    static const size_t bytes[] = {[HEADS] = MSI_RING_CELLS * PAGE,
                                   [CELLS] = MSI_RING_CELLS * sizeof(struct msi_cell),
                                   [WIDE] = MSI_RING_CELLS_WIDE * sizeof(struct msi_cell)};
    if (shm->hold && !shm->hold(shm->arg, bytes[extent], must)) return false;
    shm->held = extent;
    return true;
}

/* Where the next cell, which is free, has its bytes if it has len of them. */
static char *next_bytes(struct shm *shm, size_t len) {
    enum extent extent = len > MSI_CELL_SMALL ? CELLS : HEADS;
    if (shm->held < extent) hold(shm, extent, true);
    return msi_cell_bytes(msi_ring_next(&shm->out), len);
}

/* The cells after the first MSI_RING_CELLS are used only if there is memory for them. */
static bool goes_on(struct shm *shm) {
    if (msi_list_empty(&shm->link.sends)) return false;
    bool widens = shm->out.next == MSI_RING_CELLS - 1 && shm->out.cells > MSI_RING_CELLS && shm->held < WIDE;
    return !widens || hold(shm, WIDE, false);
}

static void publish(struct shm *shm, size_t len) {
    msi_ring_publish(&shm->out, len, goes_on(shm));
    wake(shm);
}

static void fill_cell(struct shm *shm) {
    size_t len = queued(&shm->link.sends, MSI_CELL_BYTES);
    char *to = next_bytes(shm, len);
    for (size_t at = 0, n; at < len; at += n) {
        struct msi_transfer *from = msi_link_first(&shm->link.sends);
        n = msi_transfer_left(from) < len - at ? msi_transfer_left(from) : len - at;
        msi_write_lines(to + at, from->data + from->done, n);
        msi_link_advance(from, n);
    }
    publish(shm, len);
}

static void send_offer(struct shm *shm, const struct msi_rendezvous_offer *offer) {
    memcpy(next_bytes(shm, sizeof *offer), offer, sizeof *offer);
    publish(shm, MSI_CELL_RENDEZVOUS | sizeof *offer);
    shm->offer = shm->out.filled;
}

/* Ends the offer if the peer has emptied its cell: it has read the first send, unless it has refused. */
static bool complete_offer(struct shm *shm) {
    if (msi_ring_emptied(&shm->out) < shm->offer || msi_list_empty(&shm->link.sends)) return false;
    struct msi_transfer *first = msi_link_first(&shm->link.sends);
    /* Written by refuse before it emptied the cell. */
    if (atomic_load_explicit(&shm->rendezvous.other->refused, memory_order_relaxed) == shm->offer)
        shm->rendezvous.unmapped = true;
    else
        msi_link_advance(first, msi_transfer_left(first));
    shm->offer = 0;
    return true;
}

static bool fill_cells(struct shm *shm) {
    int n = 0;
    bool completed = shm->offer && complete_offer(shm);
    if (shm->offer) return false;
    for (; n < BURST && !shm->offer && !msi_list_empty(&shm->link.sends) && has_room(shm); n++) {
        struct msi_rendezvous_offer offer;
        if (msi_rendezvous_wanted(&shm->rendezvous, msi_link_first(&shm->link.sends), &offer))
            send_offer(shm, &offer);
        else
            fill_cell(shm);
    }
    return completed || n > 0;
}

/* Where the offered bytes are mapped, n of them from position at; NULL if they are not. */
static const char *mapped(const struct shm *shm, size_t at, size_t n) {
    return shm->from.where.number ? msi_maps_find(shm->maps, 0, &shm->from.where, at, n) : NULL;
}

static void close_cell(struct shm *shm) {
    shm->len = 0;
    if (msi_ring_close(&shm->in, shm->in_peer)) wake(shm);
}

/* Empties the cell of an offer without having read the buffer, which then comes through cells. */
static void refuse(struct shm *shm) {
    /* Read by complete_offer after the cell is empty. */
    atomic_store_explicit(&shm->rendezvous.own->refused, shm->in.taken + 1, memory_order_relaxed);
    close_cell(shm);
}

/* May this side read buffers that it cannot map? */
static bool may_use_cma(const struct msi_rendezvous *rendezvous) {
    return rendezvous->mode != MSI_COPY_NEVER &&
           atomic_load_explicit(&rendezvous->own->can_read, memory_order_relaxed);
}

/* Maps the buffer that the peer offers. Without that, it can be read by CMA if both sides allow it. Returns
 * false if it was refused. */
static bool open_offer(struct shm *shm, const struct msi_cell *cell) {
    memcpy(&shm->from, cell->small, sizeof shm->from);
    if (shm->from.where.number || shm->rendezvous.tried) shm->len = shm->from.bytes;
    if (!shm->from.where.number || shm->len == 0) return true;
    if (!shm->maps) shm->maps = msi_maps_new(1);
    if (shm->maps && mapped(shm, 0, shm->len)) return true;
    shm->from.where.number = 0;
    if (may_use_cma(&shm->rendezvous)) return true;
    refuse(shm);
    return false;
}

/* Opens the next cell if none is open. Returns false if there is none. */
static bool open_cell(struct shm *shm) {
    if (shm->len) return true;
    uint32_t len;
    const struct msi_cell *cell = msi_ring_open(&shm->in, &len);
    if (!cell) return false;
    shm->at = 0;
    shm->in_peer = len == (MSI_CELL_RENDEZVOUS | sizeof(struct msi_rendezvous_offer));
    if (shm->in_peer && !open_offer(shm, cell)) return false;
    if (len <= MSI_CELL_BYTES) shm->len = len;
    if (shm->len) return true;
    msi_link_fail(&shm->link, MST_ERR_PROTOCOL, "the peer sent a cell of %u bytes; the limit is %d", len,
                  MSI_CELL_BYTES);
    return false;
}

/* The unread bytes of the open cell. */
static const char *bytes_left(const struct shm *shm) {
    return msi_cell_bytes(&shm->in.ring->cells[shm->in.next], shm->len) + shm->at;
}

static bool peer_closed(const struct shm *shm) {
    /* Acquires what close_shm released: the last cells that were filled. */
    return atomic_load_explicit(&shm->rendezvous.other->closed, memory_order_seq_cst);
}

static void fail_closed(struct shm *shm) {
    msi_link_fail(&shm->link, MST_ERR_PEER_LOST, "the peer closed the link");
}

/* Reads bytes by CMA; returns false and fails the link if that is impossible. */
static bool read_by_cma(struct shm *shm, char *to, size_t n) {
    int error = msi_cma_read_by(shm->team, shm->rendezvous.other->token.pid, shm->from.from + shm->at, to, n);
    if (!error) return true;
    bool refused = error == EPERM || error == ENOMEM; /* the peer may be alive */
    msi_link_fail(&shm->link, refused ? MST_ERR_SYSTEM : MST_ERR_PEER_LOST,
                  "cannot read the memory of the peer process: %s", strerror(error));
    return false;
}

/* Reads bytes from the peer's memory. Fails the link if that is impossible or the peer has closed it. */
static bool read_from_peer(struct shm *shm, char *to, size_t n) {
    const char *from = mapped(shm, shm->at, n);
    if (from)
        msi_team_copy(shm->team, to, from, n, false);
    else if (!read_by_cma(shm, to, n))
        return false;
    msi_fence_reads(); /* read the bytes before the flag: after closing, the peer may reuse its buffer */
    if (!peer_closed(shm)) return true;
    fail_closed(shm);
    return false;
}

/* Moves bytes of the open cell, or of the peer's buffer, into the first receive. Returns false on failure. */
static bool take_bytes(struct shm *shm, size_t most) {
    struct msi_transfer *to = msi_link_first(&shm->link.receives);
    size_t n = msi_transfer_left(to) < most ? msi_transfer_left(to) : most;
    bool large = to->len >= MSI_RENDEZVOUS_FROM && !(shm->in_peer && shm->from.where.number);
    if (large && to->done == 0) msi_rendezvous_begin(&shm->rendezvous, to, shm->at == 0);
    if (!shm->in_peer && large && shm->rendezvous.by_nt)
        msi_nt_copy(to->data + to->done, bytes_left(shm), n);
    else if (!shm->in_peer)
        msi_read_lines(to->data + to->done, bytes_left(shm), n);
    else if (!read_from_peer(shm, to->data + to->done, n))
        return false;
    if (large && msi_transfer_left(to) == n) msi_rendezvous_end(&shm->rendezvous, to, shm->in_peer);
    shm->at += n;
    msi_link_advance(to, n);
    return true;
}

static bool take_cells(struct shm *shm) {
    bool moved = false;
    for (int i = 0; i < BURST && !msi_list_empty(&shm->link.receives) && open_cell(shm); i++) {
        size_t by_cma = 0, step = CMA_STEP * (size_t)(shm->in_peer ? msi_team_threads(shm->team) : 1);
        while (shm->at < shm->len && !msi_list_empty(&shm->link.receives) && by_cma < step) {
            size_t before = shm->at, left = shm->len - shm->at;
            if (!take_bytes(shm, shm->in_peer && left > step ? step : left)) return moved;
            if (shm->in_peer) by_cma += shm->at - before;
        }
        if (shm->at == shm->len) close_cell(shm);
        moved = true;
    }
    return moved;
}

/* After no progress: fails the link if the peer has closed and everything that it sent is received. */
static void check_closed(struct shm *shm) {
    if (!peer_closed(shm)) return;
    if (open_cell(shm) && (msi_list_empty(&shm->link.sends) || !msi_list_empty(&shm->link.receives))) return;
    fail_closed(shm);
}

static bool progress(struct msi_link *link) {
    struct shm *shm = msi_container(link, struct shm, link);
    if (link->status != MST_OK) return false;
    if (!shm->rendezvous.tried) msi_rendezvous_try(&shm->rendezvous);
    bool moved = fill_cells(shm);
    if (take_cells(shm)) moved = true;
    if (!moved) check_closed(shm);
    return moved;
}

static void close_shm(struct msi_link *link) {
    struct shm *shm = msi_container(link, struct shm, link);
    /* Released to peer_closed. */
    atomic_store_explicit(&shm->rendezvous.own->closed, 1, memory_order_seq_cst);
    wake(shm);
    msi_maps_free(shm->maps);
    free(shm);
}

/* The peer may already have read part of an offered send. */
static bool cancel(struct msi_link *link, struct msi_transfer *transfer) {
    const struct shm *shm = msi_container(link, struct shm, link);
    bool offered = shm->offer && link->sends.next == &transfer->node;
    msi_list_remove(&transfer->node);
    return transfer->done == 0 && !offered;
}

static bool send_whole(struct msi_link *link, const void *head, size_t head_len, const void *body,
                       size_t body_len) {
    struct shm *shm = msi_container(link, struct shm, link);
    if (body_len > MSI_CELL_BYTES - head_len || !msi_list_empty(&link->sends) || link->status != MST_OK ||
        !has_room(shm))
        return false;
    char *to = next_bytes(shm, head_len + body_len);
    memcpy(to, head, head_len);
    if (body_len) msi_write_lines(to + head_len, body, body_len);
    publish(shm, head_len + body_len);
    return true;
}

static const char *peek(struct msi_link *link, size_t *n) {
    struct shm *shm = msi_container(link, struct shm, link);
    if (link->status != MST_OK || !open_cell(shm) || shm->in_peer) return NULL;
    *n = shm->len - shm->at;
    return bytes_left(shm);
}

static void consume(struct msi_link *link, size_t n) {
    struct shm *shm = msi_container(link, struct shm, link);
    shm->at += n;
    if (shm->at == shm->len) close_cell(shm);
}

static const struct msi_link_ops ops = {
    .progress = progress,
    .close = close_shm,
    .cancel = cancel,
    .send_whole = send_whole,
    .peek = peek,
    .consume = consume,
    .peek_most = MSI_CELL_BYTES,
};

void msi_link_shm_copies(struct msi_link *link, enum msi_copy_mode cma, enum msi_copy_mode nt_stores) {
    msi_rendezvous_set(&msi_container(link, struct shm, link)->rendezvous, cma, nt_stores);
}

void msi_link_shm_team(struct msi_link *link, struct msi_team *team) {
    msi_container(link, struct shm, link)->team = team;
}

void msi_link_shm_widen(struct msi_link *link) {
    msi_container(link, struct shm, link)->out.cells = MSI_RING_CELLS_WIDE;
}

void msi_link_shm_limit(struct msi_link *link, bool (*ask)(void *arg, size_t bytes, bool must)) {
    msi_container(link, struct shm, link)->hold = ask;
}

/* Frees the pages that are only of the cells from one number up to another. */
static bool free_cells(const struct shm *shm, unsigned from, unsigned to) {
    uintptr_t begin = (uintptr_t)&shm->out.ring->cells[from], end = (uintptr_t)&shm->out.ring->cells[to];
    begin = (begin + PAGE - 1) / PAGE * PAGE;
    end = end / PAGE * PAGE;
    return begin >= end || madvise((void *)begin, end - begin, MADV_REMOVE) == 0;
}

/* The receiver may have read a cell that it has not reported: this one keeps its pages. */
bool msi_link_shm_empty(struct msi_link *link) {
    struct shm *shm = msi_container(link, struct shm, link);
    struct msi_ring_out *out = &shm->out;
    if (shm->offer || !msi_list_empty(&link->sends) || !msi_ring_update(out)) return false;
    uint64_t left = out->filled - out->known_emptied;
    if (left > 1 || (left && out->next == 0)) return false;
    unsigned kept = left ? out->next - 1 : MSI_RING_CELLS_WIDE,
             after = left ? out->next : MSI_RING_CELLS_WIDE;
    if (!free_cells(shm, 0, kept) || !free_cells(shm, after, MSI_RING_CELLS_WIDE)) return false;
    shm->held = NO_PAGES;
    return true;
}

size_t msi_link_shm_bytes(void) {
    return sizeof(struct region);
}

mst_status msi_link_open_shm(void *memory, int side, void (*posted)(void *arg), void *arg,
                             struct msi_link **link) {
    if ((uintptr_t)memory % MSI_RING_LINE || side < 0 || side > 1)
        return msi_fail(MST_ERR_INVALID, NULL,
                        "shm link: memory %p must be aligned to %d bytes and side %d must be 0 or 1", memory,
                        MSI_RING_LINE, side);
    struct shm *shm = calloc(1, sizeof *shm);
    if (!shm) return msi_fail_memory();
    struct region *region = memory;
    msi_link_init(&shm->link, &ops);
    shm->out = (struct msi_ring_out){.ring = &region->rings[side], .cells = MSI_RING_CELLS};
    shm->in.ring = &region->rings[1 - side];
    shm->rendezvous.mode = shm->rendezvous.nt_stores = MSI_COPY_AUTO;
    shm->rendezvous.own = &region->sides[side];
    shm->rendezvous.other = &region->sides[1 - side];
    shm->posted = posted;
    shm->arg = arg;
    *link = &shm->link;
    return MST_OK;
}
