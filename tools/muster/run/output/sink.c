/*
 * sink.c - buffered, non-blocking writes to the launcher's stdout or stderr. See output_internal.h.
 *
 * O_NONBLOCK is a property of the open file, which the launcher shares with its shell, so the descriptor is
 * reopened through /proc. Sockets cannot be reopened and regular files need not be; writes to them block,
 * unless another process has made the file non-blocking.
 */
#include "run/output/output_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new descriptor for the pipe or terminal of fd, or -1. */
static int reopen(int fd) {
    struct stat st;
    char path[32];
    if (fstat(fd, &st) != 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))) return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void sink_open(struct sink *sink, struct output *output, int fd) {
    sink->fd = fd;
    sink->output = output;
    int own = reopen(fd);
    if (own < 0) return;
    sink->fd = own;
    sink->own_fd = true;
}

void sink_close(struct sink *sink) {
    if (sink->may_poll) uv_close((uv_handle_t *)&sink->poll, NULL);
    if (sink->own_fd) close(sink->fd);
    sink->may_poll = sink->own_fd = false;
}

static void append(struct sink *sink, const char *data, size_t len) {
    if (sink->broken || len == 0) return;
    if (sink->end + len > SINK_CAPACITY) {
        memmove(sink->data, sink->data + sink->start, sink->end - sink->start);
        sink->end -= sink->start;
        sink->start = 0;
    }
    if (len > SINK_CAPACITY - sink->end) len = SINK_CAPACITY - sink->end;
    memcpy(sink->data + sink->end, data, len);
    sink->end += len;
}

static void erase_status(struct sink *sink) {
    static const char to_start_of_line_and_erase[] = "\r\033[K";
    if (sink->status_shown) append(sink, to_start_of_line_and_erase, sizeof to_start_of_line_and_erase - 1);
    sink->status_shown = false;
}

void sink_put(struct sink *sink, const char *data, size_t len) {
    erase_status(sink);
    append(sink, data, len);
}

void sink_status(struct sink *sink, const char *text) {
    erase_status(sink);
    append(sink, text, strlen(text));
    sink->status_shown = text[0] != '\0';
}

static void give_up(struct sink *sink, int error) {
    sink->broken = error;
    sink->start = sink->end = 0;
    if (sink->may_poll) uv_poll_stop(&sink->poll);
    output_sink_changed(sink->output);
}

static void on_writable(uv_poll_t *poll, int status, int events) {
    struct sink *sink = poll->data;
    bool was_full = sink_full(sink);
    (void)events;
    if (status < 0) {
        give_up(sink, EPIPE);
        return;
    }
    sink_push(sink);
    if (sink_empty(sink)) uv_poll_stop(poll);
    if (sink_empty(sink) || (was_full && !sink_full(sink))) output_sink_changed(sink->output);
}

/* The descriptor is full: so it is non-blocking, and libuv can poll it. */
static void push_later(struct sink *sink) {
    int rc = sink->may_poll ? 0 : uv_poll_init(sink->output->loop, &sink->poll, sink->fd);
    if (rc != 0) {
        give_up(sink, -rc);
        return;
    }
    sink->may_poll = true;
    sink->poll.data = sink;
    uv_poll_start(&sink->poll, UV_WRITABLE, on_writable);
}

void sink_push(struct sink *sink) {
    while (!sink_empty(sink)) {
        ssize_t n = write(sink->fd, sink->data + sink->start, sink->end - sink->start);
        if (n >= 0) {
            sink->start += (size_t)n;
        } else if (errno == EAGAIN) {
            push_later(sink);
            return;
        } else if (errno != EINTR) {
            give_up(sink, errno);
            return;
        }
    }
    sink->start = sink->end = 0;
}
