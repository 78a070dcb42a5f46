/* file.c - files that "muster report" reads and writes: see report.h. */
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 64 << 20, CHUNK = 1 << 20, LINE_MOST = CHUNK };

int page_open(const char *path) {
    struct stat is;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd >= 0 && (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

/* Takes the lines out of a chunk and returns how many bytes are left of the last one. */
static size_t take_lines(struct page_lines *lines, char *data, size_t len) {
    char *at = data, *end = data + len, *newline;

    while (!lines->stop && (newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if (newline > at && !lines->take(lines->context, at, (size_t)(newline - at))) lines->malformed++;
        at = newline + 1;
    }
    memmove(data, at, (size_t)(end - at));
    return (size_t)(end - at);
}

/* A last line without its newline is whole if it can be read. A line of more than LINE_MOST bytes is malformed, bit by bit. */
int page_lines_read(int fd, struct page_lines *lines) {
    char *data = malloc(LINE_MOST + CHUNK);
    size_t left = 0;
    ssize_t got;
    int error = data == NULL ? ENOMEM : 0;

    lines->whole = true;
    while (error == 0 && !lines->stop && (got = read(fd, data + left, CHUNK)) != 0) {
        if (got < 0 && errno != EINTR) error = errno;
        if (got < 0) continue;
        left = take_lines(lines, data, left + (size_t)got);
        if (left < LINE_MOST) continue;
        lines->malformed++;
        left = 0;
    }
    if (error == 0 && !lines->stop && left > 0) lines->whole = lines->take(lines->context, data, left);
    free(data);
    return error;
}

char *page_load(const char *path, size_t *len) {
    int fd = page_open(path);
    struct stat is;
    char *data = NULL;

    if (fd < 0) return NULL;
    if (fstat(fd, &is) == 0 && is.st_size > FILE_MOST)
        errno = EFBIG;
    else
        data = malloc((size_t)is.st_size + 1);
    *len = 0;
    while (data != NULL && *len < (size_t)is.st_size) {
        ssize_t got = read(fd, data + *len, (size_t)is.st_size - *len);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        *len += (size_t)got;
    }
    int error = errno;
    close(fd);
    errno = error;
    return data;
}

static bool cannot_write(const char *path) {
    fprintf(stderr, "muster report: cannot write %s: %s\n", path, strerror(errno));
    return false;
}

/* What open() would have given it: a temporary file is its owner's alone. */
static mode_t usual_mode(void) {
    mode_t mask = umask(0);

    umask(mask);
    return 0666 & ~mask;
}

/* Something that is there and no plain file, such as /dev/stdout, is written to as it is. */
bool page_create(struct page_output *out, const char *path) {
    struct stat is;
    bool standard = strcmp(path, "-") == 0;
    bool special = standard || (stat(path, &is) == 0 && !S_ISREG(is.st_mode));

    *out = (struct page_output){.path = strdup(path)};
    if (out->path == NULL || (!special && asprintf(&out->temporary, "%s.XXXXXX", path) < 0)) {
        out->temporary = NULL;
        page_discard(out);
        return cannot_write(path);
    }
    int fd = standard  ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
             : special ? open(path, O_WRONLY | O_CLOEXEC)
                       : mkostemp(out->temporary, O_CLOEXEC);
    if (fd >= 0 && !special) fchmod(fd, usual_mode());
    out->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out->file != NULL) return true;
    int error = errno;
    if (fd >= 0) close(fd);
    if (fd < 0) {
        free(out->temporary);
        out->temporary = NULL;
    }
    page_discard(out);
    errno = error;
    return cannot_write(path);
}

bool page_save(struct page_output *out) {
    bool good = fflush(out->file) == 0 && !ferror(out->file);

    errno = good ? 0 : errno;
    if (fclose(out->file) != 0) good = false;
    out->file = NULL;
    if (good && out->temporary != NULL) {
        good = rename(out->temporary, out->path) == 0;
        if (good) {
            free(out->temporary);
            out->temporary = NULL;
        }
    }
    if (!good) cannot_write(out->path);
    page_discard(out);
    return good;
}

void page_discard(struct page_output *out) {
    if (out->file != NULL) fclose(out->file);
    if (out->temporary != NULL) unlink(out->temporary);
    free(out->temporary);
    free(out->path);
    *out = (struct page_output){0};
}
