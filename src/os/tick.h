/*
 * tick.h - the processor's own clock, read in a few nanoseconds where clock_gettime takes tens.
 *
 * Ticks of all processors and processes of a host agree and never go back: on aarch64 that is the architecture's promise, on
 * x86-64 that of processors that say so (invariant TSC). Elsewhere they are the nanoseconds of the monotonic clock. What a tick
 * is worth comes from two looks at both clocks, the further apart the better.
 */
#ifndef MSI_OS_TICK_H
#define MSI_OS_TICK_H

#include "os/clock.h"

#include <stdbool.h>

#if defined(__x86_64__)
/* Set by msi_tick_begin; before, and where the processor promises nothing, ticks are nanoseconds. */
__attribute__((visibility("hidden"))) extern bool msi_tick_raw;
#endif

static inline uint64_t msi_tick(void) {
#if defined(__aarch64__)
    uint64_t ticks;
    __asm__("mrs %0, cntvct_el0" : "=r"(ticks) : : "memory"); /* the clobber keeps it where it is */
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

/* Finds out what there is. Before the first tick of a process counts; later calls do nothing. */
void msi_tick_begin(void);

/* Nanoseconds of a tick, by two looks. */
static inline double msi_tick_rate(struct msi_tick_look first, struct msi_tick_look last) {
    return last.tick > first.tick ? (double)(last.ns - first.ns) / (double)(last.tick - first.tick) : 1;
}

/* A tick as msi_now() would have had it, by two looks; any tick, also one before or after them. */
static inline int64_t msi_tick_ns(struct msi_tick_look first, struct msi_tick_look last, uint64_t tick) {
    return last.ns + (int64_t)((double)(int64_t)(tick - last.tick) * msi_tick_rate(first, last));
}

#endif
