/* output_source.c - reads one pipe, splits its data into lines and forwards them. See output_internal.h. */
#include "run/output/output_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void source_close(struct source *s) {
    if (s->fd < 0) return;
    uv_close((uv_handle_t *)&s->poll, NULL);
    close(s->fd);
    s->fd = -1;
    s->reading = false;
}

static void emit_line(struct source *s, const char *end, size_t len) {
    sink_put(s->sink, s->prefix, s->prefix_len);
    sink_put(s->sink, (const char *)s->partial.data, s->partial.len);
    sink_put(s->sink, end, len);
    sink_put(s->sink, "\n", 1);
    s->partial.len = 0;
}

/* Keeps the beginning of a line; without memory it becomes a line of its own. */
static void keep_partial(struct source *s, const char *data, size_t len) {
    msi_buf_add(&s->partial, data, len);
    if (s->partial.failed) emit_line(s, data, len);
    s->partial.failed = false;
}

static void keep_tail(struct source *s, const char *data, size_t len) {
    if (!s->tail) return;
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
    int error = logs_write(o->options.logs, at / OUTPUT_STREAMS, at % OUTPUT_STREAMS, data, len);
    if (error != 0) o->options.events.on_lost(o->options.events.arg, error);
}

void source_feed(struct source *s, const char *data, size_t len) {
    size_t piece = s->of_agent ? AGENT_PIECE : OUTPUT_PIECE; /* the longest line */
    keep_tail(s, data, len);
    keep_log(s, data, len);
    if ((s->route & ROUTE_SHOWN) == 0) return;
    if (s->of_agent && s->output->options.raw) {
        sink_put(s->sink, data, len);
        return;
    }
    while (len > 0) {
        const char *newline = memchr(data, '\n', len);
        size_t text = newline ? (size_t)(newline - data) : len;
        size_t used = text + (newline != NULL);
        if (s->partial.len + text > piece) {
            used = piece - s->partial.len;
            emit_line(s, data, used);
        } else if (newline) {
            emit_line(s, data, text);
        } else {
            keep_partial(s, data, text);
        }
        data += used;
        len -= used;
    }
}

/* Reads once. False if the pipe is empty, or at its end; then the source is closed. */
static bool read_once(struct source *s) {
    struct output *o = s->output;
    size_t want = s->finishing && s->left < READ_SIZE ? s->left : READ_SIZE;
    ssize_t n = want > 0 ? read(s->fd, o->buffer, want) : 0;
    if (n > 0) {
        source_feed(s, o->buffer, (size_t)n);
        s->left -= s->finishing ? (size_t)n : 0;
        return true;
    }
    if (n < 0 && errno == EINTR) return true;
    if (n < 0 && errno == EAGAIN && !s->finishing) return false;
    if (s->partial.len > 0) emit_line(s, "", 0);
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

void source_resume(struct source *s) {
    if (s->fd < 0 || s->reading || must_wait(s)) return;
    s->reading = uv_poll_start(&s->poll, UV_READABLE, on_readable) == 0;
}

void source_pump(struct source *s) {
    bool more = true;
    while (more && s->fd >= 0 && !must_wait(s)) {
        more = read_once(s);
        sink_push(s->sink);
    }
}

void source_catch_up(struct source *s) {
    int waiting = 0;
    if (s->fd < 0 || ioctl(s->fd, FIONREAD, &waiting) != 0) return;
    for (int got = 0; got < waiting && s->fd >= 0 && !must_wait(s); got += READ_SIZE) {
        read_once(s);
        sink_push(s->sink);
    }
}

void source_finish(struct source *s) {
    int waiting = 0;
    s->finishing = true;
    if (s->fd < 0) return;
    if (s->reading) uv_poll_stop(&s->poll);
    s->reading = false;
    s->left = ioctl(s->fd, FIONREAD, &waiting) == 0 && waiting > 0 ? (size_t)waiting : 0;
    source_pump(s);
}
