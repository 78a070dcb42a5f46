/*
 * users.c - reductions with a user-defined operation that depends on the order: an item {a, b, c} of three
 * elements stands for the map x -> a x + b of integers, and the operation composes maps. c is that of the
 * first item.
 */
#include "suite.h"

enum { UNIT = 3 }; /* no chunk of the engines is a multiple of it */

static uint64_t load(const char *from, size_t size) {
    uint64_t value = 0;
    memcpy(&value, from, size < 8 ? size : 8);
    return value;
}

static void store(char *to, size_t size, uint64_t value) {
    memcpy(to, &value, size < 8 ? size : 8);
}

/* inout = in, then inout. The rest of an element of 16 bytes is that of in. */
static void compose(char *inout, const char *in, size_t size) {
    uint64_t a = load(in, size), b = load(in + size, size), c = load(inout, size),
             d = load(inout + size, size);
    memcpy(inout, in, UNIT * size);
    store(inout, size, a * c);
    store(inout + size, size, c * b + d);
}

static void compose_all(void *inout, const void *in, size_t count, mst_dtype dtype, void *arg) {
    size_t size = mst_dtype_size(dtype);
    if (count % UNIT || arg != &suite) abort();
    for (size_t i = 0; i < count; i += UNIT)
        compose((char *)inout + i * size, (const char *)in + i * size, size);
}

static mst_op user_op(void) {
    static mst_op op;
    if (!op) EXPECT_OK(mst_op_create(compose_all, &suite, &op, .unit = UNIT));
    return op;
}

void reduced_by_user(const struct run *run, size_t i, void *element) {
    char all[UNIT * ELEMENT_MAX], item[UNIT * ELEMENT_MAX];
    for (int r = run->sources - 1; r >= 0; r--) {
        for (size_t part = 0; part < UNIT; part++)
            input_at(run, r, i / UNIT * UNIT + part, item + part * run->element);
        if (r == run->sources - 1)
            memcpy(all, item, sizeof all);
        else
            compose(all, item, run->element);
    }
    memcpy(element, all + i % UNIT * run->element, run->element);
}

static void plan_vector(struct run *run, bool gets) {
    size_t count = run->shape.count -= run->shape.count % UNIT;
    struct buffer *out = add_out(run, count), *in = run->shape.in_place ? out : add_in(run, count);
    before(in, COPY, run->me, 0, count);
    if (gets) after(out, REDUCED, 0, 0, count);
}

static void use(const struct run *run, mst_call *call) {
    call->op = user_op();
    if (run->n_ins) call->in = run->in_list[0];
}

static void plan_all_reduce(struct run *run) {
    plan_vector(run, true);
}

static mst_status call_all_reduce(struct run *run, mst_call *call) {
    use(run, call);
    return mst_all_reduce_with(run->out_list[0], run->shape.count, run->shape.dtype, call);
}

static void plan_reduce(struct run *run) {
    plan_vector(run, run->me == run->shape.root);
}

static mst_status call_reduce(struct run *run, mst_call *call) {
    use(run, call);
    return mst_reduce_with(run->out_list[0], run->shape.count, run->shape.dtype, call);
}

static void plan_scan(struct run *run) {
    run->sources = run->me + 1;
    plan_vector(run, true);
}

static mst_status call_scan(struct run *run, mst_call *call) {
    use(run, call);
    return mst_scan_with(run->out_list[0], run->shape.count, run->shape.dtype, call);
}

/* The result of rank 0 is undefined; in place, its buffer does not change. */
static void plan_exscan(struct run *run) {
    run->sources = run->me;
    run->shape.in_place = true;
    plan_vector(run, run->me > 0);
}

static mst_status call_exscan(struct run *run, mst_call *call) {
    use(run, call);
    return mst_exscan_with(run->out_list[0], run->shape.count, run->shape.dtype, call);
}

static void plan_reduce_scatter_tensor(struct run *run) {
    size_t count = run->shape.count -= run->shape.count % UNIT, n = (size_t)run->n;
    after(add_out(run, count), REDUCED, 0, (size_t)run->me * count, count);
    before(add_in(run, n * count), COPY, run->me, 0, n * count);
}

static mst_status call_reduce_scatter_tensor(struct run *run, mst_call *call) {
    call->op = user_op();
    return mst_reduce_scatter_tensor_with(run->out_list[0], run->in_list[0], run->shape.count,
                                          run->shape.dtype, call);
}

/* Blocks of different lengths, some of them empty. */
static void plan_reduce_scatter(struct run *run) {
    size_t each = run->shape.count / 8 / UNIT * UNIT, at = 0;
    for (int r = 0; r < run->n; r++) {
        size_t count = run->counts[r] = (size_t)(r % 4) * each;
        if (r == run->me) after(add_out(run, count), REDUCED, 0, at, count);
        before(add_in(run, count), COPY, run->me, at, count);
        at += count;
    }
}

static mst_status call_reduce_scatter(struct run *run, mst_call *call) {
    call->op = user_op();
    call->counts = run->counts;
    return mst_reduce_scatter_with(run->out_list[0], run->in_list, 0, run->shape.dtype, call);
}

const struct operation using[] = {
    {"all_reduce with a user op", USER | IN_PLACE, plan_all_reduce, call_all_reduce, NULL},
    {"reduce with a user op", USER | IN_PLACE | ROOTED, plan_reduce, call_reduce, NULL},
    {"scan with a user op", USER | IN_PLACE, plan_scan, call_scan, NULL},
    {"exscan with a user op", USER, plan_exscan, call_exscan, NULL},
    {"reduce_scatter_tensor with a user op", USER, plan_reduce_scatter_tensor, call_reduce_scatter_tensor,
     NULL},
    {"reduce_scatter with a user op", USER, plan_reduce_scatter, call_reduce_scatter, NULL},
    {0},
};
