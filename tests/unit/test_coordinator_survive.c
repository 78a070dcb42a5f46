/* test_coordinator_survive.c - --survive and --replace on several nodes: which deaths a job survives. */
#include "coordinator_kit.h"

static int serials[8]; /* of the notices, by ticket */

/* Two nodes with ranks 0, 1 and 2, 3. */
static void run_with(int min, int replacements) {
    meet(2, 2, 0);
    job.options.survive = (struct survive_options){.min = min, .replace = replacements};
    coordinator_free(job.coordinator);
    job.coordinator = coordinator_open(&job.options, job.now);
    memset(serials, 0, sizeof serials);
    join_up_to(2);
    ordered("G 0 4 2 0:0:2 1:2:2");
}

static void ends_again(int ticket, int rank, enum rank_event event, bool waited) {
    hear((struct notice){.kind = NOTICE_RANK,
                         .ticket = ticket,
                         .serial = serials[ticket],
                         .rank = rank,
                         .event = event,
                         .waited = waited,
                         .text = "a rank died"});
}
static void ends(int ticket, int rank, enum rank_event event, bool waited) {
    serials[ticket]++;
    ends_again(ticket, rank, event, waited);
}
static void dies_alone(int ticket, int rank) {
    ends(ticket, rank, RANK_DIED, false);
}
/* The ranks of node 0 end well, and then the job does. */
static void first_node_ends_the_job(void) {
    ends(0, 0, RANK_DONE, false);
    ends(0, 1, RANK_DONE, false);
    stops(0, 0);
    ordered("E 0 ");
    part();
}

static void others_go_on(void **state) {
    (void)state;
    run_with(1, -1);
    dies_alone(1, 3);
    ordered("L 0 3 0");
    said("a rank died; continuing with 3 of 4 ranks\n");
    ends(1, 2, RANK_DONE, false);
    stops(1, 0);
    ends(0, 0, RANK_DONE, false);
    dies_alone(0, 1);
    ordered("L 0 1 0");
    stops(0, 0);
    ordered("E 0 ");
    said("2 of 4 ranks ended with code 0; these died:\n  a rank died\n  a rank died\n");
    part();
}

static void too_few_are_left(void **state) {
    (void)state;
    run_with(3, -1);
    dies_alone(0, 0);
    ordered("L 0 0 0");
    dies_alone(1, 2);
    ordered("X 0 0 a rank died; 2 of 4 ranks left, but --survive needs 3");
    stops_failed(1, 0, 2);
    stops_failed(0, 0, 0);
    ordered("E 12 rank 2 failed on host h1 (pid 101)");
    part();
}

static void a_notice_that_comes_twice_counts_once(void **state) {
    (void)state;
    run_with(3, -1);
    dies_alone(0, 0);
    ordered("L 0 0 0");
    ends_again(0, 0, RANK_DIED, false);
    nothing_is_ordered();
    interrupt(SIGTERM);
    ordered("X 0 15 ...");
    stops(0, 0);
    stops(1, 0);
    ordered("E 143 ...");
    part();
}

static void replacements_are_counted(void **state) {
    (void)state;
    run_with(4, 2);
    dies_alone(1, 3);
    ordered("L 0 3 1");
    ends(1, 3, RANK_DIED, true);
    ordered("L 0 3 1");
    said("a rank died; starting replacement 2 of at most 2\n");
    ends(1, 3, RANK_DIED, true);
    ordered("X 0 0 a rank died; 3 of 4 ranks left, but --survive needs 4");
    stops_failed(1, 0, 3);
    stops(0, 0);
    ordered("E 13 ...");
    part();
}

static void replacements_that_are_left_alone(void **state) {
    (void)state;
    run_with(1, 0);
    dies_alone(1, 3);
    ordered("L 0 3 1");
    ends(0, 0, RANK_DONE, false);
    ends(0, 1, RANK_DONE, false);
    stops(0, 0);
    nothing_is_ordered();
    ends(1, 2, RANK_DONE, false);
    ordered("A 0 1");
    ends(1, 3, RANK_UNADMITTED, true);
    ordered("L 0 3 0");
    ordered("A 0 0");
    stops(1, 0);
    ordered("E 0 ");
    part();
}

/* All first ranks have died, but a replacement is in the world: it can admit the others. */
static void replacements_that_have_joined(void **state) {
    (void)state;
    run_with(1, 0);
    dies_alone(1, 3);
    ordered("L 0 3 1");
    for (int rank = 0; rank < 3; rank++) {
        if (rank == 1) ends(1, 3, RANK_JOINED, true);
        dies_alone(rank / 2, rank);
        char answer[16];
        snprintf(answer, sizeof answer, "L 0 %d 1", rank);
        ordered(answer);
    }
    nothing_is_ordered();
    ends(1, 3, RANK_DONE, false);
    ordered("A 0 1");
    ends(0, 0, RANK_JOINED, true);
    ordered("A 0 0");
    interrupt(SIGTERM);
    ordered("X 0 15 ...");
    stops(0, 0);
    stops(1, 0);
    ordered("E 143 ...");
    part();
}

static void nodes_that_are_lost(void **state) {
    (void)state;
    for (int leave = 0; leave < 2; leave++) {
        run_with(2, 0);
        if (leave)
            leaves(1);
        else
            dies(1);
        nothing_is_ordered();
        said("; continuing with 2 of 4 ranks\n");
        if (leave) stops(1, 0);
        first_node_ends_the_job();
    }
}

/* The last rank dies on a node that is lost before it can answer. */
static void a_node_is_lost_after_its_ranks(void **state) {
    (void)state;
    run_with(1, -1);
    dies_alone(1, 2);
    dies_alone(1, 3);
    ordered("L 0 2 0");
    ordered("L 0 3 0");
    dies(1);
    first_node_ends_the_job();
}

static void a_lost_node_is_one_too_many(void **state) {
    (void)state;
    run_with(3, 0);
    dies(1);
    ordered("X 0 0 host h1 (pid 101) was lost");
    stops(0, 0);
    ordered("E 1 host h1 (pid 101) was lost");
    part();
}

static void only_members_survive(void **state) {
    (void)state;
    run_with(0, -1);
    ends(0, 1, RANK_DONE, false);
    nothing_is_ordered();
    dies_alone(0, 0);
    ordered("X 0 0 a rank died");
    stops_failed(0, 0, 0);
    stops(1, 0);
    ordered("E 10 ...");
    part();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_go_on),
        cmocka_unit_test(too_few_are_left),
        cmocka_unit_test(a_notice_that_comes_twice_counts_once),
        cmocka_unit_test(replacements_are_counted),
        cmocka_unit_test(replacements_that_are_left_alone),
        cmocka_unit_test(replacements_that_have_joined),
        cmocka_unit_test(nodes_that_are_lost),
        cmocka_unit_test(a_node_is_lost_after_its_ranks),
        cmocka_unit_test(a_lost_node_is_one_too_many),
        cmocka_unit_test(only_members_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
