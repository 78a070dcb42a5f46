/* rank_exit.h - says in words how a rank ended. */
#ifndef MUSTER_TOOL_RUN_FAILURE_RANK_EXIT_H
#define MUSTER_TOOL_RUN_FAILURE_RANK_EXIT_H

#include "run/ranks/rank_states.h"
#include "run/ranks/workers.h"

#include <stddef.h>

enum { REPORT_MAX = 16384, REPORT_LINES = 20, REPORT_MESSAGE = 2048 };

/* What is known of a failure besides how the process ended. */
struct report_more {
    const struct rank_state_view *state; /* what it was doing in muster */
    const char *why;                     /* "": its end says why */
    const char *message;                 /* of its error file; "": none */
    const char *tail;                    /* of its stderr */
    size_t tail_len;
    const char *flights; /* directory of flight recorders; NULL: none */
};

/* "rank 2 (pid 4711) was ended by SIGSEGV (Segmentation fault)" */
void report_one_line(const struct worker *worker, char *text, size_t size);

/*
 * The report of a failure, behind a few words on what it ended: time, host, rank, pid, exit code or signal, the call it was in
 * and its last error, its own message, and the last lines of its stderr. text has room for REPORT_MAX bytes.
 */
void report_failure(const struct worker *worker, const char *what_failed, const struct report_more *more,
                    char *text);

#endif
