/*
 * tcp.c - a link over a connected socket. Bytes go between the socket and the posted buffers with nothing in
 * between, for several transfers with one system call; no byte is read that nobody has asked for.
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
};

struct tcp {
    struct msi_link link;
    int fd;
    unsigned idle; /* calls since the last look */
    bool unread;   /* the peer hung up and left bytes that are not received yet */
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

/* Sends or receives what can be moved now. *error: 0, an errno, or -1 if the stream has ended. */
static bool move(struct msi_list *queue, int fd, ssize_t (*io)(int, struct iovec *, size_t), int *error) {
    bool moved = false;
    *error = 0;
    for (int i = 0; i < ROUNDS && !msi_list_empty(queue); i++) {
        struct iovec parts[PARTS];
        size_t total, n = lay_out(queue, parts, &total);
        ssize_t got = io(fd, parts, n);
        if (got <= 0) {
            *error = got == 0 ? -1 : is_transient(errno) ? 0 : errno;
            if (got == 0 || errno != EINTR) break;
            continue;
        }
        moved = true;
        advance(queue, (size_t)got);
        if ((size_t)got < total) break; /* the socket has no more, or no more room */
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
    if (n > 0)
        tcp->unread = true;
    else if (n == 0 || !is_transient(errno))
        fail(tcp, n == 0 ? 0 : errno);
}

static bool progress(struct msi_link *link) {
    struct tcp *tcp = msi_container(link, struct tcp, link);
    if (link->status != MST_OK) return false;
    int send_error = 0, receive_error = 0;
    bool moved = false, idle = msi_list_empty(&link->receives);
    if (!msi_list_empty(&link->sends)) moved = move(&link->sends, tcp->fd, msi_send_vector, &send_error);
    if (!idle && move(&link->receives, tcp->fd, msi_recv_vector, &receive_error)) {
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

static void close_tcp(struct msi_link *link) {
    struct tcp *tcp = msi_container(link, struct tcp, link);
    shutdown(tcp->fd, SHUT_RDWR); /* a forked child that has the socket too shall not keep the peer waiting */
    close(tcp->fd);
    free(tcp);
}

static const struct msi_link_ops ops = {"tcp", progress, descriptor, close_tcp, NULL, NULL, NULL, NULL};

mst_status msi_link_open_tcp(int fd, struct msi_link **link) {
    struct tcp *tcp = calloc(1, sizeof *tcp);
    if (!tcp) return msi_fail_memory();
    msi_link_init(&tcp->link, &ops);
    tcp->fd = fd;
    msi_socket_peer(fd, tcp->peer);
    *link = &tcp->link;
    return MST_OK;
}
