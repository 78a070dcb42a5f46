/* exchange.c - publishing and reading through the region. See shm_coll.h. */
#include "base/fence.h"
#include "base/nt_copy.h"
#include "engine/shm/shm_coll.h"
#include "os/clock.h"

#include <string.h>

enum { ROUNDS_MOST = MSI_ALL_ROUNDS - 1 };

/* Must a rank keep its buffer unchanged until the readers have read it? */
static bool is_in_place(enum msi_slot_mode mode) {
    return mode == MSI_SLOT_DIRECT || mode == MSI_SLOT_CMA;
}

enum msi_advance msi_shm_check_in_place(struct msi_shm_coll *coll) {
    msi_fence_reads();
    for (int rank = 0; rank < coll->region->size; rank++) {
        if (rank == coll->region->rank || !msi_shm_publishes(coll, rank))
            continue; /* has not announced the operation, or need not */
        if (!is_in_place(msi_shm_slot(coll, rank)->mode)) continue;
        /* Written by announce_failure (engine.c), before the call returns there. */
        if (atomic_load_explicit(&coll->region->areas[rank].gave_up, memory_order_acquire))
            return msi_fault(coll->work, MST_ERR_PEER_LOST, rank, "it gave up an operation");
    }
    return MSI_MOVED;
}

enum msi_advance msi_shm_differs(struct msi_shm_coll *coll, int rank) {
    if ((uint32_t)atomic_load_explicit(&msi_shm_slot(coll, rank)->flag, memory_order_relaxed) !=
        coll->work->op.hash)
        return msi_fault(coll->work, MST_ERR_MISMATCH, rank, "the calls differ");
    uint64_t seq = 0;
    int other = msi_shm_region_verify(coll->region, coll->seq, &seq);
    if (other < 0)
        return msi_fault(coll->work, MST_ERR_MISMATCH, rank, "the calls differed some operations earlier");
    msi_fault(coll->work, MST_ERR_MISMATCH, other, "the calls differ");
    coll->work->fault.seq = seq;
    return MSI_FAILED;
}

int msi_shm_missing(const struct msi_shm_region *region, uint64_t seq, int *ranks, int max) {
    int n = 0;
    for (int rank = 0; rank < region->size; rank++) {
        if (rank == region->rank || msi_shm_region_begun(region, rank, seq)) continue;
        if (n < max) ranks[n] = rank;
        n++;
    }
    return n;
}

/* The cells of an operation are in one half of the big cells. The next operation uses the other half, so that
 * a rank can fill it while its readers read this one. */
static uint32_t cells(const struct msi_shm_coll *coll) {
    return (uint32_t)(MSI_BIG_HALF / (coll->chunk * msi_shm_blocks(coll)));
}
static unsigned char *cell_of(const struct msi_shm_coll *coll, int rank, uint32_t round) {
    return coll->region->cells[rank].big + coll->seq % MSI_BIG_HALVES * MSI_BIG_HALF +
           round % cells(coll) * coll->chunk * msi_shm_blocks(coll);
}

/* Is it an all_to_all that this rank publishes through cells? In place, what this rank reads replaces its
 * input: it must not read further than it has filled. */
static bool fills_what_it_reads(const struct msi_shm_coll *coll) {
    return coll->parts && coll->src_rank < 0 && !coll->work->op.reducer && coll->mode == MSI_SLOT_BIG;
}

/* Bytes of a block of len bytes that this rank moves in one round. */
static size_t chunk_of(const struct msi_shm_coll *coll, size_t len, enum msi_slot_mode mode) {
    if (mode == MSI_SLOT_BIG || mode == MSI_SLOT_DIRECT) return coll->chunk;
    if (mode != MSI_SLOT_CMA) return len;
    return fills_what_it_reads(coll) ? coll->chunk : msi_shm_team(coll) ? len : MSI_SHM_CMA_CHUNK;
}

static uint32_t rounds_for(const struct msi_shm_coll *coll, size_t len, enum msi_slot_mode mode) {
    size_t chunk = chunk_of(coll, len, mode);
    if (len <= chunk) return len > 0;
    size_t rounds = len / chunk + (len % chunk > 0);
    return rounds > ROUNDS_MOST ? ROUNDS_MOST + 1 : (uint32_t)rounds;
}

/* Copies this rank's blocks, or one round of them, into a cell whose blocks are stride bytes apart. */
static void fill(const struct msi_shm_coll *coll, unsigned char *cell, size_t stride, size_t from,
                 size_t most) {
    if (!coll->parts) {
        size_t len = coll->in.each - from;
        if (len) memcpy(cell, coll->in.base + from, len < most ? len : most);
        return;
    }
    for (int r = 0; r < coll->region->size; r++) {
        size_t len = msi_block_len(&coll->in, r);
        if (r == coll->region->rank || len <= from) continue;
        len -= from;
        memcpy(cell + msi_shm_part(coll, coll->region->rank, r) * stride, msi_block(&coll->in, r) + from,
               len < most ? len : most);
    }
}

/* Writes the lengths of the blocks into the small cell, where readers compare them. */
static void tell_lengths(const struct msi_shm_coll *coll) {
    msi_peers_hold_small(&msi_native(coll->work->comm)->peers, coll->seq);
    uint64_t *lens =
        (uint64_t *)(void *)msi_shm_region_own_cells(coll->region)->small[coll->seq % MSI_SMALL_CELLS];
    for (int r = 0; r < coll->region->size; r++) lens[r] = msi_block_len(&coll->in, r);
}

/* Have all readers of this rank's big cells read so far? */
static bool readers_reached(const struct msi_shm_region *region, int dst_rank, uint64_t value) {
    if (dst_rank >= 0)
        return dst_rank == region->rank || msi_shm_region_reached(&region->areas[dst_rank].drained, value);
    for (int r = 0; r < region->size; r++)
        if (r != region->rank && !msi_shm_region_reached(&region->areas[r].drained, value)) return false;
    return true;
}

bool msi_shm_all_have_read(const struct msi_shm_coll *coll) {
    return readers_reached(coll->region, -1, msi_rounds_done(coll->seq, MSI_ALL_ROUNDS));
}

/* Have all readers read what the last operation put into this half of this rank's big cells? */
static bool half_is_free(const struct msi_shm_region *region, uint64_t seq) {
    const struct msi_big_use *last = &region->big_use[seq % MSI_BIG_HALVES];
    return last->seq == 0 ||
           readers_reached(region, last->reader, msi_rounds_done(last->seq, MSI_ALL_ROUNDS));
}

bool msi_shm_big_free(const struct msi_shm_region *region) {
    return half_is_free(region, 0) && half_is_free(region, 1);
}

static void stage_first(struct msi_shm_coll *coll, struct msi_slot *slot) {
    struct msi_peers *peers = &msi_native(coll->work->comm)->peers;
    struct msi_cells *own = msi_shm_region_own_cells(coll->region);
    switch (coll->mode) {
    case MSI_SLOT_INLINE:
        fill(coll, slot->bytes, coll->in.each, 0, coll->in.each);
        break;
    case MSI_SLOT_SMALL:
        msi_peers_hold_small(peers, coll->seq);
        fill(coll, own->small[coll->seq % MSI_SMALL_CELLS], coll->in.each, 0, coll->in.each);
        break;
    case MSI_SLOT_BIG:
        msi_peers_hold_big(peers, coll->seq);
        if (coll->parts && coll->uneven) tell_lengths(coll);
        fill(coll, cell_of(coll, coll->region->rank, 0), coll->chunk, 0, coll->chunk);
        coll->region->big_use[coll->seq % MSI_BIG_HALVES] =
            (struct msi_big_use){.seq = coll->seq, .reader = coll->dst_rank};
        break;
    case MSI_SLOT_DIRECT:
        slot->direct.in = coll->in_where;
        break;
    case MSI_SLOT_CMA:
        slot->from = (uintptr_t)coll->in.base;
        break;
    default:
        break;
    }
}

/* Copies a part of this rank's block for itself. */
static void copy_own(const struct msi_shm_coll *coll, size_t at, size_t end) {
    int me = coll->region->rank;
    if (coll->work->op.reducer || msi_shm_is_barrier(coll) || (coll->src_rank >= 0 && coll->src_rank != me) ||
        !msi_shm_reads(coll))
        return;
    const char *from = coll->parts ? msi_block(&coll->in, me) : coll->in.base;
    char *to = coll->src_rank < 0 ? msi_block(&coll->out, me) : coll->out.base;
    size_t len = coll->parts ? msi_block_len(&coll->in, me) : coll->in.each;
    if (end > len) end = len;
    if (at < end && from != to)
        msi_team_copy(msi_shm_team(coll), to + at, from + at, end - at, coll->nt_stores);
}

/* Copies a piece of another rank's block into this rank's output. */
static void copy_out(const struct msi_shm_coll *coll, char *to, const void *from, size_t len) {
    if (coll->nt_stores)
        msi_nt_copy(to, from, len);
    else
        memcpy(to, from, len);
}

static void copy_own_until(struct msi_shm_coll *coll, size_t end) {
    if (end <= coll->own_copied) return;
    int64_t begun = coll->measured ? msi_now() : 0;
    copy_own(coll, coll->own_copied, end);
    if (coll->measured) coll->spent += msi_now() - begun;
    coll->own_copied = end;
}

/* How much of it this rank copies at once. The rest is copied round by round: with the cells, while the input
 * is in the cache, or before the other ranks read it by CMA, so that they find it in this rank's cache. */
static size_t own_at_once(const struct msi_shm_coll *coll) {
    if (!coll->parts && coll->mode == MSI_SLOT_BIG) return coll->chunk;
    bool by_cma = coll->mode == MSI_SLOT_CMA && coll->src_rank < 0 && !msi_shm_team(coll);
    return by_cma && !coll->parts ? 0 : SIZE_MAX;
}

static enum msi_advance announce(struct msi_shm_coll *coll) {
    struct msi_shm_region *region = coll->region;
    if (coll->rounds > ROUNDS_MOST)
        return msi_fault(coll->work, MST_ERR_LIMIT, -1, "the blocks are too large for this number of ranks");
    if (!msi_shm_region_may_announce(region, coll->seq)) return MSI_BLOCKED;
    if (coll->mode == MSI_SLOT_BIG && !half_is_free(region, coll->seq)) return MSI_BLOCKED;
    struct msi_slot *slot = msi_shm_slot(coll, region->rank);
    int64_t begun = coll->measured ? msi_now() : 0;
    stage_first(coll, slot);
    if (coll->measured) coll->spent += msi_now() - begun;
    coll->filled = 1;
    msi_shm_announce(coll, coll->mode);
    copy_own_until(coll, own_at_once(coll));
    coll->phase = MSI_MOVE;
    return MSI_MOVED;
}

/* Is the cell of a round free? */
static bool has_room(const struct msi_shm_coll *coll, uint32_t round) {
    uint32_t n = cells(coll);
    return round < n ||
           readers_reached(coll->region, coll->dst_rank, msi_rounds_done(coll->seq, round - n + 1));
}

/* How many rounds this rank moves at a time, at most: one for each thread, and half of the cells. */
static uint32_t batch(const struct msi_shm_coll *coll, uint32_t left) {
    if (left < 2) return left;
    uint32_t most = (uint32_t)msi_team_threads(msi_shm_team(coll)), half = (cells(coll) + 1) / 2;
    if (most > half) most = half;
    return left < most ? left : most;
}

static void fill_round(void *context, int part, int parts) {
    const struct msi_shm_coll *coll = context;
    uint32_t round = coll->filled + (uint32_t)part;
    (void)parts;
    size_t at = (size_t)round * coll->chunk;
    fill(coll, cell_of(coll, coll->region->rank, round), coll->chunk, at, coll->chunk);
    if (!coll->parts) copy_own(coll, at, at + coll->chunk);
}

/* The next rounds of this rank's own cells, as far as there is room. */
static bool fill_next(struct msi_shm_coll *coll) {
    if (coll->mode != MSI_SLOT_BIG || coll->filled >= coll->rounds) return false;
    uint32_t n = batch(coll, coll->rounds - coll->filled);
    while (n && !has_room(coll, coll->filled + n - 1)) n--;
    if (n == 0) return false;
    int64_t begun = coll->measured ? msi_now() : 0;
    msi_team_run(msi_shm_team(coll), (int)n, fill_round, coll);
    if (coll->measured) coll->spent += msi_now() - begun;
    coll->filled += n;
    if (!coll->parts) coll->own_copied = (size_t)coll->filled * coll->chunk;
    msi_shm_region_post(coll->region, &msi_shm_region_own(coll->region)->filled,
                        msi_rounds_done(coll->seq, coll->filled));
    return true;
}

/* How many bytes the block that this rank reads from another has. */
static size_t expected(const struct msi_shm_coll *coll, int rank) {
    if (coll->work->op.reducer || coll->src_rank >= 0) return coll->out.each;
    return msi_block_len(&coll->out, rank);
}

static bool lengths_agree(struct msi_shm_coll *coll, int rank) {
    if (!coll->parts || !coll->uneven || coll->src_rank >= 0) return true;
    const uint64_t *lens =
        (const uint64_t *)(const void *)coll->region->cells[rank].small[coll->seq % MSI_SMALL_CELLS];
    return lens[coll->region->rank] == expected(coll, rank);
}

/* The address of the data that a rank has published for this rank in a complete round; NULL if it is
 * invalid. */
static const char *source(struct msi_shm_coll *coll, int rank, uint32_t round) {
    const struct msi_cells *theirs = &coll->region->cells[rank];
    const struct msi_slot *slot = msi_shm_slot(coll, rank);
    size_t len = expected(coll, rank), part = msi_shm_part(coll, rank, coll->region->rank);
    const char *base;
    switch (slot->mode) {
    case MSI_SLOT_INLINE:
        return len * (part + 1) <= MSI_SLOT_PAYLOAD ? (const char *)slot->bytes + part * len : NULL;
    case MSI_SLOT_SMALL:
        base = (const char *)theirs->small[coll->seq % MSI_SMALL_CELLS];
        return len * (part + 1) <= MSI_SMALL_CELL ? base + part * len : NULL;
    case MSI_SLOT_BIG:
        return (const char *)cell_of(coll, rank, round) + part * coll->chunk;
    case MSI_SLOT_DIRECT:
        base = msi_shm_map(coll, rank, &slot->direct.in, coll->parts ? (size_t)coll->region->rank * len : 0,
                           len);
        return base ? base + (size_t)round * coll->chunk : NULL;
    default:
        return NULL;
    }
}

/* The first check of a source rank: did it make the same call, and how many rounds does it take? */
static enum msi_advance meet(struct msi_shm_coll *coll, int rank) {
    enum msi_advance seen = msi_shm_see(coll, rank);
    if (seen != MSI_MOVED) return seen;
    if (msi_shm_is_barrier(coll)) return MSI_MOVED;
    if (!lengths_agree(coll, rank))
        return msi_fault(coll->work, MST_ERR_MISMATCH, rank,
                         "the .in_splits of one rank differ from the .out_splits of the other");
    enum msi_slot_mode mode = msi_shm_slot(coll, rank)->mode;
    uint32_t rounds = rounds_for(coll, expected(coll, rank), mode);
    if (rounds > coll->to_drain) coll->to_drain = rounds;
    if (mode == MSI_SLOT_BIG || is_in_place(mode)) coll->must_tell = true;
    if (mode == MSI_SLOT_CMA) coll->by_cma++;
    if (mode == MSI_SLOT_BIG) coll->by_cells++;
    if (mode == MSI_SLOT_DIRECT) coll->by_direct++;
    return MSI_MOVED;
}

/* Has a rank that was met published what this rank reads from it up to the end of a round? */
static bool has_filled(const struct msi_shm_coll *coll, int rank, uint32_t round) {
    if (msi_shm_slot(coll, rank)->mode != MSI_SLOT_BIG) return true;
    uint32_t rounds = rounds_for(coll, expected(coll, rank), MSI_SLOT_BIG),
             needed = round < rounds ? round + 1 : rounds;
    return needed <= coll->drained ||
           msi_shm_region_reached(&coll->region->areas[rank].filled, msi_rounds_done(coll->seq, needed));
}

/* Can the current round of a rank be read? */
static enum msi_advance look(struct msi_shm_coll *coll, int rank) {
    if (coll->drained == 0) return meet(coll, rank);
    return has_filled(coll, rank, coll->drained) ? MSI_MOVED : MSI_BLOCKED;
}

/* How many bytes a round has from a rank, and their offset in its block. */
static size_t piece(const struct msi_shm_coll *coll, int rank, uint32_t round, size_t *at) {
    enum msi_slot_mode mode = msi_shm_slot(coll, rank)->mode;
    size_t len = expected(coll, rank), chunk = chunk_of(coll, len, mode);
    *at = (size_t)round * chunk;
    if (*at >= len) return 0;
    return len - *at < chunk ? len - *at : chunk;
}

/* Where the block of a source rank goes, if it is copied. */
static char *target(const struct msi_shm_coll *coll, int rank) {
    return coll->src_rank < 0 ? msi_block(&coll->out, rank) : coll->out.base;
}

static enum msi_advance copy_one(struct msi_shm_coll *coll, int rank) {
    size_t at, len = piece(coll, rank, coll->drained, &at);
    if (msi_shm_is_barrier(coll) || len == 0) return MSI_MOVED;
    if (msi_shm_slot(coll, rank)->mode == MSI_SLOT_CMA && !coll->work->op.reducer) {
        size_t part = coll->parts ? (size_t)coll->region->rank * expected(coll, rank) : 0;
        return msi_shm_cma_read(coll, rank, part + at, target(coll, rank) + at, len);
    }
    const char *from = source(coll, rank, coll->drained);
    if (!from) return msi_fault(coll->work, MST_ERR_SYSTEM, rank, msi_maps_why());
    if (coll->work->op.reducer)
        coll->sources[rank] = from;
    else
        copy_out(coll, target(coll, rank) + at, from, len);
    return MSI_MOVED;
}

/* The same, measured if the operation is. */
static enum msi_advance read_one(struct msi_shm_coll *coll, int rank) {
    if (!coll->measured) return copy_one(coll, rank);
    int64_t begun = msi_now();
    if (!coll->read_from) {
        coll->read_from = begun;
        coll->spent_before = coll->spent;
    }
    enum msi_advance got = copy_one(coll, rank);
    coll->spent += msi_now() - begun;
    return got;
}

static void reduce_round(const struct msi_shm_coll *coll, uint32_t round, const void **sources) {
    int me = coll->region->rank, any = me ? 0 : 1;
    size_t at = 0, len = coll->region->size > 1 ? piece(coll, any, round, &at) : coll->out.each;
    if (len == 0) return;
    sources[me] = (coll->parts ? msi_block(&coll->in, me) : coll->in.base) + at;
    msi_shm_reduce(coll, sources, coll->out.base + at, NULL, len / coll->in.element);
}

/* The number of source ranks, and the one with that number, from 1 on. Begins with the next rank, so that not
 * all ranks read from the same one. */
static int n_sources(const struct msi_shm_coll *coll) {
    return coll->src_rank >= 0 ? 1 : coll->region->size - 1;
}
static int source_rank(const struct msi_shm_coll *coll, int i) {
    return coll->src_rank >= 0 ? coll->src_rank : (coll->region->rank + i) % coll->region->size;
}

/* One of the rounds that a team reads. The caller has put where the first one is into coll->sources. */
static void read_round(void *context, int part, int parts) {
    const struct msi_shm_coll *coll = context;
    const void *sources[MSI_SHM_TEAM_RANKS];
    uint32_t round = coll->drained + (uint32_t)part;
    (void)parts;
    for (int i = 1; i <= n_sources(coll); i++) {
        int rank = source_rank(coll, i);
        size_t at, len = piece(coll, rank, round, &at);
        if (len == 0) continue;
        bool direct = msi_shm_slot(coll, rank)->mode == MSI_SLOT_DIRECT;
        sources[rank] = (const char *)coll->sources[rank] + (direct ? (size_t)part * coll->chunk : 0);
        if (!direct)
            sources[rank] =
                cell_of(coll, rank, round) + msi_shm_part(coll, rank, coll->region->rank) * coll->chunk;
        if (!coll->work->op.reducer) copy_out(coll, target(coll, rank) + at, sources[rank], len);
    }
    if (coll->work->op.reducer) reduce_round(coll, round, sources);
}

/* Tells the source ranks that this rank has read some rounds. */
static enum msi_advance end_rounds(struct msi_shm_coll *coll, uint32_t n) {
    if (coll->must_tell && msi_shm_check_in_place(coll) == MSI_FAILED) return MSI_FAILED;
    coll->drained += n;
    coll->peer = 1;
    bool all = coll->drained >= coll->to_drain;
    if (coll->must_tell && (all || coll->by_cells)) /* only ranks that fill cells wait for single rounds */
        msi_shm_region_post(coll->region, &msi_shm_region_own(coll->region)->drained,
                            msi_rounds_done(coll->seq, all ? MSI_ALL_ROUNDS : coll->drained));
    return MSI_MOVED;
}

/* Reads the current round from all source ranks. */
static enum msi_advance drain_round(struct msi_shm_coll *coll) {
    int n = n_sources(coll);
    if (coll->mode == MSI_SLOT_CMA) copy_own_until(coll, ((size_t)coll->drained + 1) * MSI_SHM_CMA_CHUNK);
    for (; coll->peer <= n; coll->peer++) {
        int rank = source_rank(coll, coll->peer);
        enum msi_advance got = look(coll, rank);
        if (got == MSI_MOVED) got = read_one(coll, rank);
        if (got != MSI_MOVED) return got;
    }
    if (coll->drained == 0 && (coll->src_rank < 0 || coll->region->size == 2)) msi_shm_all_came(coll);
    if (coll->work->op.reducer && (coll->to_drain || coll->region->size == 1))
        reduce_round(coll, coll->drained, coll->sources);
    return end_rounds(coll, 1);
}

/* How many rounds this rank may read. */
static uint32_t readable(const struct msi_shm_coll *coll) {
    bool limited = fills_what_it_reads(coll) && coll->filled < coll->rounds;
    uint32_t end = limited && coll->filled < coll->to_drain ? coll->filled : coll->to_drain;
    return end > coll->drained ? end - coll->drained : 0;
}

/* Reads the rounds that all source ranks have filled. The first round is read alone: it meets the ranks. */
static enum msi_advance drain_rounds(struct msi_shm_coll *coll) {
    uint32_t n = coll->drained ? batch(coll, readable(coll)) : 1;
    if (n == 0) return MSI_BLOCKED;
    if (coll->by_cma) n = 1; /* its reads have a team of their own */
    for (int i = 1; n > 1 && i <= n_sources(coll); i++)
        while (n > 1 && !has_filled(coll, source_rank(coll, i), coll->drained + n - 1)) n--;
    if (n < 2) return drain_round(coll);
    for (int i = 1; i <= n_sources(coll); i++) {
        int rank = source_rank(coll, i);
        if (msi_shm_slot(coll, rank)->mode != MSI_SLOT_DIRECT) continue;
        coll->sources[rank] = source(coll, rank, coll->drained);
        if (!coll->sources[rank]) return msi_fault(coll->work, MST_ERR_SYSTEM, rank, msi_maps_why());
    }
    int64_t begun = coll->measured ? msi_now() : 0;
    msi_team_run(msi_shm_team(coll), (int)n, read_round, coll);
    if (coll->measured) coll->spent += msi_now() - begun;
    return end_rounds(coll, n);
}

static bool reads_anything(const struct msi_shm_coll *coll) {
    return msi_shm_reads(coll) && coll->src_rank != coll->region->rank;
}

static enum msi_advance move(struct msi_shm_coll *coll) {
    bool moved = false;
    for (;;) {
        bool filled = fill_next(coll);
        bool draining = reads_anything(coll) && (coll->drained == 0 || coll->drained < coll->to_drain);
        enum msi_advance drained = draining ? drain_rounds(coll) : MSI_BLOCKED;
        if (drained == MSI_FAILED) return MSI_FAILED;
        moved |= filled || drained == MSI_MOVED;
        if (!filled && drained != MSI_MOVED) {
            bool all_filled = coll->mode != MSI_SLOT_BIG || coll->filled >= coll->rounds;
            if (draining || !all_filled) return moved ? MSI_MOVED : MSI_BLOCKED;
            copy_own_until(coll, SIZE_MAX);
            coll->phase = MSI_SETTLE;
            return MSI_MOVED;
        }
    }
}

static enum msi_advance advance(struct msi_shm_coll *coll) {
    enum msi_advance got = MSI_MOVED;
    if (coll->phase == MSI_ANNOUNCE) got = announce(coll);
    if (got == MSI_MOVED && coll->phase == MSI_MOVE) got = move(coll);
    if (got == MSI_MOVED && coll->phase == MSI_SETTLE) {
        /* A buffer that is read in place must not change before all have read it. */
        bool settled =
            !is_in_place(coll->mode) ||
            readers_reached(coll->region, coll->dst_rank, msi_rounds_done(coll->seq, MSI_ALL_ROUNDS));
        got = settled ? MSI_DONE : MSI_BLOCKED;
        if (settled) msi_shm_end_copies(coll);
    }
    return got;
}

static bool waits_for(const struct msi_shm_coll *coll, int rank) {
    const struct msi_area *area = &coll->region->areas[rank];
    if (coll->phase == MSI_ANNOUNCE || !msi_shm_region_begun(coll->region, rank, coll->seq)) return true;
    bool is_reader = coll->dst_rank < 0 || coll->dst_rank == rank;
    bool held = coll->mode == MSI_SLOT_BIG || is_in_place(coll->mode);
    if (is_reader && held &&
        !msi_shm_region_reached(&area->drained, msi_rounds_done(coll->seq, MSI_ALL_ROUNDS)))
        return true;
    if (!reads_anything(coll) || !msi_shm_publishes(coll, rank) ||
        msi_shm_slot(coll, rank)->mode != MSI_SLOT_BIG)
        return false;
    uint32_t rounds = rounds_for(coll, expected(coll, rank), MSI_SLOT_BIG);
    return rounds > 1 && !msi_shm_region_reached(&area->filled, msi_rounds_done(coll->seq, rounds));
}

void msi_shm_exchange(struct msi_shm_coll *coll) {
    coll->advance = advance;
    coll->waits_for = waits_for;
    coll->seq = coll->region->seq + 1;
    coll->phase = MSI_ANNOUNCE;
    coll->filled = coll->drained = coll->to_drain = 0;
    coll->own_copied = 0;
    coll->peer = 1;
    coll->must_tell = coll->work->op.signature.flags & MSI_SIGNED_SPLITS &&
                      msi_comm_must_compare(coll->work->comm, &coll->work->op);
    msi_shm_set_blocks(coll);
    msi_shm_choose_mode(coll);
    coll->rounds = rounds_for(coll, msi_shm_longest(coll), coll->mode);
}

void msi_shm_resume(struct msi_shm_coll *coll) {
    msi_shm_exchange(coll);
    coll->seq = coll->region->seq;
    coll->filled = 1;
    coll->own_copied = SIZE_MAX;
    coll->phase = MSI_MOVE;
}
