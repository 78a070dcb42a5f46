/*
 * output.c - the pipes and where they lead. See output.h. output_source.c reads them.
 *
 *   rank's stdout  --pipe--> source --+--> sink of stdout
 *                                     +--> log file
 *   rank's stderr  --pipe--> source --+--> sink of stderr (the same sink, if both are one file)
 *                                     +--> log file and tail
 *   agent's stdout --pipe--> source -----> sink of stdout
 *   agent's stderr --pipe--> source -----> sink of stderr
 *
 * A full sink stops every source that is shown: the pipes fill and the ranks block, so memory stays bounded.
 */
#include "run/output/output_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool same_file(int a, int b) {
    struct stat sa, sb;
    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

int output_open(uv_loop_t *loop, const struct output_options *options, struct output **output) {
    struct output *o = calloc(1, sizeof *o);
    if (!o) return -ENOMEM;
    o->n_ranks = options->n * OUTPUT_STREAMS;
    o->n_all = o->n_ranks + options->agents * OUTPUT_STREAMS;
    o->sources = calloc((size_t)o->n_all, sizeof o->sources[0]);
    if (!o->sources) {
        free(o);
        return -ENOMEM;
    }
    for (int i = 0; i < o->n_all; i++) o->sources[i].fd = -1;
    o->loop = loop;
    o->options = *options;
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        o->coloured[i] = options->colours < 0 ? output_may_colour(i) : (options->colours >> i & 1) != 0;
    sink_open(&o->sinks[OUTPUT_STDOUT], o, STDOUT_FILENO);
    o->sink_of[OUTPUT_STDOUT] = o->sink_of[OUTPUT_STDERR] = &o->sinks[OUTPUT_STDOUT];
    if (!same_file(STDOUT_FILENO, STDERR_FILENO)) {
        sink_open(&o->sinks[OUTPUT_STDERR], o, STDERR_FILENO);
        o->sink_of[OUTPUT_STDERR] = &o->sinks[OUTPUT_STDERR];
    }
    *output = o;
    return 0;
}

void output_close(struct output *o) {
    for (int i = 0; i < o->n_all; i++) source_close(&o->sources[i]);
    sink_close(&o->sinks[OUTPUT_STDOUT]);
    sink_close(&o->sinks[OUTPUT_STDERR]);
}

void output_free(struct output *o) {
    if (!o) return;
    for (int i = 0; i < o->n_all; i++) {
        msi_buf_free(&o->sources[i].partial);
        free(o->sources[i].tail);
    }
    free(o->sources);
    free(o);
}

void output_sink_changed(struct output *o) {
    int error = o->sink_of[OUTPUT_STDOUT]->broken;
    if (error == 0) error = o->sink_of[OUTPUT_STDERR]->broken;
    if (error != 0 && !o->reported_broken) {
        o->reported_broken = true;
        o->options.events.on_broken(o->options.events.arg, error);
    }
    for (int i = 0; i < o->n_all; i++) {
        if (o->sources[i].finishing)
            source_pump(&o->sources[i]);
        else
            source_resume(&o->sources[i]);
    }
    if (o->finishing && output_idle(o)) o->options.events.on_idle(o->options.events.arg);
}

bool output_may_colour(enum output_stream stream) {
    const char *off = getenv("NO_COLOR"), *term = getenv("TERM");
    if ((off && off[0]) || (term && !strcmp(term, "dumb"))) return false;
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
    s->route = routes_of(o->options.routes, index, (int)stream);
    set_prefix(s, rank, stream);
    if (stream == OUTPUT_STDERR && !s->tail) s->tail = malloc(OUTPUT_TAIL);
    s->tail_bytes = 0;
    source_resume(s);
    return 0;
}

int output_attach_agent(struct output *o, int agent, enum output_stream stream, int fd, struct msi_str data) {
    struct source *s = &o->sources[o->n_ranks + agent * OUTPUT_STREAMS + (int)stream];
    int rc = attach(o, s, stream, fd);
    if (rc != 0) return rc;
    s->route = ROUTE_SHOWN;
    s->of_agent = true;
    source_resume(s);
    source_feed(s, data.p, data.n);
    sink_push(s->sink);
    return 0;
}

void output_catch_up(struct output *o, int index) {
    for (int i = 0; i < OUTPUT_STREAMS; i++) source_catch_up(&o->sources[index * OUTPUT_STREAMS + i]);
}

void output_finish(struct output *o, bool agents) {
    int end = agents ? o->n_all : o->n_ranks;
    o->finishing = true;
    for (int i = agents ? o->n_ranks : 0; i < end; i++) source_finish(&o->sources[i]);
}

void output_detach(struct output *o) {
    for (int i = 0; i < o->n_ranks / OUTPUT_STREAMS; i++) output_detach_rank(o, i);
}

void output_detach_rank(struct output *o, int index) {
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        struct source *s = &o->sources[index * OUTPUT_STREAMS + i];
        source_finish(s);
        source_close(s);
        s->finishing = false;
        s->partial.len = 0;
    }
}

void output_begin(struct output *o, int highest_rank) {
    o->finishing = false;
    o->rank_width = snprintf(NULL, 0, "%d", highest_rank);
    for (int i = 0; i < o->n_ranks; i++) {
        o->sources[i].finishing = false;
        o->sources[i].partial.len = 0;
    }
}

bool output_behind(const struct output *o) {
    return !sink_empty(o->sink_of[OUTPUT_STDOUT]) || !sink_empty(o->sink_of[OUTPUT_STDERR]);
}

bool output_idle(const struct output *o) {
    for (int i = 0; i < o->n_all; i++)
        if (o->sources[i].fd >= 0 && (i < o->n_ranks || o->sources[i].finishing)) return false;
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

void output_line(struct output *o, const char *format, ...) {
    char text[2048] = "muster run: ";
    size_t len = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + len, sizeof text - len - 1, format, args);
    va_end(args);
    output_say(o, strcat(text, "\n"));
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
    if (!s->tail) return 0;
    for (size_t i = 0; i < len; i++) tail[i] = s->tail[(s->tail_bytes - len + i) % OUTPUT_TAIL];
    return len;
}
