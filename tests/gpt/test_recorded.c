/*
 * test_recorded.c - models of the families GPT-2 and OPT give the logits that record.py recorded from the
 * transformers library.
 */
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "kit.h"

struct recorded {
    size_t count;
    int tokens[32];
    float *logits;
};

static struct recorded read_case(const char *directory, size_t vocabulary) {
    char path[512];
    struct gpt_tensors t;
    struct recorded r = {0};
    float tokens[32];
    snprintf(path, sizeof path, "%s/case.safetensors", directory);
    assert_well(gpt_tensors_open(path, &t));
    const struct gpt_tensor *ids = gpt_tensors_find(&t, "tokens"), *logits = gpt_tensors_find(&t, "logits");
    assert_true(ids && logits && ids->count <= 32 && logits->count == ids->count * vocabulary);
    r.count = ids->count;
    r.logits = calloc(logits->count, sizeof *r.logits);
    gpt_tensors_read(&t, ids, 0, 1, ids->count, tokens);
    gpt_tensors_read(&t, logits, 0, 1, logits->count, r.logits);
    for (size_t i = 0; i < r.count; i++) r.tokens[i] = (int)tokens[i];
    gpt_tensors_free(&t);
    return r;
}

static void check(const char *name) {
    char directory[400];
    struct gpt_config config;
    snprintf(directory, sizeof directory, RECORDED "/%s", name);
    assert_well(gpt_checkpoint_config(directory, &config));
    struct gpt_shard whole = gpt_shard_whole(&config);
    struct gpt_model *model = gpt_model_new(&config, &whole, 1);
    assert_well(gpt_checkpoint_load(directory, model, NULL));
    struct recorded r = read_case(directory, config.vocabulary);
    struct gpt_acts *acts = gpt_acts_new(model, 1, r.count);
    assert_well(gpt_forward(model, acts, r.tokens, NULL));
    double apart = kit_max_difference(acts->logits, r.logits, r.count * config.vocabulary);
    print_message("%s: logits at most %.2g apart\n", name, apart);
    assert_true(apart < 1e-5);
    free(r.logits);
    gpt_acts_free(acts);
    gpt_model_free(model);
}

static void test_gpt2(void **state) {
    (void)state;
    check("gpt2");
    check("gpt2_bf16");
}

static void test_opt(void **state) {
    (void)state;
    check("opt");
    check("opt_f16");
}

/* Slices and stages load the same weights as the whole model. */
static void test_slices(void **state) {
    (void)state;
    struct gpt_config config;
    assert_well(gpt_checkpoint_config(RECORDED "/opt", &config));
    struct gpt_shard whole = gpt_shard_whole(&config),
                     parts[] = {{0, 1, 1, 1}, {0, 1, 0, 1}, {1, 2, 0, 1}, {0, 2, 2, 3}};
    struct gpt_model *all = gpt_model_new(&config, &whole, 1);
    assert_well(gpt_checkpoint_load(RECORDED "/opt", all, NULL));
    config.inner = 40; /* not divisible by 3 */
    assert_null(gpt_model_new(&config, &parts[0], 1));
    assert_null(gpt_model_new(&config, &parts[3], 1));
    for (int i = 1; i < 3; i++) {
        struct gpt_model *m = gpt_model_new(&config, &parts[i], 1);
        assert_well(gpt_checkpoint_load(RECORDED "/opt", m, NULL));
        for (size_t p = 0, q = 0; p < m->params; p++, q = 0) {
            while (strcmp(all->param[q].name, m->param[p].name) != 0) q++;
            assert_memory_equal(m->values + m->param[p].offset, all->values + all->param[q].offset,
                                m->param[p].count * sizeof(float));
        }
        gpt_model_free(m);
    }
    gpt_model_free(all);
}

static void test_wrong_shapes(void **state) {
    (void)state;
    struct gpt_config config;
    assert_well(gpt_checkpoint_config(RECORDED "/gpt2", &config));
    config.layers = 3;
    struct gpt_shard whole = gpt_shard_whole(&config);
    struct gpt_model *model = gpt_model_new(&config, &whole, 1);
    assert_int_not_equal(gpt_checkpoint_load(RECORDED "/gpt2", model, NULL), 0);
    assert_contains(gpt_error(), "no tensor 'transformer.h.2.ln_1.weight'");
    gpt_model_free(model);
    config.layers = 2;
    config.inner = 32;
    whole = gpt_shard_whole(&config);
    model = gpt_model_new(&config, &whole, 1);
    assert_int_not_equal(gpt_checkpoint_load(RECORDED "/gpt2", model, NULL), 0);
    assert_contains(gpt_error(), "'transformer.h.0.mlp.c_fc.weight' does not have the shape");
    gpt_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_opt),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
