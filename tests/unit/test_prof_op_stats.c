/* test_prof_op_stats.c - statistics of a rank's calls: rows, limits, averages, remembered calls. */
#include "harness.h"

#include "prof_kit.h"

#include <malloc.h>

static struct msi_op_stats *stats;

static int set_up(void **state) {
    (void)state;
    return (stats = msi_op_stats_new(false)) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    msi_op_stats_free(stats);
    return 0;
}

static void test_a_row_for_each_name_call_group_and_size(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4), dp = kit_group(1, "w/1", "dp", kit_ranks, 2);
    kit_add(stats, &world, "all_reduce", MSI_SHARE_TWICE, 4096, 0, 2000);
    kit_add(stats, &world, "all_reduce", MSI_SHARE_TWICE, 8192, 1, 5000);
    kit_add(stats, &dp, "all_reduce", MSI_SHARE_TWICE, 4096, 0, 7000);
    kit_add(stats, &world, "broadcast", MSI_SHARE_WHOLE, 4096, 2, 1000);
    kit_add(stats, &world, "all_reduce", MSI_SHARE_TWICE, 4096, 3, 1000);
    struct msi_record named = kit_call(&world, "broadcast", MSI_SHARE_TWICE, 4096, 4, 600);
    named.call = "all_reduce"; /* .log_name = "broadcast" */
    kit_add_call(stats, &named);
    assert_int_equal(stats->row_count, 5);
    assert_int_equal(stats->group_count, 2);
    const struct msi_op_stats_row *row = &stats->rows[0];
    assert_string_equal(row->name, "all_reduce");
    assert_null(row->function);
    assert_int_equal(row->count, 2);
    assert_int_equal(row->total_ns, 3000);
    assert_int_equal(row->least_ns, 1000);
    assert_int_equal(row->most_ns, 2000);
    assert_string_equal(stats->groups[stats->rows[2].group].is->name, "dp");
    assert_int_equal(stats->rows[3].count, 1);
}

static void test_texts_are_copied(void **state) {
    (void)state;
    char name[] = "all_reduce", id[] = "w", group_name[] = "world";
    int ranks[] = {0, 1};
    struct msi_prof_group group = kit_group(0, id, group_name, ranks, 2);
    kit_add(stats, &group, name, MSI_SHARE_TWICE, 1, 0, 1);
    memset(name, 'x', sizeof name - 1);
    memset(group_name, 'x', sizeof group_name - 1);
    ranks[1] = 7;
    assert_string_equal(stats->rows[0].name, "all_reduce");
    assert_string_equal(stats->groups[0].is->name, "world");
    assert_int_equal(stats->groups[0].is->ranks[1], 1);
}

static void test_failed_calls_are_counted_apart(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    struct msi_record call = kit_call(&world, "all_reduce", MSI_SHARE_TWICE, 64, 0, 1000);
    kit_add_call(stats, &call);
    call.status = MST_ERR_PEER_LOST;
    call.device = 5000000;
    kit_add_call(stats, &call);
    const struct msi_op_stats_row *row = &stats->rows[0];
    assert_int_equal(row->count, 1);
    assert_int_equal(row->failed, 1);
    assert_int_equal(row->total_ns, 1000);
    assert_int_equal(row->most_ns, 1000);
    assert_int_equal(row->histogram.count, 1);
    assert_int_equal(stats->call_count, 1);
}

static void test_works_are_summed_beside(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    struct msi_record call = kit_call(&world, "all_reduce", MSI_SHARE_TWICE, 64, 0, 1000);
    kit_add_call(stats, &call);
    call.flags = MSI_RECORD_WORK;
    call.waited = 300;
    kit_add_call(stats, &call);
    call.waited = 2000; /* longer than the operation: the program waited late */
    kit_add_call(stats, &call);
    assert_int_equal(stats->rows[0].count, 3);
    assert_int_equal(stats->rows[0].works, 2);
    assert_int_equal(stats->rows[0].works_ns, 2000);
    assert_int_equal(stats->rows[0].waited_ns, 1300);
}

static void test_debug_tells_callers_apart(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    struct msi_record call = kit_call(&world, "all_reduce", MSI_SHARE_TWICE, 64, 0, 1000);
    call.function = "step";
    kit_add_call(stats, &call);
    call.function = "warm_up";
    kit_add_call(stats, &call);
    assert_int_equal(stats->row_count, 1);
    stats->debug = true;
    kit_add_call(stats, &call);
    call.function = "step";
    kit_add_call(stats, &call);
    kit_add_call(stats, &call);
    call.function = NULL;
    kit_add_call(stats, &call);
    assert_int_equal(stats->row_count, 3);
    assert_int_equal(stats->rows[0].count, 3);
    assert_string_equal(stats->rows[1].function, "warm_up");
    assert_int_equal(stats->rows[2].count, 2);
}

static void test_rows_are_limited(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    for (uint64_t i = 0; i < MSI_OP_STATS_ROWS + 10; i++)
        kit_add(stats, &world, "broadcast", MSI_SHARE_WHOLE, i, i, 1000);
    kit_add(stats, &world, "broadcast", MSI_SHARE_WHOLE, 5, MSI_OP_STATS_ROWS + 10, 3000);
    assert_int_equal(stats->row_count, MSI_OP_STATS_ROWS);
    assert_int_equal(stats->other.count, 10);
    assert_int_equal(stats->other.total_ns, 10000);
    assert_int_equal(stats->rows[5].count, 2);
    struct msi_op_stats *const all_stats[] = {stats};
    char *text = kit_table(all_stats, 1, true);
    assert_contains(text, "\nother\n    -                  10    0.0010      0.00      0.00       0.01 ");
    assert_contains(text, "\nrank 0 has more than 4096 names and sizes: 10 calls are in \"other\"\n");
    free(text);
}

/* ---- averages ---- */

static void test_a_tenth_is_trimmed_and_halves_go_to_even(void **state) {
    (void)state;
    static const uint64_t cases[][2] = {{0, 0},  {1, 0},  {4, 0},  {5, 0},    {6, 1},
                                        {10, 1}, {14, 1}, {15, 2}, {16, 2},   {25, 2},
                                        {26, 3}, {35, 4}, {45, 4}, {146, 15}, {65535, 6554}};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(msi_histogram_trimmed(cases[i][0]), cases[i][1]);
    for (uint64_t n = 0; n < 100000; n++)
        assert_int_equal(msi_histogram_trimmed(n), (uint64_t)nearbyint((double)n * 0.1));
}

static void test_buckets_are_within_their_error(void **state) {
    (void)state;
    uint64_t random = 1;
    size_t before = 0;
    for (uint64_t ns = 0; ns < 1 << 16; ns++) {
        size_t bucket = msi_histogram_bucket(ns);
        assert_true(bucket == before || bucket == before + 1);
        before = bucket;
    }
    for (int i = 0; i < 1000000; i++) {
        uint64_t ns = kit_random(&random) >> (16 + kit_random(&random) % 48);
        size_t bucket = msi_histogram_bucket(ns);
        uint64_t middle = msi_histogram_middle(bucket), error = middle > ns ? middle - ns : ns - middle;
        assert_true(bucket < MSI_HISTOGRAM_BUCKETS);
        assert_true(error * 128 <= ns);
        assert_int_equal(msi_histogram_bucket(middle), bucket);
    }
    assert_int_equal(msi_histogram_bucket(UINT64_MAX), MSI_HISTOGRAM_BUCKETS - 1);
}

static void test_averages_after_the_exact_ones(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    uint64_t random = 7;
    static uint64_t values[MSI_HISTOGRAM_EXACT + 1000];
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        values[i] = 1000 + kit_random(&random) % 100000;
        kit_add(stats, &world, "all_reduce", MSI_SHARE_TWICE, 64, i, values[i]);
        if (i + 1 != MSI_HISTOGRAM_EXACT) continue;
        static uint64_t sorted[MSI_HISTOGRAM_EXACT];
        memcpy(sorted, values, sizeof sorted);
        assert_null(stats->rows[0].histogram.buckets);
        assert_true(fabs(msi_histogram_means(&stats->rows[0].histogram).ns -
                         kit_mean(sorted, COUNT_OF(sorted))) < 1e-6);
    }
    assert_non_null(stats->rows[0].histogram.buckets);
    assert_int_equal(stats->exact, 0);
    assert_int_equal(stats->rows[0].histogram.count, COUNT_OF(values));
    double exact = kit_mean(values, COUNT_OF(values)),
           coarse = msi_histogram_means(&stats->rows[0].histogram).ns;
    assert_true(fabs(coarse - exact) <= exact / 128);
}

static void test_exact_durations_of_all_rows_are_limited(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    for (uint64_t i = 0; i < MSI_OP_STATS_EXACT + 200000; i++)
        kit_add(stats, &world, "all_reduce", MSI_SHARE_TWICE, i % 100, i, 1000);
    assert_true(stats->exact <= MSI_OP_STATS_EXACT);
    uint64_t exact = 0;
    for (size_t i = 0; i < stats->row_count; i++)
        exact += stats->rows[i].histogram.buckets ? 0 : stats->rows[i].histogram.count;
    assert_int_equal(exact, stats->exact);
    assert_int_equal(stats->lost, 0);
}

static void test_random_calls_against_a_list(void **state) {
    (void)state;
    enum { ROWS = 7, MOST = 400 };
    static uint64_t lists[ROWS][MOST];
    struct msi_prof_group world = kit_world(3);
    uint64_t random = 99;
    for (int round = 0; round < 50; round++) {
        size_t counts[ROWS] = {0};
        msi_op_stats_free(stats);
        stats = msi_op_stats_new(false);
        for (size_t i = 0, calls = kit_random(&random) % MOST; i < calls; i++) {
            size_t row = kit_random(&random) % ROWS;
            uint64_t ns = 1 + (kit_random(&random) >> (24 + kit_random(&random) % 40));
            lists[row][counts[row]++] = ns;
            kit_add(stats, &world, "all_gather", MSI_SHARE_PART, row * 1000, i, ns);
        }
        for (size_t i = 0; i < stats->row_count; i++) {
            struct msi_op_stats_row *row = &stats->rows[i];
            size_t list = row->bytes / 1000, n = counts[list], drop = (size_t)nearbyint(0.1 * (double)n);
            double mean = kit_mean(lists[list], n), speed = 0;
            for (size_t k = drop; k < n - drop; k++)
                speed += 8.0 * (double)row->bytes / (double)lists[list][k] / (double)(n - 2 * drop);
            struct msi_summary_averages averages = msi_summary_averages(row, 3);
            assert_int_equal(row->count, n);
            assert_int_equal(row->least_ns, lists[list][0]);
            assert_int_equal(row->most_ns, lists[list][n - 1]);
            assert_true(fabs(averages.ns - mean) <= mean * 1e-12);
            assert_true(fabs(averages.algbw - speed) <= speed * 1e-12);
            assert_true(fabs(averages.busbw - speed * 2 / 3) <= speed * 1e-12);
        }
    }
}

/* ---- remembered calls ---- */

/* Ranks that call differently often in other groups remember the same calls of the common group. */
static void test_ranks_remember_the_same_calls(void **state) {
    (void)state;
    enum { CALLS = 100000 };
    static bool kept[CALLS];
    struct msi_prof_group world = kit_world(4), dp = kit_group(1, "w/1", "dp", kit_ranks, 2);
    struct msi_op_stats *other = msi_op_stats_new(false);
    for (uint64_t i = 0; i < CALLS; i++) {
        kit_add(stats, &world, "all_reduce", MSI_SHARE_TWICE, 64, i, 1000);
        kit_add(other, &world, "all_reduce", MSI_SHARE_TWICE, 64, i, 1000);
        for (uint64_t k = 0; k < 3; k++) kit_add(other, &dp, "barrier", MSI_SHARE_NONE, 0, 3 * i + k, 1000);
    }
    assert_true(stats->call_count > MSI_OP_STATS_CALLS / 3 && stats->call_count <= MSI_OP_STATS_CALLS);
    assert_true(other->sample_bits > stats->sample_bits);
    msi_op_stats_thin_out(stats, other->sample_bits);
    for (size_t i = 0; i < stats->call_count; i++) kept[stats->calls[i].seq] = true;
    size_t common = 0;
    for (size_t i = 0; i < other->call_count; i++)
        if (other->calls[i].row == 0) common += kept[other->calls[i].seq];
    assert_int_equal(common, stats->call_count);
    /* A sample of each part of the run, also if only each 64th call matters. */
    size_t parts[10] = {0}, regular = 0;
    for (size_t i = 0; i < stats->call_count; i++) {
        parts[stats->calls[i].seq / (CALLS / 10)]++;
        regular += stats->calls[i].seq % 64 == 0;
    }
    size_t share = (CALLS / 10) >> stats->sample_bits;
    for (int i = 0; i < 10; i++) assert_true(parts[i] > share * 8 / 10 && parts[i] < share * 12 / 10);
    assert_true(regular > stats->call_count / 64 / 2 && regular < stats->call_count / 64 * 2);
    msi_op_stats_free(other);
}

/* Both ends of a message are in the sample, or none. A message without a number was never issued. */
static void test_messages_are_remembered(void **state) {
    (void)state;
    enum { TAGS = 40000 };
    static bool kept[TAGS];
    struct msi_prof_group world = kit_world(4), world3 = kit_world(4);
    struct msi_op_stats *peer = msi_op_stats_new(false);
    world3.rank = 3;
    struct msi_record send = kit_call(&world, "send", MSI_SHARE_WHOLE, 64, 0, 1000);
    struct msi_record recv = kit_call(&world3, "recv", MSI_SHARE_WHOLE, 64, 0, 1000);
    send.flags = MSI_RECORD_MESSAGE | MSI_RECORD_SEND;
    recv.flags = MSI_RECORD_MESSAGE;
    send.peer = 3;
    for (int tag = 0; tag < TAGS; tag++) {
        send.tag = recv.tag = tag;
        kit_add_call(stats, &send);
        kit_add_call(peer, &recv);
    }
    assert_true(stats->sample_bits > 0);
    assert_int_equal(stats->call_count, peer->call_count);
    for (size_t i = 0; i < stats->call_count; i++) kept[stats->calls[i].tag] = true;
    for (size_t i = 0; i < peer->call_count; i++) assert_true(kept[peer->calls[i].tag]);
    size_t before = stats->call_count;
    send.seq = UINT64_MAX;
    for (send.tag = 0; send.tag < 100; send.tag++) kit_add_call(stats, &send);
    assert_int_equal(stats->call_count, before);
    assert_int_equal(stats->rows[0].count, TAGS + 100);
    msi_op_stats_free(peer);
}

static void test_steady_calls_allocate_nothing(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    uint64_t seq = 0;
    for (; seq <= MSI_HISTOGRAM_EXACT; seq++) kit_add(stats, &world, "barrier", MSI_SHARE_NONE, 0, seq, 1000);
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 10000; i++) kit_add(stats, &world, "barrier", MSI_SHARE_NONE, 0, seq++, 1000);
    struct mallinfo2 after = mallinfo2();
    assert_int_equal(before.uordblks + before.hblkhd, after.uordblks + after.hblkhd);
}

/* Rank 0 holds the statistics of all ranks at once, and every process has its own. */
static void test_few_calls_take_little_memory(void **state) {
    (void)state;
    enum { RANKS = 1024, EACH_MOST = 32 << 10 };
    static struct msi_op_stats *all[RANKS];
    struct msi_prof_group world = kit_world(4);
    struct mallinfo2 before = mallinfo2();
    for (int r = 0; r < RANKS; r++) {
        all[r] = msi_op_stats_new(false);
        assert_non_null(all[r]);
        kit_add(all[r], &world, "barrier", MSI_SHARE_NONE, 0, 0, 1000);
    }
    struct mallinfo2 after = mallinfo2();
    size_t used = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
    for (int r = 0; r < RANKS; r++) msi_op_stats_free(all[r]);
    assert_in_range(used, 0, (size_t)RANKS * EACH_MOST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_row_for_each_name_call_group_and_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_texts_are_copied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_calls_are_counted_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_works_are_summed_beside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_debug_tells_callers_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rows_are_limited, set_up, tear_down),
        cmocka_unit_test(test_a_tenth_is_trimmed_and_halves_go_to_even),
        cmocka_unit_test(test_buckets_are_within_their_error),
        cmocka_unit_test_setup_teardown(test_averages_after_the_exact_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exact_durations_of_all_rows_are_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_random_calls_against_a_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ranks_remember_the_same_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_messages_are_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_steady_calls_allocate_nothing, set_up, tear_down),
        cmocka_unit_test(test_few_calls_take_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
