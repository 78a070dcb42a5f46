/* trace_file.c - see trace_file.h. */
#include "prof/trace/trace_file.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MOST = 100000 };

/* Keeps the files of earlier runs and worlds. */
static int open_first_free(struct msi_trace_file *f, const char *directory, int rank) {
    for (int k = 1; k <= FILES_MOST; k++) {
        char number[16] = "";
        if (k > 1) snprintf(number, sizeof number, ".%d", k);
        int n = snprintf(f->path, sizeof f->path, "%s/rank-%d%s.trace.json", directory, rank, number);
        if (n < 0 || n >= (int)sizeof f->path) return ENAMETOOLONG;
        f->fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd >= 0) return 0;
        if (errno != EEXIST) return errno;
    }
    return EEXIST;
}

int msi_trace_file_open(struct msi_trace_file *f, const char *directory, int rank) {
    snprintf(f->path, sizeof f->path, "%s", directory);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) return errno;
    int error = open_first_free(f, directory, rank);
    if (!error) msi_buf_add(&f->buf, "[", 1);
    return error;
}

struct msi_json_out msi_trace_file_event(struct msi_trace_file *f) {
    if (f->events++) msi_buf_add(&f->buf, ",\n", 2);
    struct msi_json_out out = msi_json_to(&f->buf);
    msi_json_put_object(&out);
    return out;
}

int msi_trace_file_write(struct msi_trace_file *f) {
    int error = f->buf.failed ? ENOMEM : msi_write_all(f->fd, f->buf.data, f->buf.len);
    if (!error) {
        f->written += (off_t)f->buf.len;
        f->complete = f->events;
        msi_buf_drop(&f->buf, f->buf.len);
        return 0;
    }
    /* The next write continues after the last whole event; readers ignore a cut one. */
    if (ftruncate(f->fd, f->written) != 0 || lseek(f->fd, f->written, SEEK_SET) < 0) error = errno;
    f->events = f->complete;
    msi_buf_free(&f->buf);
    return error;
}

int msi_trace_file_end(struct msi_trace_file *f) {
    msi_buf_add(&f->buf, "\n]\n", 3);
    return msi_trace_file_write(f);
}

void msi_trace_file_close(struct msi_trace_file *f, bool keep) {
    close(f->fd);
    if (!keep) unlink(f->path);
    msi_buf_free(&f->buf);
}
