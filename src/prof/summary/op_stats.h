/*
 * op_stats.h - the sums of one rank's calls: what the tables of mst_log_summary are made of.
 *
 * Rows are kept per name, call, group and bytes. All memory is bounded: by the limits below, and by the number of
 * groups. Pure: no clock, no lock, no I/O; one thread at a time. A stats owns copies of all texts.
 */
#ifndef MSI_PROF_SUMMARY_OP_STATS_H
#define MSI_PROF_SUMMARY_OP_STATS_H

#include "base/buf.h"
#include "base/table.h"
#include "prof/record/record.h"
#include "prof/summary/histogram.h"

enum {
    MSI_OP_STATS_ROWS = 4096,   /* what does not fit is in the row "other" */
    MSI_OP_STATS_MARKS = 16384, /* collective calls that are remembered one by one */
    MSI_OP_STATS_EXACT =
        1 << 20, /* durations of all rows that are kept exactly; MSI_HISTOGRAM_EXACT for each */
};

struct msi_op_stats_call {
    const char *name;     /* .log_name, or what call is */
    const char *call;     /* "all_reduce" */
    const char *function; /* that called it; NULL: not known. Used by tallies in debug alone */
    const struct msi_prof_group *group;
    uint64_t bytes, seq;
    uint64_t duration_ns;
    uint64_t waited_ns; /* of a work: how long of that the program spent in mst_wait */
    enum msi_share share;
    bool work, message;
    mst_status status;
};

struct msi_op_stats_row {
    const char *name, *call, *function; /* in its key; function NULL: callers are not told apart */
    int group;                          /* in groups; -1: "other" has none */
    enum msi_share share;
    bool message;
    uint64_t bytes;
    uint64_t count, failed; /* the failed are not in count, nor in anything below */
    uint64_t total_ns, least_ns, most_ns;
    uint64_t works, works_ns, waited_ns; /* calls with .work, a part of the above */
    struct msi_histogram histogram;
};

struct msi_op_stats_group {
    struct msi_prof_group is;
    void *copies;       /* what is points to */
    uint64_t floor;     /* calls with a lower seq are forgotten, … */
    uint64_t forgotten; /* … so many that were remembered once */
};

/* One call to be found again on the other ranks by its group and seq. */
struct msi_op_stats_call_ref {
    uint64_t seq, ns;
    uint32_t row;
};

struct msi_op_stats {
    bool debug;    /* callers are told apart from here on */
    uint64_t lost; /* calls not counted for want of memory */
    struct msi_op_stats_row *rows;
    struct msi_op_stats_row other;
    struct msi_op_stats_group *groups;
    struct msi_op_stats_call_ref
        *marks;            /* a ring once it has MSI_OP_STATS_MARKS: the oldest is at marks_next */
    struct msi_table keys; /* of the rows, with the same numbers */
    struct msi_buf key;    /* where the key of a search is put together */
    uint32_t recent[64];   /* row + 1 by where the texts of its last call lay: a first guess, to be checked */
    size_t row_count, row_cap, group_count, group_cap, mark_count, mark_cap, marks_next;
    size_t exact; /* durations that are kept exactly */
};

/* Whose stats it is. */
struct msi_op_stats_who {
    int rank, size;
    int64_t pid;
    char host[256];
};

/* NULL without memory. */
struct msi_op_stats *msi_op_stats_new(bool debug);
void msi_op_stats_free(struct msi_op_stats *stats);
/* Forgets all calls; debug stays. */
void msi_op_stats_reset(struct msi_op_stats *stats);
/* Allocates for a row's first call, and where something doubles. */
void msi_op_stats_add(struct msi_op_stats *stats, const struct msi_op_stats_call *call);

/* The stats as JSON, one line for each row. buf->failed without memory. Sorts the durations. */
void msi_op_stats_write(struct msi_op_stats *stats, const struct msi_op_stats_who *who, struct msi_buf *to);
/* Hostile input: MST_ERR_PROTOCOL with what and where. who may be NULL. The caller frees *stats. */
mst_status msi_op_stats_read(const void *bytes, size_t len, struct msi_op_stats_who *who,
                             struct msi_op_stats **stats);

/*
 * For msi_op_stats_read: a row or group of its own, as msi_op_stats_add makes them; -1 without memory. The key must be new, the
 * row's group one of the stats's, and the group's ranks size many.
 */
int msi_op_stats_new_row(struct msi_op_stats *stats, const struct msi_op_stats_call *key, int group);
int msi_op_stats_new_group(struct msi_op_stats *stats, const struct msi_prof_group *group);
/* -1: none. */
int msi_op_stats_find_row(struct msi_op_stats *stats, const struct msi_op_stats_call *key);
int msi_op_stats_find_group(const struct msi_op_stats *stats, const char *id);
/* Remembers a call; without memory it counts as forgotten. */
void msi_op_stats_call_ref(struct msi_op_stats *stats, int row, uint64_t seq, uint64_t ns);
/* Counts one duration; false without memory. */
bool msi_op_stats_time(struct msi_op_stats *stats, struct msi_op_stats_row *row, uint64_t ns);

#endif
