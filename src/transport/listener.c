/*
 * listener.c - the one endpoint of a rank. See listener.h.
 *
 * A connection is a guest: first among the strangers, oldest first, watched by the epoll descriptor; once its
 * hello is good, among the known, where nobody reads from it until it is taken.
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

struct guest {
    struct msi_list node;
    int fd;
    int64_t since; /* on msi_now's clock */
    size_t at;     /* bytes of the hello that are here */
    uint8_t bytes[MSI_HELLO_BYTES];
    struct msi_hello hello; /* of the known */
};

struct msi_listener {
    pthread_mutex_t lock;
    int fd, epoll, port;
    uint64_t world;
    uint32_t rank, size;
    int64_t stall;                    /* nanoseconds */
    struct msi_list strangers, known; /* of struct guest */
    struct msi_list wake_fds;         /* of struct msi_listener_wake */
    size_t count, limit;              /* of both together */
};

/* Takes a guest off its list. Only the first stream of a known rank has a place of its own. */
static void let_go(struct msi_listener *l, struct guest *guest) {
    msi_list_remove(&guest->node);
    if (guest->hello.stream == 0) l->count--;
}

static void dismiss(struct msi_listener *l, struct guest *guest, const char *why) {
    char who[MSI_ADDRESS_TEXT_MAX];
    if (why && msi_log_on(MSI_MODULE_transport, MSI_LOG_INFO))
        msi_log_line(MSI_MODULE_transport, MSI_LOG_INFO, "closed the connection from %s: %s",
                     msi_socket_peer(guest->fd, who), why);
    let_go(l, guest);
    /* Closing alone would leave it watched, with a dangling pointer, where a forked child has it too. */
    epoll_ctl(l->epoll, EPOLL_CTL_DEL, guest->fd, NULL);
    close(guest->fd);
    free(guest);
}

static struct guest *find(const struct msi_listener *l, uint64_t group, uint32_t from, int channel,
                          int stream) {
    for (struct msi_list *node = l->known.next; node != &l->known; node = node->next) {
        struct guest *guest = msi_container(node, struct guest, node);
        const struct msi_hello *hello = &guest->hello;
        if (hello->group == group && hello->from == from && hello->channel == channel &&
            hello->stream == stream)
            return guest;
    }
    return NULL;
}

static void ring(const struct msi_listener *l, uint64_t group) {
    const uint64_t one = 1;
    for (struct msi_list *node = l->wake_fds.next; node != &l->wake_fds; node = node->next) {
        const struct msi_listener_wake *wake_fd = msi_container(node, struct msi_listener_wake, node);
        ssize_t n = wake_fd->group == group ? write(wake_fd->fd, &one, sizeof one) : 0;
        (void)n; /* one that is full has rung */
    }
}

/* The hello is complete: the guest becomes known, or has to go. */
static void answer(struct msi_listener *l, struct guest *guest) {
    struct msi_hello hello = {0};
    enum msi_hello_answer verdict = msi_hello_read(guest->bytes, guest->at, &hello);
    if (verdict == MSI_HELLO_WELCOME) verdict = msi_hello_judge(&hello, l->world, l->rank, l->size);
    uint8_t byte = (uint8_t)verdict;
    bool sent = msi_send(guest->fd, &byte, 1) == 1;
    if (verdict != MSI_HELLO_WELCOME || !sent) {
        dismiss(l, guest,
                verdict == MSI_HELLO_WELCOME ? "it cannot be answered" : "its hello is not for this rank");
        return;
    }
    struct guest *before = find(l, hello.group, hello.from, hello.channel, hello.stream);
    if (before) dismiss(l, before, "the same rank has connected again");
    guest->hello = hello;
    epoll_ctl(l->epoll, EPOLL_CTL_DEL, guest->fd, NULL);
    msi_list_remove(&guest->node);
    msi_list_push(&l->known, &guest->node);
    if (hello.stream > 0) l->count--;
    ring(l, hello.group);
}

/* Reads what there is of a stranger's hello and not a byte more. */
static void listen_to(struct msi_listener *l, struct guest *guest) {
    while (guest->at < MSI_HELLO_BYTES) {
        ssize_t n = msi_recv(guest->fd, guest->bytes + guest->at, MSI_HELLO_BYTES - guest->at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            dismiss(l, guest, "it ended before its hello");
            return;
        }
        guest->at += (size_t)n;
    }
    answer(l, guest);
}

/* Dismisses the stranger that has been silent for longest; false if there is none. */
static bool make_room(struct msi_listener *l) {
    if (msi_list_empty(&l->strangers)) return false;
    dismiss(l, msi_container(l->strangers.next, struct guest, node), "others want its place");
    return true;
}

static void admit(struct msi_listener *l, int fd) {
    struct guest *guest = NULL;
    if (l->count < l->limit || make_room(l)) guest = calloc(1, sizeof *guest);
    if (!guest) {
        uint8_t busy = MSI_HELLO_BUSY;
        msi_log(transport, WARN, "turned a connection away: %zu wait to be used", l->count);
        (void)!msi_send(fd, &busy, 1);
        close(fd);
        return;
    }
    guest->fd = fd;
    guest->since = msi_now();
    msi_list_push(&l->strangers, &guest->node);
    l->count++;
    msi_socket_tune(fd);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = guest};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event))
        dismiss(l, guest, strerror(errno));
    else
        listen_to(l, guest); /* the hello has mostly come along */
}

/* At most a round of connections: false if no more are there now. */
static bool let_in(struct msi_listener *l) {
    for (int i = 0; i < EVENTS; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            admit(l, fd);
            continue;
        }
        if (errno == EAGAIN) return false;
        bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (scarce) msi_warn_once(transport, "cannot accept a connection: %s", strerror(errno));
        if (scarce && !make_room(l)) return false;
    }
    return true;
}

/* Guests come before new connections, whose need for room may free guests that have events here. */
static bool one_round(struct msi_listener *l) {
    struct epoll_event events[EVENTS];
    bool knocked = false;
    int n = epoll_wait(l->epoll, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr)
            listen_to(l, events[i].data.ptr);
        else
            knocked = true;
    }
    return (knocked && let_in(l)) || n == EVENTS;
}

static void dismiss_silent(struct msi_listener *l) {
    if (msi_list_empty(&l->strangers)) return;
    int64_t oldest = msi_now() - l->stall;
    while (!msi_list_empty(&l->strangers)) {
        struct guest *guest = msi_container(l->strangers.next, struct guest, node);
        if (guest->since > oldest) break;
        dismiss(l, guest, "it did not say its hello in time");
    }
}

void msi_listener_progress(struct msi_listener *l) {
    if (pthread_mutex_trylock(&l->lock)) return; /* another group is at it */
    for (int i = 0; i < ROUNDS && one_round(l); i++) {
    }
    dismiss_silent(l);
    pthread_mutex_unlock(&l->lock);
}

int msi_listener_take(struct msi_listener *l, uint64_t group, int from, int channel, int stream,
                      int *streams) {
    int fd = -1;
    if (pthread_mutex_trylock(&l->lock)) return -1;
    struct guest *guest = find(l, group, (uint32_t)from, channel, stream);
    if (guest) {
        *streams = guest->hello.streams;
        fd = guest->fd;
        let_go(l, guest);
        free(guest);
    }
    pthread_mutex_unlock(&l->lock);
    return fd;
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

/* The two descriptors. */
static mst_status open_endpoint(const struct msi_address *address, struct msi_listener *l) {
    mst_status st = msi_listen(address, &l->fd, &l->port);
    if (st != MST_OK) return st;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll >= 0 && !epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->fd, &event)) return MST_OK;
    st = msi_fail_errno(errno, "cannot watch the port that other ranks connect to");
    if (l->epoll >= 0) close(l->epoll);
    close(l->fd);
    return st;
}

mst_status msi_listener_open(const struct msi_address *address, uint64_t world, int rank, int size,
                             struct msi_listener **listener) {
    struct msi_listener *l = calloc(1, sizeof *l);
    if (!l) return msi_fail_memory();
    mst_status st = open_endpoint(address, l);
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
    msi_list_init(&l->strangers);
    msi_list_init(&l->known);
    msi_list_init(&l->wake_fds);
    *listener = l;
    return MST_OK;
}

static void dismiss_all(struct msi_listener *l, const struct msi_list *guests) {
    while (!msi_list_empty(guests)) dismiss(l, msi_container(guests->next, struct guest, node), NULL);
}

void msi_listener_close(struct msi_listener *l) {
    if (!l) return;
    dismiss_all(l, &l->strangers);
    dismiss_all(l, &l->known);
    close(l->epoll);
    close(l->fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
