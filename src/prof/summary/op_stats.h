/*
 * op_stats.h - statistics of one rank's calls, from which mst_log_summary makes its tables.
 *
 * A row has the calls of one name, call, group and number of bytes. Memory is bounded by the limits below.
 * Pure: no clock, no lock, no I/O; one thread at a time. The statistics own copies of all texts.
 */
#ifndef MSI_PROF_SUMMARY_OP_STATS_H
#define MSI_PROF_SUMMARY_OP_STATS_H

#include "base/buf.h"
#include "base/table.h"
#include "prof/record/record.h"
#include "prof/summary/histogram.h"

enum {
    MSI_OP_STATS_ROWS = 4096,     /* calls beyond them are in the row "other"; also groups */
    MSI_OP_STATS_CALLS = 16384,   /* collective calls that are remembered one by one */
    MSI_OP_STATS_EXACT = 1 << 20, /* exact durations of all rows together; MSI_HISTOGRAM_EXACT per row */
};

struct msi_op_stats_row {
    const char *name, *call, *function; /* in its key; function NULL: callers are not told apart */
    int group;                          /* index of the group; -1: none, of "other" */
    enum msi_share share;
    bool message;
    uint64_t bytes;
    uint64_t count, failed; /* failed calls are not in count, nor in anything below */
    uint64_t total_ns, least_ns, most_ns;
    uint64_t works, works_ns, waited_ns; /* calls with .work, a part of the above */
    struct msi_histogram histogram;
    int line; /* index in the lines of a summary, which sets it; -1: not shown */
};

struct msi_op_stats_group {
    struct msi_prof_group *is; /* a copy */
    uint64_t first_seq;        /* calls with a lower seq are forgotten */
    uint64_t forgotten;        /* number of remembered calls that were forgotten */
    int shown;                 /* index in the groups of a summary, which sets it */
};

/* A remembered call, to be matched with the same call of other ranks by group and seq. */
struct msi_op_stats_call_ref {
    uint64_t seq, ns;
    uint32_t row;
};

struct msi_op_stats {
    bool debug;    /* tell callers apart from now on */
    uint64_t lost; /* calls that were not counted for lack of memory */
    struct msi_op_stats_row *rows;
    struct msi_op_stats_row other;
    struct msi_op_stats_group *groups;
    struct msi_op_stats_call_ref *calls; /* a ring once it is full: the oldest is at calls_next */
    struct msi_table keys;               /* of the rows, with the same numbers */
    struct msi_buf key;                  /* buffer for the key of a search */
    uint32_t recent[64]; /* row + 1 by the addresses of the last call's texts: a guess to be checked */
    size_t row_count, row_cap, group_count, group_cap, call_count, call_cap, calls_next;
    size_t exact; /* exact durations of all rows */
};

/* A copy in one piece, which the caller frees; ranks NULL: 0, 1, 2, … NULL without memory. */
struct msi_prof_group *msi_prof_group_copy(const struct msi_prof_group *group);

/* NULL without memory. */
struct msi_op_stats *msi_op_stats_new(bool debug);
void msi_op_stats_free(struct msi_op_stats *stats);
/*
 * Adds a call of ns nanoseconds; waited_ns: of a work, the part that the program spent in mst_wait. Allocates
 * for the first call of a row, and when an array or a histogram grows.
 */
void msi_op_stats_add(struct msi_op_stats *stats, const struct msi_record *call, uint64_t ns,
                      uint64_t waited_ns);

/* Appends the statistics as bytes (op_stats_codec.c) and sorts the durations. to->failed without memory. */
void msi_op_stats_write(struct msi_op_stats *stats, struct msi_buf *to);
/* Reads hostile bytes: MST_ERR_PROTOCOL with the place of the error. The caller frees *stats. */
mst_status msi_op_stats_read(const void *bytes, size_t len, struct msi_op_stats **stats);

/* For msi_op_stats_read. A new row or group with a new key; its index, or -1 without memory. */
int msi_op_stats_new_row(struct msi_op_stats *stats, const struct msi_record *key, const char *function,
                         int group);
int msi_op_stats_new_group(struct msi_op_stats *stats, const struct msi_prof_group *group);
/* -1: none. */
int msi_op_stats_find_row(struct msi_op_stats *stats, const struct msi_record *key, const char *function);
int msi_op_stats_find_group(const struct msi_op_stats *stats, const char *id);
/* Remembers a call; the oldest one counts as forgotten if there are too many, this one without memory. */
void msi_op_stats_remember(struct msi_op_stats *stats, int row, uint64_t seq, uint64_t ns);
/* Counts one duration; false without memory. */
bool msi_op_stats_time(struct msi_op_stats *stats, struct msi_op_stats_row *row, uint64_t ns);

#endif
