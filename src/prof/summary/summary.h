/*
 * summary.h - the statistics of all ranks as one table, in the format of DeepSpeed's. Pure.
 *
 * The numbers of an operation are those of the lowest rank that has it, usually rank 0. Stragglers: a call is
 * matched on all ranks of its group by its sequence number. The shortest time that a rank spent in it is the
 * time of the communication; the other ranks waited for the rest of theirs. A rank without statistics is left
 * out and named.
 */
#ifndef MSI_PROF_SUMMARY_SUMMARY_H
#define MSI_PROF_SUMMARY_SUMMARY_H

#include "prof/summary/op_stats.h"

enum { MSI_SUMMARY_NOTES = 16 };

/* The calls of a row that all ranks of the group have. */
struct msi_paired {
    uint64_t count, comm_ns, straggler_ns;
    struct msi_histogram comm, straggler;
};

/* A row of the table. */
struct msi_summary_line {
    struct msi_op_stats_row *row;
    struct msi_paired paired;
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
    uint64_t last;      /* calls that it entered last */
    uint64_t waited_ns; /* how long the first rank waited in them */
};

struct msi_summary_group {
    const struct msi_prof_group *is;
    int first;                          /* its lowest rank with statistics */
    bool twin;                          /* another group has the same name and first rank */
    struct msi_summary_member *members; /* ranks with statistics; NULL: without show_straggler */
    int member_count;
    uint64_t paired;    /* calls that all members have */
    uint64_t mutual;    /* of these: calls in which every rank waits for every other */
    uint64_t first_seq; /* calls with a lower seq are forgotten by some rank */
    uint64_t forgotten; /* calls that the most forgetful rank forgot */
    uint64_t clashes;   /* sequence numbers that are different calls on different ranks; the first one: */
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
    const bool *late; /* by rank: it did not publish in time; NULL: not known. Set it before writing */
    uint64_t calls, failed, works, total_ns; /* of the first rank */
    struct msi_summary_line *lines;
    struct msi_summary_op *ops;
    struct msi_summary_group *groups;
    size_t line_count, op_count, group_count;
    struct msi_summary_note notes[MSI_SUMMARY_NOTES];
    size_t note_count;
    uint64_t unnamed; /* unpaired calls beyond MSI_SUMMARY_NOTES names */
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
mst_status msi_summary_pair(struct msi_summary *summary);

#endif
