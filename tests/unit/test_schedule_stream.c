/* test_schedule_stream.c - schedules of streaming inference: FlexLLMGen's loops, and token ids that come
 * back in time. */
#include "schedule_kit.h"

static void every_shape(void **state) {
    (void)state;
    static const int inners[] = {1, 2, 3, 5, 8, 16}, batches[] = {1, 2, 3, 5, 16, 21}, tokens[] = {1, 2, 4};
    struct seen seen = {0};
    for (int stages = 1; stages <= 16; stages++)
        for (int micros = 1; micros <= 3; micros++)
            for (size_t i = 0; i < COUNT_OF(inners); i++)
                for (size_t b = 0; b < COUNT_OF(batches); b++)
                    for (size_t t = 0; t < COUNT_OF(tokens) && seen.wrong < WRONG_MOST; t++) {
                        struct msi_schedule_spec spec = {.kind = MSI_STREAM,
                                                         .stages = stages,
                                                         .micros = micros,
                                                         .inner = inners[i],
                                                         .batches = batches[b],
                                                         .tokens = tokens[t]};
                        look(&spec, &seen);
                    }
    say_seen("stream", &seen);
}

/* One batch of micro-batches, as a sweep over 16 x 64. */
static void stages_by_micros(void **state) {
    (void)state;
    struct seen seen = {0};
    for (int stages = 1; stages <= 16; stages++)
        for (int micros = 1; micros <= 64 && seen.wrong < WRONG_MOST; micros++) {
            struct msi_schedule_spec spec = {
                .kind = MSI_STREAM, .stages = stages, .micros = micros, .batches = 1, .tokens = 3};
            look(&spec, &seen);
        }
    say_seen("stream, 16 x 64", &seen);
}

/* for batches / inner, for tokens, for inner, for micro-batches: stage 1 does nothing else, stage 0 also
 * takes last tokens. */
static void loops_are_flexllmgens(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    struct msi_schedule_spec spec = {.kind = MSI_STREAM, .stages = 2, .micros = 2, .batches = 3, .tokens = 2};
    assert_ok(msi_schedule_make(&spec, &s));
    assert_int_equal(s.spec.inner, 2);
    assert_string_equal(turns_of(&s, 1), "F0.0.0 F0.0.1 F1.0.0 F1.0.1 F0.1.0 F0.1.1 F1.1.0 F1.1.1 "
                                         "F2.0.0 F2.0.1 F2.1.0 F2.1.1");
    assert_string_equal(turns_of(&s, 0),
                        "F0.0.0 F0.0.1 F1.0.0 F1.0.1 F0.1.0 F0.1.1 F1.1.0 F1.1.1 T0.1.0 F2.0.0 "
                        "T0.1.1 F2.0.1 T1.1.0 T1.1.1 F2.1.0 F2.1.1 T2.1.0 T2.1.1");
    msi_schedule_free(&s);
}

/* With as many batches in flight as stages, no stage waits between its first and its last forward. */
static void steady_state_has_no_bubble(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    struct msi_timing timing = {0};
    for (int stages = 1; stages <= 16; stages++) {
        struct msi_schedule_spec spec = {
            .kind = MSI_STREAM, .stages = stages, .batches = 3 * stages, .tokens = 7};
        assert_ok(msi_schedule_make(&spec, &s));
        assert_ok(msi_schedule_time(&s, MSI_SENDS_START, NULL, &timing));
        assert_true(fabs(timing.makespan - (3.0 * 7 * stages + stages - 1)) < 1e-9);
        spec.inner = 1; /* one batch at a time: one stage works, the others wait */
        spec.batches = 1;
        assert_ok(msi_schedule_make(&spec, &s));
        assert_ok(msi_schedule_time(&s, MSI_SENDS_START, NULL, &timing));
        assert_true(fabs(timing.bubble - (1 - 1.0 / stages)) < 1e-9);
    }
    msi_schedule_free(&s);
    msi_timing_free(&timing);
}

/* With batches to spare, messages that take time leave the stages busy. */
static void messages_overlap_computes(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    struct msi_timing timing = {0};
    for (int p = 2; p <= 8; p++) {
        struct msi_schedule_spec spec = {
            .kind = MSI_STREAM, .stages = p, .inner = 2 * p, .batches = 4 * p, .tokens = 5};
        struct msi_costs costs = {.message = 1};
        assert_ok(msi_schedule_make(&spec, &s));
        assert_ok(msi_schedule_time(&s, MSI_SENDS_START, &costs, &timing));
        assert_true(fabs(timing.end[p - 1][s.stages[p - 1].n - 2] - (4.0 * p * 5 + (p - 1) * 2)) < 1e-9);
    }
    msi_schedule_free(&s);
    msi_timing_free(&timing);
}

/* A prompt of 10 tokens' work: stage 1 begins when the first is through, and both then go on. */
static void prompts_cost_more(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    struct msi_timing timing = {0};
    struct msi_costs costs = {.prompt = 10};
    assert_ok(
        msi_schedule_make(&(struct msi_schedule_spec){.kind = MSI_STREAM, .stages = 2, .tokens = 3}, &s));
    assert_ok(msi_schedule_time(&s, MSI_SENDS_START, &costs, &timing));
    assert_true(fabs(timing.busy - 2 * 2 * (10 + 2)) < 1e-9);
    msi_schedule_free(&s);
    msi_timing_free(&timing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape),
        cmocka_unit_test(stages_by_micros),
        cmocka_unit_test(loops_are_flexllmgens),
        cmocka_unit_test(steady_state_has_no_bubble),
        cmocka_unit_test(messages_overlap_computes),
        cmocka_unit_test(prompts_cost_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
