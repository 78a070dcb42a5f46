/*
 * fault_link.h - fault injection: a link that wraps another one and delays its transfers, cuts them into
 * pieces or drops the connection. The behaviour depends only on the seed and the sequence of calls, unless
 * delay_us is set. Each direction posts one piece of its first transfer at a time to the inner link and
 * credits the moved bytes to the transfer.
 *
 * While it delays a transfer, progress returns true, so that no caller sleeps on a link that moves without an
 * event.
 */
#ifndef TESTS_FAULT_LINK_H
#define TESTS_FAULT_LINK_H

#include "base/error.h"
#include "os/clock.h"
#include "transport/link.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

/* 0 disables a fault. */
struct link_faults {
    uint64_t seed;
    size_t most_bytes;      /* one progress moves a random 1 … most_bytes in each direction */
    unsigned delay_calls;   /* a transfer waits for a random 0 … delay_calls calls of progress */
    unsigned delay_us;      /* a transfer waits for a random 0 … delay_us microseconds */
    unsigned stall_percent; /* percentage of calls that begin a stall, which reorders links */
    unsigned stall_calls;   /* a stall lasts a random 1 … stall_calls calls */
    uint64_t lose_after;    /* after so many bytes in both directions the link fails at both ends */
};

struct fault_direction {
    struct msi_list *queue;
    bool sends;
    struct msi_transfer piece;
    size_t counted;     /* bytes of the piece credited to the transfer */
    bool begun;         /* the delay of the first transfer is set */
    unsigned calls;     /* remaining calls of the delay */
    int64_t not_before; /* on msi_now's clock; 0: no delay */
};

struct fault_link {
    struct msi_link link, *inner;
    struct link_faults faults;
    struct fault_direction out, in;
    uint64_t random, moved;
    unsigned stalled; /* remaining calls of the stall */
};

/* SplitMix64. */
static inline uint64_t fault_draw(struct fault_link *fault) {
    uint64_t z = fault->random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* A random number 0 … most. */
static inline uint64_t fault_draw_to(struct fault_link *fault, uint64_t most) {
    return most ? fault_draw(fault) % (most + 1) : 0;
}

/* Is the first transfer still delayed? */
static inline bool fault_is_delayed(struct fault_link *fault, struct fault_direction *dir) {
    if (!dir->begun) {
        dir->begun = true;
        dir->calls = (unsigned)fault_draw_to(fault, fault->faults.delay_calls);
        int64_t pause = (int64_t)fault_draw_to(fault, fault->faults.delay_us) * 1000;
        dir->not_before = pause ? msi_now() + pause : 0;
    }
    if (dir->calls) {
        dir->calls--;
        return true;
    }
    return dir->not_before && msi_now() < dir->not_before;
}

/* Posts the next piece if the last one is done. Returns true if the transfer is delayed. */
static inline bool fault_feed(struct fault_link *fault, struct fault_direction *dir) {
    if (msi_list_empty(dir->queue) || !msi_transfer_done(&dir->piece)) return false;
    if (fault_is_delayed(fault, dir)) return true;
    struct msi_transfer *first = msi_link_first(dir->queue);
    size_t n = msi_transfer_left(first), most = fault->faults.most_bytes;
    if (most) {
        size_t cut = 1 + (size_t)fault_draw_to(fault, most - 1);
        if (cut < n) n = cut;
    }
    if (fault->faults.lose_after && fault->faults.lose_after - fault->moved < n)
        n = (size_t)(fault->faults.lose_after - fault->moved);
    dir->counted = 0;
    msi_link_post(fault->inner, dir->sends, &dir->piece, first->data + first->done, n);
    return false;
}

/* Credits the moved bytes of the piece to its transfer. */
static inline bool fault_account(struct fault_link *fault, struct fault_direction *dir) {
    size_t n = dir->piece.done - dir->counted;
    if (n == 0) return false;
    struct msi_transfer *first = msi_link_first(dir->queue);
    dir->counted = dir->piece.done;
    fault->moved += n;
    dir->begun = msi_transfer_left(first) != n;
    msi_link_advance(first, n);
    return true;
}

static inline bool fault_is_stalled(struct fault_link *fault) {
    if (fault->stalled) {
        fault->stalled--;
        return true;
    }
    if (fault->faults.stall_calls && fault_draw(fault) % 100 < fault->faults.stall_percent)
        fault->stalled = 1 + (unsigned)fault_draw_to(fault, fault->faults.stall_calls - 1);
    return false;
}

static inline void fault_check_end(struct fault_link *fault) {
    if (fault->faults.lose_after && fault->moved >= fault->faults.lose_after) {
        msi_link_fail(&fault->link, MST_ERR_PEER_LOST,
                      "fault injection closed the link after %" PRIu64 " bytes", fault->moved);
        fault->inner->ops->close(fault->inner);
        fault->inner = NULL;
    } else if (fault->inner->status != MST_OK) {
        msi_link_fail(&fault->link, fault->inner->status, "%s", fault->inner->why);
    }
}

static inline bool fault_progress(struct msi_link *link) {
    struct fault_link *fault = msi_container(link, struct fault_link, link);
    if (link->status != MST_OK) return false;
    if (fault_is_stalled(fault)) return msi_link_busy(link);
    bool delayed = fault_feed(fault, &fault->out);
    if (fault_feed(fault, &fault->in)) delayed = true;
    bool moved = fault->inner->ops->progress(fault->inner);
    /* Count first: bytes that the failing call moved are valid. */
    if (fault_account(fault, &fault->out)) moved = true;
    if (fault_account(fault, &fault->in)) moved = true;
    fault_check_end(fault);
    return moved || (delayed && link->status == MST_OK);
}

static inline int fault_descriptor(const struct msi_link *link, short *events) {
    const struct fault_link *fault = msi_container(link, const struct fault_link, link);
    *events = 0;
    if (link->status != MST_OK) return -1;
    int fd = msi_link_descriptor(fault->inner, events);
    if (fd >= 0 && !msi_list_empty(&link->sends)) *events |= POLLOUT;
    if (fd >= 0 && !msi_list_empty(&link->receives)) *events |= POLLIN;
    return fd;
}

static inline void fault_close(struct msi_link *link) {
    struct fault_link *fault = msi_container(link, struct fault_link, link);
    if (fault->inner) fault->inner->ops->close(fault->inner);
    free(fault);
}

/* A piece of the transfer may be posted on the inner link. */
static inline bool fault_cancel(struct msi_link *link, struct msi_transfer *transfer) {
    struct fault_link *fault = msi_container(link, struct fault_link, link);
    bool untouched = transfer->done == 0;
    for (int way = 0; way < 2 && fault->inner; way++) {
        struct fault_direction *dir = way ? &fault->in : &fault->out;
        if (msi_list_empty(dir->queue) || msi_link_first(dir->queue) != transfer) continue;
        if (!msi_transfer_done(&dir->piece) && !msi_link_cancel(fault->inner, &dir->piece)) untouched = false;
        dir->piece = (struct msi_transfer){.len = 0};
        dir->begun = false;
    }
    msi_list_remove(&transfer->node);
    return untouched;
}

static const struct msi_link_ops fault_ops = {
    .progress = fault_progress,
    .descriptor = fault_descriptor,
    .close = fault_close,
    .cancel = fault_cancel,
};

/* Takes ownership of inner on success. inner must have no posted transfers. */
static inline mst_status open_fault_link(struct msi_link *inner, const struct link_faults *faults,
                                         struct msi_link **link) {
    struct fault_link *fault = calloc(1, sizeof *fault);
    if (!fault) return msi_fail_memory();
    msi_link_init(&fault->link, &fault_ops);
    fault->inner = inner;
    fault->faults = *faults;
    fault->random = faults->seed;
    fault->out = (struct fault_direction){.queue = &fault->link.sends, .sends = true};
    fault->in = (struct fault_direction){.queue = &fault->link.receives};
    *link = &fault->link;
    return MST_OK;
}

#endif
