/*
 * test_prof_match.c - how the summary matches the calls of different ranks: waiting times, stragglers, and
 * calls without a counterpart.
 */
#include "harness.h"

#include "prof_table_kit.h"

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
        cmocka_unit_test_setup_teardown(test_calls_are_paired_by_their_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_clock_the_last_rank_has_the_shortest_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_waiting_ends_when_the_last_rank_begins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_and_unmatched_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_messages_are_matched_by_peer_tag_and_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_messages_without_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_rank_without_a_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_calls_without_a_pair_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_more_names_than_notes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_ranks_are_left_out_of_the_pairs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_callers_are_paired_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_samples_of_different_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waiting_is_estimated_from_the_remembered_calls, set_up,
                                        tear_down),
        cmocka_unit_test(test_random_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
