/* wait.c - blocking with a deadline, and cancellation tokens. See wait.h. */
#include "os/wait.h"
#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The eventfd stays readable after cancellation, so that later waits see it too. */
struct mst_cancel {
    int fd;
};

mst_status msi_cancel_new(mst_cancel **cancel) {
    mst_cancel *made = malloc(sizeof *made);
    if (!made) return msi_fail_memory();
    made->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->fd < 0) {
        free(made);
        return msi_fail_errno(errno, "cannot create an eventfd");
    }
    *cancel = made;
    return MST_OK;
}

mst_status mst_cancel_new(mst_cancel **cancel) {
    msi_call_begin("mst_cancel_new", NULL, msi_call_get_rank());
    return cancel ? msi_cancel_new(cancel) : msi_fail(MST_ERR_INVALID, NULL, "cancel is NULL");
}

void mst_cancel_fire(mst_cancel *cancel) {
    uint64_t one = 1;
    int saved = errno;
    ssize_t n = write(cancel->fd, &one, sizeof one);
    (void)n;
    errno = saved;
}

void mst_cancel_free(mst_cancel *cancel) {
    if (!cancel) return;
    close(cancel->fd);
    free(cancel);
}

int msi_cancel_fd(const mst_cancel *cancel) {
    return cancel ? cancel->fd : -1;
}

/* The end of the pause is MST_OK, unless the deadline ended it. */
static mst_status wait_until(const struct msi_wait *wait, int64_t until, int fd, short events,
                             const char *what) {
    struct pollfd fds[2] = {{.fd = fd, .events = events},
                            {.fd = wait->cancel ? wait->cancel->fd : -1, .events = POLLIN}};
    for (;;) {
        int n = poll(fds, 2, msi_ms_until(until));
        if (n < 0 && errno != EINTR) return msi_fail_errno(errno, "%s: poll", what);
        if (n > 0 && fds[1].revents)
            return msi_fail(MST_ERR_CANCELLED, NULL, "%s: cancelled by the caller", what);
        if (n > 0) return MST_OK;
        int64_t now = msi_now();
        if (now >= wait->deadline) return msi_fail(MST_ERR_TIMEOUT, NULL, "%s: the deadline passed", what);
        if (now >= until) return MST_OK;
    }
}

mst_status msi_wait_fd(const struct msi_wait *wait, int fd, short events, const char *what) {
    return wait_until(wait, wait->deadline, fd, events, what);
}

bool msi_wait_cancelled(const struct msi_wait *wait) {
    struct pollfd fd = {.fd = wait->cancel ? wait->cancel->fd : -1, .events = POLLIN};
    return wait->cancel && poll(&fd, 1, 0) > 0;
}

mst_status msi_wait_pause(const struct msi_wait *wait, int pause_ms, const char *what) {
    int64_t until = msi_deadline(pause_ms);
    return wait_until(wait, until < wait->deadline ? until : wait->deadline, -1, 0, what);
}

mst_status msi_wait_lock(const struct msi_wait *wait, pthread_mutex_t *lock, const char *what) {
    enum { LOOK_MS = 5 };
    while (pthread_mutex_trylock(lock)) {
        mst_status st = msi_wait_pause(wait, LOOK_MS, what);
        if (st != MST_OK) return st;
    }
    return MST_OK;
}
