/* rank_exit.h - describes how a rank ended. */
#ifndef MUSTER_TOOL_RUN_FAILURE_RANK_EXIT_H
#define MUSTER_TOOL_RUN_FAILURE_RANK_EXIT_H

#include "run/ranks/rank_states.h"
#include "run/ranks/workers.h"

enum { REPORT_MAX = 16384, REPORT_LINES = 20, REPORT_MESSAGE = 2048 };

/* What is known of a failure besides the exit status of the process. */
struct report_more {
    const struct rank_state_view *state; /* its last call and error in muster */
    const char *why;                     /* the launcher's explanation, or "" */
    const char *message;                 /* from its error file, or "" */
    const char *tail;                    /* of its stderr */
    size_t tail_len;
    const char *flights; /* directory of flight recorder files, or NULL */
};

/* "rank 2 (pid 4711) was ended by SIGSEGV (Segmentation fault)" */
void report_one_line(const struct worker *worker, char *text, size_t size);

/*
 * Writes the report of a failure: time, host, rank, pid, exit code or signal, its last call and error in
 * muster, its own message, and the last lines of its stderr. what_failed begins the first line: "the job" or
 * "attempt 2". text has REPORT_MAX bytes.
 */
void report_failure(const struct worker *worker, const char *what_failed, const struct report_more *more,
                    char *text);

#endif
