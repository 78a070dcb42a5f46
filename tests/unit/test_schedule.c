/* test_schedule.c - schedules of training: each is right and takes the time that its formula says. */
#include "schedule_kit.h"

static void forward_all(void **state) {
    (void)state;
    sweep(MSI_FORWARD_ALL, 1);
}

static void gpipe(void **state) {
    (void)state;
    sweep(MSI_GPIPE, 1);
}

static void one_forward_one_backward(void **state) {
    (void)state;
    sweep(MSI_1F1B, 1);
}

/* The textbook's fractions, written out once more. */
static void bubbles_are_the_known_ones(void **state) {
    (void)state;
    struct msi_schedule schedule = {0};
    struct msi_timing timing = {0};
    for (int p = 1; p <= 8; p++)
        for (int m = p; m <= 32; m += p)
            for (int v = 1; v <= 4; v++) {
                int kind = v == 1 ? (m / p % 2 ? MSI_GPIPE : MSI_1F1B) : MSI_INTERLEAVED;
                struct msi_schedule_spec spec = {.kind = kind, .stages = p, .micros = m, .chunks = v};
                assert_ok(msi_schedule_make(&spec, &schedule));
                assert_ok(msi_schedule_time(&schedule, MSI_SENDS_START, NULL, &timing));
                assert_true(fabs(timing.bubble - (p - 1.0) / (v * m + p - 1.0)) < 1e-12);
            }
    msi_schedule_free(&schedule);
    msi_timing_free(&timing);
}

static void orders_of_small_ones(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    assert_ok(
        msi_schedule_make(&(struct msi_schedule_spec){.kind = MSI_GPIPE, .stages = 2, .micros = 3}, &s));
    assert_string_equal(turns_of(&s, 0), "F0 F1 F2 B0 B1 B2");
    assert_ok(msi_schedule_make(&(struct msi_schedule_spec){.kind = MSI_1F1B, .stages = 4, .micros = 8}, &s));
    assert_string_equal(turns_of(&s, 0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
    assert_string_equal(turns_of(&s, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
    assert_ok(msi_schedule_make(
        &(struct msi_schedule_spec){.kind = MSI_INTERLEAVED, .stages = 2, .micros = 4, .chunks = 2}, &s));
    assert_string_equal(turns_of(&s, 0), "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a");
    assert_string_equal(turns_of(&s, 1), "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a");
    msi_schedule_free(&s);
}

/* Messages that take time delay the first micro-batch on each stage, and no other: they travel while
 * others are computed. */
static void messages_overlap_computes(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    struct msi_timing timing = {0};
    for (int p = 2; p <= 8; p++)
        for (int m = 1; m <= 32; m++)
            for (double way = 0.25; way <= 1; way += 0.25) {
                struct msi_costs costs = {.message = way};
                assert_ok(msi_schedule_make(
                    &(struct msi_schedule_spec){.kind = MSI_GPIPE, .stages = p, .micros = m}, &s));
                assert_ok(msi_schedule_time(&s, MSI_SENDS_START, &costs, &timing));
                assert_true(fabs(timing.makespan - 2 * (m + (p - 1) * (1 + way))) < 1e-9);
                assert_ok(msi_schedule_time(&s, MSI_SENDS_BLOCK, &costs, &timing));
                assert_true(timing.makespan >= 2 * (m + (p - 1) + (m - 1) * way));
            }
    msi_schedule_free(&s);
    msi_timing_free(&timing);
}

/* Stage 1 takes twice as long forward, three times backward: F 0-1 1-2 | 1-3 3-5, B 5-8 8-11 | 8-9 11-12. */
static void given_costs(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    struct msi_timing timing = {0};
    struct msi_costs costs = {.forward = (double[]){1, 2}, .backward = (double[]){1, 3}};
    assert_ok(
        msi_schedule_make(&(struct msi_schedule_spec){.kind = MSI_GPIPE, .stages = 2, .micros = 2}, &s));
    assert_ok(msi_schedule_time(&s, MSI_SENDS_START, &costs, &timing));
    assert_true(fabs(timing.makespan - 12) < 1e-12);
    assert_true(fabs(timing.busy - 14) < 1e-12);
    assert_true(fabs(timing.bubble - 10.0 / 24) < 1e-12);
    msi_schedule_free(&s);
    msi_timing_free(&timing);
}

static void refused(mst_status status, const char *part, struct msi_schedule_spec spec) {
    struct msi_schedule s = {0};
    assert_status(msi_schedule_make(&spec, &s), status);
    assert_contains(mst_error(), part);
    assert_null(s.stages);
}

static void wrong_specs(void **state) {
    (void)state;
    refused(MST_ERR_INVALID, "no schedule 77",
            (struct msi_schedule_spec){.kind = 77, .stages = 1, .micros = 1});
    refused(MST_ERR_INVALID, "0 stages", (struct msi_schedule_spec){.kind = MSI_GPIPE, .micros = 1});
    refused(MST_ERR_INVALID, "0 micro-batches", (struct msi_schedule_spec){.kind = MSI_GPIPE, .stages = 1});
    refused(MST_ERR_INVALID, "-1 micro-batches",
            (struct msi_schedule_spec){.kind = MSI_STREAM, .stages = 1, .micros = -1});
    refused(MST_ERR_LIMIT, "5000 stages",
            (struct msi_schedule_spec){.kind = MSI_GPIPE, .stages = 5000, .micros = 1});
    refused(MST_ERR_INVALID, "interleaved",
            (struct msi_schedule_spec){.kind = MSI_1F1B, .stages = 2, .micros = 2, .chunks = 2});
    refused(MST_ERR_INVALID, "stream",
            (struct msi_schedule_spec){.kind = MSI_1F1B, .stages = 2, .micros = 2, .tokens = 2});
    refused(
        MST_ERR_LIMIT, "computes",
        (struct msi_schedule_spec){.kind = MSI_STREAM, .stages = 2, .batches = 1 << 20, .tokens = 1 << 20});
    for (int kind = 0; kind < MSI_SCHEDULE_KINDS; kind++)
        assert_int_equal(msi_schedule_kind(msi_schedule_name(kind)), kind);
    assert_int_equal(msi_schedule_kind("2f2b"), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_all),
        cmocka_unit_test(gpipe),
        cmocka_unit_test(one_forward_one_backward),
        cmocka_unit_test(bubbles_are_the_known_ones),
        cmocka_unit_test(orders_of_small_ones),
        cmocka_unit_test(messages_overlap_computes),
        cmocka_unit_test(given_costs),
        cmocka_unit_test(wrong_specs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
