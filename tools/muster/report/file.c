/* file.c - reads the files of "muster report". See report.h. */
#include "report/report.h"

#include "os/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, LINE_MOST = CHUNK };

void report_lines_open(struct report_lines *in, const char *path) {
    *in = (struct report_lines){.fd = msi_file_open(path), .data = report_alloc(1, LINE_MOST + CHUNK)};
    in->ended = in->fd < 0;
    if (in->ended) in->error = errno;
}

/* Moves the incomplete line to the front and reads more. */
static void read_chunk(struct report_lines *in) {
    in->len -= in->at;
    memmove(in->data, in->data + in->at, in->len);
    in->at = 0;
    ssize_t got = read(in->fd, in->data + in->len, CHUNK);
    if (got > 0) in->len += (size_t)got;
    if (got < 0 && errno != EINTR) in->error = errno;
    in->ended = got == 0 || in->error != 0;
}

bool report_next_line(struct report_lines *in, struct msi_str *line) {
    for (;;) {
        const char *at = in->data + in->at, *newline = memchr(at, '\n', in->len - in->at);
        size_t n = newline ? (size_t)(newline - at) : in->len - in->at;
        if (newline || in->ended || n >= LINE_MOST) {
            *line = msi_str(at, n);
            in->at += n + (newline != NULL);
            in->last = !newline && in->ended;
            if (n > 0 || in->last) return n > 0;
        } else {
            read_chunk(in);
        }
    }
}

int report_lines_close(struct report_lines *in) {
    if (in->fd >= 0) close(in->fd);
    free(in->data);
    return in->error;
}
