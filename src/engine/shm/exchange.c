/* exchange.c - publishing and reading through the board. See host.h. */
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

enum msi_advance msi_host_fail(struct msi_host_op *op, mst_status status, int culprit, const char *what) {
    op->status = status;
    op->culprit = culprit;
    op->what = what;
    return MSI_FAILED;
}

static bool publishes(const struct msi_host_op *op, int rank) {
    return op->publisher < 0 || op->publisher == rank;
}

enum msi_advance msi_host_still_lent(struct msi_host_op *op) {
    msi_fence_reads();
    for (int rank = 0; rank < op->board->size; rank++) {
        if (rank == op->board->rank || !publishes(op, rank)) continue; /* the others were not met */
        if (msi_host_slot(op, rank)->mode != MSI_SLOT_DIRECT) continue;
        /* Posted by msi_comm_fail before the call there returns. */
        if (atomic_load_explicit(&op->board->areas[rank].gave_up, memory_order_acquire))
            return msi_host_fail(op, MST_ERR_PEER_LOST, rank, "it gave up an operation");
    }
    return MSI_MOVED;
}

enum msi_advance msi_host_differs(struct msi_host_op *op, int rank) {
    if ((uint32_t)atomic_load_explicit(&msi_host_slot(op, rank)->flag, memory_order_relaxed) != op->signature)
        return msi_host_fail(op, MST_ERR_MISMATCH, rank, "ranks called different things");
    int other = msi_board_verify(op->board, op->seq, &op->differing);
    if (other >= 0) return msi_host_fail(op, MST_ERR_MISMATCH, other, "ranks called different things");
    return msi_host_fail(op, MST_ERR_MISMATCH, rank, "ranks called different things some operations before");
}

int msi_host_missing(const struct msi_board *board, uint64_t seq, int *ranks, int max) {
    int n = 0;
    for (int rank = 0; rank < board->size; rank++) {
        if (rank == board->rank || msi_board_begun(board, rank, seq)) continue;
        if (n < max) ranks[n] = rank;
        n++;
    }
    return n;
}

static bool reads(const struct msi_host_op *op) {
    return op->reader < 0 || op->reader == op->board->rank;
}

/* Bytes of the longest block that this rank publishes. */
static size_t longest(const struct msi_host_op *op) {
    if (!op->parts || !op->in.lens) return op->in.each;
    size_t most = 0;
    for (int r = 0; r < op->board->size; r++)
        if (op->in.lens[r] > most) most = op->in.lens[r];
    return most;
}

/* What blocks are cut into; the same on all ranks, and a multiple of every element. */
static size_t chunk_for(const struct msi_host_op *op) {
    size_t len =
        op->parts || op->publisher == op->board->rank || op->publisher < 0 ? op->in.each : op->out.each;
    size_t most = !op->uneven && len <= MEDIUM ? CHUNK_OF_MEDIUM : CHUNK;
    size_t fitting = MSI_BIG_CELLS / 4 / msi_host_blocks(op) / 64 * 64;
    return fitting < most ? fitting : most;
}

static uint32_t cells(const struct msi_host_op *op) {
    return (uint32_t)(MSI_BIG_CELLS / (op->chunk * msi_host_blocks(op)));
}

static uint32_t rounds_for(const struct msi_host_op *op, size_t len, enum msi_slot_mode mode) {
    if (mode != MSI_SLOT_BIG && mode != MSI_SLOT_DIRECT) return len > 0;
    size_t rounds = len / op->chunk + (len % op->chunk > 0);
    return rounds > ROUNDS_MOST ? ROUNDS_MOST + 1 : (uint32_t)rounds;
}

/* Copies this rank's blocks, or what round of them, into a cell whose blocks are stride apart. */
static void fill(const struct msi_host_op *op, unsigned char *cell, size_t stride, size_t from, size_t most) {
    if (!op->parts) {
        size_t len = op->in.each - from;
        if (len) memcpy(cell, op->in.base + from, len < most ? len : most);
        return;
    }
    for (int r = 0; r < op->board->size; r++) {
        size_t len = msi_block_len(&op->in, r);
        if (r == op->board->rank || len <= from) continue;
        len -= from;
        memcpy(cell + msi_host_part(op, op->board->rank, r) * stride, msi_block(&op->in, r) + from,
               len < most ? len : most);
    }
}

/* Where readers compare lengths, they find them in the small cell. */
static void tell_lengths(const struct msi_host_op *op) {
    uint64_t *lens = (uint64_t *)(void *)msi_board_own(op->board)->small[op->seq % MSI_SMALL_CELLS];
    for (int r = 0; r < op->board->size; r++) lens[r] = msi_block_len(&op->in, r);
}

static void choose_mode(struct msi_host_op *op) {
    size_t len = longest(op), all = len * msi_host_blocks(op);
    bool layout_known = !op->parts || !op->uneven; /* else only big cells have their blocks in known places */
    op->chunk = chunk_for(op);
    if (op->nothing || !publishes(op, op->board->rank))
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
static bool readers_reached(const struct msi_board *board, int reader, uint64_t value) {
    if (reader >= 0) return reader == board->rank || msi_board_reached(&board->areas[reader].drained, value);
    for (int r = 0; r < board->size; r++)
        if (r != board->rank && !msi_board_reached(&board->areas[r].drained, value)) return false;
    return true;
}

bool msi_host_big_free(const struct msi_board *board) {
    return board->big_seq == 0 ||
           readers_reached(board, board->big_reader, msi_rounds_done(board->big_seq, MSI_ALL_ROUNDS));
}

static void stage_first(struct msi_host_op *op, struct msi_slot *slot) {
    struct msi_area *own = msi_board_own(op->board);
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
        op->board->big_seq = op->seq;
        op->board->big_reader = op->reader;
        break;
    case MSI_SLOT_DIRECT:
        slot->direct.in = op->in_where;
        break;
    default:
        break;
    }
}

/* What this rank has for itself. */
static void copy_own(const struct msi_host_op *op) {
    int me = op->board->rank;
    if (op->reducer || op->nothing || !publishes(op, me) || !reads(op)) return;
    const char *from = op->parts ? msi_block(&op->in, me) : op->in.base;
    char *to = op->publisher < 0 ? msi_block(&op->out, me) : op->out.base;
    size_t len = op->parts ? msi_block_len(&op->in, me) : op->in.each;
    if (len && from != to) memcpy(to, from, len);
}

static enum msi_advance announce(struct msi_host_op *op) {
    struct msi_board *board = op->board;
    if (op->rounds > ROUNDS_MOST)
        return msi_host_fail(op, MST_ERR_LIMIT, -1,
                             "blocks of so many bytes are too large for so many ranks");
    if (!msi_board_may_announce(board, op->seq)) return MSI_BLOCKED;
    if (op->mode == MSI_SLOT_BIG && !msi_host_big_free(board)) return MSI_BLOCKED;
    struct msi_slot *slot = msi_host_slot(op, board->rank);
    stage_first(op, slot);
    op->filled = 1;
    msi_host_announce(op, slot, op->mode);
    copy_own(op);
    op->phase = MSI_MOVE;
    return MSI_MOVED;
}

/* The next round of this rank's own cells, if there is room. */
static bool fill_next(struct msi_host_op *op) {
    if (op->mode != MSI_SLOT_BIG || op->filled >= op->rounds) return false;
    uint32_t n = cells(op), round = op->filled;
    if (round >= n && !readers_reached(op->board, op->reader, msi_rounds_done(op->seq, round - n + 1)))
        return false;
    struct msi_area *own = msi_board_own(op->board);
    size_t cell = round % n * op->chunk * msi_host_blocks(op);
    fill(op, own->big + cell, op->chunk, (size_t)round * op->chunk, op->chunk);
    op->filled++;
    msi_board_post(op->board, &own->filled, msi_rounds_done(op->seq, op->filled));
    return true;
}

/* How many bytes the block that this rank reads from another has. */
static size_t expected(const struct msi_host_op *op, int rank) {
    if (op->reducer || op->publisher >= 0) return op->out.each;
    return msi_block_len(&op->out, rank);
}

static bool lengths_agree(struct msi_host_op *op, int rank) {
    if (!op->parts || !op->uneven || op->publisher >= 0) return true;
    const uint64_t *lens =
        (const uint64_t *)(const void *)op->board->areas[rank].small[op->seq % MSI_SMALL_CELLS];
    return lens[op->board->rank] == expected(op, rank);
}

/* Address of what a rank has published for this one, of a round that is there; NULL if that makes no sense. */
static const char *source(struct msi_host_op *op, int rank, uint32_t round) {
    const struct msi_area *area = &op->board->areas[rank];
    const struct msi_slot *slot = msi_host_slot(op, rank);
    size_t len = expected(op, rank), part = msi_host_part(op, rank, op->board->rank);
    const char *base;
    switch (slot->mode) {
    case MSI_SLOT_INLINE:
        return len * (part + 1) <= MSI_SLOT_PAYLOAD ? (const char *)slot->bytes + part * len : NULL;
    case MSI_SLOT_SMALL:
        base = (const char *)area->small[op->seq % MSI_SMALL_CELLS];
        return len * (part + 1) <= MSI_SMALL_CELL ? base + part * len : NULL;
    case MSI_SLOT_BIG:
        return (const char *)area->big + (round % cells(op) * msi_host_blocks(op) + part) * op->chunk;
    case MSI_SLOT_DIRECT:
        base =
            op->map(op->context, rank, &slot->direct.in, op->parts ? (size_t)op->board->rank * len : 0, len);
        return base ? base + (size_t)round * op->chunk : NULL;
    default:
        return NULL;
    }
}

/* The first look at a publisher: did it call the same, and how many rounds will it take? */
static enum msi_advance meet(struct msi_host_op *op, int rank) {
    enum msi_advance seen = msi_host_see(op, rank);
    if (seen != MSI_MOVED) return seen;
    if (op->nothing) return MSI_MOVED;
    if (!lengths_agree(op, rank))
        return msi_host_fail(
            op, MST_ERR_MISMATCH, rank,
            "what the one sends, by its .in_splits, is not what the other expects, by its .out_splits");
    enum msi_slot_mode mode = msi_host_slot(op, rank)->mode;
    uint32_t rounds = rounds_for(op, expected(op, rank), mode);
    if (rounds > op->to_drain) op->to_drain = rounds;
    if (mode == MSI_SLOT_DIRECT || mode == MSI_SLOT_BIG) op->must_tell = true;
    return MSI_MOVED;
}

/* Can a round of a rank be read? In the first round it is met. */
static enum msi_advance look(struct msi_host_op *op, int rank) {
    if (op->drained == 0) {
        enum msi_advance met = meet(op, rank);
        if (met != MSI_MOVED) return met;
    } else if (msi_host_slot(op, rank)->mode == MSI_SLOT_BIG &&
               op->drained < rounds_for(op, expected(op, rank), MSI_SLOT_BIG) &&
               !msi_board_reached(&op->board->areas[rank].filled,
                                  msi_rounds_done(op->seq, op->drained + 1))) {
        return MSI_BLOCKED;
    }
    return MSI_MOVED;
}

/* How many bytes the present round has from a rank, and where they go in its block. */
static size_t piece(const struct msi_host_op *op, int rank, size_t *at) {
    enum msi_slot_mode mode = msi_host_slot(op, rank)->mode;
    size_t len = expected(op, rank),
           chunk = mode == MSI_SLOT_BIG || mode == MSI_SLOT_DIRECT ? op->chunk : len;
    *at = (size_t)op->drained * chunk;
    if (*at >= len) return 0;
    return len - *at < chunk ? len - *at : chunk;
}

static enum msi_advance read_one(struct msi_host_op *op, int rank) {
    size_t at, len = piece(op, rank, &at);
    if (op->nothing || len == 0) return MSI_MOVED;
    const char *from = source(op, rank, op->drained);
    if (!from) return msi_host_fail(op, MST_ERR_SYSTEM, rank, "what it published cannot be mapped");
    if (op->reducer)
        op->sources[rank] = from;
    else
        memcpy((op->publisher < 0 ? msi_block(&op->out, rank) : op->out.base) + at, from, len);
    return MSI_MOVED;
}

static void fold(struct msi_host_op *op) {
    int me = op->board->rank, any = me ? 0 : 1;
    size_t at = 0, len = op->board->size > 1 ? piece(op, any, &at) : op->out.each;
    if (len == 0) return;
    op->sources[me] = (op->parts ? msi_block(&op->in, me) : op->in.base) + at;
    op->reducer->fold(op->out.base + at, NULL, op->sources, op->board->size, len / op->element, &op->scale);
}

/* Reads the present round from all publishers, beginning with the next rank so that not all read from one. */
static enum msi_advance drain_round(struct msi_host_op *op) {
    struct msi_board *board = op->board;
    for (; op->peer < board->size; op->peer++) {
        int rank = op->publisher >= 0 ? op->publisher : (board->rank + op->peer) % board->size;
        enum msi_advance got = rank == board->rank ? MSI_MOVED : look(op, rank);
        if (got == MSI_MOVED && rank != board->rank) got = read_one(op, rank);
        if (got != MSI_MOVED) return got;
        if (op->publisher >= 0) break;
    }
    if (op->drained == 0 && (op->publisher < 0 || board->size == 2)) msi_host_all_came(op);
    if (op->reducer && (op->to_drain || board->size == 1)) fold(op);
    if (op->must_tell && msi_host_still_lent(op) == MSI_FAILED) return MSI_FAILED;
    op->drained++;
    op->peer = 1;
    if (op->must_tell)
        msi_board_post(board, &msi_board_own(board)->drained,
                       msi_rounds_done(op->seq, op->drained < op->to_drain ? op->drained : MSI_ALL_ROUNDS));
    return MSI_MOVED;
}

static bool reads_anything(const struct msi_host_op *op) {
    return reads(op) && op->publisher != op->board->rank;
}

static enum msi_advance move(struct msi_host_op *op) {
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

static enum msi_advance advance(struct msi_host_op *op) {
    enum msi_advance got = MSI_MOVED;
    if (op->phase == MSI_ANNOUNCE) got = announce(op);
    if (got == MSI_MOVED && op->phase == MSI_MOVE) got = move(op);
    if (got == MSI_MOVED && op->phase == MSI_SETTLE) {
        /* What was read in place must not change before all have read it. */
        bool settled = op->mode != MSI_SLOT_DIRECT ||
                       readers_reached(op->board, op->reader, msi_rounds_done(op->seq, MSI_ALL_ROUNDS));
        got = settled ? MSI_DONE : MSI_BLOCKED;
    }
    return got;
}

static bool needs(const struct msi_host_op *op, int rank) {
    const struct msi_area *area = &op->board->areas[rank];
    if (op->phase == MSI_ANNOUNCE || !msi_board_begun(op->board, rank, op->seq)) return true;
    bool is_reader = op->reader < 0 || op->reader == rank;
    bool held = op->mode == MSI_SLOT_BIG || op->mode == MSI_SLOT_DIRECT;
    if (is_reader && held && !msi_board_reached(&area->drained, msi_rounds_done(op->seq, MSI_ALL_ROUNDS)))
        return true;
    if (!reads_anything(op) || !publishes(op, rank) || msi_host_slot(op, rank)->mode != MSI_SLOT_BIG)
        return false;
    uint32_t rounds = rounds_for(op, expected(op, rank), MSI_SLOT_BIG);
    return rounds > 1 && !msi_board_reached(&area->filled, msi_rounds_done(op->seq, rounds));
}

/*
 * Memory from mst_alloc is read in place. Not so what this rank writes while others still read: a fold that everybody makes
 * for itself, and blocks that are copied onto themselves; nor what a root would wait for longer than it takes to copy it.
 */
bool msi_host_lend(struct msi_host_op *op) {
    size_t bytes = op->in.each * (op->parts ? (size_t)op->board->size : 1);
    if (op->in.each < DIRECT_FROM || bytes <= DIRECT_OVER) return false;
    bool one_place = !op->uneven && !op->in.list;
    bool folds_all = op->reducer && !op->parts && op->reader < 0;
    bool onto_itself = op->parts && !op->reducer && msi_blocks_overlap(&op->in, &op->out, bytes);
    bool broadcasts_little = op->publisher >= 0 && !op->parts && bytes <= MSI_SMALL_CELL;
    if (!one_place || folds_all || onto_itself || broadcasts_little || !publishes(op, op->board->rank))
        return false;
    op->in_where = msi_arena_find(op->in.base, bytes);
    return op->in_where.number != 0;
}

void msi_host_exchange(struct msi_host_op *op) {
    op->advance = advance;
    op->needs = needs;
    op->seq = op->board->seq + 1;
    op->phase = MSI_ANNOUNCE;
    op->filled = op->drained = op->to_drain = 0;
    op->peer = 1;
    op->must_tell = false;
    op->status = MST_OK;
    if (!op->in_where.number) msi_host_lend(op); /* else msi_host_begin_now has */
    choose_mode(op);
}
