/*
 * all_reduce.c - large all_reduce, reduce and scan on one host: every rank reduces its own part of the
 * tensor, for all.
 *
 * Staged, chunk by chunk; three steps overlap, with one synchronization of all ranks per chunk:
 *
 *   round          t            t + 1            t + 2
 *   chunk t        stage        reduce my part   fetch the others' parts
 *   chunk t + 1                 stage            reduce
 *   chunk t + 2                                  stage
 *
 * Bytes per rank of a tensor of b bytes on n ranks: (n-1)/n b written to cells, b read to reduce, b/n written
 * twice, (n-1)/n b fetched. Rounds: chunks + 2.
 *
 * A scan replaces the staged inputs by the results, in the cells of all ranks, and each rank fetches its own
 * cell: b written to cells, b read and written to reduce, b fetched.
 *
 * Direct, if the tensors of all ranks can be mapped: each rank reduces its part and writes the result into
 * every tensor: b read, b written, two synchronizations.
 */
#include "engine/shm/shm_coll.h"

#include <string.h>

enum {
    CHUNK = 256 << 10,
    STRIP = 64 << 10,      /* of a direct part; the result is copied while it is in the cache */
    GRAIN = 64,            /* elements, or units of a user-defined operation; parts begin at multiples */
    TEAM_GRAIN = 16 << 10, /* bytes of a chunk or a strip that are worth a thread */
    TEAM_STRIPS = 4,       /* strips for each thread between two checks of the other ranks */
};

static size_t grain(const struct msi_shm_coll *coll) {
    return GRAIN * msi_unit_of(coll->work->op.user);
}

/* Where the part of a rank begins among n elements; for rank size, the end. */
static size_t part_start(const struct msi_shm_coll *coll, size_t n, int rank) {
    if (rank == coll->region->size) return n;
    return n / grain(coll) * (size_t)rank / (size_t)coll->region->size * grain(coll);
}

static bool wants_result(const struct msi_shm_coll *coll) {
    return coll->dst_rank < 0 || coll->dst_rank == coll->region->rank;
}

/* One chunk: where it begins in the tensor and how many elements it has. */
struct chunk {
    size_t at, n;
};

static struct chunk chunk_at(const struct msi_shm_coll *coll, uint32_t round) {
    size_t per = coll->chunk / coll->in.element, total = coll->in.each / coll->in.element, at = round * per;
    return (struct chunk){at, total - at < per ? total - at : per};
}

static unsigned char *stage_cell(const struct msi_shm_coll *coll, int rank, uint32_t round) {
    return coll->region->cells[rank].big + round % 2 * coll->chunk;
}

static unsigned char *result_cell(const struct msi_shm_coll *coll, int rank, uint32_t round) {
    size_t most = coll->chunk / (size_t)coll->region->size + 2 * (grain(coll) * coll->in.element);
    return coll->region->cells[rank].big + 2 * coll->chunk + round % 2 * most;
}

/* A range of a chunk, in elements from its begin, for one of the threads that share the round. */
struct slice {
    int part, parts;
};

/* The slice's share of the elements from start to end. */
static struct chunk share(const struct msi_shm_coll *coll, struct slice slice, size_t start, size_t end) {
    size_t n = end - start, from = msi_team_start(n, slice.part, slice.parts, grain(coll)),
           to = msi_team_start(n, slice.part + 1, slice.parts, grain(coll));
    return (struct chunk){start + from, to - from};
}

/* The slice's share of a rank's part of a chunk. */
static struct chunk share_of_part(const struct msi_shm_coll *coll, struct slice slice, struct chunk c,
                                  int rank) {
    return share(coll, slice, part_start(coll, c.n, rank), part_start(coll, c.n, rank + 1));
}

static void stage(const struct msi_shm_coll *coll, uint32_t round, struct slice slice) {
    struct chunk c = chunk_at(coll, round);
    unsigned char *cell = stage_cell(coll, coll->region->rank, round);
    const char *in = coll->in.base + c.at * coll->in.element;
    size_t element = coll->in.element;
    for (int r = 0; r < coll->region->size; r++) {
        if (r == coll->region->rank && !msi_shm_is_scan(coll)) continue;
        struct chunk s = share_of_part(coll, slice, c, r);
        memcpy(cell + s.at * element, in + s.at * element, s.n * element);
    }
}

static void reduce_local(const struct msi_shm_coll *coll, uint32_t round, struct slice slice) {
    const void *sources_of_thread[MSI_SHM_TEAM_RANKS],
        **sources = slice.parts > 1 ? sources_of_thread : coll->sources;
    struct chunk c = chunk_at(coll, round);
    int me = coll->region->rank;
    struct chunk s = share_of_part(coll, slice, c, me);
    size_t at = (c.at + s.at) * coll->in.element,
           skip = (s.at - part_start(coll, c.n, me)) * coll->in.element;
    for (int r = 0; r < coll->region->size; r++)
        sources[r] = stage_cell(coll, r, round) + s.at * coll->in.element;
    sources[me] = coll->in.base + at;
    msi_shm_reduce(coll, sources, result_cell(coll, me, round) + skip,
                   wants_result(coll) ? coll->out.base + at : NULL, s.n);
}

static void fetch(const struct msi_shm_coll *coll, uint32_t round, struct slice slice) {
    struct chunk c = chunk_at(coll, round);
    for (int i = 1; i < coll->region->size; i++) {
        int r = (coll->region->rank + i) % coll->region->size;
        struct chunk s = share_of_part(coll, slice, c, r);
        size_t skip = s.at - part_start(coll, c.n, r);
        memcpy(coll->out.base + (c.at + s.at) * coll->in.element,
               result_cell(coll, r, round) + skip * coll->in.element, s.n * coll->in.element);
    }
}

/* Scans this rank's part in the cells of all ranks. */
static void scan_part(const struct msi_shm_coll *coll, uint32_t round, struct slice slice) {
    void *targets_of_thread[MSI_SHM_TEAM_RANKS],
        **targets = slice.parts > 1 ? targets_of_thread : coll->targets;
    const struct msi_op *op = &coll->work->op;
    struct msi_reduce_scale scale = msi_op_scale(op, coll->region->size);
    struct msi_prefix scan = {op->reducer, op->desc.dtype, op->desc.op, op->desc.kind == MST_KIND_EXSCAN,
                              &scale};
    struct chunk s = share_of_part(coll, slice, chunk_at(coll, round), coll->region->rank);
    for (int r = 0; r < coll->region->size; r++)
        targets[r] = stage_cell(coll, r, round) + s.at * coll->in.element;
    msi_reduce_scan(&scan, targets, coll->region->size, s.n);
}

static void fetch_scan(const struct msi_shm_coll *coll, uint32_t round, struct slice slice) {
    struct chunk c = chunk_at(coll, round), s = share(coll, slice, 0, c.n);
    memcpy(coll->out.base + (c.at + s.at) * coll->in.element,
           stage_cell(coll, coll->region->rank, round) + s.at * coll->in.element, s.n * coll->in.element);
}

/* Have all ranks reached the value? coll->peer remembers those that have. */
static bool all_reached(struct msi_shm_coll *coll, size_t word_offset, uint64_t value) {
    for (; coll->peer < coll->region->size; coll->peer++) {
        const char *area = (const char *)&coll->region->areas[coll->peer];
        const _Atomic uint64_t *word = (const _Atomic uint64_t *)(const void *)(area + word_offset);
        if (coll->peer != coll->region->rank && !msi_shm_region_reached(word, value)) return false;
    }
    return true;
}

static void tell_done(const struct msi_shm_coll *coll) {
    msi_shm_region_post(coll->region, &msi_shm_region_own(coll->region)->drained,
                        msi_rounds_done(coll->seq, MSI_ALL_ROUNDS));
}

/* What a rank does between two synchronizations. */
static void run_round(void *context, int part, int parts) {
    const struct msi_shm_coll *coll = context;
    bool scan = msi_shm_is_scan(coll);
    uint32_t t = coll->filled;
    struct slice slice = {part, parts};
    if (t < coll->rounds) stage(coll, t, slice);
    if (t >= 1 && t - 1 < coll->rounds) (scan ? scan_part : reduce_local)(coll, t - 1, slice);
    if (t >= 2 && !scan && wants_result(coll)) fetch(coll, t - 2, slice);
}

static void run_fetch_scan(void *context, int part, int parts) {
    const struct msi_shm_coll *coll = context;
    fetch_scan(coll, coll->filled - 2, (struct slice){part, parts});
}

static enum msi_advance advance_staged(struct msi_shm_coll *coll) {
    bool moved = false, scan = msi_shm_is_scan(coll);
    uint32_t last = coll->rounds + 2;
    struct msi_team *team = msi_shm_team(coll);
    int parts = msi_team_parts(team, coll->chunk, TEAM_GRAIN);
    while (coll->filled < last) {
        uint32_t t = coll->filled;
        if (t && !all_reached(coll, offsetof(struct msi_area, filled), msi_rounds_done(coll->seq, t)))
            return moved ? MSI_MOVED : MSI_BLOCKED;
        if (t >= 2 && scan)
            msi_team_run(team, parts, run_fetch_scan, coll); /* before its cell is filled again */
        msi_team_run(team, parts, run_round, coll);
        coll->peer = 0;
        coll->filled++;
        if (coll->filled < last)
            msi_shm_region_post(coll->region, &msi_shm_region_own(coll->region)->filled,
                                msi_rounds_done(coll->seq, coll->filled));
        moved = true;
    }
    tell_done(coll);
    return MSI_DONE;
}

/* The other ranks' tensors. */
static enum msi_advance map_all(struct msi_shm_coll *coll, const void **ins, void **outs, size_t at,
                                size_t len) {
    for (int r = 0; r < coll->region->size; r++) {
        const struct msi_slot *slot = msi_shm_slot(coll, r);
        if (r == coll->region->rank) continue;
        ins[r] = msi_shm_map(coll, r, &slot->direct.in, at, len);
        outs[r] = ins[r] ? msi_shm_map(coll, r, &slot->direct.out, at, len) : NULL;
        if (!ins[r] || !outs[r]) return msi_fault(coll->work, MST_ERR_SYSTEM, r, msi_maps_why());
    }
    return MSI_MOVED;
}

/* Some strips of a direct part: sources and targets of the operation are where they begin. */
struct strips {
    const struct msi_shm_coll *coll;
    size_t per, count; /* elements of a strip, and of all */
};

static void reduce_strip(void *context, int part, int parts) {
    const struct strips *strips = context;
    const struct msi_shm_coll *coll = strips->coll;
    const void *sources_of_thread[MSI_SHM_TEAM_RANKS],
        **sources = parts > 1 ? sources_of_thread : coll->sources;
    int me = coll->region->rank, n = coll->region->size, next = (me + 1) % n;
    size_t from = (size_t)part * strips->per, left = strips->count - from,
           count = left < strips->per ? left : strips->per, skip = from * coll->in.element;
    char *own = (char *)coll->targets[me] + skip;
    /* The kernel fills one more output, unless it is an input too. */
    bool two = n > 1 && coll->targets[next] != coll->sources[next];
    for (int r = 0; r < n; r++) sources[r] = (const char *)coll->sources[r] + skip;
    msi_shm_reduce(coll, sources, own, two ? (char *)coll->targets[next] + skip : NULL, count);
    for (int r = 0; r < n; r++)
        if (r != me && !(two && r == next))
            memcpy((char *)coll->targets[r] + skip, own, count * coll->in.element);
}

static enum msi_advance reduce_direct(struct msi_shm_coll *coll) {
    struct msi_team *team = msi_shm_team(coll);
    int me = coll->region->rank;
    size_t total = coll->in.each / coll->in.element, per = STRIP / coll->in.element;
    per -= per % msi_unit_of(coll->work->op.user);
    size_t start = part_start(coll, total, me), end = part_start(coll, total, me + 1);
    size_t from = start + coll->drained * per, at = from * coll->in.element;
    if (from >= end) return MSI_DONE;
    size_t most = per, left = end - from;
    int threads = msi_team_parts(team, left * coll->in.element, STRIP);
    if (threads > 1) most *= (size_t)threads * TEAM_STRIPS;
    struct strips strips = {coll, per, left < most ? left : most};
    if (map_all(coll, coll->sources, coll->targets, at, strips.count * coll->in.element) == MSI_FAILED)
        return MSI_FAILED;
    if (msi_shm_check_in_place(coll) == MSI_FAILED)
        return MSI_FAILED; /* its memory must not be written any more */
    coll->sources[me] = coll->in.base + at;
    coll->targets[me] = coll->out.base + at;
    int n = (int)((strips.count + per - 1) / per);
    msi_team_run(team, n, reduce_strip, &strips);
    coll->drained += (uint32_t)n;
    return msi_shm_check_in_place(coll);
}

static enum msi_advance advance_direct(struct msi_shm_coll *coll) {
    if (coll->phase == MSI_MOVE) {
        enum msi_advance got;
        do got = reduce_direct(coll);
        while (got == MSI_MOVED);
        if (got == MSI_FAILED) return got;
        tell_done(coll);
        coll->peer = 0;
        coll->phase = MSI_SETTLE;
    }
    bool all =
        all_reached(coll, offsetof(struct msi_area, drained), msi_rounds_done(coll->seq, MSI_ALL_ROUNDS));
    return all ? MSI_DONE : MSI_BLOCKED;
}

/* Whether all tensors can be mapped is known when all ranks have arrived. */
static enum msi_advance meet_all(struct msi_shm_coll *coll) {
    bool direct = true;
    for (; coll->peer < coll->region->size; coll->peer++) {
        enum msi_advance seen = coll->peer == coll->region->rank ? MSI_MOVED : msi_shm_see(coll, coll->peer);
        if (seen != MSI_MOVED) return seen;
    }
    for (int r = 0; r < coll->region->size; r++)
        direct = direct && msi_shm_slot(coll, r)->mode == MSI_SLOT_DIRECT;
    msi_shm_all_came(coll);
    coll->mode = direct ? MSI_SLOT_DIRECT : MSI_SLOT_BIG;
    coll->phase = MSI_MOVE;
    coll->peer = 0;
    if (direct) return MSI_MOVED;
    msi_peers_hold_big(&msi_native(coll->work->comm)->peers, coll->seq);
    for (int half = 0; half < MSI_BIG_HALVES; half++)
        coll->region->big_use[half] = (struct msi_big_use){.seq = coll->seq, .reader = -1};
    return MSI_MOVED;
}

static enum msi_advance announce(struct msi_shm_coll *coll) {
    struct msi_shm_region *region = coll->region;
    if (!msi_shm_region_may_announce(region, coll->seq) || !msi_shm_big_free(region)) return MSI_BLOCKED;
    struct msi_slot *slot = msi_shm_slot(coll, region->rank);
    slot->direct.in = coll->in_where;
    slot->direct.out = coll->out_where;
    msi_shm_announce(coll, coll->in_where.number && coll->out_where.number ? MSI_SLOT_DIRECT : MSI_SLOT_BIG);
    coll->phase = MSI_MEET;
    return MSI_MOVED;
}

static enum msi_advance advance(struct msi_shm_coll *coll) {
    enum msi_advance got = MSI_MOVED;
    if (coll->phase == MSI_ANNOUNCE) got = announce(coll);
    if (got == MSI_MOVED && coll->phase == MSI_MEET) got = meet_all(coll);
    if (got == MSI_MOVED) got = coll->mode == MSI_SLOT_DIRECT ? advance_direct(coll) : advance_staged(coll);
    return got;
}

static bool waits_for(const struct msi_shm_coll *coll, int rank) {
    const struct msi_area *area = &coll->region->areas[rank];
    if (coll->phase < MSI_MOVE) return !msi_shm_region_begun(coll->region, rank, coll->seq);
    if (coll->mode == MSI_SLOT_DIRECT)
        return !msi_shm_region_reached(&area->drained, msi_rounds_done(coll->seq, MSI_ALL_ROUNDS));
    return !msi_shm_region_reached(&area->filled, msi_rounds_done(coll->seq, coll->rounds + 1));
}

/* Memory from mst_alloc is reduced in place, by all ranks into all outputs. */
static void share_both(struct msi_shm_coll *coll) {
    coll->out_where.number = 0;
    bool same = coll->in.base == coll->out.base;
    if (coll->dst_rank >= 0 || msi_shm_is_scan(coll) ||
        (!same && msi_blocks_overlap(&coll->in, &coll->out, coll->in.each)))
        return;
    coll->in_where = msi_arena_find(coll->in.base, coll->in.each);
    coll->out_where = msi_arena_find(coll->out.base, coll->in.each);
}

void msi_shm_all_reduce(struct msi_shm_coll *coll) {
    msi_shm_set_blocks(coll);
    size_t n = (size_t)coll->region->size, step = grain(coll) * coll->in.element,
           most = (MSI_BIG_CELLS - 4 * step) * n / (2 * n + 2);
    coll->advance = advance;
    coll->waits_for = waits_for;
    coll->seq = coll->region->seq + 1;
    coll->phase = MSI_ANNOUNCE;
    coll->filled = coll->drained = 0;
    coll->peer = 0;
    if (most > CHUNK) most = CHUNK;
    coll->chunk = most - most % step;
    coll->rounds = (uint32_t)((coll->in.each + coll->chunk - 1) / coll->chunk);
    share_both(coll);
}
