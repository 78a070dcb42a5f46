/*
 * summary.h - the statistics of all ranks as tables. Pure.
 *
 * The numbers of an operation are those of the lowest rank that has it, usually rank 0. Stragglers: a call is
 * matched on all ranks of its group by its sequence number, and a receive with its send. comm_time.h says
 * which part of the communication time is waiting. If the clocks of the ranks are not known, all ranks are
 * assumed to leave the call at the same time, and messages are not matched. If a rank remembers only
 * a sample of its calls, that of all ranks is made as small, and the waiting in it is scaled to all calls of
 * the row. A rank without statistics is left out and named.
 */
#ifndef MSI_PROF_SUMMARY_SUMMARY_H
#define MSI_PROF_SUMMARY_SUMMARY_H

#include "prof/summary/op_stats.h"
#include "prof/summary/rank_times.h"

enum { MSI_SUMMARY_NOTES = 16 };

/* A row of the table. */
struct msi_summary_line {
    struct msi_op_stats_row *row;
    uint64_t matched;    /* calls that all ranks of the group have; messages that the peer has */
    uint64_t waiting_ns; /* in these calls, and in failed ones */
};

/* One name, call and group: lines of one rank, ordered by bytes. */
struct msi_summary_op {
    size_t first, count; /* of the lines */
    size_t order;        /* index of its first row in the rank's statistics */
    int rank;            /* of the lines */
    int group;
    bool shared_name; /* another call of the group has the same name */
};

struct msi_summary_member {
    int rank;
    uint64_t last; /* calls that it began last */
};

struct msi_summary_group {
    const struct msi_prof_group *is;
    int first;                          /* its lowest rank with statistics */
    bool twin;                          /* another group has the same name and first rank */
    struct msi_summary_member *members; /* ranks with statistics; NULL: without show_straggler */
    int member_count;
    uint64_t matched; /* calls that all members have */
    uint64_t ordered; /* of these: calls of which it is known which rank began last */
    uint64_t clashes; /* sequence numbers that are different calls on different ranks; the first one: */
    uint64_t clash_seq;
    const char *clash_calls[2];
    int clash_ranks[2];
};

/* Calls of one name that not all ranks of the group have. */
struct msi_summary_note {
    int group;
    const struct msi_op_stats_row *row; /* with the name */
    uint64_t count;
    int few_rank, many_rank; /* the ranks with the fewest and the most calls of that name */
    uint64_t few, many;
};

struct msi_summary {
    struct msi_op_stats *const *stats; /* by rank */
    int n;
    int first; /* the lowest rank with statistics */
    bool show_straggler;
    int sample_bits;  /* of 2^sample_bits calls one is matched */
    const bool *late; /* by rank: it did not publish in time; NULL: not known. Set it before writing */
    uint64_t calls, failed, works; /* of the first rank */
    struct msi_rank_times *ranks;  /* of the ranks with statistics, ascending; waiting with show_straggler */
    int rank_count;
    struct msi_summary_line *lines;
    struct msi_summary_op *ops;
    struct msi_summary_group *groups;
    size_t line_count, op_count, group_count;
    struct msi_summary_note notes[MSI_SUMMARY_NOTES];
    size_t note_count;
    uint64_t unnamed; /* unmatched calls beyond MSI_SUMMARY_NOTES names */
};

/*
 * stats[r] is rank r's, NULL: missing. They are borrowed while the summary exists. Their durations and
 * remembered calls are sorted, and their rows and groups refer to this summary. MST_ERR_INVALID if all are
 * missing.
 */
mst_status msi_summary_make(struct msi_op_stats *const stats[], int n, bool show_straggler,
                            struct msi_summary **summary);
void msi_summary_free(struct msi_summary *summary);
void msi_summary_text(const struct msi_summary *summary, struct msi_buf *to);
void msi_summary_json(const struct msi_summary *summary, struct msi_buf *to);

/* For the files of the summary. Averages of a row's calls in a group of n ranks. */
struct msi_summary_averages {
    double ns, algbw, busbw;
};
struct msi_summary_averages msi_summary_averages(struct msi_op_stats_row *row, int n);
mst_status msi_summary_match(struct msi_summary *summary);

#endif
