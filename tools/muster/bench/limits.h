/*
 * limits.h - what this machine allows: the rates at which bytes are copied and added, the time until one
 * processor sees the store of another, and TCP on loopback. lower_bound.c computes the least time of an
 * operation from it.
 */
#ifndef MUSTER_TOOL_BENCH_LIMITS_H
#define MUSTER_TOOL_BENCH_LIMITS_H

#include "bench/bench.h"

enum limit_kind {
    LIMIT_COPY,     /* memcpy, GB/s of all processes together; a copy of n bytes counts as n */
    LIMIT_ADD,      /* c += a of f32 with muster's kernels, likewise */
    LIMIT_TCP_GBPS, /* TCP between pairs of processes, both directions, all pairs together */
    LIMIT_LINE,     /* us until a processor sees the store of another in a cache line */
    LIMIT_TCP_US,   /* us of a byte through loopback; both ends poll */
    LIMIT_KINDS,
};
extern const char *const limit_names[LIMIT_KINDS];

enum { LIMITS_MOST = 160, LIMITS_ROUNDS_MOST = 25, LIMITS_PROCESSES_MOST = 256 };

struct limit {
    enum limit_kind kind;
    int processes;
    size_t bytes; /* of each array or sent piece; 0: not applicable */
    double samples[LIMITS_ROUNDS_MOST];
    double value; /* the best of them; 0: not measured */
};

struct bench_limits {
    struct limit at[LIMITS_MOST];
    int n, processors; /* processors of the measured machine */
    long rounds;       /* 0: 5 */
    double seconds;    /* of one sample; 0: 0.02 */
};

/*
 * Measures with these numbers of processes, each limited to the number of processors. False: the user
 * interrupts. Call between launch_open and launch_close.
 */
bool limits_measure(struct bench_limits *limits, const struct bench_numbers *processes);

/*
 * A limit with so many processes, interpolated between the measured sizes; 0 if nothing was measured. Rates
 * are GB/s of all processes together.
 */
double limits_value(const struct bench_limits *limits, enum limit_kind kind, int processes, double bytes);

/* Processors that this process may use. */
int limits_processors(void);
/* Bytes of the last-level cache. */
size_t limits_cache(void);

/* limits_workers.c: runs all measurements with so many processes. False: the user interrupts. */
bool limits_run_workers(struct bench_limits *limits, int processes);

#endif
