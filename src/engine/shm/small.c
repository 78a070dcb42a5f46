/*
 * small.c - the fast path for small exchanges. See shm_coll.h.
 *
 * An exchange that takes 0.1 us from one processor to another must not be slowed by bookkeeping: here it is
 * announced and read with no other state than the number of the operation and how many ranks were seen. If a
 * rank is late or has more than fits into a small cell, exchange.c continues.
 */
#include "engine/shm/shm_coll.h"

#include <string.h>

static bool publishes(const struct msi_shm_coll *coll) {
    return !msi_shm_is_barrier(coll) && (coll->src_rank < 0 || coll->src_rank == coll->region->rank);
}

static bool reads(const struct msi_shm_coll *coll) {
    return coll->dst_rank < 0 || coll->dst_rank == coll->region->rank;
}

/* Bytes of a block, all of which have the same length here. */
static size_t block_bytes(const struct msi_shm_coll *coll) {
    return coll->work->op.desc.count * coll->work->op.desc.element;
}

/* Where the block of a source rank goes. */
static char *target(const struct msi_shm_coll *coll, int rank, size_t each) {
    const mst_backend_op *d = &coll->work->op.desc;
    if (coll->src_rank >= 0) return d->out;
    return d->out_list ? d->out_list[rank] : (char *)d->out + (size_t)rank * each;
}

/* Writes the data that other ranks read. */
static void put(const struct msi_shm_coll *coll, unsigned char *to, size_t each) {
    const char *in = coll->work->op.desc.in;
    int me = coll->region->rank;
    if (each == 0) return;
    if (!coll->parts) {
        memcpy(to, in, each);
        return;
    }
    for (int r = 0; r < coll->region->size; r++)
        if (r != me) memcpy(to + msi_shm_part(coll, me, r) * each, in + (size_t)r * each, each);
}

/* This rank's input for itself. */
static const char *own_input(const struct msi_shm_coll *coll, size_t each) {
    const char *in = coll->work->op.desc.in;
    return coll->parts ? in + (size_t)coll->region->rank * each : in;
}

/* Copies this rank's block for itself. */
static void keep(const struct msi_shm_coll *coll, size_t each) {
    const char *from = own_input(coll, each);
    char *to = target(coll, coll->region->rank, each);
    if (each && from != to) memcpy(to, from, each);
}

bool msi_shm_begin_now(struct msi_shm_coll *coll) {
    struct msi_shm_region *region = coll->region;
    uint64_t seq = region->seq + 1;
    bool gives = publishes(coll);
    size_t each = block_bytes(coll), all = each * msi_shm_blocks(coll);
    if (msi_op_is_uneven(&coll->work->op) || coll->work->op.desc.in_list ||
        (gives && (all > MSI_SMALL_CELL || msi_shm_share_input(coll))))
        return false;
    if (seq >= region->synced + MSI_SLOTS && !msi_shm_region_may_announce(region, seq)) return false;
    coll->seq = seq;
    coll->peer = 1;
    struct msi_slot *slot = msi_shm_slot(coll, region->rank);
    enum msi_slot_mode mode = !gives                    ? MSI_SLOT_NOTHING
                              : all <= MSI_SLOT_PAYLOAD ? MSI_SLOT_INLINE
                                                        : MSI_SLOT_SMALL;
    if (gives) {
        unsigned char *cell = msi_shm_region_own(region)->small[seq % MSI_SMALL_CELLS];
        put(coll, mode == MSI_SLOT_INLINE ? slot->bytes : cell, each);
    }
    msi_shm_announce(coll, slot, mode);
    if (gives && !coll->work->op.reducer && reads(coll)) keep(coll, each);
    return true;
}

/* The data that another rank has published for this rank; NULL: it is not in a slot or a small cell. */
static const unsigned char *find(const struct msi_shm_coll *coll, int rank, size_t len) {
    const struct msi_slot *slot = msi_shm_slot(coll, rank);
    size_t at = msi_shm_part(coll, rank, coll->region->rank) * len;
    if (slot->mode == MSI_SLOT_INLINE) return at + len <= MSI_SLOT_PAYLOAD ? slot->bytes + at : NULL;
    if (slot->mode != MSI_SLOT_SMALL || at + len > MSI_SMALL_CELL) return NULL;
    return coll->region->areas[rank].small[coll->seq % MSI_SMALL_CELLS] + at;
}

enum msi_advance msi_shm_look_now(struct msi_shm_coll *coll) {
    const struct msi_shm_region *region = coll->region;
    size_t len = block_bytes(coll); /* 0 for a barrier */
    if (!reads(coll) || coll->src_rank == region->rank) return MSI_DONE;
    for (; coll->peer < region->size; coll->peer++) {
        int next = region->rank + coll->peer, rank = next < region->size ? next : next - region->size;
        if (coll->src_rank >= 0) rank = coll->src_rank;
        enum msi_advance seen = msi_shm_see(coll, rank);
        if (seen != MSI_MOVED) return seen;
        const unsigned char *from = len ? find(coll, rank, len) : NULL;
        if (len && !from) return MSI_MOVED;
        if (len && coll->work->op.reducer)
            coll->sources[rank] = from;
        else if (len)
            memcpy(target(coll, rank, len), from, len);
        if (coll->src_rank >= 0) break;
    }
    if (coll->src_rank < 0 || region->size == 2) msi_shm_all_came(coll);
    if (!len || !coll->work->op.reducer) return MSI_DONE;
    const mst_backend_op *d = &coll->work->op.desc;
    coll->sources[region->rank] = own_input(coll, len);
    msi_shm_reduce(coll, coll->sources, d->out, NULL, d->count);
    return MSI_DONE;
}

/* Reads everything again. */
void msi_shm_resume(struct msi_shm_coll *coll) {
    uint64_t seq = coll->seq;
    msi_shm_exchange(coll);
    coll->seq = seq;
    coll->filled = 1;
    coll->phase = MSI_MOVE;
}
