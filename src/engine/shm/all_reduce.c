/*
 * all_reduce.c - large all_reduce and reduce on one host: every rank folds its own part of the tensor, once for all.
 *
 * Staged, chunk by chunk; three things go on at a time, with one meeting of all ranks per chunk:
 *
 *   round          t            t + 1            t + 2
 *   chunk t        stage        fold my part     fetch the others' parts
 *   chunk t + 1                 stage            fold
 *   chunk t + 2                                  stage
 *
 * Bytes per rank of a tensor of b bytes on n ranks: (n-1)/n b written to cells, b read to fold, b/n written twice, (n-1)/n b
 * fetched. Rounds: chunks + 2.
 *
 * Direct, where the tensors of all ranks can be mapped: each rank folds its part and writes the result into every tensor:
 * b read, b written, two meetings.
 */
#include "engine/shm/shm_coll.h"

#include <string.h>

enum {
    CHUNK = 256 << 10,
    STRIP = 64 << 10, /* of a direct part; what was folded is copied while it is in the cache */
    GRAIN = 64,       /* elements; parts begin at multiples */
};

/* Where the part of a rank begins among n elements; that of rank size is the end. */
static size_t part_start(const struct msi_shm_coll *op, size_t n, int rank) {
    if (rank == op->region->size) return n;
    return n / GRAIN * (size_t)rank / (size_t)op->region->size * GRAIN;
}

static bool wants_result(const struct msi_shm_coll *op) {
    return op->reader < 0 || op->reader == op->region->rank;
}

/* One chunk: where it begins in the tensor and how many elements it has. */
struct chunk {
    size_t at, n;
};

static struct chunk chunk_at(const struct msi_shm_coll *op, uint32_t round) {
    size_t per = op->chunk / op->element, total = op->in.each / op->element, at = round * per;
    return (struct chunk){at, total - at < per ? total - at : per};
}

static unsigned char *stage_cell(const struct msi_shm_coll *op, int rank, uint32_t round) {
    return op->region->areas[rank].big + round % 2 * op->chunk;
}

static unsigned char *result_cell(const struct msi_shm_coll *op, int rank, uint32_t round) {
    size_t most = op->chunk / (size_t)op->region->size + 2 * (GRAIN * op->element);
    return op->region->areas[rank].big + 2 * op->chunk + round % 2 * most;
}

static void stage(const struct msi_shm_coll *op, uint32_t round) {
    struct chunk c = chunk_at(op, round);
    unsigned char *cell = stage_cell(op, op->region->rank, round);
    const char *in = op->in.base + c.at * op->element;
    size_t own = part_start(op, c.n, op->region->rank), next = part_start(op, c.n, op->region->rank + 1);
    memcpy(cell, in, own * op->element);
    memcpy(cell + next * op->element, in + next * op->element, (c.n - next) * op->element);
}

static void fold(const struct msi_shm_coll *op, uint32_t round) {
    struct chunk c = chunk_at(op, round);
    int me = op->region->rank;
    size_t start = part_start(op, c.n, me), n = part_start(op, c.n, me + 1) - start;
    size_t at = (c.at + start) * op->element;
    for (int r = 0; r < op->region->size; r++)
        op->sources[r] = stage_cell(op, r, round) + start * op->element;
    op->sources[me] = op->in.base + at;
    op->reducer->reduce_local(result_cell(op, me, round), wants_result(op) ? op->out.base + at : NULL,
                              op->sources, op->region->size, n, &op->scale);
}

static void fetch(const struct msi_shm_coll *op, uint32_t round) {
    struct chunk c = chunk_at(op, round);
    for (int i = 1; i < op->region->size; i++) {
        int r = (op->region->rank + i) % op->region->size;
        size_t start = part_start(op, c.n, r), n = part_start(op, c.n, r + 1) - start;
        memcpy(op->out.base + (c.at + start) * op->element, result_cell(op, r, round), n * op->element);
    }
}

/* Have all ranks got so far? op->peer remembers those that have. */
static bool all_reached(struct msi_shm_coll *op, size_t word_offset, uint64_t value) {
    for (; op->peer < op->region->size; op->peer++) {
        const char *area = (const char *)&op->region->areas[op->peer];
        const _Atomic uint64_t *word = (const _Atomic uint64_t *)(const void *)(area + word_offset);
        if (op->peer != op->region->rank && !msi_shm_region_reached(word, value)) return false;
    }
    return true;
}

static void tell_done(const struct msi_shm_coll *op) {
    msi_shm_region_post(op->region, &msi_shm_region_own(op->region)->drained,
                        msi_rounds_done(op->seq, MSI_ALL_ROUNDS));
}

static enum msi_advance advance_staged(struct msi_shm_coll *op) {
    bool moved = false;
    uint32_t last = op->rounds + 2;
    while (op->filled < last) {
        uint32_t t = op->filled;
        if (t && !all_reached(op, offsetof(struct msi_area, filled), msi_rounds_done(op->seq, t)))
            return moved ? MSI_MOVED : MSI_BLOCKED;
        if (t < op->rounds) stage(op, t);
        if (t >= 1 && t - 1 < op->rounds) fold(op, t - 1);
        if (t >= 2 && wants_result(op)) fetch(op, t - 2);
        op->peer = 0;
        op->filled++;
        if (op->filled < last)
            msi_shm_region_post(op->region, &msi_shm_region_own(op->region)->filled,
                                msi_rounds_done(op->seq, op->filled));
        moved = true;
    }
    tell_done(op);
    return MSI_DONE;
}

/* The other ranks' tensors. */
static enum msi_advance map_all(struct msi_shm_coll *op, const void **ins, void **outs, size_t at,
                                size_t len) {
    for (int r = 0; r < op->region->size; r++) {
        const struct msi_slot *slot = msi_shm_slot(op, r);
        if (r == op->region->rank) continue;
        ins[r] = op->map(op->context, r, &slot->direct.in, at, len);
        outs[r] = op->map(op->context, r, &slot->direct.out, at, len);
        if (!ins[r] || !outs[r])
            return msi_shm_fail(op, MST_ERR_SYSTEM, r, "a tensor that it offered cannot be mapped");
    }
    return MSI_MOVED;
}

static enum msi_advance fold_direct(struct msi_shm_coll *op) {
    int me = op->region->rank, n = op->region->size;
    size_t total = op->in.each / op->element, per = STRIP / op->element;
    size_t start = part_start(op, total, me), end = part_start(op, total, me + 1);
    size_t from = start + op->drained * per;
    if (from >= end) return MSI_DONE;
    size_t count = end - from < per ? end - from : per, at = from * op->element, len = count * op->element;
    if (map_all(op, op->sources, op->targets, at, len) == MSI_FAILED) return MSI_FAILED;
    if (msi_shm_still_lent(op) == MSI_FAILED) return MSI_FAILED; /* nor is it written any more */
    op->sources[me] = op->in.base + at;
    op->targets[me] = op->out.base + at;
    /* One more output is filled on the way, unless it is an input too. */
    int second = n > 1 && op->targets[(me + 1) % n] != op->sources[(me + 1) % n] ? (me + 1) % n : -1;
    op->reducer->reduce_local(op->targets[me], second >= 0 ? op->targets[second] : NULL, op->sources, n,
                              count, &op->scale);
    for (int r = 0; r < n; r++)
        if (r != me && r != second) memcpy(op->targets[r], op->targets[me], len);
    op->drained++;
    return msi_shm_still_lent(op);
}

static enum msi_advance advance_direct(struct msi_shm_coll *op) {
    if (op->phase == MSI_MOVE) {
        enum msi_advance got;
        do got = fold_direct(op);
        while (got == MSI_MOVED);
        if (got == MSI_FAILED) return got;
        tell_done(op);
        op->peer = 0;
        op->phase = MSI_SETTLE;
    }
    bool all = all_reached(op, offsetof(struct msi_area, drained), msi_rounds_done(op->seq, MSI_ALL_ROUNDS));
    return all ? MSI_DONE : MSI_BLOCKED;
}

/* All must have come before it is known whether all tensors can be mapped. */
static enum msi_advance meet_all(struct msi_shm_coll *op) {
    bool direct = true;
    for (; op->peer < op->region->size; op->peer++) {
        enum msi_advance seen = op->peer == op->region->rank ? MSI_MOVED : msi_shm_see(op, op->peer);
        if (seen != MSI_MOVED) return seen;
    }
    for (int r = 0; r < op->region->size; r++)
        direct = direct && msi_shm_slot(op, r)->mode == MSI_SLOT_DIRECT;
    msi_shm_all_came(op);
    op->mode = direct ? MSI_SLOT_DIRECT : MSI_SLOT_BIG;
    op->phase = MSI_MOVE;
    op->peer = 0;
    if (direct) return MSI_MOVED;
    op->region->big_seq = op->seq;
    op->region->big_reader = -1;
    return MSI_MOVED;
}

static enum msi_advance announce(struct msi_shm_coll *op) {
    struct msi_shm_region *region = op->region;
    if (!msi_shm_region_may_announce(region, op->seq) || !msi_shm_big_free(region)) return MSI_BLOCKED;
    struct msi_slot *slot = msi_shm_slot(op, region->rank);
    slot->direct.in = op->in_where;
    slot->direct.out = op->out_where;
    msi_shm_announce(op, slot, op->in_where.number && op->out_where.number ? MSI_SLOT_DIRECT : MSI_SLOT_BIG);
    op->phase = MSI_MEET;
    return MSI_MOVED;
}

static enum msi_advance advance(struct msi_shm_coll *op) {
    enum msi_advance got = MSI_MOVED;
    if (op->phase == MSI_ANNOUNCE) got = announce(op);
    if (got == MSI_MOVED && op->phase == MSI_MEET) got = meet_all(op);
    if (got == MSI_MOVED) got = op->mode == MSI_SLOT_DIRECT ? advance_direct(op) : advance_staged(op);
    return got;
}

static bool needs(const struct msi_shm_coll *op, int rank) {
    const struct msi_area *area = &op->region->areas[rank];
    if (op->phase < MSI_MOVE) return !msi_shm_region_begun(op->region, rank, op->seq);
    if (op->mode == MSI_SLOT_DIRECT)
        return !msi_shm_region_reached(&area->drained, msi_rounds_done(op->seq, MSI_ALL_ROUNDS));
    return !msi_shm_region_reached(&area->filled, msi_rounds_done(op->seq, op->rounds + 1));
}

/* Memory from mst_alloc is reduced in place, by all ranks into all outputs. */
static void lend_both(struct msi_shm_coll *op) {
    bool same = op->in.base == op->out.base;
    if (op->reader >= 0 || (!same && msi_blocks_overlap(&op->in, &op->out, op->in.each))) return;
    op->in_where = msi_arena_find(op->in.base, op->in.each);
    op->out_where = msi_arena_find(op->out.base, op->in.each);
}

void msi_shm_all_reduce(struct msi_shm_coll *op) {
    size_t n = (size_t)op->region->size, most = (MSI_BIG_CELLS - 4 * GRAIN * op->element) * n / (2 * n + 2);
    op->advance = advance;
    op->needs = needs;
    op->seq = op->region->seq + 1;
    op->phase = MSI_ANNOUNCE;
    op->filled = op->drained = 0;
    op->peer = 0;
    op->status = MST_OK;
    op->chunk = most < CHUNK ? most / (GRAIN * op->element) * (GRAIN * op->element) : CHUNK;
    op->rounds = (uint32_t)((op->in.each + op->chunk - 1) / op->chunk);
    lend_both(op);
}
