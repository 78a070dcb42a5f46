/*
 * fault.c - see fault.h. Each direction posts one piece of its first transfer at a time to the inner link and
 * credits the moved bytes to the transfer.
 */
#include "transport/fault.h"
#include "base/error.h"
#include "os/clock.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

struct direction {
    struct msi_list *queue;
    bool sends;
    struct msi_transfer piece;
    size_t counted;     /* bytes of the piece credited to the transfer */
    bool begun;         /* the delay of the first transfer is set */
    unsigned calls;     /* remaining calls of the delay */
    int64_t not_before; /* on msi_now's clock; 0: no delay */
};

struct fault {
    struct msi_link link, *inner;
    struct msi_faults faults;
    struct direction out, in;
    uint64_t random, moved;
    unsigned stalled; /* remaining calls of the stall */
};

/* SplitMix64. */
static uint64_t draw(struct fault *fault) {
    uint64_t z = fault->random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* A random number 0 … most. */
static uint64_t draw_to(struct fault *fault, uint64_t most) {
    return most ? draw(fault) % (most + 1) : 0;
}

/* Is the first transfer still delayed? */
static bool is_delayed(struct fault *fault, struct direction *dir) {
    if (!dir->begun) {
        dir->begun = true;
        dir->calls = (unsigned)draw_to(fault, fault->faults.delay_calls);
        int64_t pause = (int64_t)draw_to(fault, fault->faults.delay_us) * 1000;
        dir->not_before = pause ? msi_now() + pause : 0;
    }
    if (dir->calls) {
        dir->calls--;
        return true;
    }
    return dir->not_before && msi_now() < dir->not_before;
}

/* Posts the next piece if the last one is done. Returns true if the transfer is delayed. */
static bool feed(struct fault *fault, struct direction *dir) {
    if (msi_list_empty(dir->queue) || !msi_transfer_done(&dir->piece)) return false;
    if (is_delayed(fault, dir)) return true;
    struct msi_transfer *first = msi_link_first(dir->queue);
    size_t n = msi_transfer_left(first), most = fault->faults.most_bytes;
    if (most) {
        size_t cut = 1 + (size_t)draw_to(fault, most - 1);
        if (cut < n) n = cut;
    }
    if (fault->faults.lose_after && fault->faults.lose_after - fault->moved < n)
        n = (size_t)(fault->faults.lose_after - fault->moved);
    dir->counted = 0;
    msi_link_post(fault->inner, dir->sends, &dir->piece, first->data + first->done, n);
    return false;
}

/* Credits the moved bytes of the piece to its transfer. */
static bool account(struct fault *fault, struct direction *dir) {
    size_t n = dir->piece.done - dir->counted;
    if (n == 0) return false;
    struct msi_transfer *first = msi_link_first(dir->queue);
    dir->counted = dir->piece.done;
    fault->moved += n;
    dir->begun = msi_transfer_left(first) != n;
    msi_link_advance(first, n);
    return true;
}

static bool is_stalled(struct fault *fault) {
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
        msi_link_fail(&fault->link, MST_ERR_PEER_LOST,
                      "fault injection closed the link after %" PRIu64 " bytes", fault->moved);
        fault->inner->ops->close(fault->inner);
        fault->inner = NULL;
    } else if (fault->inner->status != MST_OK) {
        msi_link_fail(&fault->link, fault->inner->status, "%s", fault->inner->why);
    }
}

static bool progress(struct msi_link *link) {
    struct fault *fault = msi_container(link, struct fault, link);
    if (link->status != MST_OK) return false;
    if (is_stalled(fault)) return msi_link_busy(link);
    bool delayed = feed(fault, &fault->out);
    if (feed(fault, &fault->in)) delayed = true;
    bool moved = fault->inner->ops->progress(fault->inner);
    /* Count first: bytes that the failing call moved are valid. */
    if (account(fault, &fault->out)) moved = true;
    if (account(fault, &fault->in)) moved = true;
    check_end(fault);
    return moved || (delayed && link->status == MST_OK);
}

static int descriptor(const struct msi_link *link, short *events) {
    const struct fault *fault = msi_container(link, const struct fault, link);
    *events = 0;
    if (link->status != MST_OK) return -1;
    int fd = msi_link_descriptor(fault->inner, events);
    if (fd >= 0 && !msi_list_empty(&link->sends)) *events |= POLLOUT;
    if (fd >= 0 && !msi_list_empty(&link->receives)) *events |= POLLIN;
    return fd;
}

static void close_fault(struct msi_link *link) {
    struct fault *fault = msi_container(link, struct fault, link);
    if (fault->inner) fault->inner->ops->close(fault->inner);
    free(fault);
}

/* A piece of the transfer may be posted on the inner link. */
static bool cancel(struct msi_link *link, struct msi_transfer *transfer) {
    struct fault *fault = msi_container(link, struct fault, link);
    bool untouched = transfer->done == 0;
    for (int way = 0; way < 2 && fault->inner; way++) {
        struct direction *dir = way ? &fault->in : &fault->out;
        if (msi_list_empty(dir->queue) || msi_link_first(dir->queue) != transfer) continue;
        if (!msi_transfer_done(&dir->piece) && !msi_link_cancel(fault->inner, &dir->piece)) untouched = false;
        dir->piece = (struct msi_transfer){.len = 0};
        dir->begun = false;
    }
    msi_list_remove(&transfer->node);
    return untouched;
}

static const struct msi_link_ops ops = {
    .name = "fault",
    .progress = progress,
    .descriptor = descriptor,
    .close = close_fault,
    .cancel = cancel,
};

mst_status msi_link_open_fault(struct msi_link *inner, const struct msi_faults *faults,
                               struct msi_link **link) {
    struct fault *fault = calloc(1, sizeof *fault);
    if (!fault) return msi_fail_memory();
    msi_link_init(&fault->link, &ops);
    fault->inner = inner;
    fault->faults = *faults;
    fault->random = faults->seed;
    fault->out = (struct direction){.queue = &fault->link.sends, .sends = true};
    fault->in = (struct direction){.queue = &fault->link.receives};
    *link = &fault->link;
    return MST_OK;
}
