/* compose_reductions.c - compositions of reductions: of another reduction, or of moves and a local
 * reduction. See compose.h. */
#include "base/error.h"
#include "engine/module/compose.h"

/* Up to this number of bytes, an all_gather of everything is faster than an all_to_all and an all_gather. */
enum { GATHER_MOST = 8 << 10 };

/* Elements that a rank contributes. */
static size_t contributed(const struct msi_composer *c, const mst_backend_op *op) {
    return op->kind == MST_KIND_REDUCE_SCATTER ? msi_op_start(op->in_counts, op->count, c->ranks) : op->count;
}

static bool has_result(const struct msi_composer *c, const mst_backend_op *op) {
    return op->kind != MST_KIND_REDUCE || op->root == c->rank;
}

/* AVG: a sum, and then a division. */
static mst_status divide_sum(struct msi_composer *c, const mst_backend_op *op) {
    mst_backend_op sum = *op;
    sum.op = MST_SUM;
    c->description = "SUM and a division: one more pass over the result";
    mst_status st = msi_compose_apart(c, &sum);
    if (st == MST_OK) st = msi_compose_add(c, &sum, true);
    if (st != MST_OK || !has_result(c, op)) return st;
    return msi_compose_reduce_local(
        c, op, &(struct msi_local_reduction){MST_AVG, op->out, op->out, 0, 1, op->count});
}

/* PREMUL_SUM: a multiplication, and then a sum. */
static mst_status sum_products(struct msi_composer *c, const mst_backend_op *op) {
    mst_backend_op sum = *op;
    void *room;
    c->description = "a multiplication and SUM: a copy of the input";
    mst_status st = msi_compose_room(c, op, contributed(c, op), &room);
    if (st == MST_OK)
        st = msi_compose_reduce_local(
            c, op, &(struct msi_local_reduction){MST_PREMUL_SUM, room, op->in, 0, 1, contributed(c, op)});
    sum.op = MST_SUM;
    sum.in = room;
    return st == MST_OK ? msi_compose_add(c, &sum, true) : st;
}

static mst_status reduce_and_broadcast(struct msi_composer *c, const mst_backend_op *op) {
    mst_backend_op reduce = msi_compose_sub(op, MST_KIND_REDUCE, op->in, op->out, op->count);
    mst_backend_op spread = msi_compose_sub(op, MST_KIND_BROADCAST, op->out, op->out, op->count);
    reduce.root = spread.root = 0;
    c->description = "reduce and broadcast";
    mst_status st = msi_compose_apart(c, &reduce);
    if (st == MST_OK) st = msi_compose_add(c, &reduce, true);
    return st == MST_OK ? msi_compose_add(c, &spread, true) : st;
}

static mst_status scatter_and_gather(struct msi_composer *c, const mst_backend_op *op) {
    size_t each = op->count / (size_t)c->ranks;
    void *part;
    c->description = "reduce_scatter and all_gather";
    mst_status st = msi_compose_room(c, op, each, &part);
    mst_backend_op reduce = msi_compose_sub(op, MST_KIND_REDUCE_SCATTER, op->in, part, each);
    mst_backend_op spread = msi_compose_sub(op, MST_KIND_ALL_GATHER, part, op->out, each);
    if (st == MST_OK) st = msi_compose_add(c, &reduce, true);
    return st == MST_OK ? msi_compose_add(c, &spread, true) : st;
}

/* Elements of the largest of n equal parts, in whole units. */
static size_t part_of(const struct msi_composer *c, const mst_backend_op *op) {
    size_t unit = c->unit ? c->unit : 1, n = unit * (size_t)c->ranks;
    return (op->count + n - 1) / n * unit;
}

/* Each rank reduces its part of all tensors; then all ranks gather the parts. */
static mst_status reduce_parts(struct msi_composer *c, const mst_backend_op *op) {
    size_t n = (size_t)c->ranks, each = part_of(c, op), own = (size_t)c->rank * each;
    bool even = each * n == op->count;
    const void *in = op->in;
    void *padded = op->out, *parts = NULL, *part = NULL;
    c->description = "all_to_all, a local reduction and all_gather: as many bytes as an all_reduce must move";
    mst_status st = msi_compose_room(c, op, n * each, &parts);
    if (st == MST_OK) st = msi_compose_room(c, op, each, &part);
    if (st == MST_OK && !even) st = msi_compose_room(c, op, n * each, &padded);
    if (st == MST_OK && !even) {
        st = msi_compose_copy(c, padded, op->in, op->count * op->element);
        in = padded;
    }
    mst_backend_op spread = msi_compose_sub(op, MST_KIND_ALL_TO_ALL, in, parts, each);
    mst_backend_op collect = msi_compose_sub(op, MST_KIND_ALL_GATHER, part, padded, each);
    if (st == MST_OK) st = msi_compose_add(c, &spread, true);
    size_t count = own >= op->count ? 0 : op->count - own < each ? op->count - own : each;
    if (st == MST_OK)
        st = msi_compose_reduce_local(
            c, op, &(struct msi_local_reduction){op->op, part, parts, each * op->element, c->ranks, count});
    if (st == MST_OK) st = msi_compose_add(c, &collect, true);
    return st == MST_OK && !even ? msi_compose_copy(c, op->out, padded, op->count * op->element) : st;
}

/* How many ranks' inputs this rank reduces, from rank 0 on. */
static int sources(const struct msi_composer *c, const mst_backend_op *op) {
    return op->kind == MST_KIND_SCAN ? c->rank + 1 : op->kind == MST_KIND_EXSCAN ? c->rank : c->ranks;
}

/* All ranks gather everything and reduce all of it, or their part. */
static mst_status gather_and_reduce(struct msi_composer *c, const mst_backend_op *op) {
    bool part = op->kind == MST_KIND_REDUCE_SCATTER;
    size_t each = contributed(c, op), own = part ? msi_op_start(op->in_counts, op->count, c->rank) : 0;
    void *all;
    mst_status st = msi_compose_room(c, op, each * (size_t)c->ranks, &all);
    mst_backend_op gather = msi_compose_sub(op, MST_KIND_ALL_GATHER, op->in, all, each);
    if (st == MST_OK) st = msi_compose_move(c, &gather);
    c->description = "all_gather and a local reduction: n times the bytes with n ranks";
    if (st != MST_OK) return st;
    return msi_compose_reduce_local(c, op,
                                    &(struct msi_local_reduction){op->op, op->out, msi_op_at(all, op, own),
                                                                  each * op->element, sources(c, op),
                                                                  op->count});
}

/* Each rank scans its part of all tensors; then each rank gets its parts back. */
static mst_status scan_parts(struct msi_composer *c, const mst_backend_op *op) {
    size_t n = (size_t)c->ranks, each = part_of(c, op), own = (size_t)c->rank * each;
    size_t count = own >= op->count ? 0 : op->count - own < each ? op->count - own : each;
    void *padded, *parts = NULL;
    c->description = "all_to_all, a local scan and all_to_all";
    mst_status st = msi_compose_room(c, op, n * each, &padded);
    if (st == MST_OK) st = msi_compose_room(c, op, n * each, &parts);
    if (st == MST_OK) st = msi_compose_copy(c, padded, op->in, op->count * op->element);
    mst_backend_op spread = msi_compose_sub(op, MST_KIND_ALL_TO_ALL, padded, parts, each);
    mst_backend_op collect = msi_compose_sub(op, MST_KIND_ALL_TO_ALL, parts, padded, each);
    if (st == MST_OK) st = msi_compose_add(c, &spread, true);
    if (st == MST_OK) st = msi_compose_scan_local(c, op, parts, each);
    if (st == MST_OK) c->steps[c->n - 1].op.count = count; /* the rest of the blocks is not set */
    if (st == MST_OK) st = msi_compose_add(c, &collect, true);
    return st == MST_OK ? msi_compose_copy(c, op->out, padded, op->count * op->element) : st;
}

static mst_status compose_scan(struct msi_composer *c, const mst_backend_op *op) {
    bool large = op->count * op->element > GATHER_MOST;
    return large && msi_compose_can(c, op, MST_KIND_ALL_TO_ALL) ? scan_parts(c, op)
                                                                : gather_and_reduce(c, op);
}

static mst_status compose_all_reduce(struct msi_composer *c, const mst_backend_op *op, bool deterministic) {
    bool scatters = msi_compose_can(c, op, MST_KIND_REDUCE_SCATTER) && op->count % (size_t)c->ranks == 0;
    bool gathers = msi_compose_can(c, op, MST_KIND_ALL_GATHER);
    if (!deterministic && msi_compose_can(c, op, MST_KIND_REDUCE) &&
        msi_compose_can(c, op, MST_KIND_BROADCAST))
        return reduce_and_broadcast(c, op);
    if (!deterministic && scatters && gathers) return scatter_and_gather(c, op);
    if (gathers && msi_compose_can(c, op, MST_KIND_ALL_TO_ALL) && op->count * op->element > GATHER_MOST)
        return reduce_parts(c, op);
    return gather_and_reduce(c, op);
}

static mst_status compose_reduce(struct msi_composer *c, const mst_backend_op *op, bool deterministic) {
    bool root = c->rank == op->root;
    void *room = op->out;
    if (!deterministic && msi_compose_can(c, op, MST_KIND_ALL_REDUCE)) {
        c->description = "an all_reduce, whose result only the root keeps";
        mst_status st = root ? MST_OK : msi_compose_room(c, op, op->count, &room);
        mst_backend_op sub = msi_compose_sub(op, MST_KIND_ALL_REDUCE, op->in, room, op->count);
        if (st == MST_OK) st = msi_compose_apart(c, &sub);
        return st == MST_OK ? msi_compose_add(c, &sub, true) : st;
    }
    room = NULL;
    mst_status st = root ? msi_compose_room(c, op, op->count * (size_t)c->ranks, &room) : MST_OK;
    mst_backend_op gather = msi_compose_sub(op, MST_KIND_GATHER, op->in, room, op->count);
    gather.root = op->root;
    if (st == MST_OK) st = msi_compose_move(c, &gather);
    c->description = "gather and a local reduction at the root";
    if (st != MST_OK || !root) return st;
    return msi_compose_reduce_local(
        c, op,
        &(struct msi_local_reduction){op->op, op->out, room, op->count * op->element, c->ranks, op->count});
}

/* An all_reduce of everything; each rank keeps its part. */
static mst_status keep_part(struct msi_composer *c, const mst_backend_op *op) {
    size_t all = contributed(c, op);
    void *room;
    c->description = "an all_reduce of everything: twice the bytes";
    mst_status st = msi_compose_room(c, op, all, &room);
    mst_backend_op sub = msi_compose_sub(op, MST_KIND_ALL_REDUCE, op->in, room, all);
    if (st == MST_OK) st = msi_compose_add(c, &sub, true);
    if (st != MST_OK) return st;
    return msi_compose_copy(c, op->out, msi_op_at(room, op, msi_op_start(op->in_counts, op->count, c->rank)),
                            msi_op_len(op->in_counts, op->count, c->rank) * op->element);
}

/* Each rank receives its part of all tensors and reduces it. */
static mst_status exchange_and_reduce(struct msi_composer *c, const mst_backend_op *op) {
    size_t own = msi_op_len(op->in_counts, op->count, c->rank), *counts = NULL;
    void *parts;
    mst_status st = msi_compose_room(c, op, own * (size_t)c->ranks, &parts);
    if (st != MST_OK) return st;
    mst_backend_op spread = msi_compose_sub(op, MST_KIND_ALL_TO_ALL, op->in, parts, op->count);
    if (op->in_counts) {
        counts = c->scratch(c->context, MST_MEMORY_HOST, (size_t)c->ranks * sizeof *counts);
        for (int r = 0; counts && r < c->ranks; r++) counts[r] = own;
        spread.in_counts = op->in_counts;
        spread.out_counts = counts;
    }
    st = counts || !op->in_counts ? msi_compose_move(c, &spread) : msi_fail_memory();
    c->description = "all_to_all and a local reduction: as many bytes as a reduce_scatter must move";
    if (st != MST_OK) return st;
    return msi_compose_reduce_local(
        c, op, &(struct msi_local_reduction){op->op, op->out, parts, own * op->element, c->ranks, own});
}

static mst_status compose_reduce_scatter(struct msi_composer *c, const mst_backend_op *op,
                                         bool deterministic) {
    unsigned forms = op->in_counts ? (unsigned)MST_FORM_UNEVEN : 0;
    bool exchanges = msi_compose_can_op(c, op, MST_KIND_ALL_TO_ALL, op->op, forms);
    if (!exchanges && !deterministic && msi_compose_can(c, op, MST_KIND_ALL_REDUCE)) return keep_part(c, op);
    return exchanges || msi_compose_has_messages(c, op) ? exchange_and_reduce(c, op)
                                                        : gather_and_reduce(c, op);
}

mst_status msi_compose_reduction(struct msi_composer *c, const mst_backend_op *op, bool deterministic) {
    unsigned forms = op->in_counts ? (unsigned)MST_FORM_UNEVEN : 0;
    bool sums = !deterministic && msi_compose_can_op(c, op, op->kind, MST_SUM, forms);
    if (op->kind == MST_KIND_SCAN || op->kind == MST_KIND_EXSCAN) return compose_scan(c, op);
    sums &= op->element >= 4; /* local reductions round smaller types once, and do not overflow */
    if (op->op == MST_AVG && sums) return divide_sum(c, op);
    if (op->op == MST_PREMUL_SUM && sums) return sum_products(c, op);
    if (op->kind == MST_KIND_ALL_REDUCE) return compose_all_reduce(c, op, deterministic);
    if (op->kind == MST_KIND_REDUCE) return compose_reduce(c, op, deterministic);
    return compose_reduce_scatter(c, op, deterministic);
}
