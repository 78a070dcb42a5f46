/* clock_client.c - see clock_server.h. */
#include "auth/auth.h"
#include "base/error.h"
#include "base/log.h"
#include "os/socket.h"
#include "os/thread.h"
#include "prof/clock/clock_server.h"
#include "prof/clock/fit.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BURST = 8, ANSWER_MS = 100, PAUSE_MS = 500, CONNECT_MS = 1000 };

struct msi_clock_client {
    struct msi_address address;
    struct msi_auth auth;
    pthread_t thread;
    mst_cancel *end; /* fired to end the thread */
    int fd;          /* -1: not connected; used by the thread only */
    uint64_t number; /* of the last question */
    pthread_mutex_t lock;
    struct msi_fit fit; /* under the lock */
};

static void disconnect(struct msi_clock_client *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

/*
 * False: the connection must be closed; also after a timeout, since a late answer would be taken for the next
 * one.
 */
static bool ask(struct msi_clock_client *c) {
    unsigned char message[MSI_TIME_ANSWER];
    uint64_t number = htole64(++c->number), time;
    struct msi_wait wait = {msi_deadline(ANSWER_MS), c->end};
    size_t have = 0;
    int64_t asked = msi_now();
    if (msi_send(c->fd, &number, sizeof number) != MSI_TIME_QUESTION) return false;
    while (have < sizeof message) {
        ssize_t n = msi_recv(c->fd, message + have, sizeof message - have);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (n > 0) have += (size_t)n;
        if (n < 0 && msi_wait_fd(&wait, c->fd, POLLIN, "asking for the time") != MST_OK) return false;
    }
    int64_t answered = msi_now();
    if (memcmp(message, &number, sizeof number) != 0) return false;
    memcpy(&time, message + MSI_TIME_QUESTION, sizeof time);
    pthread_mutex_lock(&c->lock);
    msi_fit_answer(&c->fit, asked, (int64_t)le64toh(time), answered);
    pthread_mutex_unlock(&c->lock);
    return true;
}

static mst_status connect_to(struct msi_clock_client *c) {
    struct msi_wait wait = {msi_deadline(CONNECT_MS), c->end};
    struct msi_auth_conn conn = {0};
    mst_status st = msi_connect(&c->address, false, &wait, &c->fd);
    if (st != MST_OK) return st;
    msi_auth_begin(&conn, &c->auth, c->fd, false, MSI_ROLE_CLOCK, NULL);
    st = msi_auth_run(&conn, &wait, "the clock of rank 0");
    if (st != MST_OK) disconnect(c);
    return st;
}

static void burst(struct msi_clock_client *c) {
    if (c->fd < 0 && connect_to(c) != MST_OK) {
        if (!c->fit.n) /* else rank 0 may have ended */
            msi_warn_once(prof, "cannot reach the clock of rank 0: %s", mst_error());
        return;
    }
    for (int i = 0; i < BURST && c->fd >= 0; i++)
        if (!ask(c)) disconnect(c);
    pthread_mutex_lock(&c->lock);
    msi_fit_burst(&c->fit);
    pthread_mutex_unlock(&c->lock);
}

static void *run(void *context) {
    struct msi_clock_client *c = context;
    struct msi_wait wait = {INT64_MAX, c->end};
    pthread_setname_np(pthread_self(), "muster-time");
    while (msi_wait_pause(&wait, PAUSE_MS, "") == MST_OK) burst(c);
    return NULL;
}

static void release(struct msi_clock_client *c) {
    disconnect(c);
    msi_auth_end(&c->auth);
    mst_cancel_free(c->end);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

mst_status msi_clock_client_open(const struct msi_address *address, const struct msi_settings *settings,
                                 struct msi_clock_client **client) {
    struct msi_clock_client *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    made->address = *address;
    made->fd = -1;
    pthread_mutex_init(&made->lock, NULL);
    mst_status st = mst_cancel_new(&made->end);
    if (st == MST_OK) st = msi_auth_init(&made->auth, settings);
    if (st == MST_OK) burst(made);
    int error = st == MST_OK ? msi_thread_start(&made->thread, run, made) : 0;
    if (error) st = msi_fail_errno(error, "cannot start the thread of the clock client");
    if (st == MST_OK)
        *client = made;
    else
        release(made);
    return st;
}

void msi_clock_client_close(struct msi_clock_client *c) {
    if (!c) return;
    mst_cancel_fire(c->end);
    pthread_join(c->thread, NULL);
    release(c);
}

bool msi_clock_client_offset(struct msi_clock_client *c, int64_t at, int64_t *offset, int64_t *error) {
    pthread_mutex_lock(&c->lock);
    bool known = msi_fit_offset(&c->fit, at, offset, error);
    pthread_mutex_unlock(&c->lock);
    return known;
}
