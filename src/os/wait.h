/*
 * wait.h - how long a blocking call may take and who may end it early. Every wait in muster is given one.
 */
#ifndef MSI_OS_WAIT_H
#define MSI_OS_WAIT_H

#include "os/clock.h"

#include <muster/types.h>
#include <pthread.h>

struct msi_wait {
    int64_t deadline;   /* on msi_now's clock */
    mst_cancel *cancel; /* may be NULL */
};

/*
 * Waits until fd has one of poll's events, the deadline passes or the token is fired: MST_OK, MST_ERR_TIMEOUT
 * or MST_ERR_CANCELLED, recorded with "what" as what was being done. fd -1 waits for the other two alone.
 */
mst_status msi_wait_fd(const struct msi_wait *wait, int fd, short events, const char *what);

/* Has the token been fired? */
bool msi_wait_cancelled(const struct msi_wait *wait);

/* A descriptor that becomes readable when the token is fired; -1 for NULL. */
int msi_cancel_fd(const mst_cancel *cancel);

/* Takes a lock that others may hold for long: MST_OK, or as above and without it. */
mst_status msi_wait_lock(const struct msi_wait *wait, pthread_mutex_t *lock, const char *what);

/* A pause of at most pause_ms: MST_OK when it is over, or as above. */
mst_status msi_wait_pause(const struct msi_wait *wait, int pause_ms, const char *what);

#endif
