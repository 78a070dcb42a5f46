/*
 * test_prof_summary.c - the tables: DeepSpeed's own examples where it is right, and what is right where it is
 * not; stragglers; whole tables as they look. test_prof_figures.c has the formulas.
 */
#include "harness.h"

#include "prof_kit.h"

#define HEADER                                                                                               \
    "Operation           calls    mean *    tput *   busbw *   communication\n"                              \
    "    size                         ms      Gbps      Gbps         ms  % run\n"
#define HEADER_WAITING                                                                                       \
    "Operation           calls    mean *    tput *   busbw *   communication    waiting   transfer\n"        \
    "    size                         ms      Gbps      Gbps         ms  % run         ms         ms\n"
#define MEAN "* trimmed mean: without the shortest and the longest tenth of the calls\n"
#define RANK_TIMES                                                                                           \
    "Time per rank      run      communication\n"                                                            \
    "    rank         ms         ms  % run\n"
#define RANK_WAITING                                                                                         \
    "Time per rank      run      communication           waiting          transfer  others waited\n"         \
    "    rank         ms         ms  % run         ms  % run         ms  % run     for it, ms\n"
#define WHAT_RUN                                                                                             \
    "  run: from mst_init to the end of the last call; communication: blocked in calls and mst_wait\n"
#define WHAT_WAITING                                                                                         \
    WHAT_RUN                                                                                                 \
    "  waiting: until the last rank, or the sender, begins; transfer: the rest; others waited: a sum\n"

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
    check_table(2, true,
                HEADER_WAITING
                "all_reduce\n"
                "    1.0 KB              2      5.50    0.0045    0.0045      11.00  100.0       9.00       "
                "2.00\n" MEAN
                "figures of rank 0, or of the rank in brackets; 2 calls of rank 0, 2 ranks\n" RANK_WAITING
                "       0       11.00      11.00  100.0       9.00   81.8       2.00   18.2           9.00\n"
                "       1       11.00      11.00  100.0       9.00   81.8       2.00   18.2           "
                "9.00\n" WHAT_WAITING "group world: rank 0 began last most often, in 1 of 2 calls\n");
}

static void test_without_a_clock_the_last_rank_has_the_shortest_time(void **state) {
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
    assert_contains(text, "\ngroup world: rank 3 began last most often, in 61 of 100 calls\n");
    free(text);
}

/* ---- with a common clock ---- */

/* A call of rank r that begins at begin; of a work, waited is the time in mst_wait. */
static void add_at(int r, struct msi_record call, int64_t begin, int64_t took, int64_t waited) {
    msi_op_stats_add(all_stats[r], &call, &(struct msi_times){begin, took, 0, waited}, true);
}

static struct msi_summary *summarize(int n) {
    struct msi_summary *summary;
    assert_ok(msi_summary_make(all_stats, n, true, &summary));
    return summary;
}

static void check_times(const struct msi_rank_times *times, int64_t run, int64_t comm, int64_t waiting,
                        int64_t waited_for) {
    assert_int_equal(times->run_ns, run);
    assert_int_equal(times->comm_ns, comm);
    assert_int_equal(times->waiting_ns, waiting);
    assert_int_equal(times->waited_for_ns, waited_for);
}

/* The same calls as in tests/tools/test_report.py, with the same figures. */
static void test_waiting_ends_when_the_last_rank_begins(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(2);
    struct msi_record call = kit_call(&world, "all_reduce", MSI_SHARE_TWICE, 1 << 20, 0, 0);
    struct msi_record root = kit_call(&world, "broadcast", MSI_SHARE_WHOLE, 64, 2, 0);
    struct msi_record work = kit_call(&world, "reduce_scatter", MSI_SHARE_PART, 4096, 3, 0);
    struct msi_record send = kit_call(&world, "send", MSI_SHARE_WHOLE, 128, 0, 0), recv = send;
    add_at(0, call, 10, 50, 50);
    add_at(1, call, 30, 30, 30); /* 0 waits 20 for 1 */
    call.seq = 1;
    add_at(0, call, 100, 10, 10);
    add_at(1, call, 90, 20, 20); /* 1 waits 10 for 0 */
    add_at(0, root, 200, 5, 5);
    add_at(1, root, 300, 10, 10); /* 0 waits 5 for 1, then it has left */
    send.flags = MSI_RECORD_MESSAGE | MSI_RECORD_SEND;
    send.peer = 1;
    recv.flags = MSI_RECORD_MESSAGE;
    add_at(0, send, 400, 4, 4);
    add_at(1, recv, 380, 40, 40); /* 1 waits 20 for 0 */
    work.flags = MSI_RECORD_WORK;
    add_at(0, work, 500, 100, 7);
    add_at(1, work, 595, 5, 5); /* 0 waits 2 of its 7 in mst_wait */
    struct msi_summary *s = summarize(2);
    check_times(&s->ranks[0], 600, 50 + 10 + 5 + 4 + 7, 20 + 5 + 2, 10 + 20);
    check_times(&s->ranks[1], 600, 30 + 20 + 10 + 40 + 5, 10 + 20, 20 + 5 + 2);
    assert_int_equal(s->lines[s->ops[0].first].waiting_ns, 20);
    assert_int_equal(s->groups[0].ordered, 4);
    msi_summary_free(s);
}

/* The time of a failed call is waiting; a call that the other rank has not made has none. */
static void test_failed_and_unmatched_calls(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(2);
    struct msi_record call = kit_call(&world, "all_reduce", MSI_SHARE_TWICE, 8, 0, 0);
    add_at(0, call, 10, 50, 50);
    call.seq = 1;
    call.status = MST_ERR_PEER_LOST;
    add_at(0, call, 100, 400, 400);
    call.flags = MSI_RECORD_WORK;
    add_at(0, call, 600, 100, 30);
    struct msi_summary *s = summarize(2);
    check_times(&s->ranks[0], 700, 50 + 400 + 30, 400 + 30, 0);
    assert_int_equal(s->lines[0].waiting_ns, 400 + 30);
    assert_int_equal(s->lines[0].matched, 0);
    msi_summary_free(s);
}

/* Messages of several peers and tags, in any order; one of them the sender has not recorded. */
static void test_messages_are_matched_by_peer_tag_and_number(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(3);
    struct msi_record m = kit_call(&world, "x", MSI_SHARE_WHOLE, 8, 0, 0);
    for (int tag = 4; tag >= 0; tag--)
        for (uint64_t seq = 0; seq < 5; seq++)
            for (int from = 1; from < 3; from++) {
                m.seq = seq;
                m.tag = tag;
                m.flags = MSI_RECORD_MESSAGE | MSI_RECORD_SEND;
                m.peer = 0;
                if (seq != 3) add_at(from, m, 1000 * tag + 100 * (int64_t)seq + 10 * from, 1, 1);
                m.flags = MSI_RECORD_MESSAGE;
                m.peer = from;
                add_at(0, m, 1000 * tag + 100 * (int64_t)seq, 50, 50);
            }
    struct msi_summary *s = summarize(3);
    check_times(&s->ranks[0], 4450, 50 * 50, 20 * 10 + 20 * 20, 0);
    assert_int_equal(s->ranks[1].waited_for_ns, 20 * 10);
    assert_int_equal(s->ranks[2].waited_for_ns, 20 * 20);
    assert_int_equal(s->ranks[1].waiting_ns + s->ranks[2].waiting_ns, 0);
    msi_summary_free(s);
}

/* Messages without numbers, which all have number 0, are matched if there is only one. */
static void test_messages_without_numbers(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(2);
    struct msi_record m = kit_call(&world, "x", MSI_SHARE_WHOLE, 8, 0, 0);
    for (m.tag = 0; m.tag < 4; m.tag++) { /* bit 0: two sends, bit 1: two receives */
        m.flags = MSI_RECORD_MESSAGE | MSI_RECORD_SEND;
        m.peer = 1;
        for (int i = 0; i <= (m.tag & 1); i++) add_at(0, m, 1000 * m.tag + 10 + i, 1, 1);
        m.flags = MSI_RECORD_MESSAGE;
        m.peer = 0;
        for (int i = 0; i <= m.tag >> 1; i++) add_at(1, m, 1000 * m.tag + i, 50, 50);
    }
    struct msi_summary *s = summarize(2);
    assert_int_equal(s->ranks[1].waiting_ns, 10);
    assert_int_equal(s->ranks[0].waited_for_ns, 10);
    msi_summary_free(s);
}

/* If the clock of one rank is unknown, durations count; its messages are not matched. */
static void test_a_rank_without_a_clock(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(2);
    struct msi_record call = kit_call(&world, "all_reduce", MSI_SHARE_TWICE, 8, 0, 0), message = call;
    message.flags = MSI_RECORD_MESSAGE;
    message.peer = 1;
    add_at(0, call, 1000, 50, 50);
    add_at(0, message, 2000, 50, 50);
    struct msi_times times = {.begin = 77, .lasted = 20, .waited = 20};
    msi_op_stats_add(all_stats[1], &call, &times, false);
    message.flags |= MSI_RECORD_SEND;
    message.peer = 0;
    msi_op_stats_add(all_stats[1], &message, &times, false);
    struct msi_summary *s = summarize(2);
    check_times(&s->ranks[0], 2050, 100, 30, 0);
    check_times(&s->ranks[1], 97, 40, 0, 30);
    msi_summary_free(s);
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
        HEADER_WAITING
        "all_reduce [group dp]\n"
        "    4.0 KB            100      1.00      0.03      0.05     100.00   98.0       0.00     100.00\n"
        "barrier\n"
        "    0 B                 1      1.00      0.00      0.00       1.00    1.0       0.00       1.00\n"
        "reduce\n"
        "    8.0 B               1      1.00    0.0001    0.0001       1.00    1.0       0.00       1.00\n"
        "broadcast [rank 2]\n"
        "    8.0 B               1      1.00    0.0001    0.0001       1.00    1.0       0.00       "
        "1.00\n" MEAN
        "figures of rank 0, or of the rank in brackets; 102 calls of rank 0, 4 ranks\n" RANK_WAITING
        "       0      102.00     102.00  100.0       0.00    0.0     102.00  100.0           0.00\n"
        "       1      102.00     102.00  100.0       0.00    0.0     102.00  100.0           0.00\n"
        "       2      102.00     102.00  100.0       0.00    0.0     102.00  100.0           0.00\n"
        "       3       90.00      90.00  100.0       0.00    0.0      90.00  100.0           "
        "0.00\n" WHAT_WAITING "group dp: rank 0 began last most often, in 88 of 88 calls\n"
        "4 calls of barrier in group world are not matched: each rank has 1, but not all the same\n"
        "12 calls of all_reduce in group dp are not matched: rank 3 has 88, rank 0 has 100\n"
        "1 call in group world not matched: number 7 is reduce on rank 0, broadcast on rank 2\n");
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
                    "\n1 call of op15 in group world is not matched: rank 1 has 0, rank 0 has 1\n3 unmatched "
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
    check_table(4, true,
                HEADER_WAITING
                "all_reduce [rank 1]\n"
                "    4.0 KB              1      3.00      0.01      0.02       3.00  100.0       1.00       "
                "2.00\n" MEAN "figures of rank 1, or of the rank in brackets; 1 call of rank 1, 4 ranks\n"
                "missing: the profile of ranks 0, 2; waiting covers the other ranks\n" RANK_WAITING
                "       1        3.00       3.00  100.0       1.00   33.3       2.00   66.7           0.00\n"
                "       3        2.00       2.00  100.0       0.00    0.0       2.00  100.0           "
                "1.00\n" WHAT_WAITING "group world: rank 3 began last most often, in 1 of 1 call\n");
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
        HEADER_WAITING
        "all_reduce | [Caller Func: even] [group tp, rank 1]\n"
        "    1.0 KB              3      3.00    0.0042    0.0042       9.00   60.0       0.00       9.00\n"
        "all_reduce | [Caller Func: odd] [group tp, rank 1]\n"
        "    1.0 KB              2      3.00    0.0031    0.0031       6.00   40.0       0.00       "
        "6.00\n" MEAN
        "figures of rank 0, or of the rank in brackets; 0 calls of rank 0, 3 ranks\n" RANK_WAITING
        "       0        0.00       0.00    0.0       0.00    0.0       0.00    0.0           0.00\n"
        "       1       15.00      15.00  100.0       0.00    0.0      15.00  100.0          10.00\n"
        "       2       20.00      20.00  100.0      10.00   50.0      10.00   50.0           "
        "0.00\n" WHAT_WAITING "group tp: rank 1 began last most often, in 4 of 4 calls\n"
        "1 call of all_reduce | [Caller Func: even] in group tp is not matched: rank 2 has 2, rank 1 has "
        "3\n");
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

/* Rank 1 calls more elsewhere, so that its sample is smaller: the calls that it lacks are no fault. */
static void test_samples_of_different_sizes(void **state) {
    (void)state;
    struct msi_prof_group world = kit_world(2), own = kit_group(1, "w/1", "own", kit_ranks + 1, 1);
    for (uint64_t seq = 0; seq < 10000; seq++) {
        for (int r = 0; r < 2; r++) kit_add(all_stats[r], &world, "all_reduce", MSI_SHARE_TWICE, 64, seq, MS);
        kit_add(all_stats[1], &own, "all_reduce", MSI_SHARE_TWICE, 64, seq, MS);
    }
    char *text = kit_table(all_stats, 2, true);
    assert_contains(text, "\n    64.0 B          10000 ");
    assert_contains(text, "\nwaiting is estimated from one call in 2; a rank remembers 16384 calls\n");
    assert_null(strstr(text, "not matched"));
    free(text);
}

/* The waiting in the remembered calls stands for that in all. Rank 1 is 3 ms late to each. */
static void test_waiting_is_estimated_from_the_remembered_calls(void **state) {
    (void)state;
    enum { MANY = 100000 };
    struct msi_prof_group world = kit_world(2);
    struct msi_record call = kit_call(&world, "all_reduce", MSI_SHARE_TWICE, 8, 0, 0);
    for (call.seq = 0; call.seq < MANY; call.seq++) {
        add_at(0, call, 10ll * MS * (int64_t)call.seq, 8ll * MS, 8ll * MS);
        add_at(1, call, 10ll * MS * (int64_t)call.seq + 3ll * MS, 5ll * MS, 5ll * MS);
    }
    call.seq = 0;
    call.flags = MSI_RECORD_MESSAGE;
    call.peer = 1;
    add_at(0, call, 10ll * MS * MANY, MS, MS); /* rank 1 has not sent this */
    struct msi_summary *s = summarize(2);
    assert_true(s->lines[0].matched > MSI_OP_STATS_CALLS / 3 && s->lines[0].matched <= MSI_OP_STATS_CALLS);
    assert_int_equal(s->ranks[0].comm_ns, 8ll * MS * MANY + MS);
    assert_true(llabs(s->ranks[0].waiting_ns - 3ll * MS * MANY) < MS);
    assert_true(llabs(s->ranks[1].waited_for_ns - 3ll * MS * MANY) < MS);
    assert_int_equal(s->ranks[1].waiting_ns, 0);
    msi_summary_free(s);
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

/* ---- random worlds against a reference that looks at every call of every rank ---- */

enum { WORLD = 5, GROUPS = 3, CALLS = 60 };

/* ns[rank][group][seq]; 0: not made */
typedef uint64_t world_calls[WORLD][GROUPS][CALLS];

struct reference {
    uint64_t matched, waiting, last[WORLD];
};

static void reckon(world_calls calls, int group, const int *ranks, int size, int rank,
                   struct reference *out) {
    *out = (struct reference){0};
    for (int seq = 0; seq < CALLS; seq++) {
        bool all = true;
        int last = ranks[0];
        for (int i = 0; i < size; i++) {
            all = all && calls[ranks[i]][group][seq];
            if (calls[ranks[i]][group][seq] < calls[last][group][seq]) last = ranks[i];
        }
        if (!all) continue;
        out->last[last]++;
        out->matched++;
        out->waiting += calls[rank][group][seq] - calls[last][group][seq];
    }
}

static void check_matches(const struct msi_summary *s, world_calls calls,
                          const struct msi_prof_group *groups) {
    uint64_t waiting[WORLD] = {0}, all = 0, waited_for = 0;
    for (size_t i = 0; i < s->op_count; i++) {
        const struct msi_summary_op *op = &s->ops[i];
        const struct msi_summary_group *group = &s->groups[op->group];
        int g = group->is->number;
        struct reference wanted;
        for (int m = 0; m < groups[g].size; m++) {
            reckon(calls, g, groups[g].ranks, groups[g].size, groups[g].ranks[m], &wanted);
            waiting[groups[g].ranks[m]] += wanted.waiting;
        }
        reckon(calls, g, groups[g].ranks, groups[g].size, op->rank, &wanted);
        assert_int_equal(s->lines[op->first].matched, wanted.matched);
        assert_int_equal(s->lines[op->first].waiting_ns, wanted.waiting);
        for (int m = 0; m < group->member_count; m++)
            assert_int_equal(group->members[m].last, wanted.last[group->members[m].rank]);
    }
    for (int r = 0; r < WORLD; r++) {
        assert_int_equal(s->ranks[r].waiting_ns, waiting[r]);
        all += waiting[r];
        waited_for += (uint64_t)s->ranks[r].waited_for_ns;
    }
    assert_int_equal(waited_for, all);
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
        check_matches(summary, calls, groups);
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
        cmocka_unit_test_setup_teardown(test_without_a_clock_the_last_rank_has_the_shortest_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_waiting_ends_when_the_last_rank_begins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_and_unmatched_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_messages_are_matched_by_peer_tag_and_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_messages_without_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_rank_without_a_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lines_are_short, set_up, tear_down),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test_setup_teardown(test_calls_without_a_pair_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_more_names_than_notes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_ranks_are_left_out_of_the_pairs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_callers_are_paired_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_ranks_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_samples_of_different_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waiting_is_estimated_from_the_remembered_calls, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_summary_as_json, set_up, tear_down),
        cmocka_unit_test(test_random_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
