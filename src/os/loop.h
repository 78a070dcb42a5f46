/*
 * loop.h - one thread that waits for many descriptors and timers.
 *
 *  1. The loop belongs to one thread; only msi_loop_wake may be called from others.
 *  2. Sources and timers are embedded in their owners and must not move while they are in the loop.
 *  3. A callback may remove any source or timer, including its own, and then free the owner.
 */
#ifndef MSI_OS_LOOP_H
#define MSI_OS_LOOP_H

#include "base/list.h"

#include <muster/status.h>
#include <sys/epoll.h>

struct msi_loop;

struct msi_source {
    void (*ready)(struct msi_source *source, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR */
    int fd;
};

struct msi_timer {
    void (*due)(struct msi_timer *timer);
    int64_t at; /* on msi_now's clock */
    struct msi_list node;
};

mst_status msi_loop_open(struct msi_loop **loop);
void msi_loop_close(struct msi_loop *loop);

mst_status msi_loop_add(struct msi_loop *loop, struct msi_source *source, uint32_t events);
void msi_loop_change(struct msi_loop *loop, struct msi_source *source, uint32_t events);
void msi_loop_remove(struct msi_loop *loop, struct msi_source *source);

/* Init a timer once; set changes its time; clear may be called on a timer that is not set. */
void msi_timer_init(struct msi_timer *timer, void (*due)(struct msi_timer *timer));
void msi_timer_set(struct msi_loop *loop, struct msi_timer *timer, int64_t at);
void msi_timer_clear(struct msi_timer *timer);
bool msi_timer_is_set(const struct msi_timer *timer);

/* Waits for an event, a timer or msi_loop_wake, calls the callbacks, and returns. */
void msi_loop_run_once(struct msi_loop *loop);

/* Ends the current or the next msi_loop_run_once, from any thread. */
void msi_loop_wake(struct msi_loop *loop);

#endif
