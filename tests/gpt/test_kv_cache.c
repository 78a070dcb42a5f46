/*
 * test_kv_cache.c - reading token by token gives the same logits as reading all tokens at once, for any
 * number of sequences in a batch. Without a BLAS the bits are the same.
 */
#include "kit.h"
#include "nn/kv_cache.h"
#include "nn/matmul.h"

enum { BATCH = 2, TIME = 20 };

/* Copies `count` tokens of each sequence, starting at `from`. */
static void columns(const int *tokens, size_t from, size_t count, int *to) {
    for (size_t b = 0; b < BATCH; b++) memcpy(to + b * count, tokens + b * TIME + from, count * sizeof *to);
}

static void compare(const struct gpt_kv_cache *cache, const struct gpt_acts *acts,
                    const struct gpt_config *config) {
    double limit = strcmp(gpt_matmul_kind(), "blas") == 0 ? 1e-5 : 0;
    for (size_t b = 0; b < BATCH; b++) {
        const float *wanted = acts->logits + (b * TIME + cache->length - 1) * config->vocabulary;
        double difference =
            kit_max_difference(cache->logits + b * config->vocabulary, wanted, config->vocabulary);
        if (!(difference <= limit))
            fail_msg("after %zu tokens logits differ by %g", cache->length, difference);
    }
}

static void test_token_by_token(void **state) {
    (void)state;
    struct gpt_config config = kit_config();
    struct gpt_model *model = kit_model(&config, NULL);
    struct gpt_acts *acts = gpt_acts_new(model, BATCH, TIME);
    struct gpt_kv_cache *cache = gpt_kv_cache_new(model, BATCH, config.context, 9);
    int tokens[BATCH * TIME], some[BATCH * 9];
    assert_non_null(cache);
    kit_tokens(&config, BATCH * TIME, "tokens", tokens);
    assert_well(gpt_forward(model, acts, tokens, NULL));
    for (int again = 0; again < 2; again++) {
        static const size_t pieces[] = {9, 1, 1, 4, 1, 1, 3};
        for (size_t i = 0; i < COUNT_OF(pieces); i++) {
            columns(tokens, cache->length, pieces[i], some);
            assert_well(gpt_kv_cache_forward(cache, some, pieces[i], NULL));
            compare(cache, acts, &config);
        }
        gpt_kv_cache_truncate(cache, 9 * (size_t)again);
        if (!again) continue;
        columns(tokens, 9, 1, some);
        assert_well(gpt_kv_cache_forward(cache, some, 1, NULL));
        compare(cache, acts, &config);
    }
    gpt_kv_cache_free(cache);
    gpt_acts_free(acts);
    gpt_model_free(model);
}

/* Five sequences in one batch, token by token; and each alone, all tokens at once. */
static void test_sequences_together(void **state) {
    (void)state;
    enum { TEXTS = 5 };
    struct gpt_config config = kit_config();
    struct gpt_model *model = kit_model(&config, NULL);
    struct gpt_kv_cache *all = gpt_kv_cache_new(model, TEXTS, config.context, 3),
                        *one = gpt_kv_cache_new(model, 1, config.context, config.context);
    int *tokens = calloc(TEXTS * config.context, sizeof *tokens), some[TEXTS * 3];
    kit_tokens(&config, TEXTS * config.context, "tokens", tokens);
    for (size_t n = 3; all->length + n <= config.context; n = 1) {
        for (size_t b = 0; b < TEXTS; b++)
            memcpy(some + b * n, tokens + b * config.context + all->length, n * sizeof *some);
        assert_well(gpt_kv_cache_forward(all, some, n, NULL));
        for (size_t b = 0; b < TEXTS; b++) {
            gpt_kv_cache_truncate(one, 0);
            assert_well(gpt_kv_cache_forward(one, tokens + b * config.context, all->length, NULL));
            if (strcmp(gpt_matmul_kind(), "blas") != 0)
                assert_memory_equal(one->logits, all->logits + b * config.vocabulary,
                                    config.vocabulary * sizeof(float));
        }
    }
    free(tokens);
    gpt_kv_cache_free(all);
    gpt_kv_cache_free(one);
    gpt_model_free(model);
}

/* Two stages, as a pipeline generates. */
static void test_stages(void **state) {
    (void)state;
    struct gpt_config config = kit_config();
    struct gpt_shard shard[2] = {{0, 2, 0, 1}, {2, 3, 0, 1}};
    struct gpt_model *whole = kit_model(&config, NULL),
                     *stage[2] = {kit_model(&config, &shard[0]), kit_model(&config, &shard[1])};
    struct gpt_kv_cache *cache = gpt_kv_cache_new(whole, 1, 10, 5),
                        *of[2] = {gpt_kv_cache_new(stage[0], 1, 10, 5), gpt_kv_cache_new(stage[1], 1, 10, 5)};
    int tokens[10];
    kit_tokens(&config, 10, "tokens", tokens);
    for (size_t at = 0, n = 5; at < 10; at += n, n = 1) {
        assert_well(gpt_kv_cache_forward(cache, tokens + at, n, NULL));
        assert_well(gpt_kv_cache_forward(of[0], tokens + at, n, NULL));
        memcpy(gpt_acts_input(&of[1]->acts), gpt_acts_output(&of[0]->acts), n * config.width * sizeof(float));
        assert_well(gpt_kv_cache_forward(of[1], NULL, n, NULL));
        assert_memory_equal(of[1]->logits, cache->logits, config.vocabulary * sizeof(float));
    }
    assert_int_not_equal(gpt_kv_cache_forward(cache, tokens, 1, NULL), 0);
    assert_contains(gpt_error(), "10 in all");
    gpt_kv_cache_free(cache);
    gpt_model_free(whole);
    for (int i = 0; i < 2; i++) {
        gpt_kv_cache_free(of[i]);
        gpt_model_free(stage[i]);
    }
}

static void test_sample_token(void **state) {
    (void)state;
    const float likely[4] = {0, 2, 1, -30};
    float logits[4];
    int seen[4] = {0};
    memcpy(logits, likely, sizeof logits);
    assert_int_equal(gpt_sample_token(logits, 4, 0, 0.99), 1);
    for (int i = 0; i < 1000; i++) {
        memcpy(logits, likely, sizeof logits);
        seen[gpt_sample_token(logits, 4, 1, i / 1000.0)]++;
    }
    assert_in_range(seen[0], 85, 95);
    assert_in_range(seen[1], 660, 670);
    assert_in_range(seen[2], 240, 250);
    assert_int_equal(seen[3], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_by_token),
        cmocka_unit_test(test_sequences_together),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_sample_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
