/*
 * output.h - forwards what the ranks print, line by line, to the launcher's stdout and stderr, and byte for
 * byte to files.
 *
 * Each line gets its rank as a prefix, coloured on a terminal, and is written in one piece. A line longer
 * than OUTPUT_PIECE is broken there; a last line without a newline gets one. The last lines of each rank's
 * stderr are kept for failure reports.
 *
 * Agents are launchers on other hosts. Their output already has the prefixes of their ranks, so it is shown
 * line by line and not logged. Agents survive restarts. The loop's thread runs all of it.
 */
#ifndef MUSTER_TOOL_RUN_OUTPUT_OUTPUT_H
#define MUSTER_TOOL_RUN_OUTPUT_OUTPUT_H

#include "base/str.h"
#include "run/output/logs.h"
#include "run/output/routes.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

enum { OUTPUT_PIECE = 64 * 1024, OUTPUT_TAIL = 4096 };

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_STREAMS };

struct output;

/* Callbacks to the owner. */
struct output_events {
    void (*on_idle)(void *arg);              /* after output_finish: all output has been read and written */
    void (*on_broken)(void *arg, int error); /* writing to our stdout or stderr failed */
    void (*on_lost)(void *arg, int error);   /* writing to a log file failed; called once */
    void *arg;
};

struct output_options {
    int n;       /* ranks */
    int agents;  /* on other hosts */
    int colours; /* of the prefixes: bit 0 on stdout, bit 1 on stderr; -1: on terminals */
    const struct routes *routes;
    struct logs *logs; /* NULL if nothing is logged */
    bool raw;          /* forward the bytes of agents, not lines; ranks write to our output */
    struct output_events events;
};

/* Is the stream a terminal that shows colours? Respects NO_COLOR, see no-color.org. */
bool output_may_colour(enum output_stream stream);

/* options is copied; what it points to is borrowed. 0, or a negative errno. */
int output_open(uv_loop_t *loop, const struct output_options *options, struct output **output);

/* Run the loop between output_close and output_free until the handles are closed. */
void output_close(struct output *output);
void output_free(struct output *output);

/*
 * Reads a pipe as a stream of a rank; index is its local rank. The output owns fd from then on, even on
 * failure. 0, or a negative errno.
 */
int output_attach(struct output *output, int index, int rank, enum output_stream stream, int fd);

/* The same for an agent, numbered from 0. data is what was read from the pipe before. */
int output_attach_agent(struct output *output, int agent, enum output_stream stream, int fd,
                        struct msi_str data);

/* Reads what one rank has written so far. */
void output_catch_up(struct output *output, int index);

/*
 * Reads what is left in the pipes of the ranks, or of the agents instead, then closes them, even if other
 * processes hold them open.
 */
void output_finish(struct output *output, bool agents);

/* Closes the pipes of the ranks at once. What the sinks cannot take is lost. */
void output_detach(struct output *output);
/* The same for one rank, whose replacement is attached once the loop has closed the handles. */
void output_detach_rank(struct output *output, int index);

/*
 * Call it before attaching the pipes of a generation. If there was one before, the output must be idle and
 * the loop must have closed its handles.
 */
void output_begin(struct output *output, int highest_rank);

/* Is text waiting until the reader of our stdout or stderr takes more? */
bool output_behind(const struct output *output);

/* Has all output been read and written? */
bool output_idle(const struct output *output);

/* Discards what has not been written. */
void output_abandon(struct output *output);

/* Writes text of the launcher to stderr, in order with the output of the ranks. */
void output_say(struct output *output, const char *text);
/* The same for one line, which "muster run: " begins; format has no newline. */
void output_line(struct output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Shows a line on the terminal of stderr, cut to its width, until other text is written; "" erases it. */
void output_status(struct output *output, const char *text);

/* Copies the last bytes of a rank's stderr, OUTPUT_TAIL at most; returns how many. */
size_t output_tail(const struct output *output, int index, char *tail);

#endif
