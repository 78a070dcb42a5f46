/*
 * logs.h - writes the ranks' output to files, byte for byte: DIR/RUN_ID/attempt_K/LOCAL_RANK/stdout.log and
 * stderr.log, as torchrun does. After a failed write the file is closed and the ranks run on. The loop's
 * thread uses it.
 */
#ifndef MUSTER_TOOL_RUN_OUTPUT_LOGS_H
#define MUSTER_TOOL_RUN_OUTPUT_LOGS_H

#include "run/output/routes.h"

#include <stddef.h>

struct logs {
    const struct routes *routes;
    char *dir; /* DIR/RUN_ID, absolute */
    int *fds;  /* two per rank; -1: not logged, or closed after a failed write */
    bool failed;
};

/* Works as mkdir -p. 0, or -1 with errno set. */
int logs_make_directories(const char *path);

/*
 * Creates dir with its parents, or a new temporary directory if dir is NULL, and in it the directory of the
 * run. routes is borrowed. Call logs_close in any case.
 */
mst_status logs_open(struct logs *logs, const char *dir, const char *run_id, const struct routes *routes);
void logs_close(struct logs *logs);

/* Writes DIR/attempt_K/LOCAL_RANK/NAME; name NULL: the directory. Returns as snprintf does. */
int logs_path(char *path, size_t size, const char *dir, int attempt, int local_rank, const char *name);

/* Opens the files of an attempt, after closing those of the attempt before. On failure no file is open. */
mst_status logs_begin(struct logs *logs, int attempt);

/* 0, or the errno of the first write that fails; later failures return 0. */
int logs_write(struct logs *logs, int local_rank, int stream, const char *data, size_t len);

#endif
