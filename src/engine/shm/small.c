/*
 * small.c - the fast path for small exchanges. See shm_coll.h.
 *
 * An exchange that takes 0.1 us from one processor to another must not be slowed by bookkeeping: here it is
 * announced and read with no other state than the description of the operation. The caller does its own
 * bookkeeping between the two steps, while the announcement travels to the other ranks. If a rank is late or
 * has more than fits into a small cell, exchange.c continues with a work.
 */
#include "base/lines.h"
#include "engine/shm/shm_coll.h"

#include <string.h>

/* What the two steps need to know of the operation. */
struct small {
    struct msi_shm *shm;
    struct msi_shm_region *region;
    const struct msi_op *op;
    int src_rank, dst_rank; /* -1: all */
    bool parts;
    size_t each; /* bytes of a block, all of which have the same length here; 0 for a barrier */
};

static inline struct small view(const struct msi_comm *comm, const struct msi_op *op) {
    const struct msi_shm_shape *shape = &msi_shm_shapes[op->desc.kind];
    return (struct small){.shm = msi_shm(comm),
                          .region = msi_native(comm)->peers.region,
                          .op = op,
                          .src_rank = shape->src_is_root ? op->desc.root : -1,
                          .dst_rank = shape->dst_is_root ? op->desc.root : -1,
                          .parts = shape->parts,
                          .each = msi_op_bytes(op)};
}

/* Does this rank have data, and do others read them? */
static inline bool is_source(const struct small *s) {
    return s->op->desc.kind != MST_KIND_BARRIER && (s->src_rank < 0 || s->src_rank == s->region->rank);
}
static inline bool publishes(const struct small *s) {
    return is_source(s) && s->dst_rank != s->region->rank;
}

static inline bool reads(const struct small *s) {
    return (s->dst_rank < 0 || s->dst_rank == s->region->rank) && s->src_rank != s->region->rank;
}

static inline size_t part(const struct small *s, int src_rank, int reader) {
    return s->parts ? (size_t)(reader - (reader > src_rank)) : 0;
}

/* Where the block of a source rank goes. */
static char *target(const struct small *s, int rank) {
    const mst_backend_op *d = &s->op->desc;
    if (s->src_rank >= 0) return d->out;
    return d->out_list ? d->out_list[rank] : (char *)d->out + (size_t)rank * s->each;
}

/* msi_copy_lines without a call for one element. */
static inline void copy(void *to, const void *from, size_t bytes, const void *shared) {
    if (bytes == 4)
        memcpy(to, from, 4);
    else if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes)
        msi_copy_lines(to, from, bytes, shared);
}

/* Writes the data that other ranks read. */
static inline void put(const struct small *s, unsigned char *to) {
    const char *in = s->op->desc.in;
    int me = s->region->rank;
    if (!s->parts) {
        copy(to, in, s->each, to);
        return;
    }
    for (int r = 0; r < s->region->size; r++) {
        unsigned char *block = to + part(s, me, r) * s->each;
        if (r != me) copy(block, in + (size_t)r * s->each, s->each, block);
    }
}

/* This rank's input for itself. */
static const char *own_input(const struct small *s) {
    const char *in = s->op->desc.in;
    return s->parts ? in + (size_t)s->region->rank * s->each : in;
}

/* Copies this rank's block for itself. */
static void keep(const struct small *s) {
    const char *from = own_input(s);
    char *to = target(s, s->region->rank);
    if (from != to) memcpy(to, from, s->each);
}

bool msi_shm_suits_now(const struct msi_comm *comm, const struct msi_op *op) {
    const struct msi_shm_shape *shape = &msi_shm_shapes[op->desc.kind];
    size_t blocks = shape->parts && comm->size > 1 ? (size_t)comm->size - 1 : 1, each = msi_op_bytes(op);
    return !msi_op_is_uneven(op) && !op->desc.in_list && each <= MSI_SMALL_CELL / blocks &&
           !msi_shm_is_large_reduction(op, comm->size);
}

/* The other ranks have read the next cell long ago: fetches it for writing, while this rank waits. */
static inline void fetch_cell(const unsigned char *cell, size_t bytes) {
    enum { LINE = 64, MOST = 1 << 10 };
    for (size_t at = 0; at < bytes && at < MOST; at += LINE) __builtin_prefetch(cell + at, 1);
}

bool msi_shm_begin_now(struct msi_comm *comm, const struct msi_op *op) {
    struct msi_native *native = msi_native(comm);
    struct small s = view(comm, op);
    struct msi_shm_region *region = s.region;
    if (!native->peers.all_here || native->pending.n) return false;
    if ((s.src_rank >= 0 || s.dst_rank >= 0) && msi_comm_must_compare(comm, op)) return false;
    uint64_t seq = region->seq + 1;
    if (seq >= region->synced + MSI_SLOTS && !msi_shm_region_may_announce(region, seq)) return false;
    enum msi_slot_mode mode = MSI_SLOT_NOTHING;
    struct msi_area *own = msi_shm_region_own(region);
    struct msi_cells *cells = msi_shm_region_own_cells(region);
    size_t all = s.parts && region->size > 1 ? s.each * (size_t)(region->size - 1) : s.each;
    if (publishes(&s)) {
        bool fits = all <= MSI_SLOT_PAYLOAD;
        if (!fits && msi_shm_shares_input(op, region, &(struct msi_arena_ref){.number = 0})) return false;
        mode = fits ? MSI_SLOT_INLINE : MSI_SLOT_SMALL;
        if (!fits) msi_peers_hold_small(&native->peers, seq);
        put(&s, fits ? own->slots[seq % MSI_SLOTS].bytes : cells->small[seq % MSI_SMALL_CELLS]);
    }
    msi_shm_announce_call(region, mode, &op->signature, op->hash);
    if (mode == MSI_SLOT_SMALL) fetch_cell(cells->small[(seq + 1) % MSI_SMALL_CELLS], all);
    return true;
}

/* The data that another rank has published for this rank; NULL: it is not in a slot or a small cell. */
static const unsigned char *find(const struct small *s, uint64_t seq, int rank) {
    const struct msi_slot *slot = &s->region->areas[rank].slots[seq % MSI_SLOTS];
    size_t at = part(s, rank, s->region->rank) * s->each;
    if (slot->mode == MSI_SLOT_INLINE) return at + s->each <= MSI_SLOT_PAYLOAD ? slot->bytes + at : NULL;
    if (slot->mode != MSI_SLOT_SMALL || at + s->each > MSI_SMALL_CELL) return NULL;
    return s->region->cells[rank].small[seq % MSI_SMALL_CELLS] + at;
}

/* Spins until the rank has announced the same call. False: it is late, or has made another call. */
static inline bool meets(const struct small *s, uint64_t seq, int rank, uint32_t *spins) {
    for (;; --*spins) {
        enum msi_advance seen = msi_shm_has_announced(s->region, seq, s->op->hash, rank);
        if (seen != MSI_BLOCKED || *spins == 0) return seen == MSI_MOVED;
        msi_relax();
    }
}

static inline bool finish_small(struct msi_comm *comm, const struct msi_op *op) {
    struct small s = view(comm, op);
    struct msi_shm_region *region = s.region;
    uint64_t seq = region->seq;
    uint32_t spins = msi_comm_spins(comm);
    bool reduces = op->reducer && s.each;
    if (is_source(&s) && s.each && !reduces && (s.dst_rank < 0 || s.dst_rank == region->rank)) keep(&s);
    if (!reads(&s)) return true;
    for (int i = 1; i < region->size; i++) {
        int next = region->rank + i, rank = next < region->size ? next : next - region->size;
        if (s.src_rank >= 0) rank = s.src_rank;
        if (!meets(&s, seq, rank, &spins)) return false;
        const unsigned char *from = s.each ? find(&s, seq, rank) : NULL;
        if (s.each && !from) return false;
        if (reduces)
            s.shm->sources[rank] = from;
        else
            copy(target(&s, rank), from, s.each, from);
        if (s.src_rank >= 0) break;
    }
    if (s.src_rank < 0 || region->size == 2) region->synced = region->verified = seq;
    if (!reduces) return true;
    s.shm->sources[region->rank] = own_input(&s);
    msi_shm_reduce_op(op, region, s.shm->sources, op->desc.out, NULL, op->desc.count);
    return true;
}

bool msi_shm_finish_now(struct msi_comm *comm, const struct msi_op *op) {
    bool done = finish_small(comm, op);
    const struct msi_shm_region *region = msi_native(comm)->peers.region;
    if (done) msi_shm_end(comm, op, region->seq);
    return done;
}
