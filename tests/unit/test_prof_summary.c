/*
 * test_prof_summary.c - the tables: DeepSpeed's own examples where it is right, and what is right where it is
 * not; stragglers; whole tables as they look. test_prof_figures.c has the formulas.
 */
#include "harness.h"

#include "prof_kit.h"

#define HEADER                                                                                               \
    "Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     "   \
    "tput_avg (Gbps)     busbw_avg (Gbps)\n"
#define STRAGGLERS                                                                                           \
    "_______________________________\nBreakdown with straggler effect\n-------------------------------\n"    \
    "Comm. Op            Message Size        Count               Total comm lat(ms)  Total straggler(ms) "   \
    "Avg comm lat(ms)    Avg straggler(ms)\n"
#define WHY_LAST                                                                                             \
    "The last rank to enter a call waits for no other and has the shortest time in it. Calls with a root "   \
    "are left out, since not all of their ranks wait.\n"

enum { MS = 1000000, RANKS = 4 };

static struct msi_op_stats *all_stats[RANKS];

static int set_up(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) all_stats[r] = msi_op_stats_new(false);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) msi_op_stats_free(all_stats[r]);
    return 0;
}

static void check_table(int n, bool show_straggler, const char *wanted) {
    char *text = kit_table(all_stats, n, show_straggler);
    if (strcmp(text, wanted) != 0) print_error("got:\n%s\nwanted:\n%s\n", text, wanted);
    assert_string_equal(text, wanted);
    free(text);
}

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
    check_table(
        1, false,
        HEADER
        "broadcast\n"
        "                    2.0 KB              146                 11.12               0.08                "
        "0.22                0.22\n"
        "                    98.25 MB            1                   8317.12             8317.12             "
        "0.10                0.10\n"
        "reduce_scatter_tensor\n"
        "                    678.86 MB           40                  602.29              9.69                "
        "734.03              688.15\n"
        "communication 8930.53 ms in 187 calls of rank 0, 1 rank\n");
}

static void test_the_table_with_callers(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(16);
    struct msi_record call = kit_call(&world, "broadcast", MSI_SHARE_WHOLE, 2048, 0, 64315);
    all_stats[0]->debug = true;
    call.function = "_broadcast_model";
    for (int i = 0; i < 146; i++) kit_add_call(all_stats[0], &call);
    check_table(
        1, false,
        HEADER
        "broadcast | [Caller Func: _broadcast_model]\n"
        "                    2.0 KB              146                 9.39                0.06                "
        "0.25                0.25\n"
        "communication 9.39 ms in 146 calls of rank 0, 1 rank\n");
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
    check_table(
        1, false,
        HEADER
        "all_reduce\n"
        "                    1.0 MB              1                   1.00                1.00                "
        "8.39                14.68\n"
        "all_reduce [group tp]\n"
        "                    1.0 MB              1                   1.00                1.00                "
        "8.39                8.39\n"
        "reduce_scatter\n"
        "                    1.0 MB              1                   1.00                1.00                "
        "8.39                7.34\n"
        "something_new\n"
        "                    1.0 MB              1                   1.00                1.00                "
        "8.39                8.39\n"
        "communication 4.00 ms in 4 calls of rank 0, 1 rank\n");
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
    check_table(
        4, false,
        HEADER
        "all_reduce\n"
        "                    4.0 KB              1                   1.00                1.00                "
        "0.03                0.05\n"
        "barrier\n"
        "                    0 B                 1                   1.00                1.00                "
        "0.00                0.00\n"
        "all_reduce [group dp]\n"
        "                    4.0 KB              1                   4.00                4.00                "
        "0.0082              0.0082\n"
        "grad (broadcast)\n"
        "                    8.0 B               1                   1.00                1.00                "
        "0.0001              0.0001\n"
        "grad (all_reduce)\n"
        "                    8.0 B               1                   1.00                1.00                "
        "0.0001              0.0001\n"
        "recv [rank 1]\n"
        "                    512.0 B             1                   3.00                3.00                "
        "0.0014              0.0014\n"
        "all_reduce [group tp1, rank 2]\n"
        "                    4.0 KB              1                   7.00                7.00                "
        "0.0047              0.0047\n"
        "communication 8.00 ms in 5 calls of rank 0, 4 ranks\n"
        "missing: the profile of rank 3\n");
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
    check_table(
        1, false,
        HEADER
        "all_reduce\n"
        "                    64.0 KB             100                 12.30               0.12                "
        "4.26                6.39\n"
        "                    100 with .work: 9.80 of 12.30 ms overlapped\n"
        "                    1 more failed\n"
        "communication 12.30 ms in 100 calls of rank 0, 1 rank\n"
        "each work counts in full even if several overlap: the sum may exceed the time of the run\n"
        "1 more call of rank 0 failed\n"
        "rank 0 lost 1 call for lack of memory\n");
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
    check_table(4, true, HEADER "communication 0.00 ms in 0 calls of rank 0, 4 ranks\n" STRAGGLERS);
}

/* ---- stragglers ---- */

/*
 * Two calls of one size: rank 1 is late to the first, rank 0 to the second. DeepSpeed sorts each rank's list
 * before it pairs them, finds 1 and 1, 10 and 10, and no straggler at all.
 */
static void test_calls_are_paired_by_their_number(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(2);
    kit_add(all_stats[0], &world, "all_reduce", MSI_SHARE_TWICE, 1024, 0, 10 * MS);
    kit_add(all_stats[0], &world, "all_reduce", MSI_SHARE_TWICE, 1024, 1, 1 * MS);
    kit_add(all_stats[1], &world, "all_reduce", MSI_SHARE_TWICE, 1024, 0, 1 * MS);
    kit_add(all_stats[1], &world, "all_reduce", MSI_SHARE_TWICE, 1024, 1, 10 * MS);
    check_table(
        2, true,
        HEADER
        "all_reduce\n"
        "                    1.0 KB              2                   11.00               5.50                "
        "0.0045              0.0045\n"
        "communication 11.00 ms in 2 calls of rank 0, 2 ranks\n" STRAGGLERS "all_reduce\n"
        "                    1.0 KB              2                   2.00                9.00                "
        "1.00                4.50\n" WHY_LAST
        "group world: rank 0 was last most often, in 1 of 2 calls; the first rank waited 9.00 ms in "
        "them\n");
}

static void test_who_comes_last_has_the_shortest_time(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    for (uint64_t seq = 0; seq < 100; seq++)
        for (int r = 0; r < 4; r++) {
            bool late = seq < 61 ? r == 3 : r == (int)(seq % 3);
            kit_add(all_stats[r], &world, "all_reduce", MSI_SHARE_TWICE, 4096, seq,
                    late ? 100000 : 300000 + (uint64_t)r);
            /* The root of a broadcast is soon done; that does not make it late. */
            kit_add(all_stats[r], &world, "broadcast", MSI_SHARE_WHOLE, 4096, 1000 + seq, r ? 200000 : 50000);
        }
    char *text = kit_table(all_stats, 4, true);
    assert_contains(text,
                    "\ngroup world: rank 3 was last most often, in 61 of 100 calls; the first rank waited "
                    "12.20 ms in them\n");
    assert_contains(
        text, "\nbroadcast\n"
              "                    4.0 KB              100                 5.00                0.00      "
              "          0.05                0.00\n");
    free(text);
}

/* Rank 3 stopped early in one group; each rank of another has one that the others have not. */
static void test_calls_without_a_pair_are_named(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4), dp = kit_group(1, "w/1", "dp", kit_ranks, 4);
    for (int r = 0; r < 4; r++) {
        for (uint64_t seq = 0; seq < (r == 3 ? 88 : 100); seq++)
            kit_add(all_stats[r], &dp, "all_reduce", MSI_SHARE_TWICE, 4096, seq, MS);
        kit_add(all_stats[r], &world, "barrier", MSI_SHARE_NONE, 0, (uint64_t)r, MS);
        kit_add(all_stats[r], &world, r == 2 ? "broadcast" : "reduce", MSI_SHARE_WHOLE, 8, 7, MS);
    }
    check_table(
        4, true,
        HEADER
        "all_reduce [group dp]\n"
        "                    4.0 KB              100                 100.00              1.00                "
        "0.03                0.05\n"
        "barrier\n"
        "                    0 B                 1                   1.00                1.00                "
        "0.00                0.00\n"
        "reduce\n"
        "                    8.0 B               1                   1.00                1.00                "
        "0.0001              0.0001\n"
        "broadcast [rank 2]\n"
        "                    8.0 B               1                   1.00                1.00                "
        "0.0001              0.0001\n"
        "communication 102.00 ms in 102 calls of rank 0, 4 ranks\n" STRAGGLERS "all_reduce [group dp]\n"
        "                    4.0 KB              88                  88.00               0.00                "
        "1.00                0.00\n" WHY_LAST
        "group dp: rank 0 was last most often, in 88 of 88 calls; the first rank waited 0.00 ms in "
        "them\n"
        "4 calls of barrier in group world are not paired: each rank has 1, but not all the same\n"
        "12 calls of all_reduce in group dp are not paired: rank 3 has 88, rank 0 has 100\n"
        "1 call in group world not paired: number 7 is reduce on rank 0, broadcast on rank 2\n");
}

static void test_more_names_than_notes(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(2);
    char name[16];
    for (uint64_t i = 0; i < MSI_SUMMARY_NOTES + 3; i++) {
        snprintf(name, sizeof name, "op%d", (int)i);
        kit_add(all_stats[0], &world, name, MSI_SHARE_TWICE, 8, i, MS);
    }
    char *text = kit_table(all_stats, 2, true);
    assert_contains(text,
                    "\n1 call of op15 in group world is not paired: rank 1 has 0, rank 0 has 1\n3 unpaired "
                    "calls of other names\n");
    free(text);
}

static void test_missing_ranks_are_left_out_of_the_pairs(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(4);
    struct msi_op_stats *gone[] = {all_stats[0], all_stats[2]};
    all_stats[0] = all_stats[2] = NULL;
    kit_add(all_stats[1], &world, "all_reduce", MSI_SHARE_TWICE, 4096, 0, 3 * MS);
    kit_add(all_stats[3], &world, "all_reduce", MSI_SHARE_TWICE, 4096, 0, 2 * MS);
    check_table(
        4, true,
        HEADER
        "all_reduce [rank 1]\n"
        "                    4.0 KB              1                   3.00                3.00                "
        "0.01                0.02\n"
        "communication 3.00 ms in 1 call of rank 1, 4 ranks\n"
        "missing: the profile of ranks 0, 2; the breakdown below covers the other ranks\n" STRAGGLERS
        "all_reduce [rank 1]\n"
        "                    4.0 KB              1                   2.00                1.00                "
        "2.00                1.00\n" WHY_LAST
        "group world: rank 3 was last most often, in 1 of 1 call; the first rank waited 1.00 ms in "
        "them\n");
    all_stats[0] = gone[0];
    all_stats[2] = gone[1];
}

/* Two callers of one operation, of which one is called more often on rank 1; in a subgroup of two of three
 * ranks. */
static void test_callers_are_paired_apart(void **state) {
    (void)state;
    struct msi_prof_group tp = kit_group(1, "w/1", "tp", kit_ranks + 1, 2);
    for (int r = 1; r < 3; r++) {
        struct msi_record call = kit_call(&tp, "all_reduce", MSI_SHARE_TWICE, 1024, 0, 0);
        all_stats[r]->debug = true;
        for (uint64_t seq = 0; seq < (r == 1 ? 5 : 4); seq++) {
            call.function = seq % 2 ? "odd" : "even";
            call.seq = seq;
            call.device = (seq + 1) * (uint64_t)r * MS;
            kit_add_call(all_stats[r], &call);
        }
    }
    check_table(
        3, true,
        HEADER
        "all_reduce | [Caller Func: even] [group tp, rank 1]\n"
        "                    1.0 KB              3                   9.00                3.00                "
        "0.0042              0.0042\n"
        "all_reduce | [Caller Func: odd] [group tp, rank 1]\n"
        "                    1.0 KB              2                   6.00                3.00                "
        "0.0031              0.0031\n"
        "communication 0.00 ms in 0 calls of rank 0, 3 ranks\n" STRAGGLERS
        "all_reduce | [Caller Func: even] [group tp, rank 1]\n"
        "                    1.0 KB              2                   4.00                0.00                "
        "2.00                0.00\n"
        "all_reduce | [Caller Func: odd] [group tp, rank 1]\n"
        "                    1.0 KB              2                   6.00                0.00                "
        "3.00                0.00\n" WHY_LAST
        "group tp: rank 1 was last most often, in 4 of 4 calls; the first rank waited 10.00 ms in "
        "them\n"
        "1 call of all_reduce | [Caller Func: even] in group tp is not paired: rank 2 has 2, rank 1 has 3\n");
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

/* Rank 1 calls more elsewhere, so that it forgets earlier: its forgotten calls are not without a pair. */
static void test_forgotten_calls_are_no_fault(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(2), own = kit_group(1, "w/1", "own", kit_ranks + 1, 1);
    for (uint64_t seq = 0; seq < 10000; seq++) {
        for (int r = 0; r < 2; r++) kit_add(all_stats[r], &world, "all_reduce", MSI_SHARE_TWICE, 64, seq, MS);
        kit_add(all_stats[1], &own, "all_reduce", MSI_SHARE_TWICE, 64, seq, MS);
    }
    char *text = kit_table(all_stats, 2, true);
    assert_contains(
        text, "\n                    64.0 B              8192                8192.00             0.00 ");
    assert_contains(text,
                    "\ngroup world: the breakdown begins at call 1808, since a rank remembers its last 16384 "
                    "calls\n");
    assert_null(strstr(text, "not paired"));
    free(text);
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
        "{\"version\":1,\"ranks\":2,\"rank\":0,\"missing\":[],\"late\":[],\"total_ms\":4.000000,\"calls\":2,"
        "\"failed\":0,"
        "\"lost\":0,\"operations\":[\n"
        "{\"op\":\"all_reduce\",\"call\":\"all_reduce\",\"group\":\"world\",\"group_id\":\"w\",\"group_"
        "size\":2,"
        "\"rank\":0,\"rows\":[{\"bytes\":1024,\"size\":\"1.0 "
        "KB\",\"count\":2,\"failed\":0,\"total_ms\":4.000000,"
        "\"avg_ms\":2.000000,\"least_ms\":2.000000,\"most_ms\":2.000000,\"tput_avg_gbps\":0.004096,"
        "\"busbw_avg_gbps\":0.004096,\"exact\":true,\"works\":0,\"works_ms\":0.000000,\"overlapped_ms\":0."
        "000000,"
        "\"straggler\":{\"count\":1,\"total_comm_ms\":2.000000,\"total_straggler_ms\":0.000000,"
        "\"avg_comm_ms\":2.000000,\"avg_straggler_ms\":0.000000}}]}],"
        "\"groups\":[{\"group\":\"world\",\"group_id\":\"w\",\"group_size\":2,\"paired\":1,\"mutual\":1,"
        "\"clashes\":0,"
        "\"forgotten\":0,\"first_seq\":0,\"last\":[{\"rank\":0,\"calls\":1,\"waited_ms\":1.000000},"
        "{\"rank\":1,\"calls\":0,\"waited_ms\":0.000000}]}],"
        "\"unpaired\":[{\"op\":\"all_reduce\",\"group\":\"world\",\"group_id\":\"w\",\"group_size\":2,"
        "\"calls\":1,"
        "\"fewest_rank\":1,\"fewest\":1,\"most_rank\":0,\"most\":2}],\"unpaired_unnamed\":0}\n");
    msi_buf_free(&buf);
    msi_summary_free(summary);
}

/* ---- random worlds against a reference that looks at every call of every rank ---- */

enum { WORLD = 5, GROUPS = 3, CALLS = 60 };

/* ns[rank][group][seq]; 0: not made */
typedef uint64_t world_calls[WORLD][GROUPS][CALLS];

struct reference {
    uint64_t comm[CALLS], straggler[CALLS];
    size_t count, last[WORLD];
};

static void reckon(world_calls calls, int group, const int *ranks, int size, int rank,
                   struct reference *out) {
    *out = (struct reference){.count = 0};
    for (int seq = 0; seq < CALLS; seq++) {
        bool all = true;
        int last = ranks[0];
        for (int i = 0; i < size; i++) {
            all = all && calls[ranks[i]][group][seq];
            if (calls[ranks[i]][group][seq] < calls[last][group][seq]) last = ranks[i];
        }
        if (!all) continue;
        out->last[last]++;
        out->comm[out->count] = calls[last][group][seq];
        out->straggler[out->count++] = calls[rank][group][seq] - calls[last][group][seq];
    }
}

static void check_pairs(const struct msi_summary *s, world_calls calls, const struct msi_prof_group *groups) {
    for (size_t i = 0; i < s->op_count; i++) {
        const struct msi_summary_op *op = &s->ops[i];
        const struct msi_summary_group *group = &s->groups[op->group];
        int g = group->is->number;
        struct reference wanted;
        reckon(calls, g, groups[g].ranks, groups[g].size, op->rank, &wanted);
        struct msi_paired *got = &s->lines[op->first].paired;
        uint64_t comm = 0, straggler = 0;
        for (size_t k = 0; k < wanted.count; k++) comm += wanted.comm[k], straggler += wanted.straggler[k];
        assert_int_equal(got->count, wanted.count);
        assert_int_equal(got->comm_ns, comm);
        assert_int_equal(got->straggler_ns, straggler);
        assert_true(fabs(msi_histogram_means(&got->comm).ns - kit_mean(wanted.comm, wanted.count)) < 1e-6);
        assert_true(fabs(msi_histogram_means(&got->straggler).ns - kit_mean(wanted.straggler, wanted.count)) <
                    1e-6);
        for (int m = 0; m < group->member_count; m++)
            assert_int_equal(group->members[m].last, wanted.last[group->members[m].rank]);
    }
}

static void test_random_worlds(void **state) {
    (void)state;
    static const int odd[] = {1, 3}, most[] = {0, 1, 2, 4};
    struct msi_prof_group groups[GROUPS] = {kit_world(WORLD), kit_group(1, "w/1", "odd", odd, 2),
                                            kit_group(2, "w/2", "most", most, 4)};
    uint64_t random = 3;
    for (int round = 0; round < 200; round++) {
        static world_calls calls;
        struct msi_op_stats *all[WORLD];
        struct msi_summary *summary;
        uint64_t missing = kit_random(&random) % 8; /* one call in so many */
        memset(calls, 0, sizeof calls);
        for (int r = 0; r < WORLD; r++) all[r] = msi_op_stats_new(false);
        for (int seq = 0; seq < CALLS; seq++)
            for (int g = 0; g < GROUPS; g++)
                for (int i = 0; i < groups[g].size; i++) {
                    int r = groups[g].ranks[i];
                    if (missing && kit_random(&random) % (missing * 10) == 0) continue;
                    calls[r][g][seq] = 1 + kit_random(&random) % 1000;
                    kit_add(all[r], &groups[g], "all_reduce", MSI_SHARE_TWICE, 64, (uint64_t)seq,
                            calls[r][g][seq]);
                }
        assert_ok(msi_summary_make(all, WORLD, true, &summary));
        check_pairs(summary, calls, groups);
        msi_summary_free(summary);
        for (int r = 0; r < WORLD; r++) msi_op_stats_free(all[r]);
    }
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
        cmocka_unit_test_setup_teardown(test_calls_are_paired_by_their_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_comes_last_has_the_shortest_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_calls_without_a_pair_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_more_names_than_notes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_ranks_are_left_out_of_the_pairs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_callers_are_paired_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_ranks_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forgotten_calls_are_no_fault, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_summary_as_json, set_up, tear_down),
        cmocka_unit_test(test_random_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
