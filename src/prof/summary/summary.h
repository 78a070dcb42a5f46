/*
 * summary.h - the tallies of all ranks as one table: DeepSpeed's, with its faults mended. Pure.
 *
 * An operation's numbers are those of the lowest rank that has it, most often rank 0. Stragglers: a call is found on all
 * ranks of its group by its sequence number. The shortest time that a rank spent in it is what the communication took;
 * what the others spent beyond that they waited. A rank whose stats is missing is left out, and named.
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

/* A row that is shown. */
struct msi_summary_line {
    struct msi_op_stats_row *row;
    struct msi_paired paired;
};

/* What one name, call and group has: lines of one rank, by bytes. */
struct msi_summary_op {
    size_t first, count; /* of the lines */
    size_t order;        /* of its first row among the rank's */
    int rank;            /* whose they are */
    int group;
    bool shared_name; /* another call of the group has the same */
};

struct msi_summary_member {
    int rank;
    uint64_t last;      /* calls to which it came last … */
    uint64_t waited_ns; /* … and how long the first to come waited in them, in all */
};

struct msi_summary_group {
    const struct msi_prof_group *is;
    int first;                          /* the lowest rank of it that has a stats */
    bool twin;                          /* another one has the same name and first rank */
    struct msi_summary_member *members; /* the ranks that have a stats; NULL: stragglers were not asked for */
    int member_count;
    uint64_t paired;
    uint64_t mutual;    /* of these: calls in which every rank waits for every other */
    uint64_t floor;     /* calls with a lower seq are forgotten by some rank, … */
    uint64_t forgotten; /* … so many by the one that forgot most */
    uint64_t clashes; /* sequence numbers that are different calls on different ranks, the first being … */
    uint64_t clash_seq;
    const char *clash_calls[2];
    int clash_ranks[2];
};

/* Calls of one name that not all ranks of the group have. */
struct msi_summary_note {
    int group;
    const struct msi_op_stats_row *row; /* that has the name */
    uint64_t count;
    int few_rank, many_rank; /* ranks that have the fewest and the most calls of that name, … */
    uint64_t few, many;      /* … so many */
};

struct msi_summary {
    struct msi_op_stats *const *tallies; /* n of them */
    int n;
    int first; /* the lowest rank that has a stats */
    bool show_straggler;
    const bool *
        late; /* by rank: its stats is missing since it has not come; NULL: not known. Set before it is written */
    uint64_t calls, failed, total_ns; /* of the first: all that it recorded */
    struct msi_summary_line *lines;
    struct msi_summary_op *ops;
    struct msi_summary_group *groups;
    size_t line_count, op_count, group_count;
    int **group_of; /* [rank][group of the stats]: in groups */
    int **line_of;  /* [rank][row of the stats]: in lines; -1: not shown */
    struct msi_summary_note notes[MSI_SUMMARY_NOTES];
    size_t note_count;
    uint64_t unnamed; /* calls without a pair for which there was no note left */
};

/*
 * tallies[r] is rank r's, NULL: missing; they are borrowed as long as the summary lives, and their durations sorted.
 * MST_ERR_INVALID if all are missing.
 */
mst_status msi_summary_make(struct msi_op_stats *const tallies[], int n, bool show_straggler,
                            struct msi_summary **summary);
void msi_summary_free(struct msi_summary *summary);
/* The tables, and what is to be said below them. */
void msi_summary_text(const struct msi_summary *summary, struct msi_buf *to);
void msi_summary_json(const struct msi_summary *summary, struct msi_buf *to);

/* For the files of the summary. Averages of a row's calls, in a group of so many ranks. */
struct msi_summary_averages {
    double ns, algbw, busbw;
};
struct msi_summary_averages msi_summary_averages(struct msi_op_stats_row *row, int ranks);
mst_status msi_summary_pair(struct msi_summary *summary);
static inline bool msi_summary_same_text(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

#endif
