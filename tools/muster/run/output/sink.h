/*
 * sink.h - one of the launcher's own outputs, written without ever blocking the loop where that is possible.
 *
 * Text goes into a buffer and from there to the descriptor, in as few writes as it takes. A reader that is
 * slow makes the sink full; whoever fills it then stops until it is drained. The loop's thread alone uses it.
 */
#ifndef MUSTER_TOOL_RUN_OUTPUT_SINK_H
#define MUSTER_TOOL_RUN_OUTPUT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

enum {
    SINK_FULL_AT = 256 * 1024,       /* stop filling here ... */
    SINK_CAPACITY = 2 * 1024 * 1024, /* ... so that whatever was being formatted still fits */
};

struct sink {
    int fd;
    bool own_fd;    /* fd is a second, non-blocking opening of the descriptor that was given */
    bool may_poll;  /* poll is a live handle */
    int broken;     /* why nobody reads any more (errno): what is put in is thrown away; else 0 */
    uv_poll_t poll; /* active while the descriptor takes no more */
    char *data;     /* SINK_CAPACITY bytes, of which [start, end) are waiting */
    size_t start, end;
    bool status_shown; /* the terminal shows a line that is taken back before anything else is put */
    void (*on_change)(void *arg); /* drained below full, or broken */
    void *arg;
};

/* Opens a sink over fd, which stays the caller's. 0, or a negative errno. */
int sink_open(struct sink *sink, uv_loop_t *loop, int fd, void (*on_change)(void *), void *arg);

/* Stops using the loop and frees what the sink holds; run the loop once more before its memory goes. */
void sink_close(struct sink *sink);

void sink_put(struct sink *sink, const char *data, size_t len);

/* A terminal shows this line, without a newline, until anything else is put; "" takes it back. It fits into a row. */
void sink_status(struct sink *sink, const char *text);

/* Writes what is waiting, as far as the descriptor takes it now; the loop sees to the rest. */
void sink_push(struct sink *sink);

bool sink_full(const struct sink *sink);
bool sink_empty(const struct sink *sink);

#endif
