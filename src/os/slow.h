/* slow.h - the line on standard error of a call that waits for long: MUSTER_SLOW_S. */
#ifndef MSI_OS_SLOW_H
#define MSI_OS_SLOW_H

#include "os/wait.h"

#include <stdbool.h>
#include <stddef.h>

/* One wait. All zeros: it has not begun. */
struct msi_slow {
    int64_t since, due; /* when it began, and when the line is due; due INT64_MAX: never, or it was written */
};

/* A wait that begins at now; seconds 0: no line. */
static inline struct msi_slow msi_slow_begin(int64_t seconds, int64_t now) {
    return (struct msi_slow){now, seconds ? now + seconds * 1000000000 : INT64_MAX};
}

/* The part of a wait before the line is due. */
static inline struct msi_wait msi_slow_part(const struct msi_slow *slow, const struct msi_wait *wait) {
    return (struct msi_wait){slow->due < wait->deadline ? slow->due : wait->deadline, wait->cancel};
}

/* Is the line due, and the deadline not over? */
static inline bool msi_slow_is_due(const struct msi_slow *slow, int64_t deadline) {
    int64_t now = msi_now();
    return now >= slow->due && now < deadline;
}

/* Writes the line, once: "CALL on GROUP has waited 10 s for RANKS; it fails in 1790 s". call NULL: the public
 * call that this thread is in; group may be NULL. */
void msi_slow_write(struct msi_slow *slow, int64_t deadline, const char *call, const char *group,
                    const char *ranks);

#endif
