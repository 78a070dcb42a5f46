/* test_flight_diagnose.c - diagnoses of waiting ranks and their exact text. */
#include "flight_kit.h"

#include "harness.h"

#include "prof/flight/diagnose.h"

enum { RANKS = 4, REDUCE = 1, BARRIER, RECV, OTHER, SEND, BATCH, EXCHANGE, GATHER, GATHER_LIST };

static struct msi_flight rings[RANKS];
static struct msi_flight_snapshot snapshots[RANKS];
static bool absent[RANKS];
static struct msi_flight_rank ranks[8];
static struct msi_diagnoses diagnoses;
static char printed[8192];

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) {
        kit_begin(&rings[i]);
        kit_site(&rings[i], REDUCE, "mst_all_reduce", "train.c", "step", 33);
        kit_site(&rings[i], BARRIER, "mst_barrier", "train.c", "step", 30);
        kit_site(&rings[i], RECV, "mst_recv", "train.c", "pull", 50);
        kit_site(&rings[i], OTHER, "mst_broadcast", "other.c", "go", 7);
        kit_group(&rings[i], 0, "world", 1, RANKS);
        kit_site(&rings[i], SEND, "mst_isend", "train.c", "push", 60);
        kit_site(&rings[i], BATCH, "mst_batch_isend_irecv", "train.c", "swap", 70);
        kit_site(&rings[i], EXCHANGE, "mst_all_to_all_single", "train.c", "mix", 80);
        kit_site(&rings[i], GATHER, "mst_all_gather_into_tensor", "train.c", "mix", 81);
        kit_site(&rings[i], GATHER_LIST, "mst_all_gather", "train.c", "mix", 82);
        absent[i] = false;
        ranks[i] = (struct msi_flight_rank){.blames = -1};
    }
    for (int i = RANKS; i < 8; i++) ranks[i] = (struct msi_flight_rank){.elsewhere = true, .blames = -1};
    return 0;
}

static void reduce(int rank, enum msi_flight_state state, uint64_t seq, double begin) {
    kit_add(&rings[rank], state,
            (struct kit_op){.site = REDUCE, .seq = seq, .count = 1024, .begin = begin, .dtype = MST_F32});
}

static void barrier(int rank, enum msi_flight_state state, uint64_t seq, double begin, double end) {
    kit_add(&rings[rank], state, (struct kit_op){.site = BARRIER, .seq = seq, .begin = begin, .end = end});
}

static void message(int rank, int site, enum msi_flight_state state, enum msi_flight_type type, int peer,
                    int tag, uint64_t seq) {
    kit_add(
        &rings[rank], state,
        (struct kit_op){.site = site, .seq = seq, .begin = 8, .type = type, .peer = peer + 1, .tag = tag});
}

/* Looked at by second 20. */
static const char *diagnose(int world_size) {
    struct msi_buf text = {0};
    for (int i = 0; i < RANKS; i++) {
        msi_flight_read(&rings[i], kit_look(20), &snapshots[i]);
        ranks[i].view = absent[i] ? NULL : &snapshots[i].view;
    }
    msi_diagnoses_free(&diagnoses);
    assert_true(msi_flight_diagnose(ranks, world_size, &diagnoses));
    msi_flight_print_diagnoses(&diagnoses, &text);
    snprintf(printed, sizeof printed, "%.*s", (int)text.len, (const char *)text.data);
    msi_buf_free(&text);
    return printed;
}

/* The first diagnosis's kind, and the ranks that it blames, as digits. */
static void assert_diagnosis(enum msi_diagnosis_kind kind, const char *blamed) {
    char found[RANKS + 1] = "";
    diagnose(RANKS);
    const struct msi_diagnosis *v = &diagnoses.of[0];
    for (int i = 0; i < v->n_blamed; i++) found[i] = (char)('0' + v->blamed[i]);
    if (v->kind != kind) fail_msg("kind %d: %s", v->kind, printed);
    if (strcmp(found, blamed) != 0) fail_msg("blamed %s: %s", found, printed);
}

static const char *rank_text(int rank) {
    struct msi_buf text = {0};
    msi_flight_read(&rings[rank], kit_look(20), &snapshots[rank]);
    msi_flight_print_rank(absent[rank] ? NULL : &snapshots[rank].view, &text);
    snprintf(printed, sizeof printed, "%.*s", (int)text.len, (const char *)text.data);
    msi_buf_free(&text);
    return printed;
}

static void what_a_rank_does(void **state) {
    (void)state;
    assert_string_equal(rank_text(0), "has not communicated yet");
    barrier(0, MSI_FLIGHT_DONE, 16, 7, 7.6);
    assert_string_equal(
        rank_text(0),
        "last operation was mst_barrier #16 of world (4 ranks), at train.c:30 (step), returned 12.4 s ago");
    reduce(0, MSI_FLIGHT_STARTED, 17, 7.7);
    assert_string_equal(rank_text(0),
                        "in mst_all_reduce #17 of world (4 ranks), 1024 f32, at train.c:33 (step), "
                        "for 12.3 s");
    reduce(0, MSI_FLIGHT_QUEUED, 18, 7.8); /* behind it in the queue */
    assert_contains(rank_text(0), "in mst_all_reduce #17");
    barrier(1, MSI_FLIGHT_FAILED, 3, 19, 0);
    assert_contains(rank_text(1), ", begun 1.0 s ago, has failed");
    kit_group(&rings[2], 1, "", 2, 2);
    kit_add(&rings[2], MSI_FLIGHT_STARTED,
            (struct kit_op){
                .site = RECV, .group = 1, .seq = 2, .begin = 19.95, .type = MSI_FLIGHT_RECV, .peer = 2});
    assert_string_equal(rank_text(2),
                        "in mst_recv #2 from rank 1 of a group of 2 ranks, at train.c:50 (pull), for "
                        "0.050 s");
    message(2, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, -1, 7, MSI_FLIGHT_NO_NUMBER);
    assert_contains(rank_text(2), "in mst_recv from any rank with tag 7 of world (4 ranks), at train.c:50");
    message(1, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 0, MST_ANY_TAG, MSI_FLIGHT_NO_NUMBER);
    assert_contains(rank_text(1), "in mst_recv from rank 0 with any tag of world (4 ranks), at train.c:50");
    absent[3] = true;
    assert_string_equal(rank_text(3), "has recorded nothing");
}

static void one_is_behind(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) barrier(i, MSI_FLIGHT_DONE, 16, 7, 7.6);
    for (int i = 0; i < 3; i++) reduce(i, MSI_FLIGHT_STARTED, 17, 7.7 + i);
    assert_string_equal(
        diagnose(RANKS),
        "rank 3 is behind: it has not reached mst_all_reduce #17 of world, in which ranks 0, 1, 2 "
        "have been waiting for 12.3 s (train.c:33); its last operation was mst_barrier #16 of world (4 "
        "ranks), at "
        "train.c:30 (step), returned 12.4 s ago\n");
}

/* Rank 2 waits in an earlier collective that the others have completed: rank 2 is behind. */
static void one_that_waits_may_be_behind(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) reduce(i, i == 2 ? MSI_FLIGHT_STARTED : MSI_FLIGHT_DONE, 5, 1);
    for (int i = 0; i < RANKS; i++)
        if (i != 2) reduce(i, MSI_FLIGHT_STARTED, 6, 2);
    assert_contains(diagnose(RANKS),
                    "rank 2 is behind: it has not reached mst_all_reduce #6 of world, in which ranks "
                    "0, 1, 3 have been waiting for 18.0 s (train.c:33); it is in mst_all_reduce #5");
}

static void several_are_behind(void **state) {
    (void)state;
    reduce(0, MSI_FLIGHT_STARTED, 1, 7.7);
    assert_contains(
        diagnose(RANKS),
        "ranks 1, 2, 3 are behind: they have not reached mst_all_reduce #1 of world, in "
        "which rank 0 has been waiting for 12.3 s (train.c:33); rank 1: has not communicated yet");
}

static void after_a_failure(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++)
        barrier(i, MSI_FLIGHT_FAILED, 1, 1, 0); /* it ran out of time, and all went on */
    for (int i = 0; i < RANKS; i++) barrier(i, MSI_FLIGHT_DONE, 2, 2, 0);
    assert_string_equal(diagnose(RANKS), "no rank waits for another\n");
    for (int i = 0; i < 2; i++) {
        kit_add(&rings[i], MSI_FLIGHT_FAILED,
                (struct kit_op){.site = REDUCE, .seq = 3, .begin = 3, .end = 5});
        reduce(i, MSI_FLIGHT_FAILED, 4, 5);
    }
    assert_contains(diagnose(RANKS),
                    "ranks 2, 3 are behind: they have not reached mst_all_reduce #3 of world, in which "
                    "ranks 0, 1 waited for 2.0 s (train.c:33); rank 2: last operation was mst_barrier #2");
}

static void a_rank_without_a_recorder(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) reduce(i, MSI_FLIGHT_STARTED, 1, 10);
    absent[1] = true;
    assert_string_equal(diagnose(RANKS),
                        "rank 1 has recorded nothing: it may not have reached mst_all_reduce #1 of "
                        "world, in which ranks 0, 2, 3 have been waiting for 10.0 s (train.c:33)\n");
}

static void different_calls(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++)
        kit_add(&rings[i], MSI_FLIGHT_STARTED,
                (struct kit_op){
                    .site = i == 2 ? OTHER : REDUCE, .seq = 9, .count = 4, .begin = 1, .dtype = MST_F32});
    assert_string_equal(diagnose(RANKS),
                        "ranks differ: rank 0 called mst_all_reduce #9 of world (4 ranks), 4 f32, at "
                        "train.c:33 (step), but rank 2 called mst_broadcast #9 of world (4 ranks), 4 f32, at "
                        "other.c:7 (go)\n");
    set_up(NULL);
    for (int i = 0; i < RANKS; i++)
        kit_add(
            &rings[i], MSI_FLIGHT_STARTED,
            (struct kit_op){.site = REDUCE, .seq = 9, .count = i == 3 ? 5 : 4, .begin = 1, .dtype = MST_F32});
    assert_contains(diagnose(RANKS), "but rank 3 called mst_all_reduce #9 of world (4 ranks), 5 f32");
}

static void nobody_is_behind(void **state) {
    (void)state;
    assert_string_equal(diagnose(RANKS), "no rank waits for another\n");
    for (int i = 0; i < RANKS; i++) reduce(i, MSI_FLIGHT_STARTED, 1, 10);
    assert_contains(diagnose(RANKS), "no rank is behind: all have reached mst_all_reduce #1 of world");
}

/* Ranks of other nodes are not known here: none of them is blamed, and this node's cannot be told to be
 * all. */
static void a_part_of_the_world(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) {
        kit_group(&rings[i], 0, "world", 1, 8);
        reduce(i, MSI_FLIGHT_STARTED, 1, 10);
    }
    assert_string_equal(
        diagnose(8),
        "not all 8 ranks of world are known here; no known rank is behind: all have "
        "reached mst_all_reduce #1 of world, in which ranks 0, 1, 2, 3 have been waiting for 10.0 s "
        "(train.c:33)\n");
    assert_int_equal(diagnoses.of[0].n_blamed, 0);
    message(2, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 6, 0, 3);
    assert_contains(diagnose(8),
                    "nothing is known here of rank 6: it may not have reached mst_recv #3 from rank 6");
}

/* Two groups of two: their numbers are independent, and their entries differ from rank to rank. */
static void groups_apart(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) kit_group(&rings[i], 1 + i % 2, "", 20 + (uint64_t)i / 2, 2);
    for (int i = 0; i < RANKS; i++)
        kit_add(&rings[i], i == 2 ? MSI_FLIGHT_STARTED : MSI_FLIGHT_DONE,
                (struct kit_op){.site = REDUCE, .group = 1 + i % 2, .seq = i < 2 ? 90 : 4, .begin = 10});
    kit_add(&rings[3], MSI_FLIGHT_STARTED,
            (struct kit_op){.site = REDUCE, .group = 2, .seq = 5, .begin = 11});
    assert_contains(diagnose(RANKS),
                    "rank 2 is behind: it has not reached mst_all_reduce #5 of a group of 2 ranks, in "
                    "which rank 3 has been waiting for 9.0 s (train.c:33); it is in mst_all_reduce #4");
}

/* Rank 1 is in the group by its own recorder, although it has called nothing there. */
static void a_member_without_an_operation(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) kit_group(&rings[i], 3, "pair", 30, 2);
    reduce(1, MSI_FLIGHT_DONE, 1, 1);
    kit_add(&rings[0], MSI_FLIGHT_STARTED,
            (struct kit_op){.site = BARRIER, .group = 3, .seq = 1, .begin = 2});
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "1");
    assert_contains(printed, "rank 1 is behind: it has not reached mst_barrier #1 of group 'pair'");
}

/* It destroyed the group, and will not come. */
static void a_member_that_left(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) kit_group(&rings[i], 3, "pair", 30, 2);
    kit_add(&rings[1], MSI_FLIGHT_FAILED, (struct kit_op){.site = BARRIER, .group = 3, .seq = 1, .begin = 1});
    atomic_store(&rings[1].groups[3].generation, 1 | 1 << 16);
    kit_add(&rings[0], MSI_FLIGHT_STARTED,
            (struct kit_op){.site = BARRIER, .group = 3, .seq = 2, .begin = 2});
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "1");
    assert_contains(printed, "its last operation was mst_barrier #1 of group 'pair' that was destroyed");
}

/* A failed operation counts although its world was destroyed afterwards. */
static void a_world_that_was_ended_after_a_failure(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) barrier(i, MSI_FLIGHT_DONE, 1, 1, 1.5);
    for (int i = 0; i < RANKS; i++) {
        if (i == 1) continue;
        kit_add(
            &rings[i], MSI_FLIGHT_FAILED,
            (struct kit_op){.site = REDUCE, .seq = 2, .count = 4, .begin = 2, .end = 5, .dtype = MST_F32});
        atomic_store(&rings[i].groups[0].generation, 1 | 1 << 16);
    }
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "1");
    assert_contains(
        printed, "rank 1 is behind: it has not reached mst_all_reduce #2 of world, in which ranks 0, 2, 3");
}

/* An operation that completed before the failure does not count; one that began after it does. */
static void what_went_well_before_and_after(void **state) {
    (void)state;
    kit_add(&rings[0], MSI_FLIGHT_FAILED,
            (struct kit_op){
                .site = RECV, .seq = 0, .begin = 2, .end = 9, .type = MSI_FLIGHT_RECV, .peer = 2, .tag = 1});
    kit_add(&rings[0], MSI_FLIGHT_DONE,
            (struct kit_op){.site = SEND, .seq = 0, .begin = 3, .type = MSI_FLIGHT_SEND, .peer = 2});
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "1");
    kit_add(&rings[0], MSI_FLIGHT_DONE,
            (struct kit_op){.site = SEND, .seq = 1, .begin = 9.5, .type = MSI_FLIGHT_SEND, .peer = 2});
    assert_diagnosis(MSI_DIAGNOSIS_NONE, "");
}

/* They name each other, as ranks do that compare what they called. */
static void different_calls_are_no_circle(void **state) {
    (void)state;
    reduce(0, MSI_FLIGHT_FAILED, 6, 2);
    barrier(1, MSI_FLIGHT_FAILED, 6, 2, 3);
    ranks[0].blames = 1;
    ranks[1].blames = 0;
    diagnose(RANKS);
    assert_int_equal(diagnoses.of[0].kind, MSI_DIAGNOSIS_DIFFERENT);
    assert_contains(printed, "ranks differ: rank ");
}

static void name_members(int rank, int line, uint64_t bits) {
    atomic_store(&rings[rank].groups[line].members[0], bits);
}

/* Rank 1 waits in a group of two that rank 0 has not made yet, since it waits in the world, for rank 1. */
static void a_group_that_another_has_not_made(void **state) {
    (void)state;
    kit_group(&rings[1], 3, "", 30, 2);
    name_members(1, 3, 3);
    kit_add(&rings[1], MSI_FLIGHT_STARTED,
            (struct kit_op){.site = BARRIER, .group = 3, .seq = 1, .begin = 2});
    for (int i = 0; i < RANKS; i++)
        if (i != 1) barrier(i, MSI_FLIGHT_STARTED, 1, 2, 0);
    diagnose(RANKS);
    assert_int_equal(diagnoses.of[0].kind, MSI_DIAGNOSIS_CIRCLE);
    assert_contains(printed, "rank 1 in mst_barrier #1 of the group of ranks 0, 1");
}

/* The others may be anybody. */
static void members_that_are_not_known(void **state) {
    (void)state;
    kit_group(&rings[0], 3, "pair", 30, 2);
    kit_add(&rings[0], MSI_FLIGHT_STARTED,
            (struct kit_op){.site = BARRIER, .group = 3, .seq = 1, .begin = 2});
    absent[2] = true;
    assert_diagnosis(MSI_DIAGNOSIS_MISSING, "");
    assert_contains(printed, "not all 2 ranks of group 'pair' are known here");
}

static void a_message_that_does_not_come(void **state) {
    (void)state;
    reduce(2, MSI_FLIGHT_DONE, 1, 4);
    message(1, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 2, 0, 2);
    assert_string_equal(
        diagnose(RANKS),
        "rank 2 is behind: it has not reached mst_recv #2 from rank 2 of world, in which rank 1 "
        "has been waiting for 12.0 s (train.c:50); its last operation was mst_all_reduce #1 of world (4 "
        "ranks), 1024 "
        "f32, at train.c:33 (step), begun 16.0 s ago, has returned\n");
}

/* The first is there, the second is what rank 0 waits for. */
static void two_messages_of_which_one_was_sent(void **state) {
    (void)state;
    message(1, SEND, MSI_FLIGHT_DONE, MSI_FLIGHT_SEND, 0, 0, 0);
    message(0, RECV, MSI_FLIGHT_DONE, MSI_FLIGHT_RECV, 1, 0, 0);
    message(0, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 1, 0, 1);
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "1");
    message(1, SEND, MSI_FLIGHT_DONE, MSI_FLIGHT_SEND, 0, 0, 1);
    assert_diagnosis(MSI_DIAGNOSIS_TOGETHER, "");
}

/* Each tag counts for itself, and so does each way. */
static void tags_out_of_order(void **state) {
    (void)state;
    message(1, SEND, MSI_FLIGHT_DONE, MSI_FLIGHT_SEND, 0, 5, 0);
    message(1, SEND, MSI_FLIGHT_DONE, MSI_FLIGHT_SEND, 0, 5, 1);
    message(1, RECV, MSI_FLIGHT_DONE, MSI_FLIGHT_RECV, 0, 4, 9);
    message(0, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 1, 4, 0);
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "1");
    assert_contains(printed, "mst_recv #0 from rank 1 with tag 4 of world");
    message(1, SEND, MSI_FLIGHT_DONE, MSI_FLIGHT_SEND, 0, 4, 0);
    assert_diagnosis(MSI_DIAGNOSIS_TOGETHER, "");
}

/* Any tag: messages that were sent have been received before; one that is being sent would match. */
static void any_tag(void **state) {
    (void)state;
    message(1, SEND, MSI_FLIGHT_DONE, MSI_FLIGHT_SEND, 0, 5, 0);
    message(0, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 1, MST_ANY_TAG, MSI_FLIGHT_NO_NUMBER);
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "1");
    message(1, SEND, MSI_FLIGHT_STARTED, MSI_FLIGHT_SEND, 0, 4, 0);
    assert_diagnosis(MSI_DIAGNOSIS_TOGETHER, "");
}

static void a_send_that_nobody_takes(void **state) {
    (void)state;
    message(0, SEND, MSI_FLIGHT_STARTED, MSI_FLIGHT_SEND, 1, 0, 3);
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "1");
    message(1, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, -1, 0, MSI_FLIGHT_NO_NUMBER);
    assert_diagnosis(MSI_DIAGNOSIS_TOGETHER, "");
}

/* Rank 0's both were issued, rank 1's receive was not. */
static void ways_of_a_batch(void **state) {
    (void)state;
    message(0, BATCH, MSI_FLIGHT_DONE, MSI_FLIGHT_SEND, 1, 0, 0);
    message(0, BATCH, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 1, 0, 0);
    message(1, BATCH, MSI_FLIGHT_DONE, MSI_FLIGHT_RECV, 0, 0, 0);
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "1");
    assert_contains(printed, "mst_batch_isend_irecv #0 from rank 1");
    message(1, BATCH, MSI_FLIGHT_STARTED, MSI_FLIGHT_SEND, 0, 0, 0);
    assert_diagnosis(MSI_DIAGNOSIS_TOGETHER, "");
}

static void a_circle(void **state) {
    (void)state;
    message(0, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 1, 0, 0);
    message(1, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 2, 0, 0);
    message(2, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 0, 0, 0);
    reduce(3, MSI_FLIGHT_STARTED, 1, 1);
    assert_diagnosis(MSI_DIAGNOSIS_CIRCLE, "012");
    assert_contains(printed,
                    "ranks wait for each other: rank 0 in mst_recv #0 from rank 1 of world (4 ranks), at "
                    "train.c:50 (pull) for rank 1, and rank 1 in mst_recv");
}

/* Ranks 0 and 1 wait for rank 2, and that for rank 3. */
static void walks_go_on(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) reduce(i, MSI_FLIGHT_DONE, 16, 1);
    for (int i = 0; i < 2; i++) reduce(i, MSI_FLIGHT_STARTED, 17, 2);
    reduce(3, MSI_FLIGHT_STARTED, 17, 2);
    message(2, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 3, 0, 4);
    assert_diagnosis(MSI_DIAGNOSIS_CIRCLE, "23"); /* rank 3 cannot send from there */
    set_up(NULL);
    for (int i = 0; i < 2; i++) reduce(i, MSI_FLIGHT_STARTED, 17, 2);
    message(2, RECV, MSI_FLIGHT_STARTED, MSI_FLIGHT_RECV, 3, 0, 4);
    for (int i = 0; i < RANKS; i++) kit_group(&rings[i], 0, "", i == 3 ? 9 : 1, 3); /* not its group */
    kit_group(&rings[2], 1, "two", 44, 2);
    kit_group(&rings[3], 1, "two", 44, 2);
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "3");
    assert_contains(
        printed,
        "in which rank 2 has been waiting for 12.0 s (train.c:50), and ranks 0, 1 wait because of it");
}

/* All had come to it; a rank died in it, and the others failed for that. */
static void one_that_others_name(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) reduce(i, i == 2 ? MSI_FLIGHT_STARTED : MSI_FLIGHT_FAILED, 17, 1);
    for (int i = 0; i < RANKS; i++) ranks[i].blames = i == 2 ? -1 : 2;
    ranks[2].reason = "ended by SIGKILL";
    assert_diagnosis(MSI_DIAGNOSIS_LOST, "2");
    assert_contains(printed, "ranks 0, 1, 3 name rank 2 as the cause; it is in mst_all_reduce #17");
    assert_contains(printed, "its recorder says: ended by SIGKILL");
    absent[2] = true;
    assert_diagnosis(MSI_DIAGNOSIS_MISSING, "2");
    assert_contains(printed, "rank 2 has recorded nothing, and ranks 0, 1, 3 name it as the cause: it may");
}

/* What a failure of long ago blames counts for nothing. */
static void blame_that_is_over(void **state) {
    (void)state;
    ranks[0].blames = 3;
    reduce(0, MSI_FLIGHT_FAILED, 1, 1);
    for (int i = 1; i < RANKS; i++) reduce(i, MSI_FLIGHT_DONE, 1, 1);
    for (int i = 0; i < RANKS; i++)
        if (i != 1) reduce(i, MSI_FLIGHT_STARTED, 2, 2);
    reduce(0, MSI_FLIGHT_DONE, 2, 2);
    reduce(0, MSI_FLIGHT_STARTED, 3, 2);
    assert_diagnosis(MSI_DIAGNOSIS_BEHIND, "1");
}

/* Ranks may differ in what they exchange with each other, and in the form of a call; not in how much they
 * gather. */
static void what_may_differ(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++)
        kit_add(
            &rings[i], MSI_FLIGHT_STARTED,
            (struct kit_op){.site = EXCHANGE, .seq = 1, .count = (uint64_t)i, .begin = 1, .dtype = MST_F32});
    assert_diagnosis(MSI_DIAGNOSIS_TOGETHER, "");
    set_up(NULL);
    for (int i = 0; i < RANKS; i++)
        kit_add(&rings[i], MSI_FLIGHT_STARTED,
                (struct kit_op){.site = i == 1 ? GATHER_LIST : GATHER,
                                .seq = 1,
                                .count = i == 1 ? 16 : 4,
                                .begin = 1,
                                .dtype = MST_F32});
    assert_diagnosis(MSI_DIAGNOSIS_TOGETHER, "");
    set_up(NULL);
    for (int i = 0; i < RANKS; i++)
        kit_add(
            &rings[i], MSI_FLIGHT_STARTED,
            (struct kit_op){.site = GATHER, .seq = 1, .count = i == 1 ? 5 : 4, .begin = 1, .dtype = MST_F32});
    assert_diagnosis(MSI_DIAGNOSIS_DIFFERENT, "01");
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
        cmocka_unit_test_setup(a_member_without_an_operation, set_up),
        cmocka_unit_test_setup(a_member_that_left, set_up),
        cmocka_unit_test_setup(members_that_are_not_known, set_up),
        cmocka_unit_test_setup(a_message_that_does_not_come, set_up),
        cmocka_unit_test_setup(two_messages_of_which_one_was_sent, set_up),
        cmocka_unit_test_setup(tags_out_of_order, set_up),
        cmocka_unit_test_setup(any_tag, set_up),
        cmocka_unit_test_setup(a_send_that_nobody_takes, set_up),
        cmocka_unit_test_setup(ways_of_a_batch, set_up),
        cmocka_unit_test_setup(a_circle, set_up),
        cmocka_unit_test_setup(a_group_that_another_has_not_made, set_up),
        cmocka_unit_test_setup(a_world_that_was_ended_after_a_failure, set_up),
        cmocka_unit_test_setup(what_went_well_before_and_after, set_up),
        cmocka_unit_test_setup(different_calls_are_no_circle, set_up),
        cmocka_unit_test_setup(walks_go_on, set_up),
        cmocka_unit_test_setup(one_that_others_name, set_up),
        cmocka_unit_test_setup(blame_that_is_over, set_up),
        cmocka_unit_test_setup(what_may_differ, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
