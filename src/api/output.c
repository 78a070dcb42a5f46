/*
 * output.c - printing on rank 0 only. While output is suppressed, descriptor 1 is /dev/null and a duplicate
 * of the real one is kept, so that all output of the process and its children is discarded except what is
 * forced through the duplicate.
 */
#include "api/api.h"
#include "base/error.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/group.h>
#include <muster/output.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int kept = -1; /* the real standard output while it is suppressed */
static int kept_flags;
static bool undecided;             /* stdio had not chosen its buffering yet */
static _Atomic int last_rank = -1; /* from mst_suppress_output or the world */

/* Writes to the kept descriptor if there is one. */
static int write_out(const char *text, size_t len) {
    pthread_mutex_lock(&lock);
    fflush(stdout);
    int n = msi_write_all(kept >= 0 ? kept : STDOUT_FILENO, text, len) == 0 ? (int)len : -1;
    pthread_mutex_unlock(&lock);
    return n;
}

void msi_print(const void *text, size_t len) {
    write_out(text, len);
}

/* Prints prefix and text with one write. */
static int print(const char *prefix, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static int print(const char *prefix, const char *format, va_list args) {
    char *text = NULL, *line = NULL;
    int n = vasprintf(&text, format, args);
    if (n < 0) return -1;
    n = asprintf(&line, "%s%s", prefix, text);
    free(text);
    if (n < 0) return -1;
    n = write_out(line, (size_t)n);
    free(line);
    return n;
}

static int current_rank(void) {
    int rank = mst_is_initialized() ? mst_get_rank(NULL) : -1;
    if (rank >= 0) last_rank = rank;
    return last_rank; /* a program may print after its world has ended, or in a forked process */
}

int mst_printf(const char *format, ...) {
    if (current_rank() > 0) return 0;
    va_list args;
    va_start(args, format);
    int n = print("", format, args);
    va_end(args);
    return n;
}

int mst_printf_all(const char *format, ...) {
    char prefix[32];
    int rank = current_rank();
    snprintf(prefix, sizeof prefix, "rank #%d: ", rank < 0 ? 0 : rank);
    va_list args;
    va_start(args, format);
    int n = print(prefix, format, args);
    va_end(args);
    return n;
}

static mst_status suppress(void) {
    undecided = __fbufsize(stdout) == 0;
    fflush(stdout);
    kept_flags = fcntl(STDOUT_FILENO, F_GETFD);
    int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (copy < 0 || nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0) {
        mst_status st = msi_fail_errno(errno, "cannot redirect standard output");
        if (copy >= 0) close(copy);
        if (nowhere >= 0) close(nowhere);
        return st;
    }
    close(nowhere);
    kept = copy;
    return MST_OK;
}

mst_status mst_suppress_output(int rank) {
    msi_call_begin("mst_suppress_output", NULL, rank);
    if (rank < 0) return msi_fail(MST_ERR_INVALID, "ranks go from 0 up", "rank is %d", rank);
    mst_status st = MST_OK;
    pthread_mutex_lock(&lock);
    last_rank = rank;
    if (rank > 0 && kept < 0) st = suppress();
    pthread_mutex_unlock(&lock);
    return st;
}

mst_status mst_restore_output(void) {
    msi_call_begin("mst_restore_output", NULL, msi_call_get_rank());
    mst_status st = MST_OK;
    pthread_mutex_lock(&lock);
    if (kept >= 0) {
        fflush(stdout);
        if (dup2(kept, STDOUT_FILENO) < 0) st = msi_fail_errno(errno, "cannot restore standard output");
        if (st == MST_OK && kept_flags >= 0) fcntl(STDOUT_FILENO, F_SETFD, kept_flags);
        if (st == MST_OK) {
            close(kept);
            kept = -1;
            /* stdio chose its buffering for /dev/null; choose again for the real output. */
            if (undecided && __fbufsize(stdout))
                setvbuf(stdout, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
        }
    }
    pthread_mutex_unlock(&lock);
    return st;
}
