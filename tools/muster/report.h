/* report.h - says in words how a rank ended. */
#ifndef MUSTER_TOOL_REPORT_H
#define MUSTER_TOOL_REPORT_H

#include "workers.h"

#include <stddef.h>

enum { REPORT_MAX = 8192, REPORT_LINES = 20 };

/* "rank 2 (pid 4711) was ended by SIGSEGV (Segmentation fault)" */
void report_one_line(const struct worker *worker, char *text, size_t size);

/*
 * The report of a failure, behind a few words on what it ended: time, host, rank, pid, exit code or signal, and the last
 * lines of the rank's stderr, which are tail[0..tail_len). text has room for REPORT_MAX bytes.
 */
void report_failure(const struct worker *worker, const char *what_failed, const char *tail, size_t tail_len,
                    char *text);

#endif
