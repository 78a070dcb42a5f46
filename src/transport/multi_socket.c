/*
 * multi_socket.c - see multi_socket.h. Each direction cuts the transfers of its queue into pieces, one link
 * each, and posts some of them ahead. The pieces complete in any order and are counted in stream order.
 */
#include "transport/multi_socket.h"
#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { PIECES = 128 }; /* posted at a time in each direction */

struct piece {
    struct msi_transfer part;
    struct msi_transfer *whole; /* the transfer that it is part of */
};

struct direction {
    struct msi_list *queue;
    bool sends;
    uint64_t posted, counted; /* stream offsets: the next byte to post, the next byte to complete */
    unsigned first, count;    /* of the pieces posted and not completed, in stream order */
    size_t seen;              /* counted bytes of the first piece */
    size_t cut;               /* posted bytes of the transfer of the last piece */
    struct piece pieces[PIECES];
};

struct multi {
    struct msi_link link;
    int n;
    size_t unit; /* consecutive stream bytes on one link */
    struct msi_link *links[MSI_MULTI_SOCKET_MOST];
    struct direction out, in;
    int epoll; /* watches the links */
    struct watched *watched;
};

/* The registration of a link in the epoll descriptor. */
struct watched {
    int fd; /* -1: none */
    short events;
};

static struct piece *piece_at(struct direction *dir, unsigned i) {
    return &dir->pieces[(dir->first + i) % PIECES];
}

/* The link that carries the byte at a stream offset. */
static struct msi_link *link_at(const struct multi *multi, uint64_t offset) {
    return multi->links[offset / multi->unit % (unsigned)multi->n];
}

/* Posts the next piece of a transfer, of which cut bytes are posted, up to the end of the unit. */
static void post_piece(const struct multi *multi, struct direction *dir, struct msi_transfer *whole,
                       size_t cut) {
    struct piece *piece = piece_at(dir, dir->count++);
    size_t len = multi->unit - dir->posted % multi->unit;
    if (len > whole->len - cut) len = whole->len - cut;
    piece->whole = whole;
    msi_link_post(link_at(multi, dir->posted), dir->sends, &piece->part, whole->data + cut, len);
    dir->posted += len;
    dir->cut = cut + len;
}

/* Posts pieces of the queued transfers, up to PIECES. */
static void feed(const struct multi *multi, struct direction *dir) {
    struct msi_list *node = dir->queue->next;
    if (node == dir->queue) return;
    if (dir->count)
        node = &piece_at(dir, dir->count - 1)->whole->node;
    else
        dir->cut = msi_link_first(dir->queue)->done;
    size_t cut = dir->cut;
    while (node != dir->queue && dir->count < PIECES) {
        struct msi_transfer *whole = msi_container(node, struct msi_transfer, node);
        if (cut < whole->len) {
            post_piece(multi, dir, whole, cut);
            cut = dir->cut;
        } else {
            node = node->next;
            cut = 0;
        }
    }
}

/* Credits the moved bytes to their transfers, in stream order. */
static bool count(struct direction *dir) {
    bool moved = false;
    while (dir->count) {
        struct piece *piece = piece_at(dir, 0);
        size_t n = piece->part.done - dir->seen;
        if (n) msi_link_advance(piece->whole, n);
        dir->counted += n;
        dir->seen += n;
        moved = moved || n;
        if (!msi_transfer_done(&piece->part)) break;
        dir->first = (dir->first + 1) % PIECES;
        dir->count--;
        dir->seen = 0;
    }
    return moved;
}

/*
 * Cancels the pieces from the i-th on, to be posted again later. Returns false if bytes of them have moved.
 */
static bool cancel_pieces(const struct multi *multi, struct direction *dir, unsigned i) {
    for (unsigned j = i; j < dir->count; j++)
        if (piece_at(dir, j)->part.done) return false;
    bool untouched = true;
    while (dir->count > i) {
        struct piece *last = piece_at(dir, --dir->count);
        dir->posted -= last->part.len;
        untouched = msi_link_cancel(link_at(multi, dir->posted), &last->part) && untouched;
    }
    if (i > 0) dir->cut = piece_at(dir, i - 1)->whole->len; /* the end of a transfer */
    return untouched;
}

static bool cancel(struct msi_link *link, struct msi_transfer *transfer) {
    struct multi *multi = msi_container(link, struct multi, link);
    bool untouched = transfer->done == 0;
    for (int way = 0; way < 2; way++) {
        struct direction *dir = way ? &multi->in : &multi->out;
        for (unsigned i = 0; i < dir->count; i++) {
            if (piece_at(dir, i)->whole != transfer) continue;
            untouched = cancel_pieces(multi, dir, i) && untouched;
            break;
        }
    }
    msi_list_remove(&transfer->node);
    return untouched;
}

static void fail_as(struct multi *multi, const struct msi_link *link) {
    msi_link_fail(&multi->link, link->status, "%s", link->why);
}

/* Received bytes come before the failure, so a failed send counts only when nothing moves. */
static void check_end(struct multi *multi, bool moved) {
    const struct msi_link *next = link_at(multi, multi->in.counted);
    if (next->status != MST_OK) fail_as(multi, next);
    if (moved || msi_list_empty(&multi->link.sends)) return;
    for (int i = 0; i < multi->n; i++)
        if (multi->links[i]->status != MST_OK) fail_as(multi, multi->links[i]);
}

static bool progress(struct msi_link *link) {
    struct multi *multi = msi_container(link, struct multi, link);
    if (link->status != MST_OK) return false;
    bool moved = false;
    feed(multi, &multi->out);
    feed(multi, &multi->in);
    for (int i = 0; i < multi->n; i++)
        if (multi->links[i]->ops->progress(multi->links[i])) moved = true;
    if (count(&multi->out)) moved = true;
    if (count(&multi->in)) moved = true;
    check_end(multi, moved);
    return moved;
}

/* Updates the epoll registration of a link. Returns false if the link cannot be polled. */
static bool watch(int epoll, const struct msi_link *link, struct watched *entry) {
    struct watched now;
    now.fd = msi_link_descriptor(link, &now.events);
    if (now.fd == entry->fd && now.events == entry->events) return true;
    struct epoll_event event = {.events = (uint32_t)(unsigned short)now.events};
    int how = entry->fd < 0 ? EPOLL_CTL_ADD : now.fd < 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    int error = epoll_ctl(epoll, how, how == EPOLL_CTL_DEL ? entry->fd : now.fd, &event);
    if (!error) *entry = now;
    return !error;
}
_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLRDHUP == POLLRDHUP, "one set of events");

static int descriptor(const struct msi_link *link, short *events) {
    const struct multi *multi = msi_container(link, const struct multi, link);
    *events = POLLIN;
    if (link->status != MST_OK) return -1;
    for (int i = 0; i < multi->n; i++)
        if (!watch(multi->epoll, multi->links[i], &multi->watched[i])) return -1;
    return multi->epoll;
}

static void close_multi_socket(struct msi_link *link) {
    struct multi *multi = msi_container(link, struct multi, link);
    for (int i = 0; i < multi->n; i++) multi->links[i]->ops->close(multi->links[i]);
    close(multi->epoll);
    free(multi->watched);
    free(multi);
}

static const struct msi_link_ops ops = {
    .progress = progress,
    .descriptor = descriptor,
    .close = close_multi_socket,
    .cancel = cancel,
};

mst_status msi_link_open_multi_socket(struct msi_link *const *links, int n, size_t unit,
                                      struct msi_link **link) {
    if (n < 1 || n > MSI_MULTI_SOCKET_MOST || unit == 0)
        return msi_fail(MST_ERR_INVALID, NULL, "a multi-socket link over %d sockets: 1 to %d are allowed", n,
                        MSI_MULTI_SOCKET_MOST);
    struct multi *multi = calloc(1, sizeof *multi);
    struct watched *watched = calloc((size_t)n, sizeof *watched);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!multi || !watched || epoll < 0) {
        mst_status st =
            multi && watched ? msi_fail_errno(errno, "cannot create an epoll descriptor") : msi_fail_memory();
        if (epoll >= 0) close(epoll);
        free(watched);
        free(multi);
        return st;
    }
    msi_link_init(&multi->link, &ops);
    multi->n = n;
    multi->unit = unit;
    multi->epoll = epoll;
    multi->watched = watched;
    multi->out.queue = &multi->link.sends;
    multi->out.sends = true;
    multi->in.queue = &multi->link.receives;
    for (int i = 0; i < n; i++) {
        multi->links[i] = links[i];
        watched[i].fd = -1;
    }
    *link = &multi->link;
    return MST_OK;
}
