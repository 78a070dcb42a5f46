/*
 * logs.h - the ranks' output in files, byte for byte: DIR/RUN_ID/attempt_K/LOCAL_RANK/stdout.log and stderr.log,
 * as torchrun lays them out. A file that takes no more is given up; the ranks never notice.
 */
#ifndef MUSTER_TOOL_RUN_OUTPUT_LOGS_H
#define MUSTER_TOOL_RUN_OUTPUT_LOGS_H

#include "run/output/routes.h"

#include <stdbool.h>
#include <stddef.h>

struct logs {
    const struct routes *routes;
    char *dir; /* DIR/RUN_ID, absolute */
    int *fds;  /* two per rank; -1 where nothing is logged, or not any more */
    bool failed;
};

/* As mkdir -p. 0, or -1 with errno set. */
int logs_make_directories(const char *path);

/*
 * Makes the directory dir, with those above it, or a new one for temporary files where dir is NULL, and in it
 * that of the run. routes is borrowed. 0, or -1 with why set.
 */
int logs_open(struct logs *logs, const char *dir, const char *run_id, const struct routes *routes, char *why,
              size_t why_size);
void logs_close(struct logs *logs);

/* DIR/attempt_K/LOCAL_RANK/NAME, or the directory where name is NULL; dir is a run's. Returns what snprintf does. */
int logs_path(char *path, size_t size, const char *dir, int attempt, int local_rank, const char *name);

/* Goes on to the files of an attempt. 0, or -1 with why set and no file open. */
int logs_begin(struct logs *logs, int attempt, char *why, size_t why_size);

/* 0, or once and for all the errno of the first write that failed. */
int logs_write(struct logs *logs, int local_rank, int stream, const char *data, size_t len);

#endif
