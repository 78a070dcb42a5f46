/* loop.c - epoll, timers and a wake-up. See loop.h. */
#include "os/loop.h"
#include "base/error.h"
#include "os/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { BATCH = 256 };

struct msi_loop {
    int epoll;
    struct msi_source waker;
    struct msi_list timers; /* sorted by time; most have the same delay, so insertion starts at the end */
    struct epoll_event batch[BATCH];
    int at, count; /* the current event, and the number of events */
};

static void drain_waker(struct msi_source *source, uint32_t events) {
    (void)events;
    uint64_t value;
    ssize_t n = read(source->fd, &value, sizeof value);
    (void)n;
}

mst_status msi_loop_open(struct msi_loop **loop) {
    struct msi_loop *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    msi_list_init(&made->timers);
    made->epoll = epoll_create1(EPOLL_CLOEXEC);
    made->waker = (struct msi_source){drain_waker, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    mst_status st = MST_OK;
    if (made->epoll < 0 || made->waker.fd < 0) st = msi_fail_errno(errno, "cannot create an event loop");
    if (st == MST_OK) st = msi_loop_add(made, &made->waker, EPOLLIN);
    if (st != MST_OK) {
        msi_loop_close(made);
        return st;
    }
    *loop = made;
    return MST_OK;
}

void msi_loop_close(struct msi_loop *loop) {
    if (!loop) return;
    if (loop->epoll >= 0) close(loop->epoll);
    if (loop->waker.fd >= 0) close(loop->waker.fd);
    free(loop);
}

mst_status msi_loop_add(struct msi_loop *loop, struct msi_source *source, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event))
        return msi_fail_errno(errno, "cannot watch a descriptor");
    return MST_OK;
}

void msi_loop_change(struct msi_loop *loop, struct msi_source *source, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = source};
    epoll_ctl(loop->epoll, EPOLL_CTL_MOD, source->fd, &event);
}

void msi_loop_remove(struct msi_loop *loop, struct msi_source *source) {
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
    for (int i = loop->at; i < loop->count; i++)
        if (loop->batch[i].data.ptr == source) loop->batch[i].data.ptr = NULL;
}

void msi_timer_init(struct msi_timer *timer, void (*due)(struct msi_timer *timer)) {
    timer->due = due;
    msi_list_init(&timer->node);
}

void msi_timer_set(struct msi_loop *loop, struct msi_timer *timer, int64_t at) {
    msi_list_remove(&timer->node);
    timer->at = at;
    struct msi_list *before = loop->timers.prev;
    while (before != &loop->timers && msi_container(before, struct msi_timer, node)->at > at)
        before = before->prev;
    msi_list_push(before->next, &timer->node);
}

void msi_timer_clear(struct msi_timer *timer) {
    msi_list_remove(&timer->node);
}

bool msi_timer_is_set(const struct msi_timer *timer) {
    return !msi_list_empty(&timer->node);
}

static struct msi_timer *first_timer(struct msi_loop *loop) {
    return msi_list_empty(&loop->timers) ? NULL : msi_container(loop->timers.next, struct msi_timer, node);
}

void msi_loop_run_once(struct msi_loop *loop) {
    struct msi_timer *timer = first_timer(loop);
    int n = epoll_wait(loop->epoll, loop->batch, BATCH, timer ? msi_ms_until(timer->at) : -1);
    loop->count = n < 0 ? 0 : n;
    for (loop->at = 0; loop->at < loop->count; loop->at++) {
        struct msi_source *source = loop->batch[loop->at].data.ptr;
        if (source) source->ready(source, loop->batch[loop->at].events);
    }
    loop->count = 0;
    int64_t now = first_timer(loop) ? msi_now() : 0;
    while ((timer = first_timer(loop)) && timer->at <= now) {
        msi_list_remove(&timer->node);
        timer->due(timer);
    }
}

void msi_loop_wake(struct msi_loop *loop) {
    uint64_t one = 1;
    ssize_t n = write(loop->waker.fd, &one, sizeof one);
    (void)n;
}
