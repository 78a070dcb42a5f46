/* clock_server.c - see clock_server.h. */
#include "prof/clock/clock_server.h"
#include "auth/gate.h"
#include "base/error.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/socket.h"
#include "os/thread.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIXED = 2 /* descriptors before those of clients */, SCARCE_MS = 100 };

struct msi_clock_server {
    pthread_t thread;
    int most, n;        /* clients */
    int64_t pause;      /* until when the gate is not polled; 0: it is polled */
    struct pollfd *fds; /* the eventfd that ends the thread, the gate, the clients */
    int listener;
    struct msi_auth auth;
    struct msi_gate *gate;
};

static void hang_up(struct msi_clock_server *s, int i) {
    close(s->fds[i].fd);
    s->fds[i] = s->fds[FIXED + --s->n];
}

/* A question arrives in one piece; a peer that sends less is not a client. */
static bool answer(int fd) {
    unsigned char message[MSI_TIME_ANSWER];
    ssize_t n = msi_recv(fd, message, MSI_TIME_QUESTION);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n != MSI_TIME_QUESTION) return false;
    uint64_t now = htole64((uint64_t)msi_now());
    memcpy(message + MSI_TIME_QUESTION, &now, sizeof now);
    return msi_send(fd, message, sizeof message) == (ssize_t)sizeof message;
}

/* Without descriptors or memory, stops polling the gate for 100 ms. */
static bool handle_scarcity(void *context, int listening, int error) {
    struct msi_clock_server *s = context;
    (void)listening;
    msi_warn_once(prof, "cannot accept a connection of another host that asks for the time: %s",
                  strerror(error));
    s->pause = msi_deadline(SCARCE_MS);
    return false;
}

static void add_client(void *context, struct msi_stream stream, const uint8_t bytes[MSI_AUTH_CONTEXT_BYTES]) {
    struct msi_clock_server *s = context;
    (void)bytes;
    if (s->n == s->most)
        msi_stream_close(&stream);
    else
        s->fds[FIXED + s->n++] = (struct pollfd){.fd = stream.fd, .events = POLLIN};
}

static void *serve(void *context) {
    struct msi_clock_server *s = context;
    pthread_setname_np(pthread_self(), "muster-time");
    for (;;) {
        if (s->pause && msi_now() >= s->pause) s->pause = 0;
        s->fds[1].events = s->pause ? 0 : POLLIN;
        int n = poll(s->fds, FIXED + (nfds_t)s->n, s->pause ? SCARCE_MS : -1);
        if (n < 0 && errno != EINTR) break;
        if (n <= 0) continue;
        if (s->fds[0].revents) break;
        for (int i = FIXED + s->n - 1; i >= FIXED; i--)
            if (s->fds[i].revents && !answer(s->fds[i].fd)) hang_up(s, i);
        if (s->fds[1].revents) msi_gate_progress(s->gate);
    }
    return NULL;
}

static void release(struct msi_clock_server *s) {
    s->fds[1].fd = -1; /* the gate's */
    for (int i = 0; i < FIXED + s->n; i++)
        if (s->fds[i].fd >= 0) close(s->fds[i].fd);
    msi_gate_close(s->gate);
    if (s->listener >= 0) close(s->listener);
    msi_auth_end(&s->auth);
    free(s->fds);
    free(s);
}

/* Listens on all addresses if host is not an address of this machine, as with address translation. */
static mst_status listen_at(const char *host, int *fd, int *port) {
    struct msi_address address = {.port = 0};
    strncat(address.host, host, sizeof address.host - 1);
    mst_status st = msi_listen(&address, fd, port);
    if (st != MST_ERR_ADDRESS) return st;
    strcpy(address.host, strchr(host, ':') ? "::" : "0.0.0.0");
    return msi_listen(&address, fd, port);
}

static mst_status open_gate(struct msi_clock_server *s, const struct msi_settings *settings) {
    const struct msi_gate_config config = {.auth = &s->auth,
                                           .role = MSI_ROLE_CLOCK,
                                           .context = s,
                                           .admit = add_client,
                                           .scarce = handle_scarcity};
    mst_status st = msi_auth_init(&s->auth, settings);
    if (st == MST_OK) st = msi_gate_open(&config, &s->gate);
    if (st == MST_OK) st = msi_gate_listen(s->gate, s->listener);
    if (st == MST_OK) s->fds[1].fd = msi_gate_fd(s->gate);
    return st;
}

mst_status msi_clock_server_open(const char *host, int clients, const struct msi_settings *settings,
                                 struct msi_clock_server **server, int *port) {
    struct msi_clock_server *made = calloc(1, sizeof *made);
    if (made) made->fds = calloc(FIXED + (size_t)clients, sizeof *made->fds);
    if (!made || !made->fds) {
        free(made);
        return msi_fail_memory();
    }
    made->most = clients;
    made->listener = -1;
    made->fds[1] = (struct pollfd){.fd = -1, .events = POLLIN};
    made->fds[0] = (struct pollfd){.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
    mst_status st = made->fds[0].fd >= 0 ? MST_OK : msi_fail_errno(errno, "cannot create an eventfd");
    if (st == MST_OK) st = listen_at(host, &made->listener, port);
    if (st == MST_OK) st = open_gate(made, settings);
    int error = st == MST_OK ? msi_thread_start(&made->thread, serve, made) : 0;
    if (error) st = msi_fail_errno(error, "cannot start the thread of the clock server");
    if (st == MST_OK)
        *server = made;
    else
        release(made);
    return st;
}

void msi_clock_server_close(struct msi_clock_server *s) {
    if (!s) return;
    eventfd_write(s->fds[0].fd, 1);
    pthread_join(s->thread, NULL);
    release(s);
}
