/* test_coordinator.c - which nodes take part in a job, in which order and when; which are refused. */
#include "coordinator_kit.h"

static void all_are_there(void **state) {
    (void)state;
    meet(3, 3, 0);
    join_up_to(2);
    pass(59);
    nothing_is_ordered();
    joins(2);
    ordered("G 0 6 3 0:0:2 1:2:2 2:4:2");
    stops(1, 0);
    stops(0, 0);
    nothing_is_ordered();
    stops(2, 0);
    ordered("E 0 ");
    part();
}

static void one_node_is_a_job(void **state) {
    (void)state;
    meet(1, 1, 0);
    joins(0);
    ordered("G 0 2 1 0:0:2");
    stops(0, 0);
    ordered("E 0 ");
    part();
}

static void node_ranks_decide(void **state) {
    (void)state;
    meet(3, 3, 0);
    joins_as(5, 2);
    joins_as(3, 0);
    joins_as(4, 1);
    ordered("G 0 6 3 3:0:2 4:2:2 5:4:2");
    part();
}

static void without_node_ranks_tickets_decide(void **state) {
    (void)state;
    meet(2, 2, 0);
    joins(7);
    joins(3);
    ordered("G 0 4 2 3:0:2 7:2:2");
    part();
}

static void numbers_of_ranks_may_differ(void **state) {
    (void)state;
    meet(2, 2, 0);
    for (int i = 0; i < 2; i++)
        hear((struct notice){.kind = NOTICE_JOIN,
                             .ticket = i,
                             .node_rank = 1 - i,
                             .n = 3 + 5 * i,
                             .min = 2,
                             .max = 2,
                             .text = "h"});
    ordered("G 0 11 2 1:0:8 0:8:3");
    part();
}

/* The last call begins when there are enough, however long that took. */
static void last_call(void **state) {
    (void)state;
    meet(2, 4, 0);
    joins(0);
    pass(40);
    joins(1);
    pass(9);
    nothing_is_ordered();
    joins(2);
    pass(0.5);
    nothing_is_ordered();
    pass(0.6);
    ordered("G 0 6 3 0:0:2 1:2:2 2:4:2");
    part();
}

static void last_call_begins_anew(void **state) {
    (void)state;
    meet(2, 3, 0);
    join_up_to(2);
    pass(9);
    dies(1);
    joins(2);
    pass(9);
    nothing_is_ordered();
    pass(2);
    ordered("G 0 4 2 0:0:2 2:2:2");
    part();
}

static void the_most_need_no_last_call(void **state) {
    (void)state;
    meet(2, 3, 0);
    join_up_to(3);
    ordered("G 0 6 3 0:0:2 1:2:2 2:4:2");
    part();
}

static void who_is_missing(void **state) {
    (void)state;
    meet(4, 4, 0);
    joins_as(1, 2);
    joins_as(0, 0);
    pass(59.9);
    nothing_is_ordered();
    pass(0.2);
    ordered("E 1 not enough nodes in 60 s: 2 of 4 nodes are here: node 2, host h1 (pid 101), node 0, host h0 "
            "(pid 100); missing: node 1, node 3");
    pass(1e6);
    part();
}

static void who_is_missing_by_name(void **state) {
    static const struct host hosts[] = {{.name = "alpha"}, {.name = "beta"}, {.name = "gamma"}};
    (void)state;

    job.options.hosts = hosts;
    meet(3, 3, 0);
    joins_as(0, 1);
    pass(61);
    ordered(
        "E 1 not enough nodes in 60 s: 1 of 3 nodes are here: node 1, host h0 (pid 100); missing: node 0, "
        "host alpha, node 2, host gamma");
    part();
    job.options.hosts = hosts;
    meet(3, 3, 0);
    pass(61);
    ordered("E 1 not enough nodes in 60 s: 0 of 3 nodes are here; missing: node 0, host alpha, node 1, host "
            "beta, node 2, host gamma");
    part();
}

static void who_is_missing_without_node_ranks(void **state) {
    (void)state;
    meet(1, 1, 0);
    pass(61);
    ordered("E 1 not enough nodes in 60 s: 0 of 1 node is here");
    part();
    meet(30, 40, 0);
    join_up_to(20);
    pass(61);
    ordered("E 1 not enough nodes in 60 s: 20 of 30 nodes are here: host h0 (pid 100), host h1 (pid 101), "
            "host h2 (pid 102), host h3 (pid 103), host h4 (pid 104), host h5 (pid 105), host h6 (pid 106), "
            "host h7 (pid 107) and 12 more");
    part();
}

static void it_says_whom_it_waits_for(void **state) {
    (void)state;
    meet(2, 2, 0);
    job.options.progress_seconds = 2;
    job.coordinator->options.progress_seconds = 2;
    job.coordinator->progress = job.now + 2;
    joins_as(0, 1);
    pass(1.9);
    assert_string_equal(job.said, "");
    pass(50);
    const char *line = "waiting: 1 of 2 nodes are here: node 1, host h0 (pid 100); missing: node 0\n";
    said(line);
    assert_int_equal(strlen(job.said), 3 * strlen(line)); /* after 2, 6 and 18 s */
    part();
}

/* What is refused before the start is told to all, for nobody could go on. */
static void refused(int min, int max, int node_rank, int wrong_min, int wrong_max, int wrong_rank,
                    const char *why) {
    char line[512];

    meet(min, max, 0);
    joins_as(0, node_rank);
    joins_with(1, wrong_rank, wrong_min, wrong_max);
    snprintf(line, sizeof line, "R 1 2 %s", why);
    ordered(line);
    snprintf(line, sizeof line, "E 2 host h1 (pid 101) cannot join: %s", why);
    ordered(line);
    joins_as(2, node_rank);
    pass(1e6);
    part();
}

static void mistakes_before_the_start(void **state) {
    (void)state;
    refused(2, 2, -1, 3, 3, -1, "it was started with --nnodes 3, and the coordinator with --nnodes 2");
    refused(2, 4, -1, 2, 2, -1, "it was started with --nnodes 2, and the coordinator with --nnodes 2:4");
    refused(3, 3, 1, 3, 3, 1, "it has --node-rank 1, as has node 1, host h0 (pid 100)");
    refused(2, 2, 1, 2, 2, -1, "it has no --node-rank, and node 1, host h0 (pid 100) has one");
    refused(2, 2, -1, 2, 2, 1, "it has a --node-rank, and host h0 (pid 100) has none");
    refused(2, 2, 0, 2, 2, 2, "it has --node-rank 2, and there are 2 nodes");
}

static void mistakes_after_the_start(void **state) {
    (void)state;
    meet(2, 2, 0);
    joins_as(0, 0);
    joins_as(1, 1);
    ordered("G 0 4 2 0:0:2 1:2:2");
    joins_as(2, -1);
    ordered("R 2 2 it has no --node-rank, and node 0, host h0 (pid 100) has one");
    said("host h2 (pid 102) cannot join: it has no --node-rank");
    joins_with(3, 0, 3, 3);
    ordered("R 3 2 it was started with --nnodes 3, and the coordinator with --nnodes 2");
    stops(0, 0);
    stops(1, 0);
    ordered("E 0 ");
    part();
}

/* A restarted launcher may join before the old one is lost; both never take part at once. */
static void the_same_node_rank_after_the_start(void **state) {
    (void)state;
    meet(2, 3, 1);
    joins_as(0, 0);
    joins_as(1, 1);
    pass(11);
    ordered("G 0 4 2 0:0:2 1:2:2");
    joins_as(2, 1);
    said("node 1, host h2 (pid 102) has joined and waits for a free place");
    nothing_is_ordered();
    stops_failed(0, 0, 0);
    ordered("X 0 0 rank 0 failed on node 0, host h0 (pid 100)");
    stops(1, 0);
    ordered("G 1 4 2 0:0:2 1:2:2");
    dies(1);
    ordered("X 1 0 node 1, host h1 (pid 101) was lost");
    stops(0, 1);
    ordered("G 2 4 2 0:0:2 2:2:2");
    part();
}

static void a_twin_does_not_fill_another_place(void **state) {
    (void)state;
    meet(2, 2, 1);
    joins_as(0, 0);
    joins_as(1, 1);
    ordered("G 0 4 2 0:0:2 1:2:2");
    joins_as(2, 0);
    dies(1);
    ordered("X 0 0 node 1, host h1 (pid 101) was lost");
    stops(0, 0);
    nothing_is_ordered();
    joins_as(3, 1);
    ordered("G 1 4 2 0:0:2 3:2:2");
    part();
}

static void a_node_joins_below_the_most(void **state) {
    (void)state;
    meet(1, 2, 0);
    joins(0);
    pass(11);
    ordered("G 0 2 1 0:0:2");
    joins(1);
    ordered("X 0 15 host h1 (pid 101) joins; starting all ranks again with 2 nodes");
    joins(2);
    said("host h2 (pid 102) has joined and waits for a free place");
    stops(0, 0);
    ordered("G 1 4 2 0:0:2 1:2:2");
    stops(0, 1);
    stops(1, 1);
    ordered("E 0 ");
    part();
}

static void a_newcomer_is_gone_again(void **state) {
    (void)state;
    meet(1, 2, 0);
    joins(0);
    pass(11);
    ordered("G 0 2 1 0:0:2");
    joins(1);
    ordered("X 0 15 ...");
    dies(1);
    stops(0, 0);
    ordered("G 1 2 1 0:0:2");
    part();
}

/* Where the first ranks have done their work, a newcomer would undo it. */
static void a_node_joins_when_the_end_is_near(void **state) {
    (void)state;
    meet(2, 3, 0);
    join_up_to(2);
    pass(11);
    ordered("G 0 4 2 0:0:2 1:2:2");
    stops(0, 0);
    joins(2);
    said("host h2 (pid 102) has joined and waits for a free place");
    stops(1, 0);
    ordered("E 0 ");
    part();
}

static void a_spare_node_takes_the_place(void **state) {
    (void)state;
    meet(2, 2, 0);
    join_up_to(2);
    ordered("G 0 4 2 0:0:2 1:2:2");
    joins(2);
    joins(3);
    said("host h2 (pid 102) has joined and waits for a free place");
    nothing_is_ordered();
    dies(0);
    ordered("X 0 0 host h0 (pid 100) was lost");
    stops(1, 0);
    said("host h0 (pid 100) was lost; continuing with 2 nodes");
    ordered("G 1 4 2 1:0:2 2:2:2");
    stops(1, 1);
    stops(2, 1);
    ordered("E 0 ");
    part();
}

static void a_spare_node_goes(void **state) {
    (void)state;
    meet(1, 1, 0);
    join_up_to(4);
    ordered("G 0 2 1 0:0:2");
    dies(1);
    leaves(2);
    nothing_is_ordered();
    dies(0);
    ordered("X 0 0 host h0 (pid 100) was lost");
    ordered("G 1 2 1 3:0:2");
    part();
}

static void gone_before_the_start(void **state) {
    (void)state;
    meet(2, 2, 0);
    joins(0);
    leaves(0);
    said("host h0 (pid 100) leaves");
    joins(1);
    dies(1);
    said("host h1 (pid 101) was lost");
    joins(2);
    nothing_is_ordered();
    joins(3);
    ordered("G 0 4 2 2:0:2 3:2:2");
    part();
}

static void too_many_ranks(void **state) {
    (void)state;
    meet(NODE_MOST, NODE_MOST, 0);
    for (int i = 0; i < 15258; i++)
        hear((struct notice){.kind = NOTICE_JOIN,
                             .ticket = i,
                             .node_rank = -1,
                             .n = NODE_MOST,
                             .min = NODE_MOST,
                             .max = NODE_MOST,
                             .text = "h"});
    nothing_is_ordered();
    joins(15258);
    nothing_is_ordered();
    hear((struct notice){.kind = NOTICE_JOIN,
                         .ticket = 15259,
                         .node_rank = -1,
                         .n = NODE_MOST,
                         .min = NODE_MOST,
                         .max = NODE_MOST,
                         .text = "h"});
    ordered("R 15259 2 there would be more than 999999999 ranks");
    ordered("E 2 ...");
    part();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_there),
        cmocka_unit_test(one_node_is_a_job),
        cmocka_unit_test(node_ranks_decide),
        cmocka_unit_test(without_node_ranks_tickets_decide),
        cmocka_unit_test(numbers_of_ranks_may_differ),
        cmocka_unit_test(last_call),
        cmocka_unit_test(last_call_begins_anew),
        cmocka_unit_test(the_most_need_no_last_call),
        cmocka_unit_test(who_is_missing),
        cmocka_unit_test(who_is_missing_by_name),
        cmocka_unit_test(who_is_missing_without_node_ranks),
        cmocka_unit_test(it_says_whom_it_waits_for),
        cmocka_unit_test(mistakes_before_the_start),
        cmocka_unit_test(mistakes_after_the_start),
        cmocka_unit_test(the_same_node_rank_after_the_start),
        cmocka_unit_test(a_twin_does_not_fill_another_place),
        cmocka_unit_test(a_node_joins_below_the_most),
        cmocka_unit_test(a_newcomer_is_gone_again),
        cmocka_unit_test(a_node_joins_when_the_end_is_near),
        cmocka_unit_test(a_spare_node_takes_the_place),
        cmocka_unit_test(a_spare_node_goes),
        cmocka_unit_test(gone_before_the_start),
        cmocka_unit_test(too_many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
