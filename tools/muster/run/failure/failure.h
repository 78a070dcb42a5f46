/* failure.h - describes how a rank that made a job fail ended. Runs on the loop's thread. */
#ifndef MUSTER_TOOL_RUN_FAILURE_FAILURE_H
#define MUSTER_TOOL_RUN_FAILURE_FAILURE_H

#include "run/ranks/rank_states.h"
#include "run/ranks/workers.h"

enum { REPORT_MAX = 16384, REPORT_LINES = 20, REPORT_MESSAGE = 2048, ERROR_FILE_LIMIT = 1 << 20 };

/*
 * Reads the message of an error file as PyTorch's @record writes it, {"message": "text"} or {"message":
 * {"message": "text"}}, cut to size - 1 bytes. Sets "" if there is no such file, or if it has other contents.
 * Newlines stay, other control characters become question marks.
 */
void error_file_read(const char *path, char *text, size_t size);

/* What is known of a failure besides the exit status of the process. */
struct report_more {
    const struct rank_state_view *state; /* its last call and error in muster */
    const char *why;                     /* the launcher's explanation, or "" */
    const char *message;                 /* from its error file, or "" */
    const char *tail;                    /* of its stderr */
    size_t tail_len;
    const char *flights; /* directory of flight recorder files, or NULL */
};

/* "rank 2 (pid 4711) was ended by SIGSEGV (Segmentation fault)"; size is at least 64. */
void report_one_line(const struct worker *worker, char *text, size_t size);
/* The same with the host and the rank's last call in muster. */
void report_death(const struct worker *worker, const struct rank_state_view *state, char *text, size_t size);

/*
 * Writes the report of a failure: time, host, rank, pid, exit code or signal, its last call and error in
 * muster, its own message, and the last lines of its stderr. what_failed begins the first line: "the job" or
 * "attempt 2". text has REPORT_MAX bytes.
 */
void report_failure(const struct worker *worker, const char *what_failed, const struct report_more *more,
                    char *text);

#endif
