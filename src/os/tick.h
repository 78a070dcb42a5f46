/*
 * tick.h - the processor's cycle counter, which takes a few nanoseconds to read; clock_gettime takes tens.
 *
 * Ticks of all processors and processes of a host agree and never decrease: guaranteed on aarch64, and on
 * x86-64 with an invariant TSC. Otherwise ticks are nanoseconds of the monotonic clock. Two samples of both
 * clocks, as far apart as possible, give the length of a tick.
 */
#ifndef MSI_OS_TICK_H
#define MSI_OS_TICK_H

#include "os/clock.h"

#include <stdbool.h>

#if defined(__x86_64__)
/* Set by msi_tick_begin. False: ticks are nanoseconds. */
__attribute__((visibility("hidden"))) extern bool msi_tick_raw;
#endif

static inline uint64_t msi_tick(void) {
#if defined(__aarch64__)
    uint64_t ticks;
    __asm__("mrs %0, cntvct_el0" : "=r"(ticks) : : "memory"); /* the clobber prevents reordering */
    return ticks;
#elif defined(__x86_64__)
    return msi_tick_raw ? __builtin_ia32_rdtsc() : (uint64_t)msi_now();
#else
    return (uint64_t)msi_now();
#endif
}

/* Both clocks at one moment. */
struct msi_tick_look {
    uint64_t tick;
    int64_t ns; /* of msi_now() */
};

struct msi_tick_look msi_tick_look(void);

/* Detects the counter. Call it before the first tick is used; later calls do nothing. */
void msi_tick_begin(void);

/* Nanoseconds per tick, from two samples. */
static inline double msi_tick_rate(struct msi_tick_look first, struct msi_tick_look last) {
    return last.tick > first.tick ? (double)(last.ns - first.ns) / (double)(last.tick - first.tick) : 1;
}

/* Converts a tick to the time of msi_now(), from two samples; the tick may be before or after them. */
static inline int64_t msi_tick_ns(struct msi_tick_look first, struct msi_tick_look last, uint64_t tick) {
    return last.ns + (int64_t)((double)(int64_t)(tick - last.tick) * msi_tick_rate(first, last));
}

#endif
