/* file.c - see file.h. */
#include "os/file.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int msi_file_open(const char *path) {
    struct stat info = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))) return fd;
    close(fd);
    errno = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
    return -1;
}

int msi_read_all(int fd, size_t most, int64_t deadline, struct msi_buf *to) {
    enum { STEP = 64 << 10 };
    for (size_t before = to->len; to->len - before <= most;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (!msi_buf_reserve(to, STEP)) return ENOMEM;
        if (poll(&ready, 1, msi_ms_until(deadline)) == 0) return ETIMEDOUT;
        ssize_t n = read(fd, to->data + to->len, STEP);
        if (n == 0) return 0;
        if (n > 0)
            to->len += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            return errno;
    }
    return EFBIG;
}

int msi_file_read(const char *path, size_t most, struct msi_buf *to) {
    int fd = msi_file_open(path);
    if (fd < 0) return errno;
    int error = msi_read_all(fd, most, 0, to); /* a regular file is always ready */
    close(fd);
    return error;
}

const char *msi_file_line(const char *path, char *out, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file || !fgets(out, (int)size, file)) out[0] = 0;
    if (file) fclose(file);
    out[strcspn(out, "\n")] = 0;
    return out;
}

bool msi_is_foreign_in_shared_dir(const char *path) {
    char name[PATH_MAX];
    struct stat info;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') len--; /* lstat would follow a link with a slash after it */
    if (len >= sizeof name) return false;
    memcpy(name, path, len);
    name[len] = '\0';
    if (lstat(name, &info) || info.st_uid == geteuid() || info.st_uid == 0) return false;
    while (len && name[len - 1] != '/') len--;
    name[len] = '\0';
    return stat(len ? name : ".", &info) != 0 || (info.st_mode & S_IWOTH);
}

bool msi_directory_is_foreign(const char *path) {
    char directory[PATH_MAX];
    struct stat info;
    if (strlen(path) >= sizeof directory) return false;
    strcpy(directory, path);
    for (char *slash; (slash = strrchr(directory, '/')) && slash != directory;) {
        *slash = '\0';
        if (msi_is_foreign_in_shared_dir(directory)) return true;
        if (!lstat(directory, &info) && info.st_uid == geteuid()) return false;
    }
    return false;
}

int msi_make_directory(const char *path) {
    struct stat info;
    if (msi_directory_is_foreign(path)) return EPERM;
    if (mkdir(path, 0700) == 0) return 0;
    if (errno != EEXIST) return errno;
    if (msi_is_foreign_in_shared_dir(path)) return EPERM;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
}

int msi_create_file(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

const char *msi_file_error(int error) {
    return error == EPERM ? "it belongs to another user" : strerror(error);
}

int msi_write_all(int fd, const void *data, size_t len) {
    for (const char *at = data, *end = at + len; at < end;) {
        ssize_t n = write(fd, at, (size_t)(end - at));
        if (n > 0) {
            at += n;
        } else if (n == 0) {
            return ENOSPC; /* avoids an endless loop */
        } else if (errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}
