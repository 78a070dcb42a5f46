/* output_internal.h - what the two halves of the output share; nobody else includes it. */
#ifndef MUSTER_TOOL_RUN_OUTPUT_OUTPUT_INTERNAL_H
#define MUSTER_TOOL_RUN_OUTPUT_OUTPUT_INTERNAL_H

#include "run/output/output.h"
#include "run/output/sink.h"

enum { READ_SIZE = 64 * 1024, PREFIX_MAX = 24, GUEST_PIECE = OUTPUT_PIECE + PREFIX_MAX };
_Static_assert(SINK_FULL_AT + READ_SIZE * (PREFIX_MAX + 2) + GUEST_PIECE + OUTPUT_TAIL <= SINK_CAPACITY,
               "what one read becomes must fit behind a sink that is almost full");

/* A pipe that is read, line by line unless it is raw. */
struct source {
    uv_poll_t poll;
    struct output *output;
    struct sink *sink;
    unsigned route;
    int fd;         /* -1: closed */
    bool reading;   /* poll is active */
    bool finishing; /* what is in the pipe is all that counts ... */
    size_t left;    /* ... and these bytes are still to be read */
    size_t piece;   /* the longest line */
    bool raw;       /* bytes, not lines */
    char *partial;  /* a line that has not ended yet */
    size_t partial_len, partial_cap;
    char *tail;        /* the last OUTPUT_TAIL bytes as a ring; NULL where none is kept */
    size_t tail_bytes; /* how many went through the ring */
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
    struct source *sources; /* those of the ranks, then those of the guests */
    int n_own, n_all;
    int rank_width;
    bool coloured[OUTPUT_STREAMS];
    bool finishing, told_broken;
    char buffer[READ_SIZE];
};

/* output_source.c: what has come goes to the log and, as far as it is shown, to the sink. */
void source_feed(struct source *source, const char *data, size_t len);
/* Goes on reading, unless the sink is full. */
void source_resume(struct source *source);
/* Reads all that is there while the sink takes it. */
void source_pump(struct source *source);
/* Reads now what is in the pipe, as far as the sink takes it, and not what comes behind. */
void source_catch_up(struct source *source);
/* The same, and closes it as soon as that was read. */
void source_finish(struct source *source);
void source_close(struct source *source);

#endif
