/* compose_moves.c - compositions of kinds that only move bytes, of kinds that the backend has. See
 * compose.h. */
#include "engine/module/compose.h"
#include "reduce/reduce.h"

bool msi_compose_has_messages(const struct msi_composer *c, const mst_backend_op *op) {
    return msi_compose_can(c, op, MST_KIND_SEND) && msi_compose_can(c, op, MST_KIND_RECV);
}

/* Finds a dtype and an operation that the backend can all_reduce; false: there is none. */
static bool find_reduction(const struct msi_composer *c, mst_backend_op *op) {
    for (int d = 1; d < MST_DTYPE_COUNT; d++)
        for (int o = 0; o < MST_OP_COUNT; o++) {
            op->dtype = (mst_dtype)d;
            op->element = mst_dtype_size(op->dtype);
            op->op = (mst_op)o;
            bool means = o != MST_PREMUL_SUM &&
                         msi_reducer_get(op->dtype, op->op); /* rows also name pairs that do not exist */
            if (means && msi_compose_can(c, op, MST_KIND_ALL_REDUCE)) return true;
        }
    return false;
}

/* The dissemination barrier: round k exchanges with the ranks 2^k away. */
static mst_status dissemination(struct msi_composer *c, const mst_backend_op *op, char *room) {
    mst_status st = MST_OK;
    for (int far = 1; far < c->ranks && st == MST_OK; far *= 2) {
        st = msi_compose_message(c, op, (struct msi_compose_peer){true, (c->rank + far) % c->ranks, true},
                                 room, 1);
        if (st == MST_OK)
            st = msi_compose_message(
                c, op, (struct msi_compose_peer){false, (c->rank - far + c->ranks) % c->ranks, false},
                room + 8, 1);
    }
    return st;
}

static mst_status compose_barrier(struct msi_composer *c, const mst_backend_op *op) {
    mst_backend_op one = *op;
    void *room;
    if (find_reduction(c, &one)) {
        c->description = "an all_reduce of one element";
        mst_status st = msi_compose_room(c, &one, 2, &room);
        mst_backend_op sub = msi_compose_sub(&one, MST_KIND_ALL_REDUCE, room, msi_op_at(room, &one, 1), 1);
        return st == MST_OK ? msi_compose_add(c, &sub, false) : st;
    }
    one.dtype = MST_U8;
    one.element = 1;
    mst_status st = msi_compose_room(c, &one, 16 + (size_t)c->ranks, &room);
    if (st != MST_OK) return st;
    if (msi_compose_can(c, &one, MST_KIND_ALL_GATHER)) {
        c->description = "an all_gather of one byte";
        mst_backend_op sub = msi_compose_sub(&one, MST_KIND_ALL_GATHER, room, msi_op_at(room, &one, 16), 1);
        return msi_compose_add(c, &sub, false);
    }
    c->description = "messages of one byte";
    return msi_compose_has_messages(c, &one) ? dissemination(c, &one, room) : msi_compose_nothing(c, op);
}

/* Broadcasts along a binomial tree; ranks are numbered from the root. */
static mst_status send_along_tree(struct msi_composer *c, const mst_backend_op *op) {
    int n = c->ranks, me = (c->rank - op->root + n) % n, near = 1;
    const void *from = me == 0 ? op->in : op->out;
    bool after = me != 0; /* the first send waits for the receive; the others begin with it */
    mst_status st = MST_OK;
    while (near < n && !(me & near))
        near *= 2; /* the lowest set bit of me; for the root a power of two that is at least n */
    if (me)
        st = msi_compose_message(c, op, (struct msi_compose_peer){false, (me - near + op->root) % n, false},
                                 op->out, op->count);
    for (int far = near / 2; far >= 1 && st == MST_OK; far /= 2) {
        if (me + far >= n) continue;
        st = msi_compose_message(c, op, (struct msi_compose_peer){true, (me + far + op->root) % n, after},
                                 from, op->count);
        after = false;
    }
    return st;
}

static mst_status compose_broadcast(struct msi_composer *c, const mst_backend_op *op) {
    mst_status st;
    if (msi_compose_has_messages(c, op)) {
        c->description = "messages along a tree";
        st = send_along_tree(c, op);
        return st == MST_OK && c->rank == op->root
                   ? msi_compose_copy(c, op->out, op->in, op->count * op->element)
                   : st;
    }
    if (!msi_compose_can(c, op, MST_KIND_ALL_GATHER)) return msi_compose_nothing(c, op);
    void *room;
    c->description = "an all_gather, of which one rank's block is kept: n times the bytes with n ranks";
    st = msi_compose_room(c, op, op->count * (size_t)c->ranks, &room);
    mst_backend_op sub =
        msi_compose_sub(op, MST_KIND_ALL_GATHER, c->rank == op->root ? op->in : op->out, room, op->count);
    if (st == MST_OK) st = msi_compose_add(c, &sub, true);
    return st == MST_OK ? msi_compose_copy(c, op->out, msi_op_at(room, op, (size_t)op->root * op->count),
                                           op->count * op->element)
                        : st;
}

/* Pads all blocks to the longest. */
static mst_status pad_all_gather(struct msi_composer *c, const mst_backend_op *op) {
    size_t most = 0;
    void *in, *out;
    for (int r = 0; r < c->ranks; r++)
        if (op->out_counts[r] > most) most = op->out_counts[r];
    c->description = "the same with blocks as long as the longest";
    mst_status st = msi_compose_room(c, op, most, &in);
    if (st == MST_OK) st = msi_compose_room(c, op, most * (size_t)c->ranks, &out);
    if (st == MST_OK) st = msi_compose_copy(c, in, op->in, op->out_counts[c->rank] * op->element);
    if (st != MST_OK) return st;
    mst_backend_op sub = msi_compose_sub(op, MST_KIND_ALL_GATHER, in, out, most);
    st = msi_compose_add(c, &sub, true);
    for (int r = 0; r < c->ranks && st == MST_OK; r++)
        st = msi_compose_copy(c, msi_op_at(op->out, op, msi_op_start(op->out_counts, 0, r)),
                              msi_op_at(out, op, (size_t)r * most), op->out_counts[r] * op->element);
    return st;
}

static mst_status broadcast_each(struct msi_composer *c, const mst_backend_op *op) {
    mst_status st = MST_OK;
    c->description = "a broadcast of each rank's block, one after the other";
    for (int r = 0; r < c->ranks && st == MST_OK; r++) {
        char *block = msi_op_at(op->out, op, msi_op_start(op->out_counts, op->count, r));
        mst_backend_op sub = msi_compose_sub(op, MST_KIND_BROADCAST, r == c->rank ? op->in : block, block,
                                             msi_op_len(op->out_counts, op->count, r));
        sub.root = r;
        if (sub.count) st = msi_compose_add(c, &sub, true);
    }
    return st;
}

/* Messages between all pairs of ranks; a rank copies its own block. */
static mst_status all_pairs(struct msi_composer *c, const mst_backend_op *op, bool to_each) {
    size_t own = to_each ? msi_op_start(op->in_counts, op->count, c->rank) : 0;
    size_t same = to_each ? msi_op_len(op->in_counts, op->count, c->rank) : op->count;
    mst_status st = MST_OK;
    c->description = "messages between all pairs of ranks";
    for (int far = 1; far < c->ranks && st == MST_OK; far++) {
        int to = (c->rank + far) % c->ranks, from = (c->rank - far + c->ranks) % c->ranks;
        size_t start = to_each ? msi_op_start(op->in_counts, op->count, to) : 0;
        size_t count = to_each ? msi_op_len(op->in_counts, op->count, to) : op->count;
        st = msi_compose_message(c, op, (struct msi_compose_peer){false, from, far == 1},
                                 msi_op_at(op->out, op, msi_op_start(op->out_counts, op->count, from)),
                                 msi_op_len(op->out_counts, op->count, from));
        if (st == MST_OK)
            st = msi_compose_message(c, op, (struct msi_compose_peer){true, to, false},
                                     msi_op_at(op->in, op, start), count);
    }
    if (st != MST_OK) return st;
    return msi_compose_copy(c, msi_op_at(op->out, op, msi_op_start(op->out_counts, op->count, c->rank)),
                            msi_op_at(op->in, op, own), same * op->element);
}

static mst_status compose_all_gather(struct msi_composer *c, const mst_backend_op *op) {
    if (op->out_counts && msi_compose_can(c, op, MST_KIND_ALL_GATHER)) return pad_all_gather(c, op);
    if (msi_compose_can(c, op, MST_KIND_BROADCAST)) return broadcast_each(c, op);
    return msi_compose_has_messages(c, op) ? all_pairs(c, op, false) : msi_compose_nothing(c, op);
}

static mst_status compose_all_to_all(struct msi_composer *c, const mst_backend_op *op) {
    if (msi_compose_has_messages(c, op)) return all_pairs(c, op, true);
    if (op->in_counts || op->out_counts || !msi_compose_can(c, op, MST_KIND_ALL_GATHER))
        return msi_compose_nothing(c, op);
    size_t n = (size_t)c->ranks, row = n * op->count;
    void *room;
    c->description = "an all_gather of everything: n times the bytes with n ranks";
    mst_status st = msi_compose_room(c, op, n * row, &room);
    mst_backend_op sub = msi_compose_sub(op, MST_KIND_ALL_GATHER, op->in, room, row);
    if (st == MST_OK) st = msi_compose_add(c, &sub, true);
    for (size_t r = 0; r < n && st == MST_OK; r++)
        st = msi_compose_copy(c, msi_op_at(op->out, op, r * op->count),
                              msi_op_at(room, op, r * row + (size_t)c->rank * op->count),
                              op->count * op->element);
    return st;
}

/* gather and scatter: messages between the root and every other rank. */
static mst_status with_root(struct msi_composer *c, const mst_backend_op *op, bool gather) {
    bool root = c->rank == op->root;
    const size_t *counts = gather ? op->out_counts : op->in_counts;
    const void *mine = gather ? op->in : op->out, *all = gather ? op->out : op->in;
    c->description = gather ? "messages to the root" : "messages from the root";
    if (!root)
        return msi_compose_message(c, op, (struct msi_compose_peer){gather, op->root, true}, mine, op->count);
    mst_status st = MST_OK;
    size_t begun = c->n;
    for (int r = 0; r < c->ranks && st == MST_OK; r++)
        if (r != c->rank)
            st = msi_compose_message(c, op, (struct msi_compose_peer){!gather, r, c->n == begun},
                                     msi_op_at(all, op, msi_op_start(counts, op->count, r)),
                                     msi_op_len(counts, op->count, r));
    char *own = msi_op_at(all, op, msi_op_start(counts, op->count, c->rank));
    if (st != MST_OK) return st;
    return gather ? msi_compose_copy(c, own, mine, op->count * op->element)
                  : msi_compose_copy(c, op->out, own, op->count * op->element);
}

static mst_status compose_gather(struct msi_composer *c, const mst_backend_op *op) {
    if (msi_compose_has_messages(c, op)) return with_root(c, op, true);
    if (!msi_compose_can(c, op, MST_KIND_ALL_GATHER)) return msi_compose_nothing(c, op);
    void *out = op->out;
    c->description = "an all_gather, whose result only the root keeps";
    mst_status st = MST_OK;
    if (c->rank != op->root)
        st = msi_compose_room(c, op, msi_op_start(op->out_counts, op->count, c->ranks), &out);
    mst_backend_op sub = msi_compose_sub(op, MST_KIND_ALL_GATHER, op->in, out, op->count);
    sub.out_counts = op->out_counts;
    return st != MST_OK ? st : op->out_counts ? msi_compose_move(c, &sub) : msi_compose_add(c, &sub, true);
}

static mst_status compose_scatter(struct msi_composer *c, const mst_backend_op *op) {
    if (msi_compose_has_messages(c, op)) return with_root(c, op, false);
    size_t all = msi_op_start(op->in_counts, op->count, c->ranks);
    size_t own = msi_op_start(op->in_counts, op->count, c->rank);
    void *room;
    mst_status st = msi_compose_room(c, op, all, &room);
    if (st != MST_OK) return st;
    mst_backend_op sub =
        msi_compose_sub(op, MST_KIND_BROADCAST, c->rank == op->root ? op->in : room, room, all);
    sub.root = op->root;
    st = msi_compose_can(c, op, MST_KIND_BROADCAST) ? msi_compose_add(c, &sub, true)
                                                    : compose_broadcast(c, &sub);
    c->description = "a broadcast of everything: n times the bytes with n ranks";
    return st == MST_OK ? msi_compose_copy(c, op->out, msi_op_at(room, op, own), op->count * op->element)
                        : st;
}

mst_status msi_compose_move(struct msi_composer *c, const mst_backend_op *op) {
    unsigned forms = msi_op_forms(op, c->rank, c->ranks);
    if (msi_compose_can_op(c, op, op->kind, op->op, forms)) return msi_compose_add(c, op, true);
    c->composed = true;
    switch (op->kind) {
    case MST_KIND_BARRIER:
        return compose_barrier(c, op);
    case MST_KIND_BROADCAST:
        return compose_broadcast(c, op);
    case MST_KIND_ALL_GATHER:
        return compose_all_gather(c, op);
    case MST_KIND_ALL_TO_ALL:
        return compose_all_to_all(c, op);
    case MST_KIND_GATHER:
        return compose_gather(c, op);
    case MST_KIND_SCATTER:
        return compose_scatter(c, op);
    default:
        return msi_compose_nothing(c, op);
    }
}
