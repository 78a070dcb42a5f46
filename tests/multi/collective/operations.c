/* operations.c - operations with one input and one output buffer: inputs and expected outputs. */
#include "suite.h"

const struct operation *next_operation(const struct operation *at) {
    static const struct operation *const tables[] = {reducing, moving, listing, messaging, using};
    if (!at) return tables[0];
    if (at[1].name) return at + 1;
    for (int i = 0; i < 4; i++)
        for (const struct operation *o = tables[i]; o->name; o++)
            if (o == at) return tables[i + 1];
    return NULL;
}

/* One buffer for input and output, or one for each. */
static struct buffer *own_vector(struct run *run) {
    size_t count = run->shape.count;
    struct buffer *out = add_out(run, count);
    struct buffer *in = run->shape.in_place ? out : add_in(run, count);
    before(in, COPY, run->me, 0, count);
    return out;
}

static const void *given_in(const struct run *run) {
    return run->n_ins ? run->in_list[0] : NULL;
}

static void plan_all_reduce(struct run *run) {
    after(own_vector(run), REDUCED, 0, 0, run->shape.count);
}

static mst_status call_all_reduce(struct run *run, mst_call *call) {
    call->in = given_in(run);
    return mst_all_reduce_with(run->out_list[0], run->shape.count, run->shape.dtype, call);
}

static mst_status call_inference_all_reduce(struct run *run, mst_call *call) {
    call->in = given_in(run);
    return mst_inference_all_reduce_with(run->out_list[0], run->shape.count, run->shape.dtype, call);
}

static void plan_reduce(struct run *run) {
    struct buffer *out = own_vector(run);
    if (run->me == run->shape.root) after(out, REDUCED, 0, 0, run->shape.count);
}

static mst_status call_reduce(struct run *run, mst_call *call) {
    call->in = given_in(run);
    return mst_reduce_with(run->out_list[0], run->shape.count, run->shape.dtype, call);
}

static void plan_scan(struct run *run) {
    run->sources = run->me + 1;
    plan_all_reduce(run);
}

static mst_status call_scan(struct run *run, mst_call *call) {
    call->in = given_in(run);
    return mst_scan_with(run->out_list[0], run->shape.count, run->shape.dtype, call);
}

static void plan_exscan(struct run *run) {
    run->sources = run->me;
    plan_all_reduce(run);
}

static mst_status call_exscan(struct run *run, mst_call *call) {
    call->in = given_in(run);
    return mst_exscan_with(run->out_list[0], run->shape.count, run->shape.dtype, call);
}

/* In place, the output is this rank's block of the input; the other blocks do not change. */
static void plan_reduce_scatter(struct run *run) {
    size_t count = run->shape.count, n = (size_t)run->n, me = (size_t)run->me;
    struct buffer *out = add_out(run, run->shape.in_place ? n * count : count);
    struct buffer *in = run->shape.in_place ? out : add_in(run, n * count);
    before(in, COPY, run->me, 0, n * count);
    if (run->shape.in_place) after(out, COPY, run->me, 0, me * count);
    after(out, REDUCED, 0, me * count, count);
    if (run->shape.in_place) after(out, COPY, run->me, (me + 1) * count, (n - me - 1) * count);
}

static char *own_share(const struct run *run) {
    return (char *)run->out_list[0] + (size_t)run->me * run->shape.count * run->element;
}

static mst_status call_reduce_scatter_tensor(struct run *run, mst_call *call) {
    void *out = run->shape.in_place ? own_share(run) : run->out_list[0];
    const void *in = run->shape.in_place ? run->out_list[0] : run->in_list[0];
    return mst_reduce_scatter_tensor_with(out, in, run->shape.count, run->shape.dtype, call);
}

static mst_status call_reduce_scatter_fn(struct run *run, mst_call *call) {
    void *out = run->shape.in_place ? own_share(run) : run->out_list[0];
    const void *in = run->shape.in_place ? run->out_list[0] : run->in_list[0];
    return mst_reduce_scatter_fn_with(out, in, run->shape.count, run->shape.dtype, call);
}

static void plan_broadcast(struct run *run) {
    size_t count = run->shape.count;
    bool sends = run->me == run->shape.root;
    struct buffer *out = add_out(run, count);
    if (sends) before(run->shape.in_place ? out : add_in(run, count), COPY, run->me, 0, count);
    after(out, COPY, run->shape.root, 0, count);
}

static mst_status call_broadcast(struct run *run, mst_call *call) {
    call->in = given_in(run);
    return mst_broadcast_with(run->out_list[0], run->shape.count, run->shape.dtype, call);
}

/* An output of one block per rank, and an input that is this rank's block of it or a separate buffer. */
static void plan_gathered(struct run *run, bool receives) {
    size_t count = run->shape.count, me = (size_t)run->me;
    bool inside = receives && run->shape.in_place;
    if (receives || run->shape.id % 2) {
        struct buffer *out = add_out(run, count * (size_t)run->n);
        if (inside) before(out, JUNK, 0, 0, me * count);
        if (inside) before(out, COPY, run->me, 0, count);
        for (int r = 0; r < run->n && receives; r++) after(out, COPY, r, 0, count);
    }
    if (!inside) before(add_in(run, count), COPY, run->me, 0, count);
}

static const void *gathered_in(const struct run *run) {
    return run->n_ins ? run->in_list[0] : own_share(run);
}

static void plan_all_gather(struct run *run) {
    plan_gathered(run, true);
}

static mst_status call_all_gather_into_tensor(struct run *run, mst_call *call) {
    return mst_all_gather_into_tensor_with(run->out_list[0], gathered_in(run), run->shape.count,
                                           run->shape.dtype, call);
}

static mst_status call_allgather_fn(struct run *run, mst_call *call) {
    return mst_allgather_fn_with(run->out_list[0], gathered_in(run), run->shape.count, run->shape.dtype,
                                 call);
}

static void plan_gather(struct run *run) {
    plan_gathered(run, run->me == run->shape.root);
}

/* On ranks that do not receive, out is NULL or a buffer that must not change. */
static mst_status call_gather(struct run *run, mst_call *call) {
    return mst_gather_with(run->n_outs ? run->out_list[0] : NULL, gathered_in(run), run->shape.count,
                           run->shape.dtype, call);
}

static void plan_scatter(struct run *run) {
    size_t count = run->shape.count, n = (size_t)run->n, me = (size_t)run->me;
    bool sends = run->me == run->shape.root, inside = sends && run->shape.in_place;
    struct buffer *out = add_out(run, inside ? n * count : count);
    if (sends) before(inside ? out : add_in(run, n * count), COPY, run->me, 0, n * count);
    if (inside) return; /* in place: its block does not move */
    after(out, COPY, run->shape.root, me * count, count);
}

static mst_status call_scatter(struct run *run, mst_call *call) {
    bool inside = run->me == run->shape.root && run->shape.in_place;
    return mst_scatter_with(inside ? own_share(run) : run->out_list[0],
                            inside ? run->out_list[0] : (void *)(uintptr_t)given_in(run), run->shape.count,
                            run->shape.dtype, call);
}

const struct operation reducing[] = {
    {"all_reduce", REDUCES | IN_PLACE | ALIKE, plan_all_reduce, call_all_reduce, NULL},
    {"inference_all_reduce", REDUCES | IN_PLACE | ALIKE, plan_all_reduce, call_inference_all_reduce, NULL},
    {"reduce", REDUCES | IN_PLACE | ROOTED, plan_reduce, call_reduce, NULL},
    {"scan", REDUCES | SCANS | IN_PLACE, plan_scan, call_scan, NULL},
    {"exscan", REDUCES | SCANS | IN_PLACE, plan_exscan, call_exscan, NULL},
    {"reduce_scatter_tensor", REDUCES | IN_PLACE, plan_reduce_scatter, call_reduce_scatter_tensor, NULL},
    {"reduce_scatter_fn", REDUCES | IN_PLACE, plan_reduce_scatter, call_reduce_scatter_fn, NULL},
    {0},
};

const struct operation moving[] = {
    {"broadcast", IN_PLACE | ROOTED, plan_broadcast, call_broadcast, NULL},
    {"all_gather_into_tensor", IN_PLACE, plan_all_gather, call_all_gather_into_tensor, NULL},
    {"allgather_fn", IN_PLACE, plan_all_gather, call_allgather_fn, NULL},
    {"gather", IN_PLACE | ROOTED, plan_gather, call_gather, NULL},
    {"scatter", IN_PLACE | ROOTED, plan_scatter, call_scatter, NULL},
    {0},
};
