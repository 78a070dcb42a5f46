/*
 * mode.c - how a rank publishes its input: in its slot, in cells, or in place, so that the others map it or
 * read it by CMA. See shm_coll.h.
 */
#include "engine/shm/shm_coll.h"

enum {
    CHUNK = 64 << 10,
    CHUNK_OF_MEDIUM = 16 << 10, /* of one rank to or from the others: filling and reading overlap */
    MEDIUM = 256 << 10,
    /* Below these sizes, copying into a cell costs less than waiting for the readers: bytes of a block, and
     * of all blocks. */
    DIRECT_FROM = 4 << 10,
    DIRECT_OVER = 8 << 10,
};

/* Bytes of the longest block that this rank publishes. */
size_t msi_shm_longest(const struct msi_shm_coll *coll) {
    if (!coll->parts || !coll->in.counts) return coll->in.each;
    size_t most = 0;
    for (int r = 0; r < coll->region->size; r++)
        if (coll->in.counts[r] > most) most = coll->in.counts[r];
    return most * coll->in.element;
}

/* A user-defined operation must not get parts of units. */
static size_t whole_units(const struct msi_shm_coll *coll, size_t bytes) {
    const struct msi_op *op = &coll->work->op;
    size_t unit = msi_unit_of(op->user) * op->desc.element;
    return !op->user ? bytes : bytes < unit ? unit : bytes - bytes % unit;
}

/* The size of the pieces of a block; the same on all ranks, and a multiple of every element size. */
static size_t chunk_for(const struct msi_shm_coll *coll) {
    size_t len = coll->parts || coll->src_rank == coll->region->rank || coll->src_rank < 0 ? coll->in.each
                                                                                           : coll->out.each;
    bool one_way = coll->src_rank >= 0 || coll->dst_rank >= 0;
    size_t most = !coll->uneven && one_way && len <= MEDIUM ? CHUNK_OF_MEDIUM : CHUNK;
    size_t fitting = MSI_BIG_CELLS / 4 / msi_shm_blocks(coll) / 64 * 64;
    return whole_units(coll, fitting < most ? fitting : most);
}

/*
 * Can this rank's input stay where it is until the others have read it? Not if the rank writes it meanwhile,
 * as in a reduction that every rank makes for itself and in an in-place all_to_all.
 */
static bool may_stay(const struct msi_op *op, const struct msi_shm_region *region, size_t bytes) {
    const struct msi_shm_shape *shape = &msi_shm_shapes[op->desc.kind];
    struct msi_blocks in = msi_op_in(op), out = msi_op_out(op);
    bool one_place = !msi_op_is_uneven(op) && !in.list;
    bool reduces_all = op->reducer && !shape->parts && !shape->dst_is_root;
    bool onto_itself = op->desc.kind == MST_KIND_ALL_TO_ALL && msi_blocks_overlap(&in, &out, bytes);
    bool is_source = !shape->src_is_root || op->desc.root == region->rank;
    return one_place && !reduces_all && !onto_itself && is_source;
}

/* Bytes of all blocks of this rank's input. */
static size_t all_bytes(const struct msi_op *op, const struct msi_shm_region *region) {
    return msi_op_bytes(op) * (msi_shm_shapes[op->desc.kind].parts ? (size_t)region->size : 1);
}

/* Memory from mst_alloc is read in place, but the root of a small broadcast copies faster than it would wait
 * for the readers. */
bool msi_shm_shares_input(const struct msi_op *op, const struct msi_shm_region *region,
                          struct msi_arena_ref *where) {
    const struct msi_shm_shape *shape = &msi_shm_shapes[op->desc.kind];
    size_t bytes = all_bytes(op, region);
    bool broadcasts_little = shape->src_is_root && !shape->parts && bytes <= MSI_SMALL_CELL;
    if (msi_op_bytes(op) < DIRECT_FROM || bytes <= DIRECT_OVER || broadcasts_little) return false;
    if (!may_stay(op, region, bytes)) return false;
    *where = msi_arena_find(msi_op_in(op).base, bytes);
    return where->number != 0;
}

void msi_shm_choose_mode(struct msi_shm_coll *coll) {
    size_t len = msi_shm_longest(coll), all = len * msi_shm_blocks(coll);
    bool layout_known = !coll->parts || !coll->uneven; /* else only big cells have blocks at known offsets */
    coll->chunk = chunk_for(coll);
    const struct msi_op *op = &coll->work->op;
    msi_shm_shares_input(op, coll->region, &coll->in_where);
    bool by_cma = msi_shm_plan_copies(coll) && may_stay(op, coll->region, all_bytes(op, coll->region));
    if (msi_shm_is_barrier(coll) || !msi_shm_publishes(coll, coll->region->rank))
        coll->mode = MSI_SLOT_NOTHING;
    else if (coll->in_where.number)
        coll->mode = MSI_SLOT_DIRECT;
    else if (by_cma)
        coll->mode = MSI_SLOT_CMA;
    else if (layout_known && all <= MSI_SLOT_PAYLOAD)
        coll->mode = MSI_SLOT_INLINE;
    else
        coll->mode = layout_known && all <= MSI_SMALL_CELL ? MSI_SLOT_SMALL : MSI_SLOT_BIG;
}
