/* wait.h - deadline and cancellation token of a blocking call. Every wait in muster has both. */
#ifndef MSI_OS_WAIT_H
#define MSI_OS_WAIT_H

#include "os/clock.h"

#include <muster/types.h>
#include <pthread.h>

struct msi_wait {
    int64_t deadline;   /* on msi_now's clock */
    mst_cancel *cancel; /* may be NULL */
};

/* The deadline of MST_NOW. It has passed. */
enum { MSI_DEADLINE_NOW = 0 };

/* Of a call whose .timeout_ms may be 0, which stands for the given deadline, or MST_NOW. */
static inline struct msi_wait msi_wait_of(int timeout_ms, int64_t deadline, mst_cancel *cancel) {
    if (timeout_ms) deadline = timeout_ms == MST_NOW ? MSI_DEADLINE_NOW : msi_deadline(timeout_ms);
    return (struct msi_wait){deadline, cancel};
}

/*
 * Waits until fd has one of poll's events, the deadline passes or the token is cancelled: MST_OK,
 * MST_ERR_TIMEOUT or MST_ERR_CANCELLED. what describes the activity in the message. fd -1: waits only for
 * deadline and token.
 */
mst_status msi_wait_fd(const struct msi_wait *wait, int fd, short events, const char *what);

/* mst_cancel_new for the library itself. */
mst_status msi_cancel_new(mst_cancel **cancel);

/* Is the token cancelled? */
bool msi_wait_cancelled(const struct msi_wait *wait);

/* A descriptor that becomes readable when the token is cancelled; -1 for NULL. */
int msi_cancel_fd(const mst_cancel *cancel);

/* Takes a lock that others may hold for a long time. On failure the lock is not held. */
mst_status msi_wait_lock(const struct msi_wait *wait, pthread_mutex_t *lock, const char *what);

/* Pauses for pause_ms. */
mst_status msi_wait_pause(const struct msi_wait *wait, int pause_ms, const char *what);

#endif
