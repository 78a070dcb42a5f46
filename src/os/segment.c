/* segment.c - memory that processes of one host share. See segment.h. */
#include "os/segment.h"
#include "base/error.h"
#include "base/proc_fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* RLIMIT_FSIZE applies to a memfd too; exceeding it would raise SIGXFSZ. */
static int resize(int fd, size_t size) {
    const struct timespec at_once = {0, 0};
    sigset_t limit, before;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &before);
    int rc = ftruncate(fd, (off_t)size), error = errno;
    if (rc && error == EFBIG && !sigismember(&before, SIGXFSZ)) sigtimedwait(&limit, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return rc;
}

mst_status msi_segment_make(const char *name, size_t size, struct msi_segment *segment) {
    /* F_SEAL_SEAL: no other process can make it read-only. */
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return msi_fail_errno(errno, "cannot create a shared segment of %zu bytes", size);
    void *base = MAP_FAILED;
    if (!fchmod(fd, 0600) && !resize(fd, size) && !fcntl(fd, F_ADD_SEALS, seals))
        base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        mst_status st = msi_fail_errno(errno, "cannot map a shared segment of %zu bytes", size);
        close(fd);
        return st;
    }
    *segment = (struct msi_segment){fd, base, size};
    return MST_OK;
}

/*
 * Opens the segment of another process. -1, with errno, if it is another file: the descriptor may have been
 * reused. EPERM: it belongs to another user.
 */
static int open_segment(int pid, int fd, uint64_t inode, size_t size) {
    struct stat info;
    int here = msi_proc_open_memfd(pid, fd, &info);
    if (here >= 0 && info.st_size == (off_t)size && (!inode || info.st_ino == inode)) return here;
    if (here >= 0) close(here);
    if (here >= 0 || errno == EINVAL) errno = inode ? ENOENT : EINVAL;
    return -1;
}

mst_status msi_segment_adopt(int pid, int fd, uint64_t inode, size_t size, struct msi_segment *segment) {
    int here = open_segment(pid, fd, inode, size);
    void *base = here < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, here, 0);
    if (base == MAP_FAILED) {
        int error = errno;
        if (here >= 0) close(here);
        mst_status st =
            error == EPERM
                ? msi_fail(MST_ERR_SYSTEM, "run all ranks of a host as one user",
                           "/proc/%d/fd/%d is not mapped: the process or the file belongs to another user",
                           pid, fd)
                : msi_fail_errno(error, "cannot map /proc/%d/fd/%d as a segment of %zu bytes", pid, fd, size);
        errno = error;
        return st;
    }
    *segment = (struct msi_segment){here, base, size};
    return MST_OK;
}

mst_status msi_segment_attach(int pid, int fd, uint64_t inode, size_t size, struct msi_segment *segment) {
    mst_status st = msi_segment_adopt(pid, fd, inode, size, segment);
    if (st != MST_OK) return st;
    close(segment->fd);
    segment->fd = -1;
    return MST_OK;
}

uint64_t msi_segment_inode(const struct msi_segment *segment) {
    struct stat info;
    return fstat(segment->fd, &info) ? 0 : (uint64_t)info.st_ino;
}

mst_status msi_segment_find(int pid, uint64_t inode, size_t size, struct msi_segment *segment) {
    struct stat info;
    mst_status st = MST_ERR_SYSTEM;
    /* Only of this user: the call of fstatat on a file of another user's file system may not return. */
    int process = msi_proc_open(pid);
    int list = process < 0 ? -1 : openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *fds = list < 0 ? NULL : fdopendir(list);
    if (!fds && list >= 0) close(list);
    if (process >= 0) close(process);
    for (struct dirent *at; fds && st != MST_OK && (at = readdir(fds));)
        if (!fstatat(dirfd(fds), at->d_name, &info, 0) && info.st_ino == inode)
            st = msi_segment_adopt(pid, atoi(at->d_name), inode, size, segment);
    if (fds) closedir(fds);
    errno = ENOENT;
    return st == MST_OK ? st : msi_fail_errno(ENOENT, "no descriptor of pid %d is the segment", pid);
}

void msi_segment_empty(struct msi_segment *segment) {
    fallocate(segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)segment->size);
}

void msi_segment_close(struct msi_segment *segment) {
    if (segment->base) munmap(segment->base, segment->size);
    if (segment->fd >= 0) close(segment->fd);
    *segment = (struct msi_segment){.fd = -1};
}
