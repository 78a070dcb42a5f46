/*
 * listener.c - see listener.h. A connection is first in the unverified list, oldest first, and the epoll
 * descriptor watches it. After its hello is checked it moves to the verified list, where it is not read until
 * it is taken.
 */
#include "transport/listener.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "os/socket.h"
#include "wire/hello.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEPT_PER_RANK = 4, KEPT_MORE = 64, EVENTS = 64, ROUNDS = 16 };

struct conn {
    struct msi_list node;
    int fd;
    int64_t since; /* on msi_now's clock */
    size_t at;     /* received bytes of the hello */
    uint8_t bytes[MSI_HELLO_BYTES];
    struct msi_hello hello; /* valid if verified */
};

struct msi_listener {
    pthread_mutex_t lock;
    int fd, epoll, port;
    uint64_t world;
    uint32_t rank, size;
    int64_t stall;                        /* nanoseconds */
    struct msi_list unverified, verified; /* of struct conn */
    struct msi_list wake_fds;             /* of struct msi_listener_wake */
    size_t count, limit;                  /* of both lists */
    int64_t scarce_since;                 /* no connection could be accepted since then; 0: they can */
    int scarce;                           /* the errno of that */
};

/* Removes a connection from its list. count includes only the first socket of a verified rank. */
static void unlink_conn(struct msi_listener *l, struct conn *conn) {
    msi_list_remove(&conn->node);
    if (conn->hello.stream == 0) l->count--;
}

static void close_conn(struct msi_listener *l, struct conn *conn, const char *why) {
    char peer[MSI_ADDRESS_TEXT_MAX];
    if (why)
        msi_log(transport, INFO, "closed the connection from %s: %s", msi_socket_peer(conn->fd, peer), why);
    unlink_conn(l, conn);
    /* If a forked child has the socket too, closing it does not remove it from the epoll descriptor. */
    epoll_ctl(l->epoll, EPOLL_CTL_DEL, conn->fd, NULL);
    close(conn->fd);
    free(conn);
}

static struct conn *find(const struct msi_listener *l, uint64_t group, uint32_t from, int channel,
                         int socket) {
    for (struct msi_list *node = l->verified.next; node != &l->verified; node = node->next) {
        struct conn *conn = msi_container(node, struct conn, node);
        const struct msi_hello *hello = &conn->hello;
        if (hello->group == group && hello->from == from && hello->channel == channel &&
            hello->stream == socket)
            return conn;
    }
    return NULL;
}

static void notify(const struct msi_listener *l, uint64_t group) {
    const uint64_t one = 1;
    for (struct msi_list *node = l->wake_fds.next; node != &l->wake_fds; node = node->next) {
        const struct msi_listener_wake *wake_fd = msi_container(node, struct msi_listener_wake, node);
        ssize_t n = wake_fd->group == group ? write(wake_fd->fd, &one, sizeof one) : 0;
        (void)n; /* a full eventfd is already readable */
    }
}

/* Checks a complete hello, answers it, and moves the connection to the verified list or closes it. */
static void answer(struct msi_listener *l, struct conn *conn) {
    struct msi_hello hello = {0};
    enum msi_hello_answer reply = msi_hello_read(conn->bytes, conn->at, &hello);
    if (reply == MSI_HELLO_WELCOME) reply = msi_hello_judge(&hello, l->world, l->rank, l->size);
    uint8_t byte = (uint8_t)reply;
    bool sent = msi_send(conn->fd, &byte, 1) == 1;
    if (reply != MSI_HELLO_WELCOME || !sent) {
        close_conn(l, conn,
                   reply == MSI_HELLO_WELCOME ? "cannot send the answer" : "the hello is not for this rank");
        return;
    }
    struct conn *before = find(l, hello.group, hello.from, hello.channel, hello.stream);
    if (before) close_conn(l, before, "the rank has connected again");
    conn->hello = hello;
    epoll_ctl(l->epoll, EPOLL_CTL_DEL, conn->fd, NULL);
    msi_list_remove(&conn->node);
    msi_list_push(&l->verified, &conn->node);
    if (hello.stream > 0) l->count--;
    notify(l, hello.group);
}

/* Reads the available bytes of a hello, and no byte beyond it. */
static void read_hello(struct msi_listener *l, struct conn *conn) {
    while (conn->at < MSI_HELLO_BYTES) {
        ssize_t n = msi_recv(conn->fd, conn->bytes + conn->at, MSI_HELLO_BYTES - conn->at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            close_conn(l, conn, "closed by the peer before the hello");
            return;
        }
        conn->at += (size_t)n;
    }
    answer(l, conn);
}

/* Closes the oldest unverified connection. Returns false if there is none. */
static bool evict_oldest(struct msi_listener *l) {
    if (msi_list_empty(&l->unverified)) return false;
    close_conn(l, msi_container(l->unverified.next, struct conn, node), "too many connections");
    return true;
}

static void add_conn(struct msi_listener *l, int fd) {
    struct conn *conn = NULL;
    if (l->count < l->limit || evict_oldest(l)) conn = calloc(1, sizeof *conn);
    if (!conn) {
        uint8_t busy = MSI_HELLO_BUSY;
        msi_log(transport, WARN, "refused a connection: %zu connections wait to be taken", l->count);
        (void)!msi_send(fd, &busy, 1);
        close(fd);
        return;
    }
    conn->fd = fd;
    conn->since = msi_now();
    msi_list_push(&l->unverified, &conn->node);
    l->count++;
    msi_socket_tune(fd);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event))
        close_conn(l, conn, strerror(errno));
    else
        read_hello(l, conn); /* usually it has arrived already */
}

/* Accepts up to EVENTS connections. Returns false if no more are pending. */
static bool accept_some(struct msi_listener *l) {
    for (int i = 0; i < EVENTS; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            l->scarce_since = 0;
            add_conn(l, fd);
            continue;
        }
        int error = errno;
        if (error == EAGAIN) return false;
        bool scarce = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
        if (scarce) msi_warn_once(transport, "cannot accept a connection: %s", strerror(error));
        if (!scarce || evict_oldest(l)) continue;
        l->scarce = error;
        if (!l->scarce_since) l->scarce_since = msi_now();
        return false;
    }
    return true;
}

/* Serves existing connections first: accepting may close connections that have events here. */
static bool one_round(struct msi_listener *l) {
    struct epoll_event events[EVENTS];
    bool pending = false;
    int n = epoll_wait(l->epoll, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr)
            read_hello(l, events[i].data.ptr);
        else
            pending = true;
    }
    if (!pending && n < EVENTS) l->scarce_since = 0;
    return (pending && accept_some(l)) || n == EVENTS;
}

static void close_stalled(struct msi_listener *l) {
    if (msi_list_empty(&l->unverified)) return;
    int64_t oldest = msi_now() - l->stall;
    while (!msi_list_empty(&l->unverified)) {
        struct conn *conn = msi_container(l->unverified.next, struct conn, node);
        if (conn->since > oldest) break;
        close_conn(l, conn, "no hello in time");
    }
}

void msi_listener_progress(struct msi_listener *l) {
    if (pthread_mutex_trylock(&l->lock)) return; /* another thread does this */
    for (int i = 0; i < ROUNDS && one_round(l); i++) {
    }
    close_stalled(l);
    pthread_mutex_unlock(&l->lock);
}

int msi_listener_take(struct msi_listener *l, uint64_t group, int from, int channel, int socket,
                      int *sockets) {
    int fd = -1;
    if (pthread_mutex_trylock(&l->lock)) return -1;
    struct conn *conn = find(l, group, (uint32_t)from, channel, socket);
    if (conn) {
        *sockets = conn->hello.streams;
        fd = conn->fd;
        unlink_conn(l, conn);
        free(conn);
    }
    pthread_mutex_unlock(&l->lock);
    return fd;
}

mst_status msi_listener_check(struct msi_listener *l) {
    mst_status st = MST_OK;
    if (pthread_mutex_trylock(&l->lock)) return st;
    if (l->scarce_since && msi_now() - l->scarce_since >= l->stall)
        st = msi_fail_errno(l->scarce, "cannot accept the connections of other ranks");
    pthread_mutex_unlock(&l->lock);
    return st;
}

void msi_listener_watch(struct msi_listener *l, struct msi_listener_wake *wake_fd) {
    pthread_mutex_lock(&l->lock);
    msi_list_push(&l->wake_fds, &wake_fd->node);
    pthread_mutex_unlock(&l->lock);
}

void msi_listener_unwatch(struct msi_listener *l, struct msi_listener_wake *wake_fd) {
    pthread_mutex_lock(&l->lock);
    msi_list_remove(&wake_fd->node);
    pthread_mutex_unlock(&l->lock);
}

int msi_listener_port(const struct msi_listener *l) {
    return l->port;
}

int msi_listener_fd(const struct msi_listener *l) {
    return l->epoll;
}

void msi_listener_set_stall(struct msi_listener *l, int stall_ms) {
    pthread_mutex_lock(&l->lock);
    l->stall = (int64_t)stall_ms * 1000000;
    pthread_mutex_unlock(&l->lock);
}

static mst_status open_descriptors(const struct msi_address *address, struct msi_listener *l) {
    mst_status st = msi_listen(address, &l->fd, &l->port);
    if (st != MST_OK) return st;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll >= 0 && !epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->fd, &event)) return MST_OK;
    st = msi_fail_errno(errno, "cannot watch the listening socket");
    if (l->epoll >= 0) close(l->epoll);
    close(l->fd);
    return st;
}

mst_status msi_listener_open(const struct msi_address *address, uint64_t world, int rank, int size,
                             struct msi_listener **listener) {
    struct msi_listener *l = calloc(1, sizeof *l);
    if (!l) return msi_fail_memory();
    mst_status st = open_descriptors(address, l);
    if (st != MST_OK) {
        free(l);
        return st;
    }
    pthread_mutex_init(&l->lock, NULL);
    l->world = world;
    l->rank = (uint32_t)rank;
    l->size = (uint32_t)size;
    l->stall = (int64_t)MSI_LISTENER_STALL_MS * 1000000;
    l->limit = (size_t)size * KEPT_PER_RANK + KEPT_MORE;
    msi_list_init(&l->unverified);
    msi_list_init(&l->verified);
    msi_list_init(&l->wake_fds);
    *listener = l;
    return MST_OK;
}

static void close_all(struct msi_listener *l, const struct msi_list *conns) {
    while (!msi_list_empty(conns)) close_conn(l, msi_container(conns->next, struct conn, node), NULL);
}

void msi_listener_close(struct msi_listener *l) {
    if (!l) return;
    close_all(l, &l->unverified);
    close_all(l, &l->verified);
    close(l->epoll);
    close(l->fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
