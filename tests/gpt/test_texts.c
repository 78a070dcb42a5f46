/*
 * test_texts.c - the texts of the options: which tokens come from the prompt, which are sampled, and with
 * which random numbers.
 */
#include "app/texts.h"
#include "base/random.h"
#include "kit.h"

enum { TOKENS = 256, CONTEXT = 8 };

static struct gpt_texts open_texts(const char *prompt, size_t samples) {
    struct gpt_config config = {.vocabulary = TOKENS, .context = CONTEXT};
    struct gpt_options options = {.prompt = prompt, .samples = samples, .tokens = 3, .seed = 7};
    struct gpt_texts texts;
    assert_well(gpt_texts_open(&options, &config, &texts));
    assert_int_equal(texts.count, samples);
    return texts;
}

/* With equal logits, the token is the random number. */
static int next(const struct gpt_texts *texts, size_t text, size_t length) {
    float logits[TOKENS] = {0};
    return gpt_generated_next_token(&texts->list[text], length, logits, TOKENS, 1);
}

static void test_prompt_then_samples(void **state) {
    (void)state;
    struct gpt_texts texts = open_texts("abc", 2);
    uint64_t first = gpt_random_stream(7, "generate");
    for (size_t text = 0; text < 2; text++)
        for (size_t length = 1; length < 3; length++)
            assert_int_equal(next(&texts, text, length), "abc"[length]);
    int different = 0;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(next(&texts, 0, 3 + i), (int)(gpt_random_uniform(first, i) * TOKENS));
        different += next(&texts, 0, 3 + i) != next(&texts, 1, 3 + i);
    }
    assert_in_range(different, 6, 8);
    gpt_texts_close(&texts);
}

static void test_which_tokens_count(void **state) {
    (void)state;
    struct gpt_texts texts = open_texts("abc", 1);
    static const int counts[] = {0, 1, 1, 1, 0}; /* end of the prompt; three generated tokens; one too many */
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        assert_int_equal(gpt_generated_append(&texts.list[0], 2 + i, 'x'), counts[i]);
    assert_int_equal(texts.list[0].all.count, 7);
    gpt_texts_close(&texts);
}

static void test_prompt_longer_than_context(void **state) {
    (void)state;
    struct gpt_texts texts = open_texts("abcdefgh", 1), longer = open_texts("abcdefghi", 1);
    assert_int_equal(gpt_generated_prompt_length(&texts.list[0]), CONTEXT);
    assert_int_equal(gpt_generated_prompt_length(&longer.list[0]), CONTEXT / 2);
    assert_int_equal(next(&longer, 0, 1), 'g');
    assert_int_equal(next(&longer, 0, CONTEXT / 2), next(&texts, 0, CONTEXT));
    assert_int_equal(gpt_texts_reread(1), 1);
    gpt_texts_close(&texts);
    gpt_texts_close(&longer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt_then_samples),
        cmocka_unit_test(test_which_tokens_count),
        cmocka_unit_test(test_prompt_longer_than_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
