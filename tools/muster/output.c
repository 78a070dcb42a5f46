/*
 * output.c - reads the ranks' pipes and writes whole lines; see output.h.
 *
 *   rank's stdout --pipe--> source --+--> sink of stdout
 *   rank's stderr --pipe--> source --+--> sink of stderr (the same sink, if both are one file)
 *   guest's ditto --pipe--> source --+--> log file
 *
 * A full sink stops every source that is shown: the pipes fill and the ranks wait, so memory stays bounded.
 */
#include "output.h"

#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_SIZE = 64 * 1024, PREFIX_MAX = 24, GUEST_PIECE = OUTPUT_PIECE + PREFIX_MAX };
_Static_assert(SINK_FULL_AT + READ_SIZE * (PREFIX_MAX + 2) + GUEST_PIECE + OUTPUT_TAIL <= SINK_CAPACITY,
               "what one read becomes must fit behind a sink that is almost full");

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

static void on_sink_change(void *arg);

static bool same_file(int a, int b) {
    struct stat sa, sb;
    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

int output_open(uv_loop_t *loop, const struct output_options *options, struct output **output) {
    struct output *o = calloc(1, sizeof *o);
    int rc = -ENOMEM;

    if (o == NULL) return rc;
    o->n_own = options->n * OUTPUT_STREAMS;
    o->n_all = o->n_own + options->guests * OUTPUT_STREAMS;
    o->sources = calloc((size_t)o->n_all, sizeof o->sources[0]);
    if (o->sources == NULL) goto free_output;
    for (int i = 0; i < o->n_all; i++) o->sources[i].fd = -1;
    o->loop = loop;
    o->events = options->events;
    o->routes = options->routes;
    o->logs = options->logs;
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        o->coloured[i] = options->colours < 0 ? output_may_colour(i) : (options->colours >> i & 1) != 0;
    rc = sink_open(&o->sinks[OUTPUT_STDOUT], loop, STDOUT_FILENO, on_sink_change, o);
    if (rc != 0) goto free_sources;
    o->sink_of[OUTPUT_STDOUT] = o->sink_of[OUTPUT_STDERR] = &o->sinks[OUTPUT_STDOUT];
    if (!same_file(STDOUT_FILENO, STDERR_FILENO)) {
        rc = sink_open(&o->sinks[OUTPUT_STDERR], loop, STDERR_FILENO, on_sink_change, o);
        if (rc != 0) goto close_stdout;
        o->sink_of[OUTPUT_STDERR] = &o->sinks[OUTPUT_STDERR];
    }
    *output = o;
    return 0;

close_stdout:
    sink_close(&o->sinks[OUTPUT_STDOUT]);
free_sources:
    free(o->sources);
free_output:
    free(o);
    return rc;
}

static void source_close(struct source *s) {
    if (s->fd < 0) return;
    uv_close((uv_handle_t *)&s->poll, NULL);
    close(s->fd);
    s->fd = -1;
    s->reading = false;
}

void output_close(struct output *o) {
    for (int i = 0; i < o->n_all; i++) source_close(&o->sources[i]);
    sink_close(&o->sinks[OUTPUT_STDOUT]);
    sink_close(&o->sinks[OUTPUT_STDERR]);
}

void output_free(struct output *o) {
    if (o == NULL) return;
    for (int i = 0; i < o->n_all; i++) {
        free(o->sources[i].partial);
        free(o->sources[i].tail);
    }
    free(o->sources);
    free(o);
}

static void emit_line(struct source *s, const char *end, size_t len) {
    sink_put(s->sink, s->prefix, s->prefix_len);
    sink_put(s->sink, s->partial, s->partial_len);
    sink_put(s->sink, end, len);
    sink_put(s->sink, "\n", 1);
    s->partial_len = 0;
}

/* Remembers the beginning of a line; without memory for that, lets it go as a line. */
static void keep_partial(struct source *s, const char *data, size_t len) {
    size_t need = s->partial_len + len;

    if (need > s->partial_cap) {
        size_t cap = need < 512 ? 1024 : need * 2;
        char *grown = realloc(s->partial, cap);
        if (grown == NULL) {
            emit_line(s, data, len);
            return;
        }
        s->partial = grown;
        s->partial_cap = cap;
    }
    memcpy(s->partial + s->partial_len, data, len);
    s->partial_len = need;
}

static void keep_tail(struct source *s, const char *data, size_t len) {
    if (s->tail == NULL) return;
    if (len > OUTPUT_TAIL) {
        s->tail_bytes += len - OUTPUT_TAIL;
        data += len - OUTPUT_TAIL;
        len = OUTPUT_TAIL;
    }
    size_t at = s->tail_bytes % OUTPUT_TAIL;
    size_t first = len < OUTPUT_TAIL - at ? len : OUTPUT_TAIL - at;
    memcpy(s->tail + at, data, first);
    memcpy(s->tail, data + first, len - first);
    s->tail_bytes += len;
}

static void keep_log(const struct source *s, const char *data, size_t len) {
    struct output *o = s->output;
    int at = (int)(s - o->sources);

    if ((s->route & ROUTE_LOGGED) == 0) return;
    int error = logs_write(o->logs, at / OUTPUT_STREAMS, at % OUTPUT_STREAMS, data, len);
    if (error != 0) o->events.on_lost(o->events.arg, error);
}

static void feed(struct source *s, const char *data, size_t len) {
    keep_tail(s, data, len);
    keep_log(s, data, len);
    if ((s->route & ROUTE_SHOWN) == 0) return;
    if (s->raw) {
        sink_put(s->sink, data, len);
        return;
    }
    while (len > 0) {
        const char *newline = memchr(data, '\n', len);
        size_t text = newline != NULL ? (size_t)(newline - data) : len;
        size_t used = text + (newline != NULL);

        if (s->partial_len + text > s->piece) {
            used = s->piece - s->partial_len;
            emit_line(s, data, used);
        } else if (newline != NULL) {
            emit_line(s, data, text);
        } else {
            keep_partial(s, data, text);
        }
        data += used;
        len -= used;
    }
}

/* Reads once. False when the source has nothing more to give now, or at all: then it is closed. */
static bool read_once(struct source *s) {
    struct output *o = s->output;
    size_t want = s->finishing && s->left < READ_SIZE ? s->left : READ_SIZE;
    ssize_t n = want > 0 ? read(s->fd, o->buffer, want) : 0;

    if (n > 0) {
        feed(s, o->buffer, (size_t)n);
        s->left -= s->finishing ? (size_t)n : 0;
        return true;
    }
    if (n < 0 && errno == EINTR) return true;
    if (n < 0 && errno == EAGAIN && !s->finishing) return false;
    if (s->partial_len > 0) emit_line(s, "", 0);
    source_close(s);
    return false;
}

static bool must_wait(const struct source *s) {
    return (s->route & ROUTE_SHOWN) != 0 && sink_full(s->sink);
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    struct source *s = poll->data;

    (void)status;
    (void)events;
    read_once(s);
    sink_push(s->sink);
    if (s->fd >= 0 && must_wait(s)) {
        uv_poll_stop(poll);
        s->reading = false;
    }
}

static void resume(struct source *s) {
    if (s->fd < 0 || s->reading || must_wait(s)) return;
    s->reading = uv_poll_start(&s->poll, UV_READABLE, on_readable) == 0;
}

/* Reads all that is there while the sink takes it. */
static void pump(struct source *s) {
    bool more = true;
    while (more && s->fd >= 0 && !must_wait(s)) {
        more = read_once(s);
        sink_push(s->sink);
    }
}

static void on_sink_change(void *arg) {
    struct output *o = arg;

    int error = o->sink_of[OUTPUT_STDOUT]->broken;
    if (error == 0) error = o->sink_of[OUTPUT_STDERR]->broken;
    if (error != 0 && !o->told_broken) {
        o->told_broken = true;
        o->events.on_broken(o->events.arg, error);
    }
    for (int i = 0; i < o->n_all; i++) {
        if (o->sources[i].finishing)
            pump(&o->sources[i]);
        else
            resume(&o->sources[i]);
    }
    if (o->finishing && output_idle(o)) o->events.on_idle(o->events.arg);
}

bool output_may_colour(enum output_stream stream) {
    const char *off = getenv("NO_COLOR"), *term = getenv("TERM");
    if ((off != NULL && off[0] != '\0') || (term != NULL && strcmp(term, "dumb") == 0)) return false;
    return isatty(stream == OUTPUT_STDOUT ? STDOUT_FILENO : STDERR_FILENO);
}

static void set_prefix(struct source *s, int rank, enum output_stream stream) {
    static const int colours[] = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
    enum { N_COLOURS = sizeof colours / sizeof colours[0] };
    int width = s->output->rank_width, n;

    if (s->output->coloured[stream])
        n = snprintf(s->prefix, sizeof s->prefix, "\033[%dm[%*d]\033[0m ", colours[rank % N_COLOURS], width,
                     rank);
    else
        n = snprintf(s->prefix, sizeof s->prefix, "[%*d] ", width, rank);
    s->prefix_len = (size_t)n;
}

static int attach(struct output *o, struct source *s, enum output_stream stream, int fd) {
    int rc = uv_poll_init(o->loop, &s->poll, fd);

    if (rc != 0) {
        close(fd);
        return rc;
    }
    s->poll.data = s;
    s->output = o;
    s->sink = o->sink_of[stream];
    s->fd = fd;
    return 0;
}

int output_attach(struct output *o, int index, int rank, enum output_stream stream, int fd) {
    struct source *s = &o->sources[index * OUTPUT_STREAMS + (int)stream];
    int rc = attach(o, s, stream, fd);

    if (rc != 0) return rc;
    s->route = routes_of(o->routes, index, (int)stream);
    s->piece = OUTPUT_PIECE;
    set_prefix(s, rank, stream);
    if (stream == OUTPUT_STDERR && s->tail == NULL) s->tail = malloc(OUTPUT_TAIL);
    s->tail_bytes = 0;
    resume(s);
    return 0;
}

int output_attach_guest(struct output *o, int guest, enum output_stream stream, int fd, bool raw) {
    struct source *s = &o->sources[o->n_own + guest * OUTPUT_STREAMS + (int)stream];
    int rc = attach(o, s, stream, fd);

    if (rc != 0) return rc;
    s->route = ROUTE_SHOWN;
    s->piece = GUEST_PIECE;
    s->raw = raw;
    resume(s);
    return 0;
}

void output_guest_says(struct output *o, int guest, enum output_stream stream, const char *data, size_t len) {
    struct source *s = &o->sources[o->n_own + guest * OUTPUT_STREAMS + (int)stream];

    feed(s, data, len);
    sink_push(s->sink);
}

void output_catch_up(struct output *o, int index) {
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        struct source *s = &o->sources[index * OUTPUT_STREAMS + i];
        int waiting = 0;

        if (s->fd < 0 || ioctl(s->fd, FIONREAD, &waiting) != 0) continue;
        for (int got = 0; got < waiting && s->fd >= 0 && !must_wait(s); got += READ_SIZE) {
            read_once(s);
            sink_push(s->sink);
        }
    }
}

static void finish(struct source *s) {
    int waiting = 0;

    s->finishing = true;
    if (s->fd < 0) return;
    if (s->reading) uv_poll_stop(&s->poll);
    s->reading = false;
    s->left = ioctl(s->fd, FIONREAD, &waiting) == 0 && waiting > 0 ? (size_t)waiting : 0;
    pump(s);
}

void output_finish(struct output *o) {
    o->finishing = true;
    for (int i = 0; i < o->n_own; i++) finish(&o->sources[i]);
}

void output_finish_guests(struct output *o) {
    o->finishing = true;
    for (int i = o->n_own; i < o->n_all; i++) finish(&o->sources[i]);
}

void output_begin(struct output *o, int highest_rank) {
    o->finishing = false;
    o->rank_width = snprintf(NULL, 0, "%d", highest_rank);
    for (int i = 0; i < o->n_own; i++) {
        o->sources[i].finishing = false;
        o->sources[i].partial_len = 0;
    }
}

bool output_behind(const struct output *o) {
    return !sink_empty(o->sink_of[OUTPUT_STDOUT]) || !sink_empty(o->sink_of[OUTPUT_STDERR]);
}

bool output_idle(const struct output *o) {
    for (int i = 0; i < o->n_all; i++)
        if (o->sources[i].fd >= 0 && (i < o->n_own || o->sources[i].finishing)) return false;
    return !output_behind(o);
}

void output_abandon(struct output *o) {
    for (int i = 0; i < o->n_all; i++) source_close(&o->sources[i]);
    for (int i = 0; i < OUTPUT_STREAMS; i++) o->sinks[i].start = o->sinks[i].end = 0;
}

void output_say(struct output *o, const char *text) {
    sink_put(o->sink_of[OUTPUT_STDERR], text, strlen(text));
    sink_push(o->sink_of[OUTPUT_STDERR]);
}

void output_status(struct output *o, const char *text) {
    struct winsize size;
    char row[1024];
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;

    snprintf(row, (size_t)width < sizeof row ? (size_t)width : sizeof row, "%s", text);
    sink_status(o->sink_of[OUTPUT_STDERR], row);
    sink_push(o->sink_of[OUTPUT_STDERR]);
}

size_t output_tail(const struct output *o, int index, char *tail) {
    const struct source *s = &o->sources[index * OUTPUT_STREAMS + OUTPUT_STDERR];
    size_t len = s->tail_bytes < OUTPUT_TAIL ? s->tail_bytes : OUTPUT_TAIL;

    if (s->tail == NULL) return 0;
    for (size_t i = 0; i < len; i++) tail[i] = s->tail[(s->tail_bytes - len + i) % OUTPUT_TAIL];
    return len;
}
