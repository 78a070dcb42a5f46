/* write.c - see write.h. */
#include "os/write.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

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
