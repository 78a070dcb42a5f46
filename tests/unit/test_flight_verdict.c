/* test_flight_verdict.c - what is said of ranks that wait, word by word. */
#include "flight_kit.h"

#include "harness.h"

#include "prof/flight_words.h"

enum { RANKS = 4, REDUCE = 1, BARRIER, RECV, OTHER };

static struct msi_flight rings[RANKS];
static struct msi_flight_view views[RANKS];
static bool absent[RANKS];
static char said[8192];

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) {
        kit_begin(&rings[i]);
        kit_place(&rings[i], REDUCE, "mst_all_reduce", "train.c", "step", 33);
        kit_place(&rings[i], BARRIER, "mst_barrier", "train.c", "step", 30);
        kit_place(&rings[i], RECV, "mst_recv", "train.c", "pull", 50);
        kit_place(&rings[i], OTHER, "mst_broadcast", "other.c", "go", 7);
        kit_group(&rings[i], 0, "world", 1, RANKS);
        kit_group(&rings[i], 1 + i % 2, "", 2, 2); /* at differing places */
        absent[i] = false;
    }
    return 0;
}

static void reduce(int rank, enum msi_flight_state state, uint64_t seq, double begin) {
    kit_add(&rings[rank], state,
            (struct kit_op){.place = REDUCE, .seq = seq, .count = 1024, .begin = begin, .dtype = MST_F32});
}

static void barrier(int rank, enum msi_flight_state state, uint64_t seq, double begin, double end) {
    kit_add(&rings[rank], state, (struct kit_op){.place = BARRIER, .seq = seq, .begin = begin, .end = end});
}

/* Looked at by second 20. */
static const char *judge(int world_size) {
    struct msi_flight_of ranks[RANKS];
    struct msi_buf text = {0};
    for (int i = 0; i < RANKS; i++) {
        msi_flight_look(&rings[i], kit_look(20), &views[i]);
        ranks[i] = (struct msi_flight_of){i, absent[i] ? NULL : &views[i]};
    }
    msi_flight_judge(ranks, RANKS, world_size, &text);
    snprintf(said, sizeof said, "%.*s", (int)text.len, (const char *)text.data);
    msi_buf_free(&text);
    return said;
}

static const char *rank_words(int rank) {
    struct msi_buf text = {0};
    msi_flight_look(&rings[rank], kit_look(20), &views[rank]);
    msi_flight_say_rank(absent[rank] ? NULL : &views[rank], &text);
    snprintf(said, sizeof said, "%.*s", (int)text.len, (const char *)text.data);
    msi_buf_free(&text);
    return said;
}

static void what_a_rank_does(void **state) {
    (void)state;
    assert_string_equal(rank_words(0), "has not communicated yet");
    barrier(0, MSI_FLIGHT_DONE, 16, 7, 7.6);
    assert_string_equal(
        rank_words(0),
        "last was mst_barrier #16 of world (4 ranks), at train.c:30 (step), returned 12.4 s ago");
    reduce(0, MSI_FLIGHT_STARTED, 17, 7.7);
    assert_string_equal(rank_words(0),
                        "in mst_all_reduce #17 of world (4 ranks), 1024 f32, at train.c:33 (step), "
                        "for 12.3 s");
    reduce(0, MSI_FLIGHT_QUEUED, 18, 7.8); /* behind it in the queue */
    assert_contains(rank_words(0), "in mst_all_reduce #17");
    barrier(1, MSI_FLIGHT_FAILED, 3, 19, 0);
    assert_contains(rank_words(1), ", begun 1.0 s ago, has failed");
    kit_add(&rings[2], MSI_FLIGHT_STARTED,
            (struct kit_op){.place = RECV, .group = 1, .seq = 2, .begin = 19.95, .peer = 2});
    assert_string_equal(rank_words(2),
                        "in mst_recv #2 from rank 1 of a group of 2 ranks, at train.c:50 (pull), for "
                        "0.050 s");
    absent[3] = true;
    assert_string_equal(rank_words(3), "has recorded nothing");
}

static void one_is_behind(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) barrier(i, MSI_FLIGHT_DONE, 16, 7, 7.6);
    for (int i = 0; i < 3; i++) reduce(i, MSI_FLIGHT_STARTED, 17, 7.7 + i);
    assert_string_equal(
        judge(RANKS),
        "rank 3 is behind: it has not come to mst_all_reduce #17 of world, in which ranks 0, 1, 2 "
        "wait since 12.3 s (train.c:33); its last was mst_barrier #16 of world (4 ranks), at "
        "train.c:30 (step), returned 12.4 s ago\n");
}

/* Rank 2 waits in an earlier one, which those who are further have behind them: it is behind, not they. */
static void one_that_waits_may_be_behind(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) reduce(i, i == 2 ? MSI_FLIGHT_STARTED : MSI_FLIGHT_DONE, 5, 1);
    for (int i = 0; i < RANKS; i++)
        if (i != 2) reduce(i, MSI_FLIGHT_STARTED, 6, 2);
    assert_contains(judge(RANKS),
                    "rank 2 is behind: it has not come to mst_all_reduce #6 of world, in which ranks "
                    "0, 1, 3 wait since 18.0 s (train.c:33); it is in mst_all_reduce #5");
}

static void several_are_behind(void **state) {
    (void)state;
    reduce(0, MSI_FLIGHT_STARTED, 1, 7.7);
    assert_contains(judge(RANKS),
                    "ranks 1, 2, 3 are behind: they have not come to mst_all_reduce #1 of world, in "
                    "which rank 0 waits since 12.3 s (train.c:33); rank 1: has not communicated yet");
}

static void after_a_failure(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++)
        barrier(i, MSI_FLIGHT_FAILED, 1, 1, 0); /* it ran out of time, and all went on */
    for (int i = 0; i < RANKS; i++) barrier(i, MSI_FLIGHT_DONE, 2, 2, 0);
    assert_string_equal(judge(RANKS), "no rank waits for another\n");
    for (int i = 0; i < 2; i++) {
        kit_add(&rings[i], MSI_FLIGHT_FAILED,
                (struct kit_op){.place = REDUCE, .seq = 3, .begin = 3, .end = 5});
        reduce(i, MSI_FLIGHT_FAILED, 4, 5);
    }
    assert_contains(judge(RANKS),
                    "ranks 2, 3 are behind: they have not come to mst_all_reduce #3 of world, in which "
                    "ranks 0, 1 waited for 2.0 s (train.c:33); rank 2: last was mst_barrier #2");
}

static void a_rank_without_a_recorder(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) reduce(i, MSI_FLIGHT_STARTED, 1, 10);
    absent[1] = true;
    assert_string_equal(judge(RANKS),
                        "rank 1 has recorded nothing: it may not have come to mst_all_reduce #1 of "
                        "world, in which ranks 0, 2, 3 wait since 10.0 s (train.c:33)\n");
}

static void different_calls(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++)
        kit_add(&rings[i], MSI_FLIGHT_STARTED,
                (struct kit_op){
                    .place = i == 2 ? OTHER : REDUCE, .seq = 9, .count = 4, .begin = 1, .dtype = MST_F32});
    assert_string_equal(judge(RANKS),
                        "ranks differ: rank 0 called mst_all_reduce #9 of world (4 ranks), 4 f32, at "
                        "train.c:33 (step), but rank 2 mst_broadcast #9 of world (4 ranks), 4 f32, at "
                        "other.c:7 (go)\n");
    set_up(NULL);
    for (int i = 0; i < RANKS; i++)
        kit_add(&rings[i], MSI_FLIGHT_STARTED,
                (struct kit_op){
                    .place = REDUCE, .seq = 9, .count = i == 3 ? 5 : 4, .begin = 1, .dtype = MST_F32});
    assert_contains(judge(RANKS), "but rank 3 mst_all_reduce #9 of world (4 ranks), 5 f32");
}

static void nobody_is_behind(void **state) {
    (void)state;
    assert_string_equal(judge(RANKS), "no rank waits for another\n");
    for (int i = 0; i < RANKS; i++) reduce(i, MSI_FLIGHT_STARTED, 1, 10);
    assert_contains(judge(RANKS), "nobody is behind: all have come to mst_all_reduce #1 of world");
}

/* Ranks of other nodes are not known here: none of them is missing, and this node's cannot be told to be all. */
static void a_part_of_the_world(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) {
        kit_group(&rings[i], 0, "world", 1, 8);
        reduce(i, MSI_FLIGHT_STARTED, 1, 10);
    }
    assert_string_equal(judge(8),
                        "none of these ranks is behind: all have come to mst_all_reduce #1 of world, in "
                        "which ranks 0, 1, 2, 3 wait since 10.0 s (train.c:33)\n");
}

/* Two groups of two: numbers of one say nothing of the other, and places differ from rank to rank. */
static void groups_apart(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) kit_group(&rings[i], 1 + i % 2, "", 20 + (uint64_t)i / 2, 2);
    for (int i = 0; i < RANKS; i++)
        kit_add(&rings[i], i == 2 ? MSI_FLIGHT_STARTED : MSI_FLIGHT_DONE,
                (struct kit_op){.place = REDUCE, .group = 1 + i % 2, .seq = i < 2 ? 90 : 4, .begin = 10});
    kit_add(&rings[3], MSI_FLIGHT_STARTED,
            (struct kit_op){.place = REDUCE, .group = 2, .seq = 5, .begin = 11});
    assert_contains(judge(RANKS),
                    "rank 2 is behind: it has not come to mst_all_reduce #5 of a group of 2 ranks, in "
                    "which rank 3 waits since 9.0 s (train.c:33); it is in mst_all_reduce #4");
}

static void a_message_that_does_not_come(void **state) {
    (void)state;
    reduce(2, MSI_FLIGHT_DONE, 1, 4);
    kit_add(&rings[1], MSI_FLIGHT_STARTED, (struct kit_op){.place = RECV, .seq = 2, .begin = 8, .peer = 3});
    assert_string_equal(judge(RANKS),
                        "rank 1 waits in mst_recv #2 from rank 2 of world (4 ranks), at train.c:50 (pull); "
                        "rank 2: last was mst_all_reduce #1 of world (4 ranks), 1024 f32, at train.c:33 "
                        "(step), begun 16.0 s ago, has returned\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_a_rank_does, set_up),
        cmocka_unit_test_setup(one_is_behind, set_up),
        cmocka_unit_test_setup(one_that_waits_may_be_behind, set_up),
        cmocka_unit_test_setup(several_are_behind, set_up),
        cmocka_unit_test_setup(after_a_failure, set_up),
        cmocka_unit_test_setup(a_rank_without_a_recorder, set_up),
        cmocka_unit_test_setup(different_calls, set_up),
        cmocka_unit_test_setup(nobody_is_behind, set_up),
        cmocka_unit_test_setup(a_part_of_the_world, set_up),
        cmocka_unit_test_setup(groups_apart, set_up),
        cmocka_unit_test_setup(a_message_that_does_not_come, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
