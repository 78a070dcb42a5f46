/* file.c - reads and writes the files of "muster report". See report.h. */
#include "report/report.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, LINE_MOST = CHUNK };

/* Reads the complete lines of a chunk, and moves the incomplete last one to its front. Returns its length. */
static size_t read_chunk(struct report_lines *lines, char *data, size_t len) {
    char *at = data, *end = data + len, *newline;
    while (!lines->stop && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        if (newline > at && !lines->read_line(lines->context, at, (size_t)(newline - at))) lines->malformed++;
        at = newline + 1;
    }
    memmove(data, at, (size_t)(end - at));
    return (size_t)(end - at);
}

/*
 * A last line without newline is complete if it can be parsed. Of a line longer than LINE_MOST, each
 * LINE_MOST bytes count as a malformed line.
 */
int report_read_lines(int fd, struct report_lines *lines) {
    char *data = malloc(LINE_MOST + CHUNK);
    size_t left = 0;
    ssize_t got;
    int error = !data ? ENOMEM : 0;
    lines->whole = true;
    while (error == 0 && !lines->stop && (got = read(fd, data + left, CHUNK)) != 0) {
        if (got < 0 && errno != EINTR) error = errno;
        if (got < 0) continue;
        left = read_chunk(lines, data, left + (size_t)got);
        if (left < LINE_MOST) continue;
        lines->malformed++;
        left = 0;
    }
    if (error == 0 && !lines->stop && left > 0) lines->whole = lines->read_line(lines->context, data, left);
    free(data);
    return error;
}

/* Discards the output because of errno. */
static mst_status cannot_write(struct report_output *out, const char *path) {
    mst_status st = msi_fail_errno(errno, "cannot write %s", path);
    report_output_discard(out);
    return st;
}

/* The permissions that open() gives a new file; mkstemp() restricts them to the owner. */
static mode_t default_mode(void) {
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* An existing special file, such as /dev/stdout, is written directly. */
mst_status report_output_open(struct report_output *out, const char *path) {
    struct stat info;
    bool standard = strcmp(path, "-") == 0;
    bool special = standard || (stat(path, &info) == 0 && !S_ISREG(info.st_mode));
    char *temporary = NULL;
    *out = (struct report_output){.path = strdup(path)};
    if (!out->path || (!special && asprintf(&temporary, "%s.XXXXXX", path) < 0))
        return cannot_write(out, path);
    int fd = standard  ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
             : special ? open(path, O_WRONLY | O_CLOEXEC)
                       : mkostemp(temporary, O_CLOEXEC);
    if (fd >= 0 && !special) {
        fchmod(fd, default_mode());
        out->temporary = temporary;
    } else {
        int error = errno;
        free(temporary);
        errno = error;
    }
    if (fd >= 0) out->file = fdopen(fd, "w");
    if (out->file) return MST_OK;
    mst_status st = cannot_write(out, path);
    if (fd >= 0) close(fd);
    return st;
}

mst_status report_output_commit(struct report_output *out) {
    bool good = fflush(out->file) == 0 && !ferror(out->file);
    errno = good ? 0 : errno;
    if (fclose(out->file) != 0) good = false;
    out->file = NULL;
    if (good && out->temporary) good = rename(out->temporary, out->path) == 0;
    if (!good) return cannot_write(out, out->path);
    free(out->temporary);
    out->temporary = NULL;
    report_output_discard(out);
    return MST_OK;
}

void report_output_discard(struct report_output *out) {
    if (out->file) fclose(out->file);
    if (out->temporary) unlink(out->temporary);
    free(out->temporary);
    free(out->path);
    *out = (struct report_output){0};
}
