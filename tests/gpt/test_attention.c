/*
 * test_attention.c - attention against the plain formula in double; blocks of keys against all keys at once;
 * the backward pass.
 */
#include "kit.h"

enum { BATCH = 2, HEADS = 3, WIDTH = 8, TIME = 150, LOCAL = HEADS * WIDTH, ROW = 3 * LOCAL };

/* One attention over TIME tokens, q, k and v in one row as the model has them. */
struct case_ {
    float *qkv, *dqkv, *out, *dout, *lse, *sum, *scratch;
};

static struct case_ case_new(void) {
    return (struct case_){
        kit_new(BATCH * TIME * ROW, "qkv", 1.5f),   kit_new(BATCH * TIME * ROW, "", 0),
        kit_new(BATCH * TIME * LOCAL, "", 0),       kit_new(BATCH * TIME * LOCAL, "dout", 1),
        kit_new(BATCH * TIME * HEADS, "", 0),       kit_new(BATCH * TIME * HEADS, "", 0),
        kit_new(gpt_attention_scratch(TIME), "", 0)};
}

static void case_free(struct case_ *c) {
    float *all[] = {c->qkv, c->dqkv, c->out, c->dout, c->lse, c->sum, c->scratch};
    for (size_t i = 0; i < COUNT_OF(all); i++) free(all[i]);
}

static struct gpt_rows part(float *qkv, size_t which, size_t from) {
    return (struct gpt_rows){qkv + which * LOCAL + from * ROW, TIME * ROW, ROW};
}

static struct gpt_rows rows(float *x, size_t from) {
    return (struct gpt_rows){x + from * LOCAL, TIME * LOCAL, LOCAL};
}

/* Queries [from, from + count), as held by one process of a ring, with its own lse and sum. */
static struct gpt_attention queries(struct case_ *c, size_t from, size_t count) {
    return (struct gpt_attention){.batch = BATCH,
                                  .heads = HEADS,
                                  .head_width = WIDTH,
                                  .queries = count,
                                  .position = from,
                                  .q = part(c->qkv, 0, from),
                                  .out = rows(c->out, from),
                                  .lse = c->lse,
                                  .sum = c->sum,
                                  .scratch = c->scratch};
}

static struct gpt_keys keys(struct case_ *c, size_t from, size_t count) {
    return (struct gpt_keys){
        .count = count, .position = from, .k = part(c->qkv, 1, from), .v = part(c->qkv, 2, from)};
}

static void back(struct case_ *c, const struct gpt_attention *a, size_t query, size_t from, size_t count) {
    struct gpt_keys k = keys(c, from, count);
    gpt_attend_back_block(a, &k, rows(c->dout, query), part(c->dqkv, 0, query), part(c->dqkv, 1, from),
                          part(c->dqkv, 2, from));
}

static double score(const struct case_ *c, size_t b, size_t h, size_t t, size_t u) {
    const float *q = c->qkv + (b * TIME + t) * ROW + h * WIDTH,
                *k = c->qkv + (b * TIME + u) * ROW + LOCAL + h * WIDTH;
    return kit_dot(q, k, WIDTH) / sqrt(WIDTH);
}

static double plain(const struct case_ *c, size_t b, size_t h, size_t t, size_t i) {
    double sum = 0, value = 0;
    for (size_t u = 0; u <= t; u++) {
        double e = exp(score(c, b, h, t, u));
        sum += e;
        value += e * (double)c->qkv[(b * TIME + u) * ROW + 2 * LOCAL + h * WIDTH + i];
    }
    return value / sum;
}

static void test_plain_formula(void **state) {
    (void)state;
    struct case_ c = case_new();
    struct gpt_attention a = queries(&c, 0, TIME);
    struct gpt_keys k = keys(&c, 0, TIME);
    gpt_attend(&a, &k);
    for (size_t b = 0; b < BATCH; b++)
        for (size_t h = 0; h < HEADS; h++)
            for (size_t t = 0; t < TIME; t += 7) {
                double wanted = plain(&c, b, h, t, 3),
                       got = (double)c.out[(b * TIME + t) * LOCAL + h * WIDTH + 3];
                assert_true(fabs(wanted - got) < 5e-6);
            }
    case_free(&c);
}

/* A ring of processes: each holds some queries and receives all blocks of keys, its own first. */
static void ring(struct case_ *c, const size_t *cuts, size_t n, bool backward) {
    for (size_t mine = 0; mine < n; mine++) {
        size_t from = cuts[mine], count = cuts[mine + 1] - from;
        struct gpt_attention a = queries(c, from, count);
        gpt_attend_begin(&a);
        for (size_t i = 0; i < n; i++) {
            size_t block = (mine + n - i) % n;
            struct gpt_keys k = keys(c, cuts[block], cuts[block + 1] - cuts[block]);
            gpt_attend_block(&a, &k);
        }
        gpt_attend_end(&a);
        if (!backward) continue;
        gpt_attend_back_begin(&a, rows(c->dout, from));
        for (size_t i = 0; i < n; i++) {
            size_t block = (mine + n - i) % n;
            back(c, &a, from, cuts[block], cuts[block + 1] - cuts[block]);
        }
    }
}

static void test_blocks_equal_one_block(void **state) {
    (void)state;
    static const size_t one[] = {0, TIME}, some[] = {0, 38, 76, 113, TIME}, odd[] = {0, 1, 64, 65, 149, TIME};
    struct case_ whole = case_new();
    ring(&whole, one, 1, true);
    const size_t *const cuts[] = {some, odd};
    const size_t counts[] = {COUNT_OF(some) - 1, COUNT_OF(odd) - 1};
    for (size_t i = 0; i < 2; i++) {
        struct case_ c = case_new();
        ring(&c, cuts[i], counts[i], true);
        assert_true(kit_max_difference(c.out, whole.out, BATCH * TIME * LOCAL) < 2e-6);
        assert_true(kit_max_difference(c.dqkv, whole.dqkv, BATCH * TIME * ROW) < 2e-5);
        case_free(&c);
    }
    case_free(&whole);
}

static double forward(void *context) {
    static const size_t one[] = {0, TIME};
    struct case_ *c = context;
    ring(c, one, 1, false);
    return kit_dot(c->out, c->dout, BATCH * TIME * LOCAL);
}

static void test_backward(void **state) {
    (void)state;
    static const size_t some[] = {0, 38, 76, 113, TIME};
    struct case_ c = case_new();
    ring(&c, some, COUNT_OF(some) - 1, true);
    kit_check_gradient("attention", forward, &c, c.qkv, BATCH * TIME * ROW, c.dqkv, 150);
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_formula),
        cmocka_unit_test(test_blocks_equal_one_block),
        cmocka_unit_test(test_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
