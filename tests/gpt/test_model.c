/* test_model.c - the gradient of the whole model; the same model in stages, slices and micro-batches. */
#include "kit.h"

enum { BATCH = 2, TIME = 12, ROWS = BATCH * TIME };

struct run {
    struct gpt_model *model;
    struct gpt_acts *acts;
    int tokens[ROWS], targets[ROWS];
};

static void run_open(struct run *r, const struct gpt_config *config, const struct gpt_shard *shard) {
    r->model = kit_model(config, shard);
    r->acts = gpt_acts_new(r->model, BATCH, TIME);
    assert_non_null(r->acts);
    kit_tokens(config, ROWS, "tokens", r->tokens);
    kit_tokens(config, ROWS, "targets", r->targets);
}

static void run_close(struct run *r) {
    gpt_acts_free(r->acts);
    gpt_model_free(r->model);
}

static double loss_of(void *context) {
    struct run *r = context;
    assert_well(gpt_forward(r->model, r->acts, r->tokens, NULL));
    double loss = 0;
    gpt_loss(r->model, r->acts, r->targets, 1.0f / ROWS, &loss);
    return loss / ROWS;
}

static void check_gradient(struct gpt_config config) {
    struct run r;
    run_open(&r, &config, NULL);
    loss_of(&r);
    assert_well(gpt_backward(r.model, r.acts, r.tokens, NULL));
    for (size_t i = 0; i < r.model->params; i++) {
        const struct gpt_param *p = &r.model->param[i];
        kit_check_gradient(p->name, loss_of, &r, r.model->values + p->offset, p->count,
                           r.model->gradients + p->offset, 12);
    }
    run_close(&r);
}

static void test_gradient(void **state) {
    (void)state;
    struct gpt_config config = kit_config();
    check_gradient(config);
    config.norm = GPT_RMS_NORM;
    config.layers = 1;
    check_gradient(config);
}

/* Compares the gradients of parameters with the same name. */
static void compare(const struct gpt_model *whole, const struct gpt_model *sharded, const float *of_whole,
                    const float *of_part, double within) {
    for (size_t i = 0; i < sharded->params; i++) {
        const struct gpt_param *p = &sharded->param[i], *q = whole->param;
        while (strcmp(p->name, q->name) != 0) q++;
        for (size_t r = 0; r < gpt_param_runs(p); r++) {
            struct gpt_run run = gpt_param_run(p, &sharded->shard, r);
            double apart = kit_max_difference(of_part + p->offset + run.local,
                                              of_whole + q->offset + run.whole, run.count);
            if (!(apart <= within)) fail_msg("%s: gradients are %g apart", p->name, apart);
        }
    }
}

/* Three stages with two micro-batches in flight; one stage that runs them one after the other. */
static void test_stages(void **state) {
    (void)state;
    struct gpt_config config = kit_config();
    enum { STAGES = 3, MICRO = 2 };
    static const size_t cuts[] = {0, 1, 1, 3}; /* the middle stage has no layers */
    struct run whole, stage[STAGES];
    struct gpt_acts *acts[STAGES][MICRO];
    double loss = 0, wanted = 0;
    run_open(&whole, &config, NULL);
    for (int m = 0; m < MICRO; m++) {
        assert_well(gpt_forward(whole.model, whole.acts, whole.tokens, NULL));
        gpt_loss(whole.model, whole.acts, whole.targets, 1.0f / ROWS, &wanted);
        assert_well(gpt_backward(whole.model, whole.acts, whole.tokens, NULL));
    }
    for (size_t s = 0; s < STAGES; s++) {
        struct gpt_shard shard = {cuts[s], cuts[s + 1], 0, 1};
        run_open(&stage[s], &config, &shard);
        for (int m = 0; m < MICRO; m++)
            assert_non_null(acts[s][m] = gpt_acts_new(stage[s].model, BATCH, TIME));
    }
    size_t bytes = ROWS * config.width * sizeof(float);
    for (int m = 0; m < MICRO; m++)
        for (size_t s = 0; s < STAGES; s++) {
            if (s > 0) memcpy(gpt_acts_input(acts[s][m]), gpt_acts_output(acts[s - 1][m]), bytes);
            assert_well(gpt_forward(stage[s].model, acts[s][m], s ? NULL : stage[s].tokens, NULL));
        }
    for (int m = 0; m < MICRO; m++)
        for (size_t s = STAGES; s-- > 0;) {
            if (s + 1 == STAGES)
                gpt_loss(stage[s].model, acts[s][m], stage[s].targets, 1.0f / ROWS, &loss);
            else
                memcpy(gpt_acts_gradient(acts[s][m]), gpt_acts_gradient(acts[s + 1][m]), bytes);
            assert_well(gpt_backward(stage[s].model, acts[s][m], stage[s].tokens, NULL));
        }
    assert_true(loss == wanted);
    /* the tied table: the gradients of both copies add up to that of the whole model */
    for (size_t i = 0; i < config.vocabulary * config.width; i++)
        stage[0].model->dtable[i] += stage[2].model->dtable[i];
    memcpy(stage[2].model->dtable, stage[0].model->dtable, config.vocabulary * config.width * sizeof(float));
    for (size_t s = 0; s < STAGES; s++) {
        compare(whole.model, stage[s].model, whole.model->gradients, stage[s].model->gradients, 1e-6);
        for (int m = 0; m < MICRO; m++) gpt_acts_free(acts[s][m]);
        run_close(&stage[s]);
    }
    run_close(&whole);
}

/*
 * Two slices, one thread each. One computes at a time: it runs until it needs a sum, then waits until the
 * other thread needs the same sum.
 */
struct pair {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    float *given[2];
    int round;
};

struct member {
    struct pair *pair;
    int index, sums;
    size_t ready; /* gradients that gradient_ready has reported */
    struct run run;
    double loss;
};

static int sum_both(void *context, float *x, size_t count) {
    struct member *m = context;
    struct pair *p = m->pair;
    int round = p->round;
    m->sums++;
    p->given[m->index] = x;
    if (p->given[!m->index]) {
        for (size_t i = 0; i < count; i++) p->given[0][i] = p->given[1][i] = p->given[0][i] + p->given[1][i];
        p->given[0] = p->given[1] = NULL;
        p->round++;
        pthread_cond_broadcast(&p->changed);
    }
    while (p->round == round) pthread_cond_wait(&p->changed, &p->lock);
    return 0;
}

static int ready(void *context, size_t offset, size_t count) {
    struct member *m = context;
    assert_int_equal(offset + count + m->ready, m->run.model->count);
    m->ready += count;
    return 0;
}

static void *slice(void *context) {
    struct member *m = context;
    struct run *r = &m->run;
    struct gpt_hooks hooks = {
        .context = m, .reduce_forward = sum_both, .reduce_backward = sum_both, .gradient_ready = ready};
    pthread_mutex_lock(&m->pair->lock);
    assert_well(gpt_forward(r->model, r->acts, r->tokens, &hooks));
    m->loss = 0;
    gpt_loss(r->model, r->acts, r->targets, 1.0f / ROWS, &m->loss);
    m->loss /= ROWS;
    assert_well(gpt_backward(r->model, r->acts, r->tokens, &hooks));
    pthread_mutex_unlock(&m->pair->lock);
    return NULL;
}

static void test_slices(void **state) {
    (void)state;
    struct gpt_config config = kit_config();
    struct pair pair = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {NULL, NULL}, 0};
    struct member member[2];
    struct run whole;
    pthread_t thread[2];
    run_open(&whole, &config, NULL);
    double wanted = loss_of(&whole);
    assert_well(gpt_backward(whole.model, whole.acts, whole.tokens, NULL));
    for (int i = 0; i < 2; i++) {
        struct gpt_shard shard = {0, config.layers, (size_t)i, 2};
        member[i] = (struct member){.pair = &pair, .index = i};
        run_open(&member[i].run, &config, &shard);
    }
    for (int i = 0; i < 2; i++) thread[i] = start_thread(slice, &member[i]);
    for (int i = 0; i < 2; i++) join_thread(thread[i]);
    for (int i = 0; i < 2; i++) {
        assert_true(fabs(member[i].loss - wanted) < 1e-6);
        assert_int_equal(member[i].sums, 4 * config.layers);
        assert_int_equal(member[i].ready, member[i].run.model->count);
        compare(whole.model, member[i].run.model, whole.model->values, member[i].run.model->values, 0);
        compare(whole.model, member[i].run.model, whole.model->gradients, member[i].run.model->gradients,
                2e-6);
        run_close(&member[i].run);
    }
    run_close(&whole);
}

static int refuse(void *context, float *x, size_t count) {
    (void)context, (void)x, (void)count;
    return 42;
}

static void test_a_hook_ends_the_pass(void **state) {
    (void)state;
    struct gpt_config config = kit_config();
    struct run r;
    run_open(&r, &config, NULL);
    assert_int_equal(gpt_forward(r.model, r.acts, r.tokens, &(struct gpt_hooks){.reduce_forward = refuse}),
                     42);
    loss_of(&r);
    assert_int_equal(gpt_backward(r.model, r.acts, r.tokens, &(struct gpt_hooks){.reduce_backward = refuse}),
                     42);
    run_close(&r);
}

static void test_errors(void **state) {
    (void)state;
    struct gpt_config config = kit_config();
    struct run r;
    run_open(&r, &config, NULL);
    r.tokens[5] = 40;
    assert_int_not_equal(gpt_forward(r.model, r.acts, r.tokens, NULL), 0);
    assert_contains(gpt_error(), "token 40");
    assert_null(gpt_acts_new(r.model, 1, 25));
    assert_contains(gpt_error(), "up to 24 tokens");
    assert_null(gpt_model_new(&config, &(struct gpt_shard){0, 3, 0, 3}, 1));
    assert_contains(gpt_error(), "cannot be split by tp=3");
    assert_null(gpt_model_new(&config, &(struct gpt_shard){2, 4, 0, 1}, 1));
    config.heads = 5;
    assert_null(gpt_model_new(&config, &(struct gpt_shard){0, 3, 0, 1}, 1));
    assert_contains(gpt_error(), "not a multiple of 5 heads");
    run_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient), cmocka_unit_test(test_stages),
        cmocka_unit_test(test_slices),   cmocka_unit_test(test_a_hook_ends_the_pass),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
