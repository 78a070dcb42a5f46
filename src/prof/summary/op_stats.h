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
    MSI_OP_STATS_CALLS = 16384,   /* calls that are remembered one by one; of more calls a sample */
    MSI_OP_STATS_BITS = 32,       /* the most sample_bits */
    MSI_OP_STATS_EXACT = 1 << 20, /* exact durations of all rows together; MSI_HISTOGRAM_EXACT per row */
};

#define MSI_OP_STATS_BEGIN_MOST (INT64_MAX / 8) /* of remembered calls; 36 years */

struct msi_op_stats_row {
    const char *name, *call, *function; /* in its key; function NULL: callers are not told apart */
    int group;                          /* index of the group; -1: none, of "other" */
    enum msi_share share;
    bool message;
    uint64_t bytes;
    uint64_t count, failed;      /* failed calls are only in failed, comm_ns and failed_ns */
    uint64_t comm_ns, failed_ns; /* communication time (comm_time.h); of that, in failed calls */
    uint64_t total_ns, least_ns, most_ns;
    uint64_t works, works_ns, waited_ns; /* calls with .work, a part of the above */
    struct msi_histogram histogram;
    int line;               /* index in the lines of a summary, which sets it; -1: not shown */
    uint64_t remembered_ns; /* communication time of the remembered calls; a summary sets it */
};

struct msi_op_stats_group {
    struct msi_prof_group *is; /* a copy */
    int shown;                 /* index in the groups of a summary, which sets it */
};

/*
 * A remembered call, to be matched with the same call of other ranks by group and seq, and a message with
 * that of its peer by group, tag and seq.
 */
struct msi_op_stats_call_ref {
    int64_t begin; /* or MSI_TIME_UNKNOWN, if the clock of this host is not that of rank 0's */
    uint64_t seq;
    uint64_t took, comm; /* time of the operation; its communication time (comm_time.h) */
    uint32_t row;
    int32_t peer, tag; /* of a message: the peer's global rank */
    bool send;
};

struct msi_op_stats {
    bool debug;        /* tell callers apart from now on */
    uint64_t lost;     /* calls that were not counted for lack of memory */
    int64_t run_begin; /* when these statistics began, as msi_times.begin; not written as bytes */
    uint64_t run_ns;   /* run time: from run_begin to the end of the last call */
    struct msi_op_stats_row *rows;
    struct msi_op_stats_row other;
    struct msi_op_stats_group *groups;
    struct msi_op_stats_call_ref *calls;
    int sample_bits;       /* of 2^sample_bits calls one is remembered: the same calls on all ranks */
    struct msi_table keys; /* of the rows, with the same numbers */
    struct msi_buf key;    /* buffer for the key of a search */
    uint32_t recent[64];   /* row + 1 by the addresses of the last call's texts: a guess to be checked */
    size_t row_count, row_cap, group_count, group_cap, call_count, call_cap;
    size_t exact; /* exact durations of all rows */
};

/* A copy in one piece, which the caller frees; ranks NULL: 0, 1, 2, … NULL without memory. */
struct msi_prof_group *msi_prof_group_copy(const struct msi_prof_group *group);

/* NULL without memory. */
struct msi_op_stats *msi_op_stats_new(bool debug);
void msi_op_stats_free(struct msi_op_stats *stats);
/*
 * Adds a call. common_clock: its begin can be compared with that of other ranks. Allocates for the first call
 * of a row, and when an array or a histogram grows.
 */
void msi_op_stats_add(struct msi_op_stats *stats, const struct msi_record *call,
                      const struct msi_times *times, bool common_clock);

/* The number of calls of that name, without failed ones; NULL: of all names. */
uint64_t msi_op_stats_count(const struct msi_op_stats *stats, const char *name);

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
/* Remembers a call if it is in the sample, which becomes smaller if there are too many, or no memory. */
void msi_op_stats_remember(struct msi_op_stats *stats, const struct msi_op_stats_call_ref *call);
/* Forgets calls, so that one of 2^bits is left; bits is at least sample_bits. */
void msi_op_stats_thin_out(struct msi_op_stats *stats, int bits);
/* Counts one duration; false without memory. */
bool msi_op_stats_time(struct msi_op_stats *stats, struct msi_op_stats_row *row, uint64_t ns);

#endif
