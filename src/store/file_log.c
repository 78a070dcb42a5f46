/* file_log.c - the file of a file store. See file_log.h. */
#include "store/file_log.h"
#include "base/error.h"
#include "base/log.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_MEMBERS = 65536, STEP = 256 << 10 };

/* NULL: the file is a file of this user alone. Else why not. */
static const char *check_file(int fd) {
    struct stat info;
    if (fstat(fd, &info)) return strerror(errno);
    if (!S_ISREG(info.st_mode)) return "it is not a regular file";
    if (info.st_uid != geteuid()) return "it belongs to another user";
    if (info.st_nlink > 1) return "it has several names (hard links)";
    /* The umask may have let others read or write a file that this user made beforehand. */
    if ((info.st_mode & 0077) && fchmod(fd, 0600)) return strerror(errno);
    return NULL;
}

/* Opens or creates a file of mode 0600. It follows no link, and neither blocks nor acts on a device. */
static mst_status open_file(const char *path, int *fd) {
    static const char remedy[] = "name a file in a directory of this user";
    if (msi_directory_is_foreign(path))
        return msi_fail(MST_ERR_SYSTEM, remedy,
                        "the directory of the store's file %s belongs to another user", path);
    int made = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (made < 0 && errno == ELOOP)
        return msi_fail(MST_ERR_SYSTEM, remedy, "the store's file %s is a symbolic link", path);
    if (made < 0) return msi_fail_errno(errno, "cannot open the store's file %s", path);
    const char *why = check_file(made);
    if (why) {
        close(made);
        return msi_fail(MST_ERR_SYSTEM, remedy, "cannot use the store's file %s: %s", path, why);
    }
    *fd = made;
    return MST_OK;
}

mst_status msi_file_log_open(struct msi_file_log *log, const char *path,
                             const struct msi_file_limits *limits) {
    *log = (struct msi_file_log){.fd = -1, .alive_fd = -1, .slot = -1, .limits = *limits};
    log->path = strdup(path);
    if (asprintf(&log->alive_path, "%s.alive", path) < 0) log->alive_path = NULL;
    if (!log->path || !log->alive_path) return msi_fail_memory();
    return open_file(path, &log->fd);
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
    return !fstat(log->fd, &here) && !lstat(log->path, &there) && here.st_ino == there.st_ino &&
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
        log->fd = -1;
        mst_status st = open_file(log->path, &log->fd);
        if (st != MST_OK) return st;
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

static mst_status find_size(const struct msi_file_log *log, off_t *size) {
    struct stat info;
    if (fstat(log->fd, &info)) return msi_fail_errno(errno, "cannot stat %s", log->path);
    if (info.st_size < log->end)
        return msi_fail(MST_ERR_STALE, "use a separate file for each job", "another program has truncated %s",
                        log->path);
    if (info.st_size > log->limits.file)
        return msi_fail(MST_ERR_LIMIT, "use a separate file for each job, or raise MUSTER_STORE_MAX_TOTAL",
                        "the store's file %s has %lld bytes; the maximum is %lld", log->path,
                        (long long)info.st_size, (long long)log->limits.file);
    *size = info.st_size;
    return MST_OK;
}

/* Appends the n bytes at this offset of the file. */
static mst_status read_part(const struct msi_file_log *log, off_t at, size_t n, struct msi_buf *out) {
    if (!msi_buf_reserve(out, n)) return msi_fail_memory();
    while (n) {
        ssize_t got = pread(log->fd, out->data + out->len, n, at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return msi_fail_errno(got < 0 ? errno : EIO, "cannot read %s", log->path);
        out->len += (size_t)got;
        at += got;
        n -= (size_t)got;
    }
    return MST_OK;
}

/* A rank died in the middle of a write. */
static mst_status truncate_torn(const struct msi_file_log *log) {
    msi_log(store, WARN, "%s ends in half a record of a rank that died; truncating it", log->path);
    return ftruncate(log->fd, log->end) ? msi_fail_errno(errno, "cannot truncate %s", log->path) : MST_OK;
}

mst_status msi_file_log_read(struct msi_file_log *log,
                             void (*take)(void *context, const struct msi_file_record *record),
                             void *context) {
    const struct msi_file_limits *limits = &log->limits;
    struct msi_buf part = {0}; /* bytes of the file that were read; the first used ones are applied */
    size_t used = 0, length = 0;
    off_t size = 0;
    mst_status st = find_size(log, &size);
    while (st == MST_OK && log->end < size) {
        struct msi_file_record record;
        off_t unread = size - log->end - (off_t)(part.len - used);
        enum msi_file_result got = msi_file_record_read(part.data + used, part.len - used, limits->key,
                                                        limits->value, &record, &length);
        if (got == MSI_FILE_TORN && unread) {
            msi_buf_drop(&part, used);
            used = 0;
            st = read_part(log, log->end + (off_t)part.len, unread < STEP ? (size_t)unread : STEP, &part);
        } else if (got == MSI_FILE_OK) {
            take(context, &record);
            used += length;
            log->end += (off_t)length;
        } else if (got == MSI_FILE_TORN && log->end) { /* else it is not a store's file */
            st = truncate_torn(log);
            break;
        } else {
            st = msi_fail(MST_ERR_STALE, "name a file that does not exist yet", "%s is not a store's file",
                          log->path);
        }
    }
    msi_buf_free(&part);
    return st;
}

static struct flock byte_lock(short type, off_t start, off_t len) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

mst_status msi_file_log_watch(struct msi_file_log *log) {
    return open_file(log->alive_path, &log->alive_fd);
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
