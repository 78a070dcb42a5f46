/* file.c - reading by mapping, writing at places. */
#include "file.h"

#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int gpt_file_open(const char *path, struct gpt_file *file) {
    struct stat info;
    int st = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return gpt_fail("%s: %s", path, strerror(errno));
    void *data = MAP_FAILED;
    if (fstat(fd, &info))
        st = gpt_fail("%s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        st = gpt_fail("%s: not a file", path);
    else if (info.st_size == 0)
        *file = (struct gpt_file){"", 0};
    else if ((data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        st = gpt_fail("%s: %s", path, strerror(errno));
    else
        *file = (struct gpt_file){data, (size_t)info.st_size};
    close(fd);
    return st;
}

void gpt_file_close(struct gpt_file *file) {
    if (file->size) munmap((void *)(size_t)file->data, file->size);
    *file = (struct gpt_file){"", 0};
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
