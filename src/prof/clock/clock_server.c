/* clock_server.c - who answers. See clock_server.h. A question is 8 bytes, which come back before 8 bytes of the time. */
#include "prof/clock/clock_server.h"
#include "base/error.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/socket.h"
#include "os/thread.h"
#include "prof/clock/time_wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIXED = 2 /* descriptors before those of askers */, SCARCE_MS = 100 };

struct msi_clock_server {
    pthread_t thread;
    int room, n;        /* askers */
    int64_t opens;      /* when the endpoint is looked at again; 0: now */
    struct pollfd *fds; /* the end, the endpoint, and askers */
};

static void hang_up(struct msi_clock_server *k, int i) {
    close(k->fds[i].fd);
    k->fds[i] = k->fds[FIXED + --k->n];
}

/* A question comes whole, or whoever asks is none of ours. */
static bool answer(int fd) {
    unsigned char message[MSI_TIME_ANSWER];
    ssize_t n = msi_recv(fd, message, MSI_TIME_QUESTION);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n != MSI_TIME_QUESTION) return false;
    msi_time_put(message + MSI_TIME_QUESTION, (uint64_t)msi_now());
    return msi_send(fd, message, sizeof message) == (ssize_t)sizeof message;
}

/* Who knocks while there are no descriptors or no memory knocks on: the endpoint is left alone for a while. */
static void let_in(struct msi_clock_server *k) {
    int fd = accept4(k->fds[1].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        msi_warn_once(prof, "cannot tell another host the time: %s", strerror(errno));
        k->opens = msi_deadline(SCARCE_MS);
    }
    if (fd < 0) return;
    if (k->n == k->room) {
        close(fd);
        return;
    }
    msi_socket_tune(fd);
    k->fds[FIXED + k->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void *serve(void *context) {
    struct msi_clock_server *k = context;
    pthread_setname_np(pthread_self(), "muster-time");
    for (;;) {
        if (k->opens && msi_now() >= k->opens) k->opens = 0;
        k->fds[1].events = k->opens ? 0 : POLLIN;
        int n = poll(k->fds, FIXED + (nfds_t)k->n, k->opens ? SCARCE_MS : -1);
        if (n < 0 && errno != EINTR) break;
        if (n <= 0) continue;
        if (k->fds[0].revents) break;
        for (int i = FIXED + k->n - 1; i >= FIXED; i--)
            if (k->fds[i].revents && !answer(k->fds[i].fd)) hang_up(k, i);
        if (k->fds[1].revents) let_in(k);
    }
    return NULL;
}

static void release(struct msi_clock_server *k) {
    for (int i = 0; k->fds && i < FIXED + k->n; i++)
        if (k->fds[i].fd >= 0) close(k->fds[i].fd);
    free(k->fds);
    free(k);
}

/* Where the others reach us by an address that is not ours, a translated one, at all of ours. */
static mst_status listen_at(const char *host, int *fd, int *port) {
    struct msi_address address = {.port = 0};
    strncat(address.host, host, sizeof address.host - 1);
    mst_status st = msi_listen(&address, fd, port);
    if (st != MST_ERR_ADDRESS) return st;
    strcpy(address.host, strchr(host, ':') ? "::" : "0.0.0.0");
    return msi_listen(&address, fd, port);
}

mst_status msi_clock_server_open(const char *host, int askers, struct msi_clock_server **keeper, int *port) {
    struct msi_clock_server *made = calloc(1, sizeof *made);
    if (made) made->fds = calloc(FIXED + (size_t)askers, sizeof *made->fds);
    if (!made || !made->fds) {
        free(made);
        return msi_fail_memory();
    }
    made->room = askers;
    made->fds[1] = (struct pollfd){.fd = -1, .events = POLLIN};
    made->fds[0] = (struct pollfd){.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
    mst_status st = made->fds[0].fd >= 0 ? MST_OK : msi_fail_errno(errno, "cannot make an eventfd");
    if (st == MST_OK) st = listen_at(host, &made->fds[1].fd, port);
    int error = st == MST_OK ? msi_thread_start(&made->thread, serve, made) : 0;
    if (error) st = msi_fail_errno(error, "cannot start a thread that tells the time");
    if (st != MST_OK) {
        release(made);
        return st;
    }
    *keeper = made;
    return MST_OK;
}

void msi_clock_server_close(struct msi_clock_server *k) {
    if (!k) return;
    eventfd_write(k->fds[0].fd, 1);
    pthread_join(k->thread, NULL);
    release(k);
}
