/* file_log.c - the file of a file store. See file_log.h. */
#include "store/file_log.h"
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_MEMBERS = 65536 };

static int open_file(const char *path) {
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

mst_status msi_file_log_open(struct msi_file_log *log, const char *path, size_t max_key, size_t max_value) {
    *log = (struct msi_file_log){
        .fd = -1, .alive_fd = -1, .slot = -1, .max_key = max_key, .max_value = max_value};
    log->path = strdup(path);
    if (asprintf(&log->alive_path, "%s.alive", path) < 0) log->alive_path = NULL;
    if (!log->path || !log->alive_path) return msi_fail_memory();
    log->fd = open_file(path);
    return log->fd < 0 ? msi_fail_errno(errno, "cannot open the store's file %s", path) : MST_OK;
}

void msi_file_log_close(struct msi_file_log *log) {
    if (log->fd >= 0) close(log->fd);
    if (log->alive_fd >= 0) close(log->alive_fd);
    free(log->path);
    free(log->alive_path);
    msi_buf_free(&log->pending);
}

/* Does the path still name the open file? */
static bool still_there(const struct msi_file_log *log) {
    struct stat here, there;
    return !fstat(log->fd, &here) && !stat(log->path, &there) && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

mst_status msi_file_log_try_lock(struct msi_file_log *log, bool *locked) {
    *locked = false;
    for (;;) {
        if (flock(log->fd, LOCK_EX | LOCK_NB)) {
            if (errno == EINTR) continue;
            return errno == EWOULDBLOCK ? MST_OK : msi_fail_errno(errno, "cannot lock %s", log->path);
        }
        *locked = log->end || still_there(log);
        if (*locked) return MST_OK;
        close(log->fd); /* its last member removed it between open and lock */
        log->fd = open_file(log->path);
        if (log->fd < 0) return msi_fail_errno(errno, "cannot open the store's file %s", log->path);
    }
}

static mst_status write_pending(struct msi_file_log *log) {
    if (log->pending.failed) return msi_fail_memory();
    for (size_t done = 0; done < log->pending.len;) {
        ssize_t n =
            pwrite(log->fd, log->pending.data + done, log->pending.len - done, log->end + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            mst_status st = msi_fail_errno(n < 0 ? errno : ENOSPC, "cannot write to %s", log->path);
            if (ftruncate(log->fd, log->end)) msi_log(store, WARN, "cannot truncate %s", log->path);
            return st;
        }
        done += (size_t)n;
    }
    log->end += (off_t)log->pending.len;
    return MST_OK;
}

mst_status msi_file_log_unlock(struct msi_file_log *log) {
    mst_status st = write_pending(log);
    msi_buf_free(&log->pending);
    flock(log->fd, LOCK_UN);
    return st;
}

/* Reads all bytes after end into out. */
static mst_status read_rest(struct msi_file_log *log, struct msi_buf *out) {
    struct stat info;
    if (fstat(log->fd, &info)) return msi_fail_errno(errno, "cannot stat %s", log->path);
    if (info.st_size < log->end)
        return msi_fail(MST_ERR_STALE, "use a separate file for each job", "another program has truncated %s",
                        log->path);
    size_t want = (size_t)(info.st_size - log->end);
    if (!msi_buf_reserve(out, want)) return msi_fail_memory();
    while (out->len < want) {
        ssize_t n = pread(log->fd, out->data + out->len, want - out->len, log->end + (off_t)out->len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return msi_fail_errno(n < 0 ? errno : EIO, "cannot read %s", log->path);
        out->len += (size_t)n;
    }
    return MST_OK;
}

mst_status msi_file_log_read(struct msi_file_log *log,
                             void (*take)(void *context, const struct msi_file_record *record),
                             void *context) {
    struct msi_buf rest = {0};
    mst_status st = read_rest(log, &rest);
    size_t at = 0, length = 0;
    while (st == MST_OK && at < rest.len) {
        struct msi_file_record record;
        enum msi_file_result got = msi_file_record_read(rest.data + at, rest.len - at, log->max_key,
                                                        log->max_value, &record, &length);
        if (got == MSI_FILE_TORN && log->end == 0 && at == 0)
            got = MSI_FILE_GARBAGE; /* not one record: do not truncate it */
        if (got == MSI_FILE_TORN) {
            msi_log(store, WARN, "%s ends in half a record of a rank that died; truncating it", log->path);
            if (ftruncate(log->fd, log->end + (off_t)at))
                st = msi_fail_errno(errno, "cannot truncate %s", log->path);
            break;
        }
        if (got == MSI_FILE_GARBAGE) {
            st = msi_fail(MST_ERR_STALE, "name a file that does not exist yet", "%s is not a store's file",
                          log->path);
            break;
        }
        take(context, &record);
        at += length;
    }
    log->end += (off_t)at;
    msi_buf_free(&rest);
    return st;
}

static struct flock byte_lock(short type, off_t start, off_t len) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

mst_status msi_file_log_watch(struct msi_file_log *log) {
    log->alive_fd = open_file(log->alive_path);
    return log->alive_fd < 0 ? msi_fail_errno(errno, "cannot open %s", log->alive_path) : MST_OK;
}

mst_status msi_file_log_join(struct msi_file_log *log) {
    for (int slot = 0; slot < MAX_MEMBERS; slot++) {
        struct flock lock = byte_lock(F_WRLCK, slot, 1);
        if (fcntl(log->alive_fd, F_OFD_SETLK, &lock) == 0) {
            log->slot = slot;
            return MST_OK;
        }
        if (errno != EAGAIN && errno != EACCES)
            return msi_fail_errno(errno, "cannot lock in %s", log->alive_path);
    }
    return msi_fail(MST_ERR_LIMIT, NULL, "%s already has %d members", log->path, MAX_MEMBERS);
}

/* Does another process hold a lock in that range? */
static bool locked(const struct msi_file_log *log, off_t start, off_t len) {
    struct flock lock = byte_lock(F_WRLCK, start, len);
    return fcntl(log->alive_fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool msi_file_log_alive(const struct msi_file_log *log, int slot) {
    return slot == log->slot || locked(log, slot, 1);
}

bool msi_file_log_others(const struct msi_file_log *log) {
    return locked(log, 0, MAX_MEMBERS);
}

void msi_file_log_resign(struct msi_file_log *log) {
    if (log->alive_fd >= 0) close(log->alive_fd);
    log->alive_fd = log->slot = -1;
}

void msi_file_log_remove(struct msi_file_log *log) {
    unlink(log->alive_path);
    unlink(log->path);
}
