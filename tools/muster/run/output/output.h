/*
 * output.h - what the ranks print, gathered line by line onto the launcher's stdout and stderr, and into files
 * as it comes.
 *
 * Every line gets its rank in front, in a colour of its own on a terminal, and is written in one piece, whoever else
 * prints at the time. A line longer than OUTPUT_PIECE is broken there; a last line without its newline gets one. The last
 * lines of each rank's stderr are remembered for the report of a failure.
 *
 * Guests are agents on other hosts: what they send is the output of their ranks, which has its ranks in front already, so
 * it is passed on line by line, shown and not logged. They stay over restarts. All of it runs on the loop's thread.
 */
#ifndef MUSTER_TOOL_RUN_OUTPUT_OUTPUT_H
#define MUSTER_TOOL_RUN_OUTPUT_OUTPUT_H

#include "run/output/logs.h"
#include "run/output/routes.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

enum { OUTPUT_PIECE = 64 * 1024, OUTPUT_TAIL = 4096 };

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_STREAMS };

struct output;

/* What the output tells its owner, on the loop's thread. */
struct output_events {
    void (*on_idle)(void *arg);              /* after output_finish: everything was read and written */
    void (*on_broken)(void *arg, int error); /* our stdout or stderr takes nothing any more */
    void (*on_lost)(void *arg, int error);   /* a log file takes nothing any more; said once */
    void *arg;
};

struct output_options {
    int n;      /* ranks */
    int guests; /* agents on other hosts */
    int colours; /* of the ranks, 1: on stdout, 2: on stderr, 3: on both, 0: on neither; -1: where it is a terminal */
    const struct routes *routes; /* NULL: everything is shown */
    struct logs *logs;           /* NULL where the routes lead to none */
    struct output_events events;
};

/* Is the stream a terminal that takes colours? See no-color.org. */
bool output_may_colour(enum output_stream stream);

/* Makes an output. options is copied, what it points to is borrowed. 0, or a negative errno. */
int output_open(uv_loop_t *loop, const struct output_options *options, struct output **output);

/* Run the loop until its handles are closed between output_close and output_free. */
void output_close(struct output *output);
void output_free(struct output *output);

/*
 * Reads fd, a pipe, as stream of the rank that has this index and number. The fd is the output's from then
 * on, also on failure. 0, or a negative errno.
 */
int output_attach(struct output *output, int index, int rank, enum output_stream stream, int fd);

/* The same for a stream of a guest, numbered from 0; raw: as bytes, without regard to lines. */
int output_attach_guest(struct output *output, int guest, enum output_stream stream, int fd, bool raw);

/* What came from a guest before its stream was attached; to be called right after that. */
void output_guest_says(struct output *output, int guest, enum output_stream stream, const char *data,
                       size_t len);

/* Takes in, now, what one rank has written so far. */
void output_catch_up(struct output *output, int index);

/* Takes in what is still in the ranks' or the guests' pipes and closes them, even if some stranger holds the other end open. */
void output_finish(struct output *output);
void output_finish_guests(struct output *output);

/* Before the pipes of a generation are attached; behind another, once idle and the loop has let go of the handles. */
void output_begin(struct output *output, int highest_rank);

/* Our own reader has not taken all that was written yet. */
bool output_behind(const struct output *output);

/* Nothing is left to be written. */
bool output_idle(const struct output *output);

/* Throws away what is waiting to be written. */
void output_abandon(struct output *output);

/* Writes text of the launcher's own to stderr, in order with what the ranks wrote. */
void output_say(struct output *output, const char *text);

/* Shows a line on the terminal behind stderr, cut to its width, until anything else is written; "" takes it back. */
void output_status(struct output *output, const char *text);

/* Copies the last bytes of the rank's stderr to tail, OUTPUT_TAIL at most, and returns how many. */
size_t output_tail(const struct output *output, int index, char *tail);

#endif
