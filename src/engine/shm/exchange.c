/* exchange.c - publishing and reading through the region. See host.h. */
#include "base/fence.h"
#include "engine/shm/shm_coll.h"

#include <string.h>

enum {
    CHUNK = 64 << 10,
    CHUNK_OF_MEDIUM = 16 << 10, /* so that a medium message is cut into several rounds that overlap */
    MEDIUM = 256 << 10,
    /* Below, copying into a cell costs less than waiting for the readers to be done: bytes of a block, and of all. */
    DIRECT_FROM = 4 << 10,
    DIRECT_OVER = 8 << 10,
    ROUNDS_MOST = MSI_ALL_ROUNDS - 1,
};

enum msi_advance msi_shm_fail(struct msi_shm_coll *op, mst_status status, int culprit, const char *what) {
    op->status = status;
    op->culprit = culprit;
    op->what = what;
    return MSI_FAILED;
}

static bool publishes(const struct msi_shm_coll *op, int rank) {
    return op->publisher < 0 || op->publisher == rank;
}

enum msi_advance msi_shm_still_lent(struct msi_shm_coll *op) {
    msi_fence_reads();
    for (int rank = 0; rank < op->region->size; rank++) {
        if (rank == op->region->rank || !publishes(op, rank)) continue; /* the others were not met */
        if (msi_shm_slot(op, rank)->mode != MSI_SLOT_DIRECT) continue;
        /* Posted by msi_comm_fail before the call there returns. */
        if (atomic_load_explicit(&op->region->areas[rank].gave_up, memory_order_acquire))
            return msi_shm_fail(op, MST_ERR_PEER_LOST, rank, "it gave up an operation");
    }
    return MSI_MOVED;
}

enum msi_advance msi_shm_differs(struct msi_shm_coll *op, int rank) {
    if ((uint32_t)atomic_load_explicit(&msi_shm_slot(op, rank)->flag, memory_order_relaxed) != op->signature)
        return msi_shm_fail(op, MST_ERR_MISMATCH, rank, "ranks called different things");
    int other = msi_shm_region_verify(op->region, op->seq, &op->differing);
    if (other >= 0) return msi_shm_fail(op, MST_ERR_MISMATCH, other, "ranks called different things");
    return msi_shm_fail(op, MST_ERR_MISMATCH, rank, "ranks called different things some operations before");
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

static bool reads(const struct msi_shm_coll *op) {
    return op->reader < 0 || op->reader == op->region->rank;
}

/* Bytes of the longest block that this rank publishes. */
static size_t longest(const struct msi_shm_coll *op) {
    if (!op->parts || !op->in.lens) return op->in.each;
    size_t most = 0;
    for (int r = 0; r < op->region->size; r++)
        if (op->in.lens[r] > most) most = op->in.lens[r];
    return most;
}

/* What blocks are cut into; the same on all ranks, and a multiple of every element. */
static size_t chunk_for(const struct msi_shm_coll *op) {
    size_t len =
        op->parts || op->publisher == op->region->rank || op->publisher < 0 ? op->in.each : op->out.each;
    size_t most = !op->uneven && len <= MEDIUM ? CHUNK_OF_MEDIUM : CHUNK;
    size_t fitting = MSI_BIG_CELLS / 4 / msi_shm_blocks(op) / 64 * 64;
    return fitting < most ? fitting : most;
}

static uint32_t cells(const struct msi_shm_coll *op) {
    return (uint32_t)(MSI_BIG_CELLS / (op->chunk * msi_shm_blocks(op)));
}

static uint32_t rounds_for(const struct msi_shm_coll *op, size_t len, enum msi_slot_mode mode) {
    if (mode != MSI_SLOT_BIG && mode != MSI_SLOT_DIRECT) return len > 0;
    size_t rounds = len / op->chunk + (len % op->chunk > 0);
    return rounds > ROUNDS_MOST ? ROUNDS_MOST + 1 : (uint32_t)rounds;
}

/* Copies this rank's blocks, or what round of them, into a cell whose blocks are stride apart. */
static void fill(const struct msi_shm_coll *op, unsigned char *cell, size_t stride, size_t from,
                 size_t most) {
    if (!op->parts) {
        size_t len = op->in.each - from;
        if (len) memcpy(cell, op->in.base + from, len < most ? len : most);
        return;
    }
    for (int r = 0; r < op->region->size; r++) {
        size_t len = msi_block_len(&op->in, r);
        if (r == op->region->rank || len <= from) continue;
        len -= from;
        memcpy(cell + msi_shm_part(op, op->region->rank, r) * stride, msi_block(&op->in, r) + from,
               len < most ? len : most);
    }
}

/* Where readers compare lengths, they find them in the small cell. */
static void tell_lengths(const struct msi_shm_coll *op) {
    uint64_t *lens = (uint64_t *)(void *)msi_shm_region_own(op->region)->small[op->seq % MSI_SMALL_CELLS];
    for (int r = 0; r < op->region->size; r++) lens[r] = msi_block_len(&op->in, r);
}

static void choose_mode(struct msi_shm_coll *op) {
    size_t len = longest(op), all = len * msi_shm_blocks(op);
    bool layout_known = !op->parts || !op->uneven; /* else only big cells have their blocks in known places */
    op->chunk = chunk_for(op);
    if (op->nothing || !publishes(op, op->region->rank))
        op->mode = MSI_SLOT_NOTHING;
    else if (op->in_where.number)
        op->mode = MSI_SLOT_DIRECT;
    else if (layout_known && all <= MSI_SLOT_PAYLOAD)
        op->mode = MSI_SLOT_INLINE;
    else
        op->mode = layout_known && all <= MSI_SMALL_CELL ? MSI_SLOT_SMALL : MSI_SLOT_BIG;
    op->rounds = rounds_for(op, len, op->mode);
}

/* Have all who read a round of an earlier or of this operation's big cells got so far? */
static bool readers_reached(const struct msi_shm_region *region, int reader, uint64_t value) {
    if (reader >= 0)
        return reader == region->rank || msi_shm_region_reached(&region->areas[reader].drained, value);
    for (int r = 0; r < region->size; r++)
        if (r != region->rank && !msi_shm_region_reached(&region->areas[r].drained, value)) return false;
    return true;
}

bool msi_shm_big_free(const struct msi_shm_region *region) {
    return region->big_seq == 0 ||
           readers_reached(region, region->big_reader, msi_rounds_done(region->big_seq, MSI_ALL_ROUNDS));
}

static void stage_first(struct msi_shm_coll *op, struct msi_slot *slot) {
    struct msi_area *own = msi_shm_region_own(op->region);
    switch (op->mode) {
    case MSI_SLOT_INLINE:
        fill(op, slot->bytes, op->in.each, 0, op->in.each);
        break;
    case MSI_SLOT_SMALL:
        fill(op, own->small[op->seq % MSI_SMALL_CELLS], op->in.each, 0, op->in.each);
        break;
    case MSI_SLOT_BIG:
        if (op->parts && op->uneven) tell_lengths(op);
        fill(op, own->big, op->chunk, 0, op->chunk);
        op->region->big_seq = op->seq;
        op->region->big_reader = op->reader;
        break;
    case MSI_SLOT_DIRECT:
        slot->direct.in = op->in_where;
        break;
    default:
        break;
    }
}

/* What this rank has for itself. */
static void copy_own(const struct msi_shm_coll *op) {
    int me = op->region->rank;
    if (op->reducer || op->nothing || !publishes(op, me) || !reads(op)) return;
    const char *from = op->parts ? msi_block(&op->in, me) : op->in.base;
    char *to = op->publisher < 0 ? msi_block(&op->out, me) : op->out.base;
    size_t len = op->parts ? msi_block_len(&op->in, me) : op->in.each;
    if (len && from != to) memcpy(to, from, len);
}

static enum msi_advance announce(struct msi_shm_coll *op) {
    struct msi_shm_region *region = op->region;
    if (op->rounds > ROUNDS_MOST)
        return msi_shm_fail(op, MST_ERR_LIMIT, -1, "blocks of so many bytes are too large for so many ranks");
    if (!msi_shm_region_may_announce(region, op->seq)) return MSI_BLOCKED;
    if (op->mode == MSI_SLOT_BIG && !msi_shm_big_free(region)) return MSI_BLOCKED;
    struct msi_slot *slot = msi_shm_slot(op, region->rank);
    stage_first(op, slot);
    op->filled = 1;
    msi_shm_announce(op, slot, op->mode);
    copy_own(op);
    op->phase = MSI_MOVE;
    return MSI_MOVED;
}

/* The next round of this rank's own cells, if there is room. */
static bool fill_next(struct msi_shm_coll *op) {
    if (op->mode != MSI_SLOT_BIG || op->filled >= op->rounds) return false;
    uint32_t n = cells(op), round = op->filled;
    if (round >= n && !readers_reached(op->region, op->reader, msi_rounds_done(op->seq, round - n + 1)))
        return false;
    struct msi_area *own = msi_shm_region_own(op->region);
    size_t cell = round % n * op->chunk * msi_shm_blocks(op);
    fill(op, own->big + cell, op->chunk, (size_t)round * op->chunk, op->chunk);
    op->filled++;
    msi_shm_region_post(op->region, &own->filled, msi_rounds_done(op->seq, op->filled));
    return true;
}

/* How many bytes the block that this rank reads from another has. */
static size_t expected(const struct msi_shm_coll *op, int rank) {
    if (op->reducer || op->publisher >= 0) return op->out.each;
    return msi_block_len(&op->out, rank);
}

static bool lengths_agree(struct msi_shm_coll *op, int rank) {
    if (!op->parts || !op->uneven || op->publisher >= 0) return true;
    const uint64_t *lens =
        (const uint64_t *)(const void *)op->region->areas[rank].small[op->seq % MSI_SMALL_CELLS];
    return lens[op->region->rank] == expected(op, rank);
}

/* Address of what a rank has published for this one, of a round that is there; NULL if that makes no sense. */
static const char *source(struct msi_shm_coll *op, int rank, uint32_t round) {
    const struct msi_area *area = &op->region->areas[rank];
    const struct msi_slot *slot = msi_shm_slot(op, rank);
    size_t len = expected(op, rank), part = msi_shm_part(op, rank, op->region->rank);
    const char *base;
    switch (slot->mode) {
    case MSI_SLOT_INLINE:
        return len * (part + 1) <= MSI_SLOT_PAYLOAD ? (const char *)slot->bytes + part * len : NULL;
    case MSI_SLOT_SMALL:
        base = (const char *)area->small[op->seq % MSI_SMALL_CELLS];
        return len * (part + 1) <= MSI_SMALL_CELL ? base + part * len : NULL;
    case MSI_SLOT_BIG:
        return (const char *)area->big + (round % cells(op) * msi_shm_blocks(op) + part) * op->chunk;
    case MSI_SLOT_DIRECT:
        base =
            op->map(op->context, rank, &slot->direct.in, op->parts ? (size_t)op->region->rank * len : 0, len);
        return base ? base + (size_t)round * op->chunk : NULL;
    default:
        return NULL;
    }
}

/* The first look at a publisher: did it call the same, and how many rounds will it take? */
static enum msi_advance meet(struct msi_shm_coll *op, int rank) {
    enum msi_advance seen = msi_shm_see(op, rank);
    if (seen != MSI_MOVED) return seen;
    if (op->nothing) return MSI_MOVED;
    if (!lengths_agree(op, rank))
        return msi_shm_fail(
            op, MST_ERR_MISMATCH, rank,
            "what the one sends, by its .in_splits, is not what the other expects, by its .out_splits");
    enum msi_slot_mode mode = msi_shm_slot(op, rank)->mode;
    uint32_t rounds = rounds_for(op, expected(op, rank), mode);
    if (rounds > op->to_drain) op->to_drain = rounds;
    if (mode == MSI_SLOT_DIRECT || mode == MSI_SLOT_BIG) op->must_tell = true;
    return MSI_MOVED;
}

/* Can a round of a rank be read? In the first round it is met. */
static enum msi_advance look(struct msi_shm_coll *op, int rank) {
    if (op->drained == 0) {
        enum msi_advance met = meet(op, rank);
        if (met != MSI_MOVED) return met;
    } else if (msi_shm_slot(op, rank)->mode == MSI_SLOT_BIG &&
               op->drained < rounds_for(op, expected(op, rank), MSI_SLOT_BIG) &&
               !msi_shm_region_reached(&op->region->areas[rank].filled,
                                       msi_rounds_done(op->seq, op->drained + 1))) {
        return MSI_BLOCKED;
    }
    return MSI_MOVED;
}

/* How many bytes the present round has from a rank, and where they go in its block. */
static size_t piece(const struct msi_shm_coll *op, int rank, size_t *at) {
    enum msi_slot_mode mode = msi_shm_slot(op, rank)->mode;
    size_t len = expected(op, rank),
           chunk = mode == MSI_SLOT_BIG || mode == MSI_SLOT_DIRECT ? op->chunk : len;
    *at = (size_t)op->drained * chunk;
    if (*at >= len) return 0;
    return len - *at < chunk ? len - *at : chunk;
}

static enum msi_advance read_one(struct msi_shm_coll *op, int rank) {
    size_t at, len = piece(op, rank, &at);
    if (op->nothing || len == 0) return MSI_MOVED;
    const char *from = source(op, rank, op->drained);
    if (!from) return msi_shm_fail(op, MST_ERR_SYSTEM, rank, "what it published cannot be mapped");
    if (op->reducer)
        op->sources[rank] = from;
    else
        memcpy((op->publisher < 0 ? msi_block(&op->out, rank) : op->out.base) + at, from, len);
    return MSI_MOVED;
}

static void fold(struct msi_shm_coll *op) {
    int me = op->region->rank, any = me ? 0 : 1;
    size_t at = 0, len = op->region->size > 1 ? piece(op, any, &at) : op->out.each;
    if (len == 0) return;
    op->sources[me] = (op->parts ? msi_block(&op->in, me) : op->in.base) + at;
    op->reducer->reduce_local(op->out.base + at, NULL, op->sources, op->region->size, len / op->element,
                              &op->scale);
}

/* Reads the present round from all publishers, beginning with the next rank so that not all read from one. */
static enum msi_advance drain_round(struct msi_shm_coll *op) {
    struct msi_shm_region *region = op->region;
    for (; op->peer < region->size; op->peer++) {
        int rank = op->publisher >= 0 ? op->publisher : (region->rank + op->peer) % region->size;
        enum msi_advance got = rank == region->rank ? MSI_MOVED : look(op, rank);
        if (got == MSI_MOVED && rank != region->rank) got = read_one(op, rank);
        if (got != MSI_MOVED) return got;
        if (op->publisher >= 0) break;
    }
    if (op->drained == 0 && (op->publisher < 0 || region->size == 2)) msi_shm_all_came(op);
    if (op->reducer && (op->to_drain || region->size == 1)) fold(op);
    if (op->must_tell && msi_shm_still_lent(op) == MSI_FAILED) return MSI_FAILED;
    op->drained++;
    op->peer = 1;
    if (op->must_tell)
        msi_shm_region_post(
            region, &msi_shm_region_own(region)->drained,
            msi_rounds_done(op->seq, op->drained < op->to_drain ? op->drained : MSI_ALL_ROUNDS));
    return MSI_MOVED;
}

static bool reads_anything(const struct msi_shm_coll *op) {
    return reads(op) && op->publisher != op->region->rank;
}

static enum msi_advance move(struct msi_shm_coll *op) {
    bool moved = false;
    for (;;) {
        bool filled = fill_next(op);
        bool draining = reads_anything(op) && (op->drained == 0 || op->drained < op->to_drain);
        enum msi_advance drained = draining ? drain_round(op) : MSI_BLOCKED;
        if (drained == MSI_FAILED) return MSI_FAILED;
        moved |= filled || drained == MSI_MOVED;
        if (!filled && drained != MSI_MOVED) {
            bool all_filled = op->mode != MSI_SLOT_BIG || op->filled >= op->rounds;
            if (draining || !all_filled) return moved ? MSI_MOVED : MSI_BLOCKED;
            op->phase = MSI_SETTLE;
            return MSI_MOVED;
        }
    }
}

static enum msi_advance advance(struct msi_shm_coll *op) {
    enum msi_advance got = MSI_MOVED;
    if (op->phase == MSI_ANNOUNCE) got = announce(op);
    if (got == MSI_MOVED && op->phase == MSI_MOVE) got = move(op);
    if (got == MSI_MOVED && op->phase == MSI_SETTLE) {
        /* What was read in place must not change before all have read it. */
        bool settled = op->mode != MSI_SLOT_DIRECT ||
                       readers_reached(op->region, op->reader, msi_rounds_done(op->seq, MSI_ALL_ROUNDS));
        got = settled ? MSI_DONE : MSI_BLOCKED;
    }
    return got;
}

static bool needs(const struct msi_shm_coll *op, int rank) {
    const struct msi_area *area = &op->region->areas[rank];
    if (op->phase == MSI_ANNOUNCE || !msi_shm_region_begun(op->region, rank, op->seq)) return true;
    bool is_reader = op->reader < 0 || op->reader == rank;
    bool held = op->mode == MSI_SLOT_BIG || op->mode == MSI_SLOT_DIRECT;
    if (is_reader && held &&
        !msi_shm_region_reached(&area->drained, msi_rounds_done(op->seq, MSI_ALL_ROUNDS)))
        return true;
    if (!reads_anything(op) || !publishes(op, rank) || msi_shm_slot(op, rank)->mode != MSI_SLOT_BIG)
        return false;
    uint32_t rounds = rounds_for(op, expected(op, rank), MSI_SLOT_BIG);
    return rounds > 1 && !msi_shm_region_reached(&area->filled, msi_rounds_done(op->seq, rounds));
}

/*
 * Memory from mst_alloc is read in place. Not so what this rank writes while others still read: a fold that everybody makes
 * for itself, and blocks that are copied onto themselves; nor what a root would wait for longer than it takes to copy it.
 */
bool msi_shm_lend(struct msi_shm_coll *op) {
    size_t bytes = op->in.each * (op->parts ? (size_t)op->region->size : 1);
    if (op->in.each < DIRECT_FROM || bytes <= DIRECT_OVER) return false;
    bool one_place = !op->uneven && !op->in.list;
    bool folds_all = op->reducer && !op->parts && op->reader < 0;
    bool onto_itself = op->parts && !op->reducer && msi_blocks_overlap(&op->in, &op->out, bytes);
    bool broadcasts_little = op->publisher >= 0 && !op->parts && bytes <= MSI_SMALL_CELL;
    if (!one_place || folds_all || onto_itself || broadcasts_little || !publishes(op, op->region->rank))
        return false;
    op->in_where = msi_arena_find(op->in.base, bytes);
    return op->in_where.number != 0;
}

void msi_shm_exchange(struct msi_shm_coll *op) {
    op->advance = advance;
    op->needs = needs;
    op->seq = op->region->seq + 1;
    op->phase = MSI_ANNOUNCE;
    op->filled = op->drained = op->to_drain = 0;
    op->peer = 1;
    op->must_tell = false;
    op->status = MST_OK;
    if (!op->in_where.number) msi_shm_lend(op); /* else msi_shm_begin_now has */
    choose_mode(op);
}
