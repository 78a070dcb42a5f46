/* test_tune_fit.c - "muster tune" fits synthetic measurements, and doubts those that it should not trust. */
#include "../tools/muster/tune/fit.c"
#include "../tools/muster/tune/report.c"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

const size_t tune_sizes[TUNE_SIZES]; /* not used: nothing is measured */

static struct tune tune;

/* A point for each algorithm and size, whose amounts are the same in every run. */
static void make_points(void) {
    srand(17);
    tune = (struct tune){.o.rounds = 3};
    for (size_t i = 0; i < msi_planner_count; i++)
        for (int size = 0; size < TUNE_SIZES && tune.n < TUNE_POINTS_MOST; size++) {
            struct tune_point *p = &tune.points[tune.n++];
            *p = (struct tune_point){.planner = &msi_planners[i], .size = size};
            for (int k = 0; k < MSI_COST_TERMS; k++) {
                double scale = k % 3 == 2 || k > MSI_COST_REMOTE_BYTE ? (double)(1 << (4 * size + 6)) : 10;
                p->amounts[k] = scale * (1 + rand() % 100) / 100;
            }
        }
}

/* Sets the times by true prices, these multiples of the defaults; samples differ by the share noise. */
static void set_times(const double factors[MSI_COST_TERMS], double noise) {
    for (int i = 0; i < tune.n; i++) {
        struct tune_point *p = &tune.points[i];
        p->seconds = 0;
        for (int k = 0; k < MSI_COST_TERMS; k++)
            p->seconds += p->amounts[k] * factors[k] * msi_model_default.costs[k];
        for (int round = 0; round < 3; round++) p->samples[round] = p->seconds * (1 + noise * round / 2);
    }
}

static void test_true_prices_are_found(void **state) {
    (void)state;
    const double factors[MSI_COST_TERMS] = {3, 0.5, 2, 4, 0.3, 0.7, 5, 0.4};
    struct msi_model model;
    bool kept[MSI_COST_TERMS];
    make_points();
    set_times(factors, 0);
    assert_true(tune_mean_regret(&tune, &msi_model_default) > 1.001);
    assert_int_equal(tune_fit(&tune, &model, kept), MSI_COST_TERMS);
    assert_true(tune_mean_regret(&tune, &model) < 1.0001);
    for (int k = 0; k < MSI_COST_TERMS; k++) {
        assert_false(kept[k]);
        double share = model.costs[k] / msi_model_default.costs[k] / factors[k];
        assert_true(share > 0.5 && share < 2);
    }
}

/* Times that imply 0.001 us and 12,000 GB/s, or less than nothing, tell nothing about these prices. */
static void test_prices_at_their_bounds_are_not_believed(void **state) {
    (void)state;
    static const double absurd[] = {1e-3, 0, -0.05};
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        double factors[MSI_COST_TERMS] = {absurd[i], 0.5, absurd[i], 4, 0.3, 0.7, 5, 0.4};
        struct msi_model model;
        bool kept[MSI_COST_TERMS];
        make_points();
        set_times(factors, 0);
        int fitted = tune_fit(&tune, &model, kept);
        assert_true(kept[MSI_COST_LOCAL_LATENCY]);
        assert_true(kept[MSI_COST_LOCAL_BYTE]);
        assert_true(fitted > 0 && fitted <= MSI_COST_TERMS - 2);
        for (int k = 0; k < MSI_COST_TERMS; k++) {
            double share = model.costs[k] / msi_model_default.costs[k];
            assert_true(!kept[k] || share == 1);
            assert_true(share > least_share && share < most_share);
        }
        assert_true(tune_mean_regret(&tune, &model) <= tune_mean_regret(&tune, &msi_model_default));
    }
}

/* Checks a fit of measurements that do not depend on the prices of these terms. */
static void check_unused(const bool unused[MSI_COST_TERMS]) {
    const double factors[MSI_COST_TERMS] = {3, 0.5, 2, 4, 0.3, 0.7, 5, 0.4};
    struct msi_model model;
    bool kept[MSI_COST_TERMS];
    int n = 0;
    make_points();
    set_times(factors, 0);
    for (int k = 0; k < MSI_COST_TERMS; k++) {
        n += unused[k];
        for (int i = 0; i < tune.n && unused[k]; i++) {
            tune.points[i].seconds -= tune.points[i].amounts[k] * factors[k] * msi_model_default.costs[k];
            tune.points[i].amounts[k] = 0;
        }
    }
    for (int i = 0; i < tune.n && n == MSI_COST_TERMS; i++) tune.points[i].seconds = 1;
    assert_int_equal(tune_fit(&tune, &model, kept), MSI_COST_TERMS - n);
    assert_memory_equal(kept, unused, sizeof kept);
    for (int k = 0; k < MSI_COST_TERMS; k++)
        assert_true(!kept[k] || model.costs[k] == msi_model_default.costs[k]);
}

/* Some prices, then all: no measurement depends on them. */
static void test_prices_without_measurements_are_kept(void **state) {
    (void)state;
    bool unused[MSI_COST_TERMS] = {
        [MSI_COST_LOCAL_LATENCY] = true, [MSI_COST_LOCAL_BYTE] = true, [MSI_COST_LOCAL_MESSAGE] = true};
    check_unused(unused);
    memset(unused, true, sizeof unused);
    check_unused(unused);
}

static int count_doubts(void) {
    char text[TUNE_TEXT];
    int n = 0;
    for (int at = 0; tune_doubt(&tune, &at, text); n++) assert_true(text[0] != '\0');
    return n;
}

static void test_doubts(void **state) {
    (void)state;
    const double factors[MSI_COST_TERMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    make_points();
    set_times(factors, 0.1);
    assert_true(fabs(tune_spread(&tune) - 0.1) < 1e-6);
    assert_int_equal(count_doubts(), 0);
    set_times(factors, 0.8);
    assert_true(fabs(tune_spread(&tune) - 0.8) < 1e-6);
    assert_int_equal(count_doubts(), 1);
    tune.load = 1.5;
    assert_int_equal(count_doubts(), 2);
    tune.crowd = 2;
    assert_int_equal(count_doubts(), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_true_prices_are_found),
        cmocka_unit_test(test_prices_at_their_bounds_are_not_believed),
        cmocka_unit_test(test_prices_without_measurements_are_kept),
        cmocka_unit_test(test_doubts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
