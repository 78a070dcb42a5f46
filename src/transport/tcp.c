/*
 * tcp.c - a link over a connected socket, with TLS or without. Bytes move directly between the socket and the
 * posted buffers; one system call serves several transfers. A small receive also reads ahead: the body with
 * its head, the next message with this one. Bytes read ahead are copied when they are received.
 *
 * Without a posted receive, progress polls the socket from time to time to detect that the peer has closed
 * it.
 */
#include "base/error.h"
#include "os/stream.h"
#include "transport/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PARTS = 16,             /* transfers in one system call */
    ROUNDS = 4,             /* system calls for one direction before the other is served */
    POLL_INTERVAL = 64,     /* calls of progress without a receive between two polls for a hang-up */
    LOOK_INTERVAL = 16,     /* calls of progress without progress between two looks at the clock */
    AHEAD = 17 << 10,       /* bytes to read ahead, as of a message of 16 KiB with its header, … */
    AHEAD_BELOW = 64 << 10, /* … if the posted receives have less than this */
    /* To copy so few bytes takes less time than to pass several buffers to the kernel. */
    COPY_SENT = 1 << 10,
    COPY_RECEIVED = 9 << 10,
};

struct tcp {
    struct msi_link link;
    struct msi_stream stream;
    unsigned idle;              /* calls since the last poll */
    unsigned still;             /* calls in which no byte moved, since check_silence */
    int64_t look_at;            /* see msi_socket_is_silent */
    bool unread;                /* the peer has hung up, and some of its bytes are not received yet */
    size_t ahead_at, ahead_end; /* valid range of ahead */
    char ahead[AHEAD];          /* bytes read ahead */
    char peer[MSI_ADDRESS_TEXT_MAX];
};

static bool is_transient(int error) {
    return error == EAGAIN || error == EINTR || error == ENOBUFS;
}

static void fail(struct tcp *tcp, int error) {
    bool ours = error == EFAULT || error == EBADF || error == EINVAL || error == ENOMEM || error == ENOTSOCK;
    if (error == 0 || error == EPIPE)
        msi_link_fail(&tcp->link, MST_ERR_PEER_LOST, "the connection to %s was closed by the peer",
                      tcp->peer);
    else
        msi_link_fail(&tcp->link, ours ? MST_ERR_SYSTEM : MST_ERR_PEER_LOST,
                      "the connection to %s failed: %s", tcp->peer, strerror(error));
}

/* Fills parts with the first transfers of a queue; returns their number, and their bytes in *total. */
static size_t fill_parts(const struct msi_list *queue, struct iovec parts[PARTS], size_t *total) {
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

/* Returns 0 to retry later, an errno, or -1 at the end of the stream. */
static int error_of(ssize_t got) {
    return got == 0 ? -1 : is_transient(errno) ? 0 : errno;
}

/* Sends the parts; copies them together if they are small. */
static ssize_t send_parts(struct tcp *tcp, struct iovec parts[PARTS], size_t n, size_t total) {
    char joined[COPY_SENT];
    if (n == 1) return msi_stream_send(&tcp->stream, parts->iov_base, parts->iov_len);
    if (total > sizeof joined) return msi_stream_send_vector(&tcp->stream, parts, n);
    char *end = joined;
    for (size_t i = 0; i < n; i++) {
        memcpy(end, parts[i].iov_base, parts[i].iov_len);
        end += parts[i].iov_len;
    }
    return msi_stream_send(&tcp->stream, joined, total);
}

static bool send_some(struct tcp *tcp, int *error) {
    struct msi_list *queue = &tcp->link.sends;
    bool moved = false;
    for (int i = 0; i < ROUNDS && !msi_list_empty(queue); i++) {
        struct iovec parts[PARTS];
        size_t total, n = fill_parts(queue, parts, &total);
        ssize_t got = send_parts(tcp, parts, n, total);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            *error = error_of(got);
            break;
        }
        moved = true;
        advance(queue, (size_t)got);
        if ((size_t)got < total) break; /* the send buffer is full */
    }
    return moved;
}

/* Copies bytes that were read ahead into the posted receives. */
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

static ssize_t read_ahead(struct tcp *tcp, size_t *wanted) {
    ssize_t got = msi_stream_recv(&tcp->stream, tcp->ahead, sizeof tcp->ahead);
    *wanted = sizeof tcp->ahead;
    tcp->ahead_at = 0;
    tcp->ahead_end = got > 0 ? (size_t)got : 0;
    return got;
}

/* One system call: reads into the posted receives, and ahead if they are small. Ahead must be empty. */
static ssize_t read_once(struct tcp *tcp, size_t *wanted) {
    struct iovec parts[PARTS + 1];
    size_t total, n = fill_parts(&tcp->link.receives, parts, &total);
    *wanted = total;
    if (total <= COPY_RECEIVED) return read_ahead(tcp, wanted);
    if (total < AHEAD_BELOW) {
        parts[n++] = (struct iovec){tcp->ahead, sizeof tcp->ahead};
        *wanted += sizeof tcp->ahead;
    }
    ssize_t got = msi_stream_recv_vector(&tcp->stream, parts, n);
    if (got <= 0) return got;
    size_t posted = (size_t)got < total ? (size_t)got : total;
    advance(&tcp->link.receives, posted);
    tcp->ahead_at = 0;
    tcp->ahead_end = (size_t)got - posted;
    return got;
}

static bool receive_some(struct tcp *tcp, int *error) {
    bool moved = take_ahead(tcp);
    for (int i = 0; i < ROUNDS && !msi_list_empty(&tcp->link.receives); i++) {
        size_t wanted;
        ssize_t got = read_once(tcp, &wanted);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            *error = error_of(got);
            break;
        }
        moved = true;
        take_ahead(tcp);
        if ((size_t)got < wanted) break; /* the receive buffer is empty */
    }
    return moved;
}

/* Without a receive: fails the link if the peer has hung up and all its bytes are received. */
static void check_hang_up(struct tcp *tcp) {
    struct pollfd ask = {.fd = tcp->stream.fd, .events = POLLRDHUP};
    char byte;
    if (++tcp->idle < POLL_INTERVAL) return;
    tcp->idle = 0;
    if (poll(&ask, 1, 0) <= 0) return;
    ssize_t n = msi_stream_peek(&tcp->stream, &byte, 1);
    if (n > 0 || tcp->ahead_at < tcp->ahead_end)
        tcp->unread = true;
    else if (n == 0 || !is_transient(errno))
        fail(tcp, n == 0 ? 0 : errno);
}

/* Fails the link if the other host does not answer. */
static void check_silence(struct tcp *tcp) {
    if (++tcp->still < LOOK_INTERVAL) return;
    tcp->still = 0;
    if (msi_socket_is_silent(tcp->stream.fd, &tcp->look_at)) fail(tcp, ETIMEDOUT);
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
    /* Received bytes come before the failure, so a failed send counts only when nothing moves. */
    if (receive_error)
        fail(tcp, receive_error > 0 ? receive_error : 0);
    else if (send_error && !moved)
        fail(tcp, send_error > 0 ? send_error : 0);
    else if (idle)
        check_hang_up(tcp);
    if (!moved && link->status == MST_OK) check_silence(tcp);
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
    return tcp->stream.fd;
}

/* Ignores errors; progress reports them. */
static const char *peek(struct msi_link *link, size_t *n) {
    struct tcp *tcp = msi_container(link, struct tcp, link);
    if (link->status != MST_OK) return NULL;
    size_t wanted;
    if (tcp->ahead_at == tcp->ahead_end) read_ahead(tcp, &wanted);
    *n = tcp->ahead_end - tcp->ahead_at;
    return *n ? tcp->ahead + tcp->ahead_at : NULL;
}

static void consume(struct msi_link *link, size_t n) {
    struct tcp *tcp = msi_container(link, struct tcp, link);
    tcp->ahead_at += n;
    tcp->unread = false;
}

/* Is a send in a TLS record that is not sent yet? */
static bool is_held(const struct tcp *tcp, const struct msi_transfer *transfer) {
    size_t held = msi_stream_held(&tcp->stream), before = 0;
    const struct msi_list *queue = &tcp->link.sends;
    for (const struct msi_list *at = queue->next; at != queue && before < held; at = at->next) {
        const struct msi_transfer *send = msi_container(at, struct msi_transfer, node);
        if (send == transfer) return true;
        before += msi_transfer_left(send);
    }
    return false;
}

static bool cancel(struct msi_link *link, struct msi_transfer *transfer) {
    bool held = is_held(msi_container(link, const struct tcp, link), transfer);
    msi_list_remove(&transfer->node);
    return transfer->done == 0 && !held;
}

static void close_tcp(struct msi_link *link) {
    struct tcp *tcp = msi_container(link, struct tcp, link);
    /* Closes the connection even if a forked child still has the socket. */
    shutdown(tcp->stream.fd, SHUT_RDWR);
    msi_stream_close(&tcp->stream);
    free(tcp);
}

static const struct msi_link_ops ops = {
    .progress = progress,
    .descriptor = descriptor,
    .close = close_tcp,
    .cancel = cancel,
    .peek = peek,
    .consume = consume,
    .peek_most = AHEAD,
};

mst_status msi_link_open_tcp(struct msi_stream stream, struct msi_link **link) {
    struct tcp *tcp = calloc(1, sizeof *tcp);
    if (!tcp) return msi_fail_memory();
    msi_link_init(&tcp->link, &ops);
    tcp->stream = stream;
    msi_socket_unpace(stream.fd);
    msi_socket_peer(stream.fd, tcp->peer);
    *link = &tcp->link;
    return MST_OK;
}
