/*
 * small.c - the fast path for small exchanges. See shm_coll.h.
 *
 * An exchange that takes 0.1 us from one processor to another must not be slowed by bookkeeping: here it is announced and read
 * with no other state than the number of the operation and how many ranks were seen. If a rank is late or has more than fits
 * into a small cell, exchange.c continues.
 */
#include "engine/shm/shm_coll.h"

#include <string.h>

static bool publishes(const struct msi_shm_coll *coll) {
    return !coll->nothing && (coll->src_rank < 0 || coll->src_rank == coll->region->rank);
}

static bool reads(const struct msi_shm_coll *coll) {
    return coll->dst_rank < 0 || coll->dst_rank == coll->region->rank;
}

/* Writes what the others read. */
static void put(const struct msi_shm_coll *coll, unsigned char *to) {
    size_t each = coll->in.each;
    if (each == 0) return;
    if (!coll->parts) {
        memcpy(to, coll->in.base, each);
        return;
    }
    for (int r = 0; r < coll->region->size; r++)
        if (r != coll->region->rank)
            memcpy(to + msi_shm_part(coll, coll->region->rank, r) * each, coll->in.base + (size_t)r * each, each);
}

/* Copies this rank's block for itself. */
static void keep(const struct msi_shm_coll *coll) {
    size_t me = (size_t)coll->region->rank, each = coll->in.each;
    const char *from = coll->parts ? coll->in.base + me * each : coll->in.base;
    char *to = coll->src_rank < 0 ? msi_block(&coll->out, (int)me) : coll->out.base;
    if (each && from != to) memcpy(to, from, each);
}

bool msi_shm_begin_now(struct msi_shm_coll *coll) {
    struct msi_shm_region *region = coll->region;
    uint64_t seq = region->seq + 1;
    bool gives = publishes(coll);
    size_t all = coll->in.each * msi_shm_blocks(coll);
    if (coll->uneven || coll->in.list || (gives && (all > MSI_SMALL_CELL || msi_shm_share_input(coll)))) return false;
    if (seq >= region->synced + MSI_SLOTS && !msi_shm_region_may_announce(region, seq)) return false;
    coll->seq = seq;
    coll->peer = 1;
    struct msi_slot *slot = msi_shm_slot(coll, region->rank);
    enum msi_slot_mode mode = !gives                    ? MSI_SLOT_NOTHING
                              : all <= MSI_SLOT_PAYLOAD ? MSI_SLOT_INLINE
                                                        : MSI_SLOT_SMALL;
    if (gives)
        put(coll,
            mode == MSI_SLOT_INLINE ? slot->bytes : msi_shm_region_own(region)->small[seq % MSI_SMALL_CELLS]);
    msi_shm_announce(coll, slot, mode);
    if (gives && !coll->reducer && reads(coll)) keep(coll);
    return true;
}

/* What another rank has published for this one; NULL: it is not in a slot or a small cell. */
static const unsigned char *find(const struct msi_shm_coll *coll, int rank, size_t len) {
    const struct msi_slot *slot = msi_shm_slot(coll, rank);
    size_t at = msi_shm_part(coll, rank, coll->region->rank) * len;
    if (slot->mode == MSI_SLOT_INLINE) return at + len <= MSI_SLOT_PAYLOAD ? slot->bytes + at : NULL;
    if (slot->mode != MSI_SLOT_SMALL || at + len > MSI_SMALL_CELL) return NULL;
    return coll->region->areas[rank].small[coll->seq % MSI_SMALL_CELLS] + at;
}

static void reduce_local(const struct msi_shm_coll *coll) {
    int me = coll->region->rank;
    coll->sources[me] = coll->parts ? coll->in.base + (size_t)me * coll->in.each : coll->in.base;
    coll->reducer->reduce_local(coll->out.base, NULL, coll->sources, coll->region->size, coll->out.each / coll->in.element,
                              &coll->scale);
}

enum msi_advance msi_shm_look_now(struct msi_shm_coll *coll) {
    const struct msi_shm_region *region = coll->region;
    size_t len = coll->nothing ? 0 : coll->out.each;
    if (!reads(coll) || coll->src_rank == region->rank) return MSI_DONE;
    for (; coll->peer < region->size; coll->peer++) {
        int next = region->rank + coll->peer, rank = next < region->size ? next : next - region->size;
        if (coll->src_rank >= 0) rank = coll->src_rank;
        enum msi_advance seen = msi_shm_see(coll, rank);
        if (seen != MSI_MOVED) return seen;
        const unsigned char *from = len ? find(coll, rank, len) : NULL;
        if (len && !from) return MSI_MOVED;
        if (len && coll->reducer)
            coll->sources[rank] = from;
        else if (len)
            memcpy(coll->src_rank < 0 ? msi_block(&coll->out, rank) : coll->out.base, from, len);
        if (coll->src_rank >= 0) break;
    }
    if (coll->src_rank < 0 || region->size == 2) msi_shm_all_came(coll);
    if (len && coll->reducer) reduce_local(coll);
    return MSI_DONE;
}

/* Reads again what was read. */
void msi_shm_resume(struct msi_shm_coll *coll) {
    uint64_t seq = coll->seq;
    msi_shm_exchange(coll);
    coll->seq = seq;
    coll->filled = 1;
    coll->phase = MSI_MOVE;
}
