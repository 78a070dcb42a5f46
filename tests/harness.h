/*
 * harness.h - what the cmocka tests share: the clock, standard error caught in a file, processes and threads
 * that a test starts and must see ended. Include it first: cmocka wants these headers before its own.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "os/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOIN_LIMIT_S = 60 };

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* A call that must succeed; says the library's own words where it does not. */
#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        mst_status status_ = (call);                                                                         \
        if (status_ != MST_OK) print_error("%s\n", mst_error());                                             \
        assert_string_equal(mst_status_name(status_), "MST_OK");                                             \
    } while (0)

#define assert_status(call, wanted) assert_string_equal(mst_status_name(call), mst_status_name(wanted))

#define assert_contains(text, part)                                                                          \
    do {                                                                                                     \
        const char *text_ = (text);                                                                          \
        if (!strstr(text_, part)) fail_msg("'%s' does not contain '%s'", text_, part);                       \
    } while (0)

static inline int64_t ms_since(int64_t begin) {
    return (msi_now() - begin) / 1000000;
}

static inline pthread_t start_thread(void *(*body)(void *), void *context) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, body, context), 0);
    return thread;
}

/* Fails instead of hanging if the thread does not end. */
static inline void *join_thread(pthread_t thread) {
    struct timespec limit;
    void *result = NULL;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += JOIN_LIMIT_S;
    assert_int_equal(pthread_timedjoin_np(thread, &result, &limit), 0);
    return result;
}

/* Standard error, sent to a file from begin_stderr to end_stderr. */
struct caught_stderr {
    int saved, file;
};

static inline struct caught_stderr begin_stderr(void) {
    char path[] = "/tmp/muster-stderr-XXXXXX";
    struct caught_stderr caught = {dup(STDERR_FILENO), mkstemp(path)};
    assert_true(caught.saved >= 0 && caught.file >= 0);
    unlink(path);
    fflush(stderr);
    dup2(caught.file, STDERR_FILENO);
    return caught;
}

/* Gives standard error back; what was written, to be freed. */
static inline char *end_stderr(struct caught_stderr caught) {
    fflush(stderr);
    dup2(caught.saved, STDERR_FILENO);
    close(caught.saved);
    off_t size = lseek(caught.file, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(caught.file, text, (size_t)size, 0), size);
    close(caught.file);
    return text;
}

static inline int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

/* Runs body in a process of its own, which must end well, and returns its standard error, to be freed. */
static inline char *in_child(void (*body)(void *context), void *context) {
    struct caught_stderr caught = begin_stderr();
    pid_t pid = fork();
    if (pid == 0) {
        alarm(JOIN_LIMIT_S);
        body(context);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    char *text = end_stderr(caught);
    if (status != 0) print_error("%s\n", text);
    assert_int_equal(status, 0);
    return text;
}

#endif
