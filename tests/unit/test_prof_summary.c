/*
 * test_prof_summary.c - the tables: DeepSpeed's own examples where it is right, and what is right where it is
 * not; whole tables as they look. test_prof_match.c has the matching of calls, test_prof_figures.c the
 * formulas.
 */
#include "harness.h"

#include "prof_table_kit.h"

/* ---- DeepSpeed's tables ---- */

/*
 * Its tutorial's table, 16 ranks: size, count and latencies as there. Its bandwidths were twice as high as
 * these, and for broadcast the bus bandwidth less than the other.
 */
static void test_the_table_of_the_tutorial(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(16);
    struct msi_op_stats *rank0 = all_stats[0];
    uint64_t seq = 0;
    for (int i = 0; i < 146; i++) kit_add(rank0, &world, "broadcast", MSI_SHARE_WHOLE, 2048, seq++, 76164);
    kit_add(rank0, &world, "broadcast", MSI_SHARE_WHOLE, 103022592, seq++, 8317120000);
    for (int i = 0; i < 40; i++)
        kit_add(rank0, &world, "reduce_scatter_tensor", MSI_SHARE_PART, 711836303, seq++,
                i < 4   ? 68052500
                : i < 8 ? 5000000
                : i % 2 ? 5363340
                        : 14016660);
    check_table(1, false,
                HEADER
                "broadcast\n"
                "    2.0 KB            146      0.08      0.22      0.22      11.12    0.1\n"
                "    98.25 MB            1   8317.12      0.10      0.10    8317.12   93.1\n"
                "reduce_scatter_tensor\n"
                "    678.86 MB          40      9.69    734.03    688.15     602.29    6.7\n" MEAN
                "figures of rank 0, or of the rank in brackets; 187 calls of rank 0, 1 rank\n" RANK_TIMES
                "       0     8930.53    8930.53  100.0\n" WHAT_RUN);
}

static void test_the_table_with_callers(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(16);
    struct msi_record call = kit_call(&world, "broadcast", MSI_SHARE_WHOLE, 2048, 0, 64315);
    all_stats[0]->debug = true;
    call.function = "_broadcast_model";
    for (int i = 0; i < 146; i++) kit_add_call(all_stats[0], &call);
    check_table(1, false,
                HEADER
                "broadcast | [Caller Func: _broadcast_model]\n"
                "    2.0 KB            146      0.06      0.25      0.25       9.39  100.0\n" MEAN
                "figures of rank 0, or of the rank in brackets; 146 calls of rank 0, 1 rank\n" RANK_TIMES
                "       0        9.39       9.39  100.0\n" WHAT_RUN);
}

/*
 * A subgroup's calls are measured by its own size; all_reduce's first bandwidth is S/t, not twice that; what
 * is given for reduce_scatter is the whole already.
 */
static void test_what_deepspeed_got_wrong(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(8), pair = kit_group(1, "w/1", "tp", kit_ranks, 2);
    kit_add(all_stats[0], &world, "all_reduce", MSI_SHARE_TWICE, 1 << 20, 0, MS);
    kit_add(all_stats[0], &pair, "all_reduce", MSI_SHARE_TWICE, 1 << 20, 0, MS);
    kit_add(all_stats[0], &world, "reduce_scatter", MSI_SHARE_PART, 1 << 20, 1, MS);
    kit_add(all_stats[0], &world, "something_new", MSI_SHARE_WHOLE, 1 << 20, 2, MS);
    check_table(1, false,
                HEADER "all_reduce\n"
                       "    1.0 MB              1      1.00      8.39     14.68       1.00   25.0\n"
                       "all_reduce [group tp]\n"
                       "    1.0 MB              1      1.00      8.39      8.39       1.00   25.0\n"
                       "reduce_scatter\n"
                       "    1.0 MB              1      1.00      8.39      7.34       1.00   25.0\n"
                       "something_new\n"
                       "    1.0 MB              1      1.00      8.39      8.39       1.00   25.0\n" MEAN
                       "figures of rank 0, or of the rank in brackets; 4 calls of rank 0, 1 rank\n" RANK_TIMES
                       "       0        4.00       4.00  100.0\n" WHAT_RUN);
}

/* ---- whose numbers ---- */

/* Rank 0 in the world and in dp; tp1 is of ranks 2 and 3; only rank 1 receives; rank 3's is missing. */
static void test_whose_numbers_are_shown(void **state) {
    (void)state;
    static const int dp[] = {0, 2}, tp[] = {2, 3};
    struct msi_prof_group world = kit_world(4), even = kit_group(1, "w/1", "dp", dp, 2);
    struct msi_prof_group tp1 = kit_group(1, "w/2", "tp1", tp, 2);
    struct msi_record recv = kit_call(&world, "recv", MSI_SHARE_WHOLE, 512, 0, 3 * MS);
    struct msi_record named = kit_call(&world, "grad", MSI_SHARE_WHOLE, 8, 2, MS);
    struct msi_op_stats *gone = all_stats[3];
    for (int r = 0; r < 3; r++) {
        kit_add(all_stats[r], &world, "all_reduce", MSI_SHARE_TWICE, 4096, 0, (uint64_t)(r + 1) * MS);
        kit_add(all_stats[r], &world, "barrier", MSI_SHARE_NONE, 0, 1, MS);
    }
    kit_add(all_stats[0], &even, "all_reduce", MSI_SHARE_TWICE, 4096, 0, 4 * MS);
    kit_add(all_stats[2], &even, "all_reduce", MSI_SHARE_TWICE, 4096, 0, 5 * MS);
    kit_add(all_stats[2], &tp1, "all_reduce", MSI_SHARE_TWICE, 4096, 0, 7 * MS);
    named.call = "broadcast";
    kit_add_call(all_stats[0], &named);
    named.call = "all_reduce";
    named.share = MSI_SHARE_TWICE;
    kit_add_call(all_stats[0], &named);
    recv.flags = MSI_RECORD_MESSAGE;
    kit_add_call(all_stats[1], &recv);
    all_stats[3] = NULL;
    check_table(4, false,
                HEADER "all_reduce\n"
                       "    4.0 KB              1      1.00      0.03      0.05       1.00   12.5\n"
                       "barrier\n"
                       "    0 B                 1      1.00      0.00      0.00       1.00   12.5\n"
                       "all_reduce [group dp]\n"
                       "    4.0 KB              1      4.00    0.0082    0.0082       4.00   50.0\n"
                       "grad (broadcast)\n"
                       "    8.0 B               1      1.00    0.0001    0.0001       1.00   12.5\n"
                       "grad (all_reduce)\n"
                       "    8.0 B               1      1.00    0.0001    0.0001       1.00   12.5\n"
                       "recv [rank 1]\n"
                       "    512.0 B             1      3.00    0.0014    0.0014       3.00   50.0\n"
                       "all_reduce [group tp1, rank 2]\n"
                       "    4.0 KB              1      7.00    0.0047    0.0047       7.00   43.8\n" MEAN
                       "figures of rank 0, or of the rank in brackets; 5 calls of rank 0, 4 ranks\n"
                       "missing: the profile of rank 3\n" RANK_TIMES
                       "       0        8.00       8.00  100.0\n"
                       "       1        6.00       6.00  100.0\n"
                       "       2       16.00      16.00  100.0\n" WHAT_RUN);
    all_stats[3] = gone;
}

static void test_works_and_failures_have_lines(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    struct msi_record call = kit_call(&world, "all_reduce", MSI_SHARE_TWICE, 65536, 0, 123000);
    call.flags = MSI_RECORD_WORK;
    call.waited = 25000;
    for (int i = 0; i < 100; i++) kit_add_call(all_stats[0], &call);
    call.status = MST_ERR_PEER_LOST;
    kit_add_call(all_stats[0], &call);
    all_stats[0]->lost = 1;
    check_table(1, false,
                HEADER "all_reduce\n"
                       "    64.0 KB           100      0.12      4.26      6.39       2.52   20.3\n"
                       "                 100 with .work: 9.80 of 12.30 ms overlapped\n"
                       "                 1 more failed, after 0.03 ms\n" MEAN
                       "figures of rank 0, or of the rank in brackets; 100 calls of rank 0, 1 rank\n"
                       "1 more call of rank 0 failed\n"
                       "rank 0 lost 1 call for lack of memory\n" RANK_TIMES
                       "       0       12.42       2.52   20.3\n" WHAT_RUN);
}

static void test_groups_of_one_name_are_told_apart(void **state) {
    (void)state;
    struct msi_prof_group a = kit_group(1, "w/1", "dp", kit_ranks, 2),
                          b = kit_group(2, "w/2", "dp", kit_ranks, 3);
    struct msi_prof_group c = kit_group(3, "w/3", "", kit_ranks, 4),
                          d = kit_group(4, "w/4", "", kit_ranks, 9),
                          e = kit_group(5, "w/5", "", kit_ranks, 9),
                          f = kit_group(6, "w/6", "x\n\x1b", kit_ranks, 2);
    kit_add(all_stats[0], &a, "barrier", MSI_SHARE_NONE, 0, 0, MS);
    kit_add(all_stats[0], &b, "barrier", MSI_SHARE_NONE, 0, 0, MS);
    kit_add(all_stats[0], &c, "barrier", MSI_SHARE_NONE, 0, 0, MS);
    kit_add(all_stats[0], &d, "barrier", MSI_SHARE_NONE, 0, 0, MS);
    kit_add(all_stats[0], &e, "barrier", MSI_SHARE_NONE, 0, 0, MS);
    kit_add(all_stats[0], &f, "barrier", MSI_SHARE_NONE, 0, 0, MS);
    char *text = kit_table(all_stats, 1, false);
    assert_contains(text, "\nbarrier [group dp (w/1)]\n");
    assert_contains(text, "\nbarrier [group dp (w/2)]\n");
    assert_contains(text, "\nbarrier [group of 4 (ranks 0, 1, 2, 3)]\n");
    assert_contains(text, "\nbarrier [group of 9 (ranks 0, 1, 2, 3, 4, 5, 6, 7, ...) (w/4)]\n");
    assert_contains(text, "\nbarrier [group of 9 (ranks 0, 1, 2, 3, 4, 5, 6, 7, ...) (w/5)]\n");
    assert_contains(text, "\nbarrier [group x\\n\\x1b]\n");
    free(text);
}

static void test_without_any_profile(void **state) {
    (void)state;
    struct msi_op_stats *none[2] = {NULL, NULL};
    struct msi_summary *summary;
    assert_status(msi_summary_make(none, 2, true, &summary), MST_ERR_INVALID);
}

static void test_without_any_call(void **state) {
    (void)state;
    check_table(4, true,
                HEADER_WAITING MEAN
                "figures of rank 0, or of the rank in brackets; 0 calls of rank 0, 4 ranks\n" RANK_WAITING
                "       0        0.00       0.00    0.0       0.00    0.0       0.00    0.0           0.00\n"
                "       1        0.00       0.00    0.0       0.00    0.0       0.00    0.0           0.00\n"
                "       2        0.00       0.00    0.0       0.00    0.0       0.00    0.0           0.00\n"
                "       3        0.00       0.00    0.0       0.00    0.0       0.00    0.0           "
                "0.00\n" WHAT_WAITING);
}

/* Hours of calls, large messages, long sums: no line is longer than 95 columns, 99 with "[0] ". */
static void test_lines_are_short(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    for (int r = 0; r < 4; r++) {
        struct msi_record call = kit_call(&world, "reduce_scatter_tensor", MSI_SHARE_PART, 1050000000, 0, 0);
        for (call.seq = 0; call.seq < 2000; call.seq++)
            add_at(r, call, (int64_t)call.seq * 20000 * MS + r, 18000ll * MS, 18000ll * MS);
        call = kit_call(&world, "all_reduce", MSI_SHARE_TWICE, 1ll << 40, 2000, 0);
        add_at(r, call, 40000000ll * MS, 10ll * MS, 10ll * MS);
        all_stats[r]->rows[0].count = 12345678;
        all_stats[r]->rows[0].works = 12345678;
        all_stats[r]->rows[0].works_ns = all_stats[r]->rows[0].total_ns;
    }
    char *text = kit_table(all_stats, 4, true), *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1)
        if (end - line > 95) fail_msg("%d columns: %.*s", (int)(end - line), (int)(end - line), line);
    free(text);
}

/* Of many ranks only some are shown. */
static void test_many_ranks(void **state) {
    (void)state;
    struct msi_rank_times ranks[KIT_RANKS];
    struct msi_buf buf = {0};
    for (int r = 0; r < KIT_RANKS; r++)
        ranks[r] = (struct msi_rank_times){r, 100 * MS, (KIT_RANKS - r) * MS, MS, r == 7 ? MS : 0};
    assert_true(msi_add_rank_times(&buf, ranks, KIT_RANKS, true));
    assert_string_equal(
        kit_text(&buf), RANK_WAITING
        "  (64 ranks; with the least, the median and the most communication, and the latest rank)\n"
        "      63      100.00       1.00    1.0       1.00    1.0       0.00    0.0           0.00\n"
        "      32      100.00      32.00   32.0       1.00    1.0      31.00   31.0           0.00\n"
        "       0      100.00      64.00   64.0       1.00    1.0      63.00   63.0           0.00\n"
        "       7      100.00      57.00   57.0       1.00    1.0      56.00   56.0           "
        "1.00\n" WHAT_WAITING);
    msi_buf_free(&buf);
    ranks[0].waited_for_ns = 2 * MS; /* it has the most communication, too, and is shown once */
    ranks[0].waiting_ns = 65 * MS;   /* an estimate: it is limited to the communication */
    assert_true(msi_add_rank_times(&buf, ranks, KIT_RANKS, true));
    const char *line = strstr(kit_text(&buf), "\n       0 ");
    assert_non_null(line);
    assert_null(strstr(line + 1, "\n       0 "));
    assert_contains(line, " 64.00   64.0      64.00   64.0       0.00    0.0 ");
    msi_buf_free(&buf);
}

/* Lost ranks are missing; ranks that did not publish in time are also late. */
static void test_late_ranks_are_named(void **state) {
    (void)state;
    static const bool late[RANKS] = {false, false, true, true};
    struct msi_op_stats *some[RANKS] = {all_stats[0], NULL, NULL, NULL};
    struct msi_summary *summary;
    struct msi_buf text = {0}, json = {0};
    assert_ok(msi_summary_make(some, RANKS, false, &summary));
    summary->late = late;
    msi_summary_text(summary, &text);
    msi_summary_json(summary, &json);
    assert_contains(kit_text(&text), "\nmissing: the profile of ranks 1, 2, 3\n"
                                     "summary not called, or not in time: ranks 2, 3\n");
    assert_contains(kit_text(&json), "\"missing\":[1,2,3],\"late\":[2,3],");
    msi_buf_free(&text);
    msi_buf_free(&json);
    msi_summary_free(summary);
}

/* ---- JSON ---- */

static void test_the_summary_as_json(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(2);
    struct msi_summary *summary;
    struct msi_buf buf = {0};
    kit_add(all_stats[0], &world, "all_reduce", MSI_SHARE_TWICE, 1024, 0, 2 * MS);
    kit_add(all_stats[1], &world, "all_reduce", MSI_SHARE_TWICE, 1024, 0, 3 * MS);
    kit_add(all_stats[0], &world, "all_reduce", MSI_SHARE_TWICE, 1024, 1, 2 * MS);
    assert_ok(msi_summary_make(all_stats, 2, true, &summary));
    msi_summary_json(summary, &buf);
    assert_string_equal(
        kit_text(&buf),
        "{\"version\":2,\"ranks\":2,\"rank\":0,\"missing\":[],\"late\":[],\"calls\":2,\"failed\":0,\"lost\":"
        "0,"
        "\"times\":[{\"rank\":0,\"run_ms\":4.000000,\"share\":1.000000,\"communication_ms\":4.000000,"
        "\"waiting_ms\":0.000000,\"transfer_ms\":4.000000,\"waited_for_ms\":1.000000},"
        "{\"rank\":1,\"run_ms\":3.000000,\"share\":1.000000,\"communication_ms\":3.000000,"
        "\"waiting_ms\":1.000000,\"transfer_ms\":2.000000,\"waited_for_ms\":0.000000}],\"operations\":[\n"
        "{\"op\":\"all_reduce\",\"call\":\"all_reduce\",\"group\":\"world\",\"group_id\":\"w\",\"group_"
        "size\":2,"
        "\"rank\":0,\"rows\":[{\"bytes\":1024,\"size\":\"1.0 "
        "KB\",\"count\":2,\"failed\":0,\"communication_ms\":4.000000,"
        "\"waiting_ms\":0.000000,\"transfer_ms\":4.000000,\"matched\":1,\"total_ms\":4.000000,\"avg_ms\":2."
        "000000,"
        "\"least_ms\":2.000000,\"most_ms\":2.000000,\"tput_avg_gbps\":0.004096,\"busbw_avg_gbps\":0.004096,"
        "\"exact\":true,\"works\":0,\"works_ms\":0.000000,\"overlapped_ms\":0.000000}]}],"
        "\"groups\":[{\"group\":\"world\",\"group_id\":\"w\",\"group_size\":2,\"matched\":1,\"ordered\":1,"
        "\"clashes\":0,"
        "\"last\":[{\"rank\":0,\"calls\":1},{\"rank\":1,\"calls\":0}]}],"
        "\"unmatched\":[{\"op\":\"all_reduce\",\"group\":\"world\",\"group_id\":\"w\",\"group_size\":2,"
        "\"calls\":1,"
        "\"fewest_rank\":1,\"fewest\":1,\"most_rank\":0,\"most\":2}],\"unmatched_unnamed\":0,\"sample\":1}"
        "\n");
    msi_buf_free(&buf);
    msi_summary_free(summary);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_table_of_the_tutorial, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_table_with_callers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_deepspeed_got_wrong, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whose_numbers_are_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_works_and_failures_have_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_groups_of_one_name_are_told_apart, set_up, tear_down),
        cmocka_unit_test(test_without_any_profile),
        cmocka_unit_test_setup_teardown(test_without_any_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lines_are_short, set_up, tear_down),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test_setup_teardown(test_late_ranks_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_summary_as_json, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
