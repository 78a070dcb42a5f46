/*
 * sink.h - one of the launcher's own outputs, stdout or stderr, written without blocking the loop if
 * possible.
 *
 * Text goes into a buffer and from there to the descriptor, in as few writes as possible. A slow reader makes
 * the sink full; its sources then stop reading until it is drained. The loop's thread uses it.
 */
#ifndef MUSTER_TOOL_RUN_OUTPUT_SINK_H
#define MUSTER_TOOL_RUN_OUTPUT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

enum {
    SINK_FULL_AT = 256 * 1024,       /* the sources stop here ... */
    SINK_CAPACITY = 2 * 1024 * 1024, /* ... so that the lines of the last read still fit */
};

struct sink {
    int fd;
    bool own_fd;    /* fd was reopened in non-blocking mode */
    bool may_poll;  /* poll is initialized */
    int broken;     /* errno of a failed write, after which text is discarded; else 0 */
    uv_poll_t poll; /* active while the descriptor is full */
    char *data;     /* SINK_CAPACITY bytes, of which [start, end) are waiting */
    size_t start, end;
    bool status_shown;            /* a status line is on the terminal, to be erased before other text */
    void (*on_change)(void *arg); /* drained below full, or broken */
    void *arg;
};

/* The caller keeps fd open. 0, or a negative errno. */
int sink_open(struct sink *sink, uv_loop_t *loop, int fd, void (*on_change)(void *), void *arg);

/* Closes the handle and frees the buffer. Run the loop once more before freeing the sink. */
void sink_close(struct sink *sink);

void sink_put(struct sink *sink, const char *data, size_t len);

/* Shows a line that fits into a row, without a newline, until other text is put; "" erases it. */
void sink_status(struct sink *sink, const char *text);

/* Writes as much of the buffer as the descriptor takes now; the loop writes the rest later. */
void sink_push(struct sink *sink);

bool sink_full(const struct sink *sink);
bool sink_empty(const struct sink *sink);

#endif
