/*
 * small.c - small exchanges in one go. See host.h.
 *
 * What takes 0.1 us to go from one processor to another is not to be slowed by bookkeeping: here an exchange is announced and
 * read with nothing kept but the number of the operation and how many ranks were seen. If anybody is late or has more than fits
 * into a small cell, exchange.c goes on from there.
 */
#include "engine/shm/shm_coll.h"

#include <string.h>

static bool publishes(const struct msi_host_op *op) {
    return !op->nothing && (op->publisher < 0 || op->publisher == op->board->rank);
}

static bool reads(const struct msi_host_op *op) {
    return op->reader < 0 || op->reader == op->board->rank;
}

/* Puts what the others shall read where they will. */
static void put(const struct msi_host_op *op, unsigned char *to) {
    size_t each = op->in.each;
    if (each == 0) return;
    if (!op->parts) {
        memcpy(to, op->in.base, each);
        return;
    }
    for (int r = 0; r < op->board->size; r++)
        if (r != op->board->rank)
            memcpy(to + msi_host_part(op, op->board->rank, r) * each, op->in.base + (size_t)r * each, each);
}

/* What this rank has for itself. */
static void keep(const struct msi_host_op *op) {
    size_t me = (size_t)op->board->rank, each = op->in.each;
    const char *from = op->parts ? op->in.base + me * each : op->in.base;
    char *to = op->publisher < 0 ? msi_block(&op->out, (int)me) : op->out.base;
    if (each && from != to) memcpy(to, from, each);
}

bool msi_host_begin_now(struct msi_host_op *op) {
    struct msi_board *board = op->board;
    uint64_t seq = board->seq + 1;
    bool gives = publishes(op);
    size_t all = op->in.each * msi_host_blocks(op);
    if (op->uneven || op->in.list || (gives && (all > MSI_SMALL_CELL || msi_host_lend(op)))) return false;
    if (seq >= board->synced + MSI_SLOTS && !msi_board_may_announce(board, seq)) return false;
    op->seq = seq;
    op->peer = 1;
    struct msi_slot *slot = msi_host_slot(op, board->rank);
    enum msi_slot_mode mode = !gives                    ? MSI_SLOT_NOTHING
                              : all <= MSI_SLOT_PAYLOAD ? MSI_SLOT_INLINE
                                                        : MSI_SLOT_SMALL;
    if (gives)
        put(op, mode == MSI_SLOT_INLINE ? slot->bytes : msi_board_own(board)->small[seq % MSI_SMALL_CELLS]);
    msi_host_announce(op, slot, mode);
    if (gives && !op->reducer && reads(op)) keep(op);
    return true;
}

/* Where another rank has put what this one reads; NULL: not within a slot or a small cell. */
static const unsigned char *find(const struct msi_host_op *op, int rank, size_t len) {
    const struct msi_slot *slot = msi_host_slot(op, rank);
    size_t at = msi_host_part(op, rank, op->board->rank) * len;
    if (slot->mode == MSI_SLOT_INLINE) return at + len <= MSI_SLOT_PAYLOAD ? slot->bytes + at : NULL;
    if (slot->mode != MSI_SLOT_SMALL || at + len > MSI_SMALL_CELL) return NULL;
    return op->board->areas[rank].small[op->seq % MSI_SMALL_CELLS] + at;
}

static void fold(const struct msi_host_op *op) {
    int me = op->board->rank;
    op->sources[me] = op->parts ? op->in.base + (size_t)me * op->in.each : op->in.base;
    op->reducer->fold(op->out.base, NULL, op->sources, op->board->size, op->out.each / op->element,
                      &op->scale);
}

enum msi_advance msi_host_look_now(struct msi_host_op *op) {
    const struct msi_board *board = op->board;
    size_t len = op->nothing ? 0 : op->out.each;
    if (!reads(op) || op->publisher == board->rank) return MSI_DONE;
    for (; op->peer < board->size; op->peer++) {
        int next = board->rank + op->peer, rank = next < board->size ? next : next - board->size;
        if (op->publisher >= 0) rank = op->publisher;
        enum msi_advance seen = msi_host_see(op, rank);
        if (seen != MSI_MOVED) return seen;
        const unsigned char *from = len ? find(op, rank, len) : NULL;
        if (len && !from) return MSI_MOVED;
        if (len && op->reducer)
            op->sources[rank] = from;
        else if (len)
            memcpy(op->publisher < 0 ? msi_block(&op->out, rank) : op->out.base, from, len);
        if (op->publisher >= 0) break;
    }
    if (op->publisher < 0 || board->size == 2) msi_host_all_came(op);
    if (len && op->reducer) fold(op);
    return MSI_DONE;
}

/* What was read is read again. */
void msi_host_resume(struct msi_host_op *op) {
    uint64_t seq = op->seq;
    msi_host_exchange(op);
    op->seq = seq;
    op->filled = 1;
    op->phase = MSI_MOVE;
}
