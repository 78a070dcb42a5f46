/* test_coordinator_ends.c - the end of generations and jobs: failures, lost nodes, signals, invalid
 * notices. */
#include "coordinator_kit.h"

/* n nodes of at least min run generation 0. */
static void run(int min, int n, int restarts) {
    meet(min, n, restarts);
    join_up_to(n);
    ordered(n == 3 ? "G 0 6 3 0:0:2 1:2:2 2:4:2" : "G 0 4 2 0:0:2 1:2:2");
}

static void a_failure_ends_the_job(void **state) {
    (void)state;
    run(2, 2, 0);
    fails(1, 0);
    ordered("X 0 0 a rank failed");
    stops_failed(1, 0, 3);
    nothing_is_ordered();
    stops(0, 0);
    ordered("E 13 rank 3 failed on host h1 (pid 101)");
    assert_string_equal(job.reported, "report of 3\n");
    part();
}

/* A node whose notice of the failure is late, or that has no time for one. */
static void a_failure_is_told_at_the_end_only(void **state) {
    (void)state;
    run(2, 2, 0);
    stops(0, 0);
    stops_failed(1, 0, 2);
    ordered("X 0 0 rank 2 failed on host h1 (pid 101)");
    ordered("E 12 rank 2 failed on host h1 (pid 101)");
    part();
}

static void restarts_are_counted(void **state) {
    (void)state;
    run(2, 2, 2);
    for (int i = 0; i < 2; i++) {
        fails(0, i);
        ordered(i == 0 ? "X 0 0 a rank failed" : "X 1 0 a rank failed");
        stops_failed(0, i, 0);
        stops(1, i);
        ordered(i == 0 ? "G 1 4 2 0:0:2 1:2:2" : "G 2 4 2 0:0:2 1:2:2");
    }
    said("starting all ranks again: restart 2 of 2\n");
    stops_failed(1, 2, 2);
    ordered("X 2 0 rank 2 failed on host h1 (pid 101)");
    stops(0, 2);
    ordered("E 12 rank 2 failed on host h1 (pid 101)");
    assert_string_equal(job.reported, "report of 0\nreport of 0\nreport of 2\n");
    part();
}

static void until_it_works(void **state) {
    (void)state;
    run(2, 2, 1);
    stops_failed(0, 0, 1);
    ordered("X 0 0 rank 1 failed on host h0 (pid 100)");
    stops(1, 0);
    ordered("G 1 4 2 0:0:2 1:2:2");
    stops(0, 1);
    stops(1, 1);
    ordered("E 0 ");
    part();
}

static void some_failures_are_final(void **state) {
    (void)state;
    run(2, 2, 5);
    fails(0, 0);
    ordered("X 0 0 a rank failed");
    stops_blaming(0, 0, 1, -1, true);
    stops(1, 0);
    ordered("E 11 rank 1 failed on host h0 (pid 100)");
    part();
}

/* That the failure of another is final does not count: it may follow from the first. */
static void only_the_root_cause_is_final(void **state) {
    (void)state;
    run(2, 2, 5);
    fails(0, 0);
    ordered("X 0 0 a rank failed");
    stops_blaming(0, 0, 1, -1, false);
    stops_blaming(1, 0, 2, -1, true);
    ordered("G 1 ...");
    part();
}

static void the_culprit_is_the_cause(void **state) {
    (void)state;
    run(3, 3, 0);
    fails(0, 0);
    ordered("X 0 0 a rank failed");
    stops_blaming(0, 0, 0, 4, false);
    stops_blaming(1, 0, 2, 0, false);
    stops_blaming(2, 0, 4, -1, false);
    ordered("E 14 rank 4 failed on host h2 (pid 102)");
    assert_string_equal(job.reported, "report of 4\n");
    part();
}

static void a_culprit_that_did_not_fail(void **state) {
    (void)state;
    run(2, 2, 0);
    fails(0, 0);
    ordered("X 0 0 a rank failed");
    stops_blaming(0, 0, 0, 3, false);
    stops(1, 0);
    ordered("E 10 rank 0 failed on host h0 (pid 100)");
    part();
}

static void a_failure_of_status_0_is_none_the_less_one(void **state) {
    (void)state;
    run(2, 2, 0);
    hear((struct notice){
        .kind = NOTICE_STOPPED, .ticket = 0, .generation = 0, .rank = 1, .culprit = -1, .text = ""});
    ordered("X 0 0 rank 1 failed on host h0 (pid 100)");
    stops(1, 0);
    ordered("E 1 rank 1 failed on host h0 (pid 100)");
    part();
}

/* Who goes while it runs; what follows from that is up to those that are left. */
static void goes(bool by_death, int ticket, int generation) {
    if (by_death) {
        dies(ticket);
    } else {
        leaves(ticket);
        stops(ticket, generation);
        dies(ticket);
    }
}

static void a_node_goes_and_enough_are_left(void **state) {
    (void)state;
    for (int by_death = 0; by_death < 2; by_death++) {
        run(2, 3, 0);
        goes(by_death, 1, 0);
        ordered(by_death ? "X 0 0 host h1 (pid 101) was lost" : "X 0 0 host h1 (pid 101) leaves");
        stops(0, 0);
        nothing_is_ordered();
        stops(2, 0);
        ordered("G 1 4 2 0:0:2 2:2:2");
        said("; continuing with 2 nodes\n");
        part();
    }
}

static void a_node_goes_and_another_is_waited_for(void **state) {
    (void)state;
    for (int by_death = 0; by_death < 2; by_death++) {
        run(2, 2, 1);
        goes(by_death, 0, 0);
        ordered("X 0 0 host h0 (pid 100) ...");
        stops(1, 0);
        said("waiting 60 s for another: restart 1 of 1\n");
        pass(59);
        nothing_is_ordered();
        joins(2);
        ordered("G 1 4 2 1:0:2 2:2:2");
        dies(2);
        ordered("X 1 0 host h2 (pid 102) was lost");
        stops(1, 1);
        ordered("E 1 host h2 (pid 102) was lost");
        part();
    }
}

static void a_node_goes_and_no_other_comes(void **state) {
    (void)state;
    run(2, 2, 1);
    dies(0);
    ordered("X 0 0 ...");
    stops(1, 0);
    pass(61);
    ordered("E 1 not enough nodes in 60 s: 1 of 2 nodes are here: host h1 (pid 101)");
    part();
}

static void a_node_goes_and_that_is_the_end(void **state) {
    (void)state;
    for (int by_death = 0; by_death < 2; by_death++) {
        run(2, 2, 0);
        goes(by_death, 0, 0);
        ordered("X 0 0 host h0 (pid 100) ...");
        stops(1, 0);
        ordered(by_death ? "E 1 host h0 (pid 100) was lost" : "E 1 host h0 (pid 100) has left");
        part();
    }
}

static void a_node_goes_after_its_ranks_were_through(void **state) {
    (void)state;
    for (int by_death = 0; by_death < 2; by_death++) {
        run(2, 2, 0);
        stops(0, 0);
        if (by_death)
            dies(0);
        else
            leaves(0);
        nothing_is_ordered();
        stops(1, 0);
        ordered("E 0 ");
        part();
    }
}

/* It failed first, and then it died; the failure is why. */
static void a_node_fails_and_goes(void **state) {
    (void)state;
    run(2, 2, 0);
    stops_failed(0, 0, 1);
    ordered("X 0 0 rank 1 failed on host h0 (pid 100)");
    dies(0);
    stops(1, 0);
    ordered("E 11 rank 1 failed on host h0 (pid 100)");
    part();
}

static void a_node_fails_and_dies_before_it_can_say_how(void **state) {
    (void)state;
    run(2, 2, 0);
    fails(0, 0);
    ordered("X 0 0 a rank failed");
    dies(0);
    stops(1, 0);
    ordered("E 1 host h0 (pid 100) was lost");
    part();
}

static void another_node_goes_while_they_stop(void **state) {
    (void)state;
    run(1, 3, 1);
    stops_failed(0, 0, 1);
    ordered("X 0 0 rank 1 failed on host h0 (pid 100)");
    leaves(1);
    nothing_is_ordered();
    stops(1, 0);
    dies(2);
    ordered("G 1 2 1 0:0:2");
    part();
}

static void all_nodes_die(void **state) {
    (void)state;
    run(2, 3, 1);
    for (int i = 0; i < 3; i++) dies(i);
    ordered("X 0 0 host h0 (pid 100) was lost");
    pass(61);
    ordered("E 1 not enough nodes in 60 s: 0 of 2 nodes are here");
    part();
}

static void a_node_never_stops(void **state) {
    (void)state;
    run(1, 2, 0);
    joins(2);
    dies(0);
    ordered("X 0 0 ...");
    pass(34);
    nothing_is_ordered();
    pass(2);
    said("host h1 (pid 101) has not ended its ranks in 35 s; continuing without it\n");
    ordered("R 1 1 this node took too long to end its ranks");
    ordered("G 1 2 1 2:0:2");
    stops(1, 0);
    stops_failed(1, 1, 2);
    nothing_is_ordered();
    stops(2, 1);
    ordered("E 0 ");
    part();
}

static void signals_before_the_start(void **state) {
    (void)state;
    meet(2, 2, 0);
    interrupt(SIGINT);
    ordered("E 130 the job was told to end");
    interrupt(SIGTERM);
    joins(0);
    pass(1e6);
    part();
}

static void signals_are_passed_on(void **state) {
    (void)state;
    run(2, 2, 5);
    interrupt(SIGTERM);
    ordered("X 0 15 the job was told to end");
    stops_failed(0, 0, 0);
    stops(1, 0);
    ordered("E 143 the job was told to end");
    part();
}

/* Ranks may take their time to answer an interrupt; who insists wants an end to it. */
static void the_user_insists(void **state) {
    (void)state;
    run(2, 2, 0);
    interrupt(SIGINT);
    ordered("X 0 2 the job was told to end");
    pass(1e6);
    nothing_is_ordered();
    interrupt(SIGKILL);
    ordered("X 0 9 the job was told to end");
    stops(0, 0);
    pass(36);
    ordered("R 1 1 this node took too long to end its ranks");
    ordered("E 130 the job was told to end");
    part();
}

static void a_node_never_stops_after_a_signal(void **state) {
    (void)state;
    run(2, 2, 5);
    interrupt(SIGTERM);
    ordered("X 0 15 the job was told to end");
    stops(1, 0);
    pass(36);
    ordered("R 0 1 this node took too long to end its ranks");
    ordered("E 143 the job was told to end");
    part();
}

/* As where there is one node: what failed before decides, but nothing is started again. */
static void a_signal_while_a_failed_generation_ends(void **state) {
    (void)state;
    run(2, 2, 5);
    stops_failed(0, 0, 1);
    ordered("X 0 0 rank 1 failed on host h0 (pid 100)");
    interrupt(SIGTERM);
    ordered("X 0 15 the job was told to end");
    stops(1, 0);
    ordered("E 11 rank 1 failed on host h0 (pid 100)");
    assert_string_equal(job.reported, "report of 1\n");
    part();
}

static void a_signal_while_others_stop_for_a_loss(void **state) {
    (void)state;
    run(1, 2, 5);
    dies(0);
    ordered("X 0 0 ...");
    interrupt(SIGTERM);
    ordered("X 0 15 the job was told to end");
    stops(1, 0);
    ordered("E 143 the job was told to end");
    part();
}

static void a_signal_while_it_waits_for_another(void **state) {
    (void)state;
    run(2, 2, 1);
    dies(0);
    ordered("X 0 0 ...");
    stops(1, 0);
    interrupt(SIGTERM);
    ordered("E 143 the job was told to end");
    part();
}

static void old_generations_are_past(void **state) {
    (void)state;
    run(2, 2, 1);
    stops_failed(0, 0, 1);
    ordered("X 0 0 rank 1 failed on host h0 (pid 100)");
    stops(1, 0);
    ordered("G 1 4 2 0:0:2 1:2:2");
    fails(1, 0);
    stops_failed(1, 0, 2);
    stops(0, 0);
    fails(1, 2);
    stops_failed(1, 7, 2);
    nothing_is_ordered();
    stops(0, 1);
    stops(1, 1);
    ordered("E 0 ");
    part();
}

static void nobody_knows_these_tickets(void **state) {
    (void)state;
    run(2, 2, 0);
    fails(9, 0);
    stops_failed(9, 0, 1);
    leaves(9);
    dies(9);
    joins(2); /* a spare has no ranks to speak of */
    fails(2, 0);
    stops_failed(2, 0, 1);
    nothing_is_ordered();
    stops(0, 0);
    stops(1, 0);
    ordered("E 0 ");
    part();
}

static void everything_twice(void **state) {
    (void)state;
    meet(2, 2, 0);
    joins(0);
    joins(0);
    nothing_is_ordered();
    joins(1);
    ordered("G 0 4 2 0:0:2 1:2:2");
    stops(0, 0);
    stops_failed(0, 0, 1);
    fails(0, 0);
    nothing_is_ordered();
    leaves(1);
    leaves(1);
    ordered("X 0 0 host h1 (pid 101) leaves");
    fails(1, 0);
    stops(1, 0);
    ordered("E 1 host h1 (pid 101) has left");
    dies(1);
    dies(1);
    fails(0, 0);
    stops(0, 0);
    joins(5);
    interrupt(SIGTERM);
    pass(1e6);
    part();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_ends_the_job),
        cmocka_unit_test(a_failure_is_told_at_the_end_only),
        cmocka_unit_test(restarts_are_counted),
        cmocka_unit_test(until_it_works),
        cmocka_unit_test(some_failures_are_final),
        cmocka_unit_test(only_the_root_cause_is_final),
        cmocka_unit_test(the_culprit_is_the_cause),
        cmocka_unit_test(a_culprit_that_did_not_fail),
        cmocka_unit_test(a_failure_of_status_0_is_none_the_less_one),
        cmocka_unit_test(a_node_goes_and_enough_are_left),
        cmocka_unit_test(a_node_goes_and_another_is_waited_for),
        cmocka_unit_test(a_node_goes_and_no_other_comes),
        cmocka_unit_test(a_node_goes_and_that_is_the_end),
        cmocka_unit_test(a_node_goes_after_its_ranks_were_through),
        cmocka_unit_test(a_node_fails_and_goes),
        cmocka_unit_test(a_node_fails_and_dies_before_it_can_say_how),
        cmocka_unit_test(another_node_goes_while_they_stop),
        cmocka_unit_test(all_nodes_die),
        cmocka_unit_test(a_node_never_stops),
        cmocka_unit_test(signals_before_the_start),
        cmocka_unit_test(signals_are_passed_on),
        cmocka_unit_test(the_user_insists),
        cmocka_unit_test(a_node_never_stops_after_a_signal),
        cmocka_unit_test(a_signal_while_a_failed_generation_ends),
        cmocka_unit_test(a_signal_while_others_stop_for_a_loss),
        cmocka_unit_test(a_signal_while_it_waits_for_another),
        cmocka_unit_test(old_generations_are_past),
        cmocka_unit_test(nobody_knows_these_tickets),
        cmocka_unit_test(everything_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
