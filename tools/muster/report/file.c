/* file.c - reads the files of "muster report". See report.h. */
#include "report/report.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 64 << 20, CHUNK = 1 << 20, LINE_MOST = CHUNK };

/* Opens a regular file for reading; -1 with errno. */
static int open_file(const char *path) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

void report_lines_open(struct report_lines *in, const char *path) {
    *in = (struct report_lines){.fd = open_file(path), .data = report_alloc(1, LINE_MOST + CHUNK)};
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

bool report_load_file(const char *path, struct msi_buf *to) {
    int fd = open_file(path);
    ssize_t got = 1;
    if (fd < 0) return false;
    while (got != 0 && to->len <= FILE_MOST && msi_buf_reserve(to, CHUNK)) {
        got = read(fd, to->data + to->len, CHUNK);
        if (got < 0 && errno != EINTR) break;
        if (got > 0) to->len += (size_t)got;
    }
    int error = to->failed ? ENOMEM : to->len > FILE_MOST ? EFBIG : got < 0 ? errno : 0;
    close(fd);
    errno = error;
    return error == 0;
}
