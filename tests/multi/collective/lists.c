/* lists.c - operations on several buffers, or on blocks of different sizes. */
#include "suite.h"

/* Number of elements from one rank to another if blocks differ; some are empty. */
static size_t block(const struct run *run, int from, int to) {
    size_t count = run->shape.count;
    if (!run->shape.uneven) return count;
    uint64_t state = mix(run->shape.id + 77, (uint64_t)from * RANKS_MAX + (uint64_t)to);
    return draw(&state, 4) == 0 ? 0 : draw(&state, count + count / 2 + 2);
}

/* Offset, in the sender's input, of the block from one rank to another. */
static size_t block_start(const struct run *run, int from, int to) {
    size_t start = 0;
    for (int r = 0; r < to; r++) start += block(run, from, r);
    return start;
}

static void plan_splits(struct run *run) {
    for (int r = 0; r < run->n; r++) {
        run->out_splits[r] = block(run, r, run->me);
        run->in_splits[r] = block(run, run->me, r);
    }
}

static void plan_all_to_all_single(struct run *run) {
    size_t in = 0, out = 0;
    plan_splits(run);
    for (int r = 0; r < run->n; r++) in += run->in_splits[r], out += run->out_splits[r];
    struct buffer *received = add_out(run, out), *sent = add_in(run, in);
    before(sent, COPY, run->me, 0, in);
    for (int r = 0; r < run->n; r++)
        after(received, COPY, r, block_start(run, r, run->me), run->out_splits[r]);
}

static void use_splits(const struct run *run, mst_call *call) {
    if (run->shape.uneven) call->out_splits = run->out_splits;
    if (run->shape.uneven) call->in_splits = run->in_splits;
}

static mst_status call_all_to_all_single(struct run *run, mst_call *call) {
    use_splits(run, call);
    return mst_all_to_all_single_with(run->out_list[0], run->in_list[0], run->shape.count, run->shape.dtype,
                                      call);
}

static void plan_all_to_all(struct run *run) {
    plan_splits(run);
    for (int r = 0; r < run->n; r++) {
        after(add_out(run, run->out_splits[r]), COPY, r, block_start(run, r, run->me), run->out_splits[r]);
        before(add_in(run, run->in_splits[r]), COPY, run->me, block_start(run, run->me, r),
               run->in_splits[r]);
    }
}

static mst_status call_all_to_all(struct run *run, mst_call *call) {
    use_splits(run, call);
    return mst_all_to_all_with(run->out_list, run->in_list, run->shape.count, run->shape.dtype, call);
}

/* Sets the count of each group rank; the same on all ranks. */
static void plan_counts(struct run *run) {
    for (int r = 0; r < run->n; r++) run->counts[r] = block(run, 0, r);
}

static void plan_all_gather(struct run *run) {
    plan_counts(run);
    for (int r = 0; r < run->n; r++) after(add_out(run, run->counts[r]), COPY, r, 0, run->counts[r]);
    before(add_in(run, run->counts[run->me]), COPY, run->me, 0, run->counts[run->me]);
}

static mst_status call_all_gather(struct run *run, mst_call *call) {
    if (run->shape.uneven) call->counts = run->counts;
    return mst_all_gather_with(run->out_list, run->in_list[0], run->shape.count, run->shape.dtype, call);
}

/* A gather or scatter with a count for each rank: the large buffer, at the root, and this rank's block. */
static void plan_rooted(struct run *run, bool gather) {
    size_t total = 0;
    bool root = run->me == run->shape.root;
    plan_counts(run);
    for (int r = 0; r < run->n; r++) total += run->counts[r];
    size_t mine = run->counts[run->me];
    if (gather && root) {
        struct buffer *out = add_out(run, total);
        for (int r = 0; r < run->n; r++) after(out, COPY, r, 0, run->counts[r]);
    }
    if (gather) before(add_in(run, mine), COPY, run->me, 0, mine);
    if (!gather) after(add_out(run, mine), COPY, run->shape.root, block_start(run, 0, run->me), mine);
    if (!gather && root) before(add_in(run, total), COPY, run->me, 0, total);
}

static void plan_gather_counts(struct run *run) {
    plan_rooted(run, true);
}

static mst_status call_gather_counts(struct run *run, mst_call *call) {
    call->counts = run->counts;
    return mst_gather_with(run->n_outs ? run->out_list[0] : NULL, run->in_list[0], run->counts[run->me],
                           run->shape.dtype, call);
}

static void plan_scatter_counts(struct run *run) {
    plan_rooted(run, false);
}

static mst_status call_scatter_counts(struct run *run, mst_call *call) {
    call->counts = run->counts;
    return mst_scatter_with(run->out_list[0], run->n_ins ? run->in_list[0] : NULL, run->counts[run->me],
                            run->shape.dtype, call);
}

static void plan_reduce_scatter(struct run *run) {
    plan_counts(run);
    size_t mine = run->counts[run->me];
    after(add_out(run, mine), REDUCED, 0, block_start(run, 0, run->me), mine);
    for (int r = 0; r < run->n; r++)
        before(add_in(run, run->counts[r]), COPY, run->me, block_start(run, 0, r), run->counts[r]);
}

static mst_status call_reduce_scatter(struct run *run, mst_call *call) {
    if (run->shape.uneven) call->counts = run->counts;
    return mst_reduce_scatter_with(run->out_list[0], run->in_list, run->shape.count, run->shape.dtype, call);
}

/* The tensors of a coalesced call differ in size; one of them may be empty. */
static size_t tensor(const struct run *run, int t) {
    return t == 0 ? run->shape.count : t == 1 ? run->shape.count / 2 : run->shape.count % 5;
}

static void plan_all_reduce_coalesced(struct run *run) {
    size_t from = 0;
    for (int t = 0; t < TENSORS; t++) {
        size_t count = run->counts[t] = tensor(run, t);
        struct buffer *buffer = add_out(run, count);
        before(buffer, COPY, run->me, from, count);
        after(buffer, REDUCED, 0, from, count);
        from += count;
    }
}

static mst_status call_all_reduce_coalesced(struct run *run, mst_call *call) {
    return mst_all_reduce_coalesced_with(run->out_list, run->counts, TENSORS, run->shape.dtype, call);
}

static void plan_broadcast_coalesced(struct run *run) {
    size_t from = 0;
    for (int t = 0; t < TENSORS; t++) {
        size_t count = run->counts[t] = tensor(run, t);
        struct buffer *buffer = add_out(run, count);
        if (run->me == run->shape.root) before(buffer, COPY, run->me, from, count);
        after(buffer, COPY, run->shape.root, from, count);
        from += count;
    }
}

static mst_status call_broadcast_coalesced(struct run *run, mst_call *call) {
    return mst_broadcast_coalesced_with(run->out_list, run->counts, TENSORS, run->shape.dtype, call);
}

static void plan_all_gather_coalesced(struct run *run) {
    size_t from = 0;
    for (int t = 0; t < TENSORS; t++) {
        size_t count = run->counts[t] = tensor(run, t);
        struct buffer *out = add_out(run, count * (size_t)run->n);
        for (int r = 0; r < run->n; r++) after(out, COPY, r, from, count);
        before(add_in(run, count), COPY, run->me, from, count);
        from += count;
    }
}

static mst_status call_all_gather_coalesced(struct run *run, mst_call *call) {
    return mst_all_gather_coalesced_with(run->out_list, run->in_list, run->counts, TENSORS, run->shape.dtype,
                                         call);
}

static void plan_reduce_scatter_coalesced(struct run *run) {
    size_t n = (size_t)run->n, me = (size_t)run->me, from = 0;
    for (int t = 0; t < TENSORS; t++) {
        size_t count = run->counts[t] = tensor(run, t);
        after(add_out(run, count), REDUCED, 0, from + me * count, count);
        before(add_in(run, n * count), COPY, run->me, from, n * count);
        from += n * count;
    }
}

static mst_status call_reduce_scatter_coalesced(struct run *run, mst_call *call) {
    return mst_reduce_scatter_coalesced_with(run->out_list, run->in_list, run->counts, TENSORS,
                                             run->shape.dtype, call);
}

const struct operation listing[] = {
    {"all_to_all_single", UNEVEN, plan_all_to_all_single, call_all_to_all_single, NULL},
    {"all_to_all", UNEVEN, plan_all_to_all, call_all_to_all, NULL},
    {"all_gather", UNEVEN, plan_all_gather, call_all_gather, NULL},
    {"gather with .counts", ROOTED | UNEVEN, plan_gather_counts, call_gather_counts, NULL},
    {"scatter with .counts", ROOTED | UNEVEN, plan_scatter_counts, call_scatter_counts, NULL},
    {"reduce_scatter", REDUCES | UNEVEN, plan_reduce_scatter, call_reduce_scatter, NULL},
    {"all_reduce_coalesced", REDUCES | ALIKE, plan_all_reduce_coalesced, call_all_reduce_coalesced, NULL},
    {"broadcast_coalesced", ROOTED, plan_broadcast_coalesced, call_broadcast_coalesced, NULL},
    {"all_gather_coalesced", 0, plan_all_gather_coalesced, call_all_gather_coalesced, NULL},
    {"reduce_scatter_coalesced", REDUCES, plan_reduce_scatter_coalesced, call_reduce_scatter_coalesced, NULL},
    {0},
};
