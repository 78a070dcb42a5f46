/*
 * trace.h - a rank's trace in Chrome's format, as Perfetto, chrome://tracing and `muster report` read it: DIR/rank-R.trace.json, or
 * rank-R.2.trace.json, rank-R.3.trace.json, … where there is one already. docs/profiling.md says what is in it.
 *
 *  1. The file is an array of events, one on each line, and is readable at any moment: what a crash leaves lacks only the end.
 *  2. Events gather in memory until msi_trace_flush. When the disk is full, or the file cannot be written to for another reason, that
 *     is said once, what was written stays readable, and what comes later is counted and dropped; the end says how much that was.
 *  3. One thread at a time.
 */
#ifndef MSI_PROF_TRACE_TRACE_H
#define MSI_PROF_TRACE_TRACE_H

#include "prof/record/record.h"

struct msi_trace;

struct msi_trace_who {
    int rank, size, pid;
    const char *host;
    const char *program;
    int64_t
        unix_ns; /* the calendar's time when the world formed, alike on all ranks: it tells worlds apart */
};

/* When what happened, in nanoseconds: begin since the world formed, on the clock of rank 0's host. */
struct msi_times {
    int64_t begin, lasted, queued, waited;
};

/*
 * Makes the directory, too, but not those above it. Fails where the directory cannot be one; where the machine does not let us, for
 * want of room or of permission, a warning says so, and *trace is NULL.
 */
mst_status msi_trace_open(const char *directory, const struct msi_trace_who *who, struct msi_trace **trace);
/* Adds an operation of the so many-th thread of the process. */
void msi_trace_add(struct msi_trace *trace, const struct msi_record *record, const struct msi_times *times,
                   int thread, const char *thread_name);
/* So many operations were lost before they came here. */
void msi_trace_lost(struct msi_trace *trace, uint64_t n);
/* How well the clock of this host is known against rank 0's: theirs is so much ahead, give or take error. */
void msi_trace_clock(struct msi_trace *trace, int64_t at, int64_t offset, int64_t error);
void msi_trace_flush(struct msi_trace *trace);
void msi_trace_close(struct msi_trace *trace);

#endif
