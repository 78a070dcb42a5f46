/*
 * small.c - small exchanges in one go. See host.h.
 *
 * What takes 0.1 us to go from one processor to another is not to be slowed by bookkeeping: here an exchange is announced and
 * read with nothing kept but the number of the operation and how many ranks were seen. If anybody is late or has more than fits
 * into a small cell, exchange.c goes on from there.
 */
#include "engine/shm/shm_coll.h"

#include <string.h>

static bool publishes(const struct msi_shm_coll *op) {
    return !op->nothing && (op->publisher < 0 || op->publisher == op->region->rank);
}

static bool reads(const struct msi_shm_coll *op) {
    return op->reader < 0 || op->reader == op->region->rank;
}

/* Puts what the others shall read where they will. */
static void put(const struct msi_shm_coll *op, unsigned char *to) {
    size_t each = op->in.each;
    if (each == 0) return;
    if (!op->parts) {
        memcpy(to, op->in.base, each);
        return;
    }
    for (int r = 0; r < op->region->size; r++)
        if (r != op->region->rank)
            memcpy(to + msi_shm_part(op, op->region->rank, r) * each, op->in.base + (size_t)r * each, each);
}

/* What this rank has for itself. */
static void keep(const struct msi_shm_coll *op) {
    size_t me = (size_t)op->region->rank, each = op->in.each;
    const char *from = op->parts ? op->in.base + me * each : op->in.base;
    char *to = op->publisher < 0 ? msi_block(&op->out, (int)me) : op->out.base;
    if (each && from != to) memcpy(to, from, each);
}

bool msi_shm_begin_now(struct msi_shm_coll *op) {
    struct msi_shm_region *region = op->region;
    uint64_t seq = region->seq + 1;
    bool gives = publishes(op);
    size_t all = op->in.each * msi_shm_blocks(op);
    if (op->uneven || op->in.list || (gives && (all > MSI_SMALL_CELL || msi_shm_lend(op)))) return false;
    if (seq >= region->synced + MSI_SLOTS && !msi_shm_region_may_announce(region, seq)) return false;
    op->seq = seq;
    op->peer = 1;
    struct msi_slot *slot = msi_shm_slot(op, region->rank);
    enum msi_slot_mode mode = !gives                    ? MSI_SLOT_NOTHING
                              : all <= MSI_SLOT_PAYLOAD ? MSI_SLOT_INLINE
                                                        : MSI_SLOT_SMALL;
    if (gives)
        put(op,
            mode == MSI_SLOT_INLINE ? slot->bytes : msi_shm_region_own(region)->small[seq % MSI_SMALL_CELLS]);
    msi_shm_announce(op, slot, mode);
    if (gives && !op->reducer && reads(op)) keep(op);
    return true;
}

/* Where another rank has put what this one reads; NULL: not within a slot or a small cell. */
static const unsigned char *find(const struct msi_shm_coll *op, int rank, size_t len) {
    const struct msi_slot *slot = msi_shm_slot(op, rank);
    size_t at = msi_shm_part(op, rank, op->region->rank) * len;
    if (slot->mode == MSI_SLOT_INLINE) return at + len <= MSI_SLOT_PAYLOAD ? slot->bytes + at : NULL;
    if (slot->mode != MSI_SLOT_SMALL || at + len > MSI_SMALL_CELL) return NULL;
    return op->region->areas[rank].small[op->seq % MSI_SMALL_CELLS] + at;
}

static void fold(const struct msi_shm_coll *op) {
    int me = op->region->rank;
    op->sources[me] = op->parts ? op->in.base + (size_t)me * op->in.each : op->in.base;
    op->reducer->reduce_local(op->out.base, NULL, op->sources, op->region->size, op->out.each / op->element,
                              &op->scale);
}

enum msi_advance msi_shm_look_now(struct msi_shm_coll *op) {
    const struct msi_shm_region *region = op->region;
    size_t len = op->nothing ? 0 : op->out.each;
    if (!reads(op) || op->publisher == region->rank) return MSI_DONE;
    for (; op->peer < region->size; op->peer++) {
        int next = region->rank + op->peer, rank = next < region->size ? next : next - region->size;
        if (op->publisher >= 0) rank = op->publisher;
        enum msi_advance seen = msi_shm_see(op, rank);
        if (seen != MSI_MOVED) return seen;
        const unsigned char *from = len ? find(op, rank, len) : NULL;
        if (len && !from) return MSI_MOVED;
        if (len && op->reducer)
            op->sources[rank] = from;
        else if (len)
            memcpy(op->publisher < 0 ? msi_block(&op->out, rank) : op->out.base, from, len);
        if (op->publisher >= 0) break;
    }
    if (op->publisher < 0 || region->size == 2) msi_shm_all_came(op);
    if (len && op->reducer) fold(op);
    return MSI_DONE;
}

/* What was read is read again. */
void msi_shm_resume(struct msi_shm_coll *op) {
    uint64_t seq = op->seq;
    msi_shm_exchange(op);
    op->seq = seq;
    op->filled = 1;
    op->phase = MSI_MOVE;
}
