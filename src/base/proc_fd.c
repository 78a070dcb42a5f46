/* proc_fd.c - see proc_fd.h. Any thread. */
#include "base/proc_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int close_failed(int fd, int error) {
    close(fd);
    errno = error;
    return -1;
}

/* The users of the process from its status. False if the kernel does not tell them. */
static bool read_users(int process, uid_t *real, uid_t *effective) {
    char text[2048];
    unsigned r, e;
    int fd = openat(process, "status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    /* The first line is the name of the program, in which the kernel escapes newlines. */
    const char *line = strstr(text, "\nUid:");
    if (!line || sscanf(line, "\nUid: %u %u", &r, &e) != 2) return false;
    *real = r;
    *effective = e;
    return true;
}

static bool is_own_process(int process) {
    struct stat info;
    uid_t real, effective;
    if (read_users(process, &real, &effective)) return real == getuid() && effective == geteuid();
    return !fstat(process, &info) && info.st_uid == geteuid();
}

int msi_proc_open(int pid) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", pid);
    int process = pid > 0 ? open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (pid <= 0) errno = ENOENT;
    if (process < 0 || pid == getpid() || is_own_process(process)) return process;
    return close_failed(process, EPERM);
}

/* The file itself, which is not opened yet, or -1. */
static int find_file(int pid, int fd, struct stat *info) {
    char path[32];
    int process = msi_proc_open(pid);
    if (process < 0) return -1;
    snprintf(path, sizeof path, "fd/%d", fd);
    int file = openat(process, path, O_PATH | O_CLOEXEC), error = errno == ESRCH ? ENOENT : errno;
    close_failed(process, error);
    if (file < 0) return -1;
    if (fstat(file, info)) return close_failed(file, errno);
    if (info->st_uid != geteuid()) return close_failed(file, EPERM);
    return file;
}

/* The kernel names memfds "/memfd:NAME (deleted)" and pipes "pipe:[INODE]". */
static bool has_name(int file, const char *prefix) {
    char path[32], target[64];
    size_t len = strlen(prefix);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    ssize_t n = readlink(path, target, sizeof target);
    return n >= (ssize_t)len && !memcmp(target, prefix, len);
}

/* Opens the file that find_file has found, and closes file. */
static int reopen(int file, int flags) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int fd = open(path, flags | O_RDWR | O_CLOEXEC), error = errno;
    close_failed(file, error);
    return fd;
}

int msi_proc_open_memfd(int pid, int fd, struct stat *info) {
    const int needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct stat found;
    int file = find_file(pid, fd, &found);
    if (file < 0) return -1;
    if (!S_ISREG(found.st_mode) || found.st_nlink != 0 || !has_name(file, "/memfd:"))
        return close_failed(file, EINVAL);
    int made = reopen(file, 0);
    if (made < 0) return -1;
    int seals = fcntl(made, F_GET_SEALS);
    /* Read the size again: the seals may have been added after the first fstat. */
    if (seals < 0 || (seals & needed) != needed || fstat(made, &found)) return close_failed(made, EINVAL);
    *info = found;
    return made;
}

int msi_proc_open_pipe(int pid, int fd) {
    struct stat found;
    int file = find_file(pid, fd, &found);
    if (file < 0) return -1;
    if (!S_ISFIFO(found.st_mode) || !has_name(file, "pipe:[")) return close_failed(file, EINVAL);
    return reopen(file, O_NONBLOCK);
}
