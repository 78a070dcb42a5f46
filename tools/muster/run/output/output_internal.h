/* output_internal.h - shared by output.c and output_source.c only. */
#ifndef MUSTER_TOOL_RUN_OUTPUT_OUTPUT_INTERNAL_H
#define MUSTER_TOOL_RUN_OUTPUT_OUTPUT_INTERNAL_H

#include "base/buf.h"
#include "run/output/output.h"
#include "run/output/sink.h"

enum { READ_SIZE = 64 * 1024, PREFIX_MAX = 24, AGENT_PIECE = OUTPUT_PIECE + PREFIX_MAX };
_Static_assert(SINK_FULL_AT + READ_SIZE * (PREFIX_MAX + 2) + AGENT_PIECE + OUTPUT_TAIL <= SINK_CAPACITY,
               "the lines of one read must fit into an almost full sink");

/* A pipe from a rank or an agent. */
struct source {
    uv_poll_t poll;
    struct output *output;
    struct sink *sink;
    unsigned route;
    int fd;                 /* -1: closed */
    bool reading;           /* poll is active */
    bool finishing;         /* only what is in the pipe now is read ... */
    size_t left;            /* ... of which these bytes are left */
    size_t piece;           /* the longest line */
    bool raw;               /* forward bytes instead of lines */
    struct msi_buf partial; /* a line that has not ended yet */
    char *tail;             /* a ring of the last OUTPUT_TAIL bytes, or NULL */
    size_t tail_bytes;      /* how many were written to the ring */
    char prefix[PREFIX_MAX];
    size_t prefix_len;
};

struct output {
    uv_loop_t *loop;
    struct output_events events;
    const struct routes *routes;
    struct logs *logs;
    struct sink sinks[OUTPUT_STREAMS];
    struct sink *sink_of[OUTPUT_STREAMS];
    struct source *sources; /* those of the ranks, then those of the agents */
    int n_ranks, n_all;     /* sources */
    int rank_width;
    bool coloured[OUTPUT_STREAMS];
    bool finishing, reported_broken;
    char buffer[READ_SIZE];
};

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
