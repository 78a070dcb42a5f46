/* clock.h - the monotonic clock in nanoseconds, deadlines on it, and the calendar. */
#ifndef MSI_OS_CLOCK_H
#define MSI_OS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t msi_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Since 1970. */
static inline int64_t msi_calendar(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t msi_deadline(int64_t timeout_ms) {
    return msi_now() + timeout_ms * 1000000;
}

/* Milliseconds until a deadline, rounded up, at least 0; what poll takes. */
static inline int msi_ms_until(int64_t deadline) {
    int64_t left = deadline - msi_now();
    if (left <= 0) return 0;
    left = (left + 999999) / 1000000;
    return left > INT32_MAX ? INT32_MAX : (int)left;
}

#endif
