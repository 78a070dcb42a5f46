/*
 * hosts_file.c - takes in a hostfile, which may be a pipe such as a shell's <(command); see hosts.h. Runs on the main
 * thread. Neither a pipe that never ends nor an endless device makes it wait or grow without end.
 */
#include "run/nodes/hosts.h"

#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_SECONDS = 10 };

/* How many bytes there are, HOSTS_FILE_MAX + 1 at most, or a negative errno. */
static ssize_t take_in(int fd, char *text, int ms) {
    int64_t deadline = msi_deadline(ms);
    size_t len = 0;

    while (len <= HOSTS_FILE_MAX) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};

        if (poll(&ready, 1, msi_ms_until(deadline)) == 0) return -ETIMEDOUT;
        ssize_t n = read(fd, text + len, HOSTS_FILE_MAX + 1 - len);
        if (n == 0) break;
        if (n > 0)
            len += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            return -errno;
    }
    return (ssize_t)len;
}

static int read_open_file(int fd, const char *path, struct hosts *hosts, char *why, size_t why_size) {
    char *text = malloc(HOSTS_FILE_MAX + 1);
    ssize_t len = text != NULL ? take_in(fd, text, FILE_SECONDS * 1000) : -ENOMEM;
    int rc = -1;

    if (len == -ETIMEDOUT)
        snprintf(why, why_size, "%s: it did not end within %d s", path, FILE_SECONDS);
    else if (len < 0)
        snprintf(why, why_size, "%s: cannot read it: %s", path, strerror((int)-len));
    else if (len > HOSTS_FILE_MAX)
        snprintf(why, why_size, "%s: it is longer than %d bytes", path, HOSTS_FILE_MAX);
    else
        rc = hosts_read_lines(path, text, (size_t)len, hosts, why, why_size);
    free(text);
    return rc;
}

int hosts_read_file(const char *path, struct hosts *hosts, char *why, size_t why_size) {
    /* O_NONBLOCK, since opening a pipe would wait for a writer without end. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

    if (fd < 0) {
        snprintf(why, why_size, "%s: cannot open it: %s", path, strerror(errno));
        return -1;
    }
    int rc = read_open_file(fd, path, hosts, why, why_size);
    close(fd);
    return rc;
}
