/* output_internal.h - shared by output.c, output_source.c and sink.c only. */
#ifndef MUSTER_TOOL_RUN_OUTPUT_OUTPUT_INTERNAL_H
#define MUSTER_TOOL_RUN_OUTPUT_OUTPUT_INTERNAL_H

#include "base/buf.h"
#include "run/output/output.h"

/*
 * A sink is one of the launcher's own outputs, stdout or stderr, written without blocking the loop if
 * possible. Text goes into a buffer and from there to the descriptor, in as few writes as possible. A slow
 * reader makes the sink full; its sources then stop reading until it is drained.
 */
enum {
    SINK_FULL_AT = 256 * 1024,       /* the sources stop here ... */
    SINK_CAPACITY = 2 * 1024 * 1024, /* ... so that the lines of the last read still fit */
};

struct sink {
    int fd;
    bool own_fd;              /* fd was reopened in non-blocking mode */
    bool may_poll;            /* poll is initialized: the descriptor was full before */
    int broken;               /* errno of a failed write, after which text is discarded; else 0 */
    uv_poll_t poll;           /* active while the descriptor is full */
    char data[SINK_CAPACITY]; /* of which [start, end) are waiting */
    size_t start, end;
    bool status_shown; /* a status line is on the terminal, to be erased before other text */
    struct output *output;
};

/* Opens a zeroed sink. The caller keeps fd open. */
void sink_open(struct sink *sink, struct output *output, int fd);

/* Run the loop once more before freeing the sink. */
void sink_close(struct sink *sink);

void sink_put(struct sink *sink, const char *data, size_t len);

/* Shows a line that fits into a row, without a newline, until other text is put; "" erases it. */
void sink_status(struct sink *sink, const char *text);

/* Writes as much of the buffer as the descriptor takes now; the loop writes the rest later. */
void sink_push(struct sink *sink);

static inline bool sink_full(const struct sink *sink) {
    return sink->end - sink->start >= SINK_FULL_AT;
}

static inline bool sink_empty(const struct sink *sink) {
    return sink->start == sink->end;
}

enum { READ_SIZE = 64 * 1024, PREFIX_MAX = 24, AGENT_PIECE = OUTPUT_PIECE + PREFIX_MAX };
_Static_assert(SINK_FULL_AT + READ_SIZE * (PREFIX_MAX + 2) + AGENT_PIECE + OUTPUT_TAIL <= SINK_CAPACITY,
               "the lines of one read must fit into an almost full sink");

/* A pipe from a rank or an agent. */
struct source {
    uv_poll_t poll;
    struct output *output;
    struct sink *sink;
    unsigned route;
    int fd;         /* -1: closed */
    bool reading;   /* poll is active */
    bool finishing; /* only what is in the pipe now is read ... */
    size_t left;    /* ... of which these bytes are left */
    bool of_agent;
    struct msi_buf partial; /* a line that has not ended yet */
    char *tail;             /* a ring of the last OUTPUT_TAIL bytes, or NULL */
    size_t tail_bytes;      /* how many were written to the ring */
    char prefix[PREFIX_MAX];
    size_t prefix_len;
};

struct output {
    uv_loop_t *loop;
    struct output_options options;
    struct sink sinks[OUTPUT_STREAMS];
    struct sink *sink_of[OUTPUT_STREAMS];
    struct source *sources; /* those of the ranks, then those of the agents */
    int n_ranks, n_all;     /* how many */
    int rank_width;
    bool coloured[OUTPUT_STREAMS];
    bool finishing, reported_broken;
    char buffer[READ_SIZE];
};

/* output.c: a sink was drained below full, or is broken. */
void output_sink_changed(struct output *output);

/* output_source.c: forwards data to the log and, if it is shown, to the sink. */
void source_feed(struct source *source, const char *data, size_t len);
/* Resumes reading unless the sink is full. */
void source_resume(struct source *source);
/* Reads until the pipe is empty or the sink is full. */
void source_pump(struct source *source);
/* Reads what is in the pipe now, until the sink is full. */
void source_catch_up(struct source *source);
/* The same; then closes the pipe, as soon as all that was read. */
void source_finish(struct source *source);
void source_close(struct source *source);

#endif
