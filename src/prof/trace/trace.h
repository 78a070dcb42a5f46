/*
 * trace.h - a rank's trace in Chrome's format, for Perfetto, chrome://tracing and `muster report`:
 * DIR/rank-R.trace.json, or rank-R.2.trace.json, … if that file exists. docs/profiling.md describes its
 * contents.
 *
 *  1. The file is an array of events, one per line. It is readable at any time: after a crash only the end is
 *     missing.
 *  2. Events are buffered until msi_trace_flush. If the file cannot be written any more, a warning says so
 *     once. The written part stays readable, later events are counted and dropped, and the last event has
 *     their number.
 *  3. One thread at a time.
 */
#ifndef MSI_PROF_TRACE_TRACE_H
#define MSI_PROF_TRACE_TRACE_H

#include "prof/record/record.h"

struct msi_trace;

/*
 * Creates the directory, but not its parents. Fails if the path cannot be a directory. If the system refuses
 * it for another reason (space, permission), a warning says so and *trace is NULL. unix_ns: wall clock at the
 * forming of the world, the same on all ranks; it tells worlds apart.
 */
mst_status msi_trace_open(const char *directory, const struct msi_rank_id *id, int64_t unix_ns,
                          struct msi_trace **trace);
void msi_trace_add(struct msi_trace *trace, const struct msi_record *record, const struct msi_times *times);
/* Adds the offset of rank 0's clock to this host's, and its error. */
void msi_trace_clock(struct msi_trace *trace, int64_t at, int64_t offset, int64_t error);
void msi_trace_flush(struct msi_trace *trace);
/* lost: operations that did not reach the trace. */
void msi_trace_close(struct msi_trace *trace, uint64_t lost);

#endif
