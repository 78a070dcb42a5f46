/* clock_client.c - who asks. See clock_server.h. */
#include "base/error.h"
#include "base/log.h"
#include "os/socket.h"
#include "os/thread.h"
#include "prof/clock/clock_server.h"
#include "prof/clock/fit.h"
#include "prof/clock/time_wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { BURST = 8, ANSWER_MS = 100, PAUSE_MS = 500, CONNECT_MS = 1000 };

struct msi_clock_client {
    struct msi_address address;
    pthread_t thread;
    mst_cancel *end; /* fired when it shall */
    int fd;          /* -1: not connected; the thread's */
    uint64_t number; /* of the last question */
    pthread_mutex_t lock;
    struct msi_fit fit; /* under the lock */
};

static void hang_up(struct msi_clock_client *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}

/* False: the connection is of no use any more. An answer that is late is one, since others come in its place. */
static bool ask(struct msi_clock_client *f) {
    unsigned char message[MSI_TIME_ANSWER];
    struct msi_wait wait = {msi_deadline(ANSWER_MS), f->end};
    size_t have = 0;
    msi_time_put(message, ++f->number);
    int64_t asked = msi_now();
    if (msi_send(f->fd, message, MSI_TIME_QUESTION) != MSI_TIME_QUESTION) return false;
    while (have < sizeof message) {
        ssize_t n = msi_recv(f->fd, message + have, sizeof message - have);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (n > 0) have += (size_t)n;
        if (n < 0 && msi_wait_fd(&wait, f->fd, POLLIN, "asking for the time") != MST_OK) return false;
    }
    int64_t came = msi_now();
    if (msi_time_get(message) != f->number) return false;
    pthread_mutex_lock(&f->lock);
    msi_fit_answer(&f->fit, asked, (int64_t)msi_time_get(message + MSI_TIME_QUESTION), came);
    pthread_mutex_unlock(&f->lock);
    return true;
}

static void burst(struct msi_clock_client *f) {
    struct msi_wait wait = {msi_deadline(CONNECT_MS), f->end};
    if (f->fd < 0 && msi_connect(&f->address, false, &wait, &f->fd) != MST_OK) {
        bool known = f->fit.n > 0; /* then rank 0 has ended, perhaps */
        if (!known) msi_warn_once(prof, "no clock of rank 0 to compare this host's with: %s", mst_error());
        return;
    }
    for (int i = 0; i < BURST && f->fd >= 0; i++)
        if (!ask(f)) hang_up(f);
    pthread_mutex_lock(&f->lock);
    msi_fit_burst(&f->fit);
    pthread_mutex_unlock(&f->lock);
}

static void *follow(void *context) {
    struct msi_clock_client *f = context;
    struct msi_wait wait = {INT64_MAX, f->end};
    pthread_setname_np(pthread_self(), "muster-time");
    while (msi_wait_pause(&wait, PAUSE_MS, "") == MST_OK) burst(f);
    return NULL;
}

mst_status msi_clock_client_open(const struct msi_address *address, struct msi_clock_client **clock_client) {
    struct msi_clock_client *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    made->address = *address;
    made->fd = -1;
    mst_status st = mst_cancel_new(&made->end);
    if (st != MST_OK) {
        free(made);
        return st;
    }
    pthread_mutex_init(&made->lock, NULL);
    burst(made);
    int error = msi_thread_start(&made->thread, follow, made);
    if (error) {
        hang_up(made);
        mst_cancel_free(made->end);
        free(made);
        return msi_fail_errno(error, "cannot start a thread that asks for the time");
    }
    *clock_client = made;
    return MST_OK;
}

void msi_clock_client_close(struct msi_clock_client *f) {
    if (!f) return;
    mst_cancel_fire(f->end);
    pthread_join(f->thread, NULL);
    hang_up(f);
    mst_cancel_free(f->end);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

bool msi_clock_client_offset(struct msi_clock_client *f, int64_t at, int64_t *offset, int64_t *error) {
    pthread_mutex_lock(&f->lock);
    bool known = msi_fit_offset(&f->fit, at, offset, error);
    pthread_mutex_unlock(&f->lock);
    return known;
}
