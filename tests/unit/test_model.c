/* test_model.c - the cost model as text, and the hash that detects ranks with different tunings. */
#include "harness.h"

#include "coll/cost/select.h"

#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

static mst_status parse(const char *text, struct msi_model *model) {
    return msi_model_parse(text, strlen(text), "model", model);
}

static void assert_refused(const char *text, const char *part) {
    struct msi_model model = {.chunk = 1};
    assert_int_equal(parse(text, &model), MST_ERR_CONFIG);
    if (!strstr(mst_last_error()->message, part))
        fail_msg("'%s' is not in '%s'", part, mst_last_error()->message);
    assert_int_equal(model.chunk, 1); /* unchanged */
}

static void nothing_is_the_default(void **state) {
    (void)state;
    struct msi_model model;
    assert_ok(parse("", &model));
    assert_memory_equal(&model, &msi_model_default, sizeof model);
    assert_ok(parse("\n  \t\r\n# a remark\n", &model));
    assert_memory_equal(&model, &msi_model_default, sizeof model);
}

static void values_have_units(void **state) {
    (void)state;
    struct msi_model model;
    assert_ok(
        parse("remote.latency 12.5us # far\r\nremote.bandwidth\t2500 MB/s\nlocal.message 250 ns\nchunk 64K",
              &model));
    assert_true(model.costs[MSI_COST_REMOTE_LATENCY] == 12.5 * 1e-6);
    assert_true(model.costs[MSI_COST_REMOTE_BYTE] == 1 / 2.5e9);
    assert_true(model.costs[MSI_COST_LOCAL_MESSAGE] == 250 * 1e-9);
    assert_true(model.costs[MSI_COST_COPY] == msi_model_default.costs[MSI_COST_COPY]);
    assert_int_equal(model.chunk, 65536);
    assert_ok(parse("chunk 0", &model)); /* do not cut */
    assert_int_equal(model.chunk, 0);
}

static void mistakes_are_named_with_their_line(void **state) {
    (void)state;
    assert_refused("copy 12 GB/s\nremote.latncy 3 us", "model:2: unknown name 'remote.latncy'");
    assert_refused("copy", "model:1: expected a number, not ''");
    assert_refused("copy fast", "expected a number, not 'fast'");
    assert_refused("copy -3 GB/s", "not '-3'");
    assert_refused("copy .", "a number");
    assert_refused("copy 1.2.3GB/s", "not '.3GB/s'");
    assert_refused("copy 12 us", "a rate in GB/s");
    assert_refused("copy 12", "a rate in GB/s");
    assert_refused("local.latency 12 GB/s", "a time in s, ms, us or ns");
    assert_refused("local.latency 0 us", "out of range for 'local.latency'");
    assert_refused("local.latency 61 s", "out of range");
    assert_refused("copy 0 GB/s", "out of range");
    assert_refused("copy 99999999999999999999999999999999999 GB/s", "out of range");
    assert_refused("copy 12 GB/s twice", "unexpected text 'twice'");
    assert_refused("chunk 3", "out of range");
    assert_refused("chunk 3G", "unit K, M or none");
}

/* Reads back what it writes, also with a locale that has a decimal comma. */
static void what_is_written_is_read(void **state) {
    (void)state;
    struct msi_model model, read;
    char path[] = "/tmp/muster-test-model-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    assert_ok(parse("remote.latency 17.25 us\nremote.bandwidth 0.125 GB/s\nchunk 1M", &model));
    msi_model_write(file, &model);
    fclose(file);
    setlocale(LC_ALL, "de_DE.UTF-8"); /* if installed */
    assert_ok(msi_model_read(path, &read));
    setlocale(LC_ALL, "C");
    unlink(path);
    for (int i = 0; i < MSI_COST_TERMS; i++) assert_float_equal(read.costs[i] / model.costs[i], 1, 1e-5);
    assert_int_equal(read.chunk, model.chunk);
    assert_int_equal(msi_model_read(path, &read), MST_ERR_CONFIG);
    assert_non_null(strstr(mst_last_error()->message, path));
    assert_int_equal(msi_model_read("/dev/zero", &read), MST_ERR_CONFIG);
    assert_int_equal(mkfifo(path, 0600), 0); /* without a writer */
    assert_int_equal(msi_model_read(path, &read), MST_ERR_CONFIG);
    unlink(path);
}

static void different_tunings_have_different_hashes(void **state) {
    (void)state;
    struct msi_tuning a = {.model = msi_model_default}, b = a;
    assert_true(msi_tuning_hash(&a) == msi_tuning_hash(&b));
    assert_ok(msi_algo_parse("all_reduce:ring", &b.algo));
    assert_true(msi_tuning_hash(&a) != msi_tuning_hash(&b));
    assert_ok(msi_algo_parse("all_reduce:halving", &a.algo));
    assert_true(msi_tuning_hash(&a) != msi_tuning_hash(&b));
    b = a;
    b.model.costs[MSI_COST_COPY] *= 2;
    assert_true(msi_tuning_hash(&a) != msi_tuning_hash(&b));
    b = a;
    b.model.chunk *= 2;
    assert_true(msi_tuning_hash(&a) != msi_tuning_hash(&b));
}

/* A high remote latency selects few remote rounds; a low remote bandwidth selects few remote bytes. */
static void costs_determine_the_selection(void **state) {
    (void)state;
    static const int of[] = {0, 0, 0, 0, 1, 1, 1, 1};
    struct msi_request request = {
        .kind = MSI_KIND_ALL_REDUCE, .size = 8, .count = 16384, .hosts = {.n = 2, .largest = 4, .of = of}};
    struct msi_tuning slow = {.model = msi_model_default}, thin = slow;
    struct msi_cost_input input = {&slow, 4, 4, false};
    struct msi_selection selection;
    assert_ok(parse("remote.latency 10 ms", &slow.model));
    msi_select(&input, &request, &selection);
    struct msi_candidate candidate;
    msi_estimate(&input, &request, selection.planner, &candidate);
    assert_true(candidate.formula.remote_rounds == 1);
    input.tuning = &thin;
    assert_ok(parse("remote.bandwidth 1 MB/s", &thin.model));
    msi_select(&input, &request, &selection);
    assert_string_equal(selection.planner->name, "hierarchical");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_the_default),
        cmocka_unit_test(values_have_units),
        cmocka_unit_test(mistakes_are_named_with_their_line),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(different_tunings_have_different_hashes),
        cmocka_unit_test(costs_determine_the_selection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
