/*
 * multi_socket.c - several links as one. See multi_socket.h.
 *
 * Each way is a lane. It cuts the transfers of its queue into pieces, each on one link, and posts them some way ahead; they
 * are done in any order, and counted in that of the stream.
 */
#include "transport/multi_socket.h"
#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { PIECES = 128 }; /* posted at a time, each way */

struct piece {
    struct msi_transfer part;
    struct msi_transfer *whole; /* that it is part of */
};

struct lane {
    struct msi_list *queue;
    void (*post)(struct msi_link *link, struct msi_transfer *part, char *data, size_t len);
    uint64_t posted, counted; /* places in the stream: the next byte to be posted, the next to be done */
    unsigned first, count;    /* of the pieces that are posted and not counted, in the order of the stream */
    size_t seen;              /* bytes of the first that are counted */
    size_t cut;               /* bytes of the last one's transfer that are posted */
    struct piece pieces[PIECES];
};

struct multi {
    struct msi_link link;
    int n;
    size_t unit; /* bytes of the stream that travel together */
    struct msi_link *links[MSI_MULTI_SOCKET_MOST];
    struct lane out, in;
    int epoll; /* of the links, for sleepers */
    struct sight *sights;
};

/* What the epoll descriptor knows of a link. */
struct sight {
    int fd; /* -1: nothing */
    short events;
};

static void post_send(struct msi_link *link, struct msi_transfer *part, char *data, size_t len) {
    msi_link_send(link, part, data, len);
}

static void post_receive(struct msi_link *link, struct msi_transfer *part, char *data, size_t len) {
    msi_link_receive(link, part, data, len);
}

static struct piece *piece_at(struct lane *lane, unsigned i) {
    return &lane->pieces[(lane->first + i) % PIECES];
}

/* The link that carries a place of the stream. */
static struct msi_link *carrier(const struct multi *multi, uint64_t place) {
    return multi->links[place / multi->unit % (unsigned)multi->n];
}

/* Posts what follows after cut bytes of a transfer, as far as it goes on one link. */
static void post_piece(const struct multi *multi, struct lane *lane, struct msi_transfer *whole, size_t cut) {
    struct piece *piece = piece_at(lane, lane->count++);
    size_t len = multi->unit - lane->posted % multi->unit;
    if (len > whole->len - cut) len = whole->len - cut;
    piece->whole = whole;
    lane->post(carrier(multi, lane->posted), &piece->part, whole->data + cut, len);
    lane->posted += len;
    lane->cut = cut + len;
}

/* Posts pieces of what is queued, as many as there is room for. */
static void feed(const struct multi *multi, struct lane *lane) {
    struct msi_list *node = lane->queue->next;
    if (node == lane->queue) return;
    if (lane->count)
        node = &piece_at(lane, lane->count - 1)->whole->node;
    else
        lane->cut = msi_link_first(lane->queue)->done;
    size_t cut = lane->cut;
    while (node != lane->queue && lane->count < PIECES) {
        struct msi_transfer *whole = msi_container(node, struct msi_transfer, node);
        if (cut < whole->len) {
            post_piece(multi, lane, whole, cut);
            cut = lane->cut;
        } else {
            node = node->next;
            cut = 0;
        }
    }
}

/* Adds what moved to the transfers it is part of. */
static bool count(struct lane *lane) {
    bool moved = false;
    while (lane->count) {
        struct piece *piece = piece_at(lane, 0);
        size_t n = piece->part.done - lane->seen;
        if (n) msi_link_advance(piece->whole, n);
        lane->counted += n;
        lane->seen += n;
        moved = moved || n;
        if (!msi_transfer_done(&piece->part)) break;
        lane->first = (lane->first + 1) % PIECES;
        lane->count--;
        lane->seen = 0;
    }
    return moved;
}

/* Takes back the pieces from the i-th on; they are posted again later. False if some of them have moved. */
static bool take_back(const struct multi *multi, struct lane *lane, unsigned i) {
    for (unsigned j = i; j < lane->count; j++)
        if (piece_at(lane, j)->part.done) return false;
    while (lane->count > i) {
        struct piece *last = piece_at(lane, --lane->count);
        lane->posted -= last->part.len;
        msi_link_withdraw(carrier(multi, lane->posted), &last->part);
    }
    if (i > 0)
        lane->cut = piece_at(lane, i - 1)->whole->len; /* where one transfer ends and the next begins */
    return true;
}

static bool withdraw(struct msi_link *link, struct msi_transfer *transfer) {
    struct multi *multi = msi_container(link, struct multi, link);
    bool untouched = transfer->done == 0;
    for (int way = 0; way < 2; way++) {
        struct lane *lane = way ? &multi->in : &multi->out;
        for (unsigned i = 0; i < lane->count; i++) {
            if (piece_at(lane, i)->whole != transfer) continue;
            untouched = take_back(multi, lane, i) && untouched;
            break;
        }
    }
    msi_list_remove(&transfer->node);
    return untouched;
}

static void fail_as(struct multi *multi, const struct msi_link *link) {
    msi_link_fail(&multi->link, link->status, "%s", link->why);
}

/* What the peer sent before it hung up comes first, so sends fail only when nothing moves any more. */
static void check_end(struct multi *multi, bool moved) {
    const struct msi_link *next = carrier(multi, multi->in.counted);
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

/* Lets the epoll descriptor look for what a link waits for now. False if the link cannot be slept on. */
static bool watch(int epoll, const struct msi_link *link, struct sight *sight) {
    struct sight now;
    now.fd = link->ops->descriptor(link, &now.events);
    if (now.fd == sight->fd && now.events == sight->events) return true;
    struct epoll_event event = {.events = (uint32_t)(unsigned short)now.events};
    int how = sight->fd < 0 ? EPOLL_CTL_ADD : now.fd < 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    int error = epoll_ctl(epoll, how, how == EPOLL_CTL_DEL ? sight->fd : now.fd, &event);
    if (!error) *sight = now;
    return !error;
}
_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLRDHUP == POLLRDHUP, "one set of events");

static int descriptor(const struct msi_link *link, short *events) {
    const struct multi *multi = msi_container(link, const struct multi, link);
    *events = POLLIN;
    if (link->status != MST_OK) return -1;
    for (int i = 0; i < multi->n; i++)
        if (!watch(multi->epoll, multi->links[i], &multi->sights[i])) return -1;
    return multi->epoll;
}

static void close_multi_socket(struct msi_link *link) {
    struct multi *multi = msi_container(link, struct multi, link);
    for (int i = 0; i < multi->n; i++) multi->links[i]->ops->close(multi->links[i]);
    close(multi->epoll);
    free(multi->sights);
    free(multi);
}

static const struct msi_link_ops ops = {
    .name = "multi",
    .progress = progress,
    .descriptor = descriptor,
    .close = close_multi_socket,
    .withdraw = withdraw,
};

mst_status msi_link_open_multi_socket(struct msi_link *const *links, int n, size_t unit,
                                      struct msi_link **link) {
    if (n < 1 || n > MSI_MULTI_SOCKET_MOST || unit == 0)
        return msi_fail(MST_ERR_INVALID, NULL, "%d links cannot be bundled: at most %d", n,
                        MSI_MULTI_SOCKET_MOST);
    struct multi *multi = calloc(1, sizeof *multi);
    struct sight *sights = calloc((size_t)n, sizeof *sights);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!multi || !sights || epoll < 0) {
        mst_status st =
            multi && sights ? msi_fail_errno(errno, "cannot make an epoll descriptor") : msi_fail_memory();
        if (epoll >= 0) close(epoll);
        free(sights);
        free(multi);
        return st;
    }
    msi_link_init(&multi->link, &ops);
    multi->n = n;
    multi->unit = unit;
    multi->epoll = epoll;
    multi->sights = sights;
    multi->out.queue = &multi->link.sends;
    multi->out.post = post_send;
    multi->in.queue = &multi->link.receives;
    multi->in.post = post_receive;
    for (int i = 0; i < n; i++) {
        multi->links[i] = links[i];
        sights[i].fd = -1;
    }
    *link = &multi->link;
    return MST_OK;
}
