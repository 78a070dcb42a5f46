/* file.c - see file.h. */
#include "io/file.h"

#include "base/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int gpt_file_open(const char *path, size_t *size) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return gpt_fail("%s: %s", path, strerror(errno));
    if (fstat(fd, &info))
        gpt_fail("%s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        gpt_fail("%s: not a regular file", path);
    else {
        *size = (size_t)info.st_size;
        return fd;
    }
    close(fd);
    return -1;
}

int gpt_file_map(const char *path, struct gpt_file *file) {
    size_t size = 0;
    int st = 0, fd = gpt_file_open(path, &size);
    if (fd < 0) return -1;
    const void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : "";
    if (data == MAP_FAILED)
        st = gpt_fail("%s: %s", path, strerror(errno));
    else
        *file = (struct gpt_file){data, size};
    close(fd);
    return st;
}

void gpt_file_unmap(struct gpt_file *file) {
    if (file->size) munmap((void *)(size_t)file->data, file->size);
    *file = (struct gpt_file){"", 0};
}

int gpt_file_read(int fd, void *data, size_t size, size_t offset, const char *path) {
    for (char *to = data; size;) {
        ssize_t n = pread(fd, to, size, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return gpt_fail("%s: %s", path, strerror(errno));
        if (n == 0) return gpt_fail("%s: the file became shorter while in use", path);
        to += n;
        size -= (size_t)n;
        offset += (size_t)n;
    }
    return 0;
}

int gpt_file_write(int fd, const void *data, size_t size, size_t offset, const char *path) {
    for (const char *from = data; size;) {
        ssize_t n = pwrite(fd, from, size, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return gpt_fail("%s: %s", path, strerror(errno));
        from += n;
        size -= (size_t)n;
        offset += (size_t)n;
    }
    return 0;
}
