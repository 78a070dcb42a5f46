/*
 * fault.c - a link that misbehaves. See fault.h.
 *
 * Each way is a lane. It posts one piece of its queue's first transfer to the inner link and, when that is
 * done, the next; what moved of a piece is added to the transfer it is part of.
 */
#include "transport/fault.h"
#include "base/error.h"
#include "os/clock.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

struct fault;

struct lane {
    struct msi_list *queue;
    void (*post)(struct fault *fault, struct lane *lane, char *data, size_t len);
    struct msi_transfer piece;
    size_t counted;     /* bytes of the piece that the transfer knows of */
    bool begun;         /* the queue's first transfer has been given its delay */
    unsigned calls;     /* that it has to wait still */
    int64_t not_before; /* on msi_now's clock; 0: at once */
};

struct fault {
    struct msi_link link, *inner;
    struct msi_faults faults;
    struct lane out, in;
    uint64_t random, moved;
    unsigned stalled; /* calls that the link stands still */
};

/* SplitMix64: every state gives a good number. */
static uint64_t draw(struct fault *fault) {
    uint64_t z = fault->random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* 0 to most. */
static uint64_t draw_to(struct fault *fault, uint64_t most) {
    return most ? draw(fault) % (most + 1) : 0;
}

static void post_send(struct fault *fault, struct lane *lane, char *data, size_t len) {
    msi_link_send(fault->inner, &lane->piece, data, len);
}

static void post_receive(struct fault *fault, struct lane *lane, char *data, size_t len) {
    msi_link_receive(fault->inner, &lane->piece, data, len);
}

/* Whether the lane's first transfer must wait still. */
static bool held_back(struct fault *fault, struct lane *lane) {
    if (!lane->begun) {
        lane->begun = true;
        lane->calls = (unsigned)draw_to(fault, fault->faults.delay_calls);
        int64_t pause = (int64_t)draw_to(fault, fault->faults.delay_us) * 1000;
        lane->not_before = pause ? msi_now() + pause : 0;
    }
    if (lane->calls) {
        lane->calls--;
        return true;
    }
    return lane->not_before && msi_now() < lane->not_before;
}

/* Posts the next piece where the last is done. True if something is held back. */
static bool feed(struct fault *fault, struct lane *lane) {
    if (msi_list_empty(lane->queue) || !msi_transfer_done(&lane->piece)) return false;
    if (held_back(fault, lane)) return true;
    struct msi_transfer *first = msi_link_first(lane->queue);
    size_t n = msi_transfer_left(first), most = fault->faults.most_bytes;
    if (most) {
        size_t cut = 1 + (size_t)draw_to(fault, most - 1);
        if (cut < n) n = cut;
    }
    if (fault->faults.lose_after && fault->faults.lose_after - fault->moved < n)
        n = (size_t)(fault->faults.lose_after - fault->moved);
    lane->counted = 0;
    lane->post(fault, lane, first->data + first->done, n);
    return false;
}

/* Adds what moved of the piece to its transfer. */
static bool account(struct fault *fault, struct lane *lane) {
    size_t n = lane->piece.done - lane->counted;
    if (n == 0) return false;
    struct msi_transfer *first = msi_link_first(lane->queue);
    lane->counted = lane->piece.done;
    fault->moved += n;
    lane->begun = msi_transfer_left(first) != n;
    msi_link_advance(first, n);
    return true;
}

static bool stands_still(struct fault *fault) {
    if (fault->stalled) {
        fault->stalled--;
        return true;
    }
    if (fault->faults.stall_calls && draw(fault) % 100 < fault->faults.stall_percent)
        fault->stalled = 1 + (unsigned)draw_to(fault, fault->faults.stall_calls - 1);
    return false;
}

static void check_end(struct fault *fault) {
    if (fault->faults.lose_after && fault->moved >= fault->faults.lose_after) {
        msi_link_fail(&fault->link, MST_ERR_PEER_LOST, "lost on purpose after %" PRIu64 " bytes",
                      fault->moved);
        fault->inner->ops->close(fault->inner);
        fault->inner = NULL;
    } else if (fault->inner->status != MST_OK) {
        msi_link_fail(&fault->link, fault->inner->status, "%s", fault->inner->why);
    }
}

static bool progress(struct msi_link *link) {
    struct fault *fault = msi_container(link, struct fault, link);
    if (link->status != MST_OK) return false;
    if (stands_still(fault)) return msi_link_busy(link);
    bool held = feed(fault, &fault->out);
    if (feed(fault, &fault->in)) held = true;
    bool moved = fault->inner->ops->progress(fault->inner);
    /* Both lanes count before anything else: a piece that went with the failing call is done all the same. */
    if (account(fault, &fault->out)) moved = true;
    if (account(fault, &fault->in)) moved = true;
    check_end(fault);
    return moved || (held && link->status == MST_OK);
}

static int descriptor(const struct msi_link *link, short *events) {
    const struct fault *fault = msi_container(link, const struct fault, link);
    *events = 0;
    if (link->status != MST_OK) return -1;
    int fd = fault->inner->ops->descriptor(fault->inner, events);
    if (fd >= 0 && !msi_list_empty(&link->sends)) *events |= POLLOUT;
    if (fd >= 0 && !msi_list_empty(&link->receives)) *events |= POLLIN;
    return fd;
}

static void close_fault(struct msi_link *link) {
    struct fault *fault = msi_container(link, struct fault, link);
    if (fault->inner) fault->inner->ops->close(fault->inner);
    free(fault);
}

/* A piece of the transfer may be with the inner link. */
static bool withdraw(struct msi_link *link, struct msi_transfer *transfer) {
    struct fault *fault = msi_container(link, struct fault, link);
    bool untouched = transfer->done == 0;
    for (int way = 0; way < 2 && fault->inner; way++) {
        struct lane *lane = way ? &fault->in : &fault->out;
        if (msi_list_empty(lane->queue) || msi_link_first(lane->queue) != transfer) continue;
        if (!msi_transfer_done(&lane->piece) && !msi_link_withdraw(fault->inner, &lane->piece))
            untouched = false;
        lane->piece = (struct msi_transfer){.len = 0};
        lane->begun = false;
    }
    msi_list_remove(&transfer->node);
    return untouched;
}

static const struct msi_link_ops ops = {
    .name = "fault",
    .progress = progress,
    .descriptor = descriptor,
    .close = close_fault,
    .withdraw = withdraw,
};

mst_status msi_link_open_fault(struct msi_link *inner, const struct msi_faults *faults,
                               struct msi_link **link) {
    struct fault *fault = calloc(1, sizeof *fault);
    if (!fault) return msi_fail_memory();
    msi_link_init(&fault->link, &ops);
    fault->inner = inner;
    fault->faults = *faults;
    fault->random = faults->seed;
    fault->out = (struct lane){.queue = &fault->link.sends, .post = post_send};
    fault->in = (struct lane){.queue = &fault->link.receives, .post = post_receive};
    *link = &fault->link;
    return MST_OK;
}
