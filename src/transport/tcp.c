/*
 * tcp.c - a link over a connected socket. Bytes go between the socket and the posted buffers with nothing in
 * between, for several transfers with one system call. Whoever asks for little gets the next few bytes read along: the body
 * with its head, the next message with this one. Those are copied once they are asked for.
 *
 * A progress that has nothing to receive would not notice that the peer hung up, so it asks the system now
 * and then.
 */
#include "base/error.h"
#include "os/socket.h"
#include "transport/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PARTS = 16,         /* transfers in one system call */
    ROUNDS = 4,         /* system calls for one way before the other way has its turn */
    LOOK_INTERVAL = 64, /* one in so many calls with nothing to receive looks whether the peer hung up */

    /* Bytes that are read before they are asked for, a small message and what follows it, … */
    AHEAD = 8 << 10,
    AHEAD_BELOW = 64 << 10, /* … where less than this is asked for */
};

struct tcp {
    struct msi_link link;
    int fd;
    unsigned idle;              /* calls since the last look */
    bool unread;                /* the peer hung up and left bytes that are not received yet */
    size_t ahead_at, ahead_end; /* what is there of … */
    char ahead[AHEAD];          /* … bytes that came together with those that were asked for */
    char peer[MSI_ADDRESS_TEXT_MAX];
};

static bool is_transient(int error) {
    return error == EAGAIN || error == EINTR || error == ENOBUFS;
}

static void fail(struct tcp *tcp, int error) {
    bool ours = error == EFAULT || error == EBADF || error == EINVAL || error == ENOMEM || error == ENOTSOCK;
    if (error == 0 || error == EPIPE)
        msi_link_fail(&tcp->link, MST_ERR_PEER_LOST, "the connection to %s was closed", tcp->peer);
    else
        msi_link_fail(&tcp->link, ours ? MST_ERR_SYSTEM : MST_ERR_PEER_LOST, "the connection to %s broke: %s",
                      tcp->peer, strerror(error));
}

/* Lays out the first transfers of a queue; returns how many, and their bytes in *total. */
static size_t lay_out(const struct msi_list *queue, struct iovec parts[PARTS], size_t *total) {
    size_t n = 0;
    *total = 0;
    for (const struct msi_list *node = queue->next; node != queue && n < PARTS; node = node->next) {
        const struct msi_transfer *transfer = msi_container(node, struct msi_transfer, node);
        parts[n++] = (struct iovec){transfer->data + transfer->done, msi_transfer_left(transfer)};
        *total += msi_transfer_left(transfer);
    }
    return n;
}

static void advance(const struct msi_list *queue, size_t n) {
    while (n > 0) {
        struct msi_transfer *first = msi_link_first(queue);
        size_t part = msi_transfer_left(first) < n ? msi_transfer_left(first) : n;
        msi_link_advance(first, part);
        n -= part;
    }
}

/* What a call that failed means: 0 to try again later, an errno, or -1 if the stream has ended. */
static int error_of(ssize_t got) {
    return got == 0 ? -1 : is_transient(errno) ? 0 : errno;
}

/* Sends what can be sent now. */
static bool send_some(struct tcp *tcp, int *error) {
    struct msi_list *queue = &tcp->link.sends;
    bool moved = false;
    for (int i = 0; i < ROUNDS && !msi_list_empty(queue); i++) {
        struct iovec parts[PARTS];
        size_t total, n = lay_out(queue, parts, &total);
        ssize_t got = msi_send_vector(tcp->fd, parts, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            *error = error_of(got);
            break;
        }
        moved = true;
        advance(queue, (size_t)got);
        if ((size_t)got < total) break; /* the socket has no more room */
    }
    return moved;
}

/* Hands out what was read ahead. */
static bool take_ahead(struct tcp *tcp) {
    bool moved = false;
    while (tcp->ahead_at < tcp->ahead_end && !msi_list_empty(&tcp->link.receives)) {
        struct msi_transfer *first = msi_link_first(&tcp->link.receives);
        size_t n = tcp->ahead_end - tcp->ahead_at;
        if (n > msi_transfer_left(first)) n = msi_transfer_left(first);
        memcpy(first->data + first->done, tcp->ahead + tcp->ahead_at, n);
        tcp->ahead_at += n;
        msi_link_advance(first, n);
        moved = true;
    }
    return moved;
}

/* One call: into what is posted, and where that is little, on into the memory for what comes next. Ahead must be empty. */
static ssize_t read_once(struct tcp *tcp, size_t *asked) {
    struct iovec parts[PARTS + 1];
    size_t total, n = lay_out(&tcp->link.receives, parts, &total);
    *asked = total;
    if (total < AHEAD_BELOW) {
        parts[n++] = (struct iovec){tcp->ahead, sizeof tcp->ahead};
        *asked += sizeof tcp->ahead;
    }
    ssize_t got = msi_recv_vector(tcp->fd, parts, n);
    if (got <= 0) return got;
    size_t posted = (size_t)got < total ? (size_t)got : total;
    advance(&tcp->link.receives, posted);
    tcp->ahead_at = 0;
    tcp->ahead_end = (size_t)got - posted;
    return got;
}

/* Receives what there is. */
static bool receive_some(struct tcp *tcp, int *error) {
    bool moved = take_ahead(tcp);
    for (int i = 0; i < ROUNDS && !msi_list_empty(&tcp->link.receives); i++) {
        size_t asked;
        ssize_t got = read_once(tcp, &asked);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            *error = error_of(got);
            break;
        }
        moved = true;
        take_ahead(tcp);
        if ((size_t)got < asked) break; /* the socket has no more */
    }
    return moved;
}

/* With nothing to receive: has the peer hung up, and is all received that it sent before? */
static void look_for_end(struct tcp *tcp) {
    struct pollfd ask = {.fd = tcp->fd, .events = POLLRDHUP};
    char byte;
    if (++tcp->idle < LOOK_INTERVAL) return;
    tcp->idle = 0;
    if (poll(&ask, 1, 0) <= 0) return;
    ssize_t n = msi_recv_peek(tcp->fd, &byte, 1);
    if (n > 0 || tcp->ahead_at < tcp->ahead_end)
        tcp->unread = true;
    else if (n == 0 || !is_transient(errno))
        fail(tcp, n == 0 ? 0 : errno);
}

static bool progress(struct msi_link *link) {
    struct tcp *tcp = msi_container(link, struct tcp, link);
    if (link->status != MST_OK) return false;
    int send_error = 0, receive_error = 0;
    bool moved = false, idle = msi_list_empty(&link->receives);
    if (!msi_list_empty(&link->sends)) moved = send_some(tcp, &send_error);
    if (!idle && receive_some(tcp, &receive_error)) {
        tcp->unread = false;
        moved = true;
    }
    /* What the peer sent before it hung up comes first, so a failed send waits until that has come. */
    if (receive_error)
        fail(tcp, receive_error > 0 ? receive_error : 0);
    else if (send_error && !moved)
        fail(tcp, send_error > 0 ? send_error : 0);
    else if (idle)
        look_for_end(tcp);
    return moved;
}

static int descriptor(const struct msi_link *link, short *events) {
    const struct tcp *tcp = msi_container(link, const struct tcp, link);
    *events = 0;
    if (link->status != MST_OK) return -1;
    if (!msi_list_empty(&link->sends)) *events |= POLLOUT;
    if (!msi_list_empty(&link->receives))
        *events |= POLLIN;
    else if (!tcp->unread)
        *events |= POLLRDHUP;
    return tcp->fd;
}

/* Errors are progress's to find. */
static const char *look(struct msi_link *link, size_t *n) {
    struct tcp *tcp = msi_container(link, struct tcp, link);
    if (link->status != MST_OK) return NULL;
    if (tcp->ahead_at == tcp->ahead_end) {
        ssize_t got = msi_recv(tcp->fd, tcp->ahead, sizeof tcp->ahead);
        tcp->ahead_at = 0;
        tcp->ahead_end = got > 0 ? (size_t)got : 0;
    }
    *n = tcp->ahead_end - tcp->ahead_at;
    return *n ? tcp->ahead + tcp->ahead_at : NULL;
}

static void drop(struct msi_link *link, size_t n) {
    struct tcp *tcp = msi_container(link, struct tcp, link);
    tcp->ahead_at += n;
    tcp->unread = false;
}

static void close_tcp(struct msi_link *link) {
    struct tcp *tcp = msi_container(link, struct tcp, link);
    shutdown(tcp->fd, SHUT_RDWR); /* a forked child that has the socket too shall not keep the peer waiting */
    close(tcp->fd);
    free(tcp);
}

static const struct msi_link_ops ops = {
    .name = "tcp",
    .progress = progress,
    .descriptor = descriptor,
    .close = close_tcp,
    .look = look,
    .drop = drop,
    .look_most = AHEAD,
};

mst_status msi_link_open_tcp(int fd, struct msi_link **link) {
    struct tcp *tcp = calloc(1, sizeof *tcp);
    if (!tcp) return msi_fail_memory();
    msi_link_init(&tcp->link, &ops);
    tcp->fd = fd;
    msi_socket_peer(fd, tcp->peer);
    *link = &tcp->link;
    return MST_OK;
}
