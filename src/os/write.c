/* write.c - see write.h. */
#include "os/write.h"

#include <errno.h>
#include <unistd.h>

int msi_write_all(int fd, const void *data, size_t n) {
    const char *at = data;
    while (n > 0) {
        ssize_t wrote = write(fd, at, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return wrote < 0 ? errno : ENOSPC;
        at += wrote;
        n -= (size_t)wrote;
    }
    return 0;
}
