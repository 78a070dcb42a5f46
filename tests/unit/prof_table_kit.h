/*
 * prof_table_kit.h - what the tests of the profiler's tables share: a few ranks with their calls, and the
 * fixed parts of the tables. Include it after harness.h.
 */
#ifndef TESTS_PROF_TABLE_KIT_H
#define TESTS_PROF_TABLE_KIT_H

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

static inline int set_up(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) all_stats[r] = msi_op_stats_new(false);
    return 0;
}

static inline int tear_down(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) msi_op_stats_free(all_stats[r]);
    return 0;
}

static inline void check_table(int n, bool show_straggler, const char *wanted) {
    char *text = kit_table(all_stats, n, show_straggler);
    if (strcmp(text, wanted) != 0) print_error("got:\n%s\nwanted:\n%s\n", text, wanted);
    assert_string_equal(text, wanted);
    free(text);
}

/* A call of rank r that begins at begin; of a work, waited is the time in mst_wait. */
static inline void add_at(int r, struct msi_record call, int64_t begin, int64_t took, int64_t waited) {
    msi_op_stats_add(all_stats[r], &call, &(struct msi_times){begin, took, 0, waited}, true);
}

#endif
