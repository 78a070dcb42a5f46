/*
 * limits.h - what this machine allows: how fast bytes are copied and added, how long one processor takes to see what another
 * has written, and TCP on loopback. floor.c computes from it the least time of an operation.
 */
#ifndef MUSTER_TOOL_BENCH_LIMITS_H
#define MUSTER_TOOL_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

enum limit_kind {
    LIMIT_COPY,     /* memcpy, GB/s of all processes together; a copy of n bytes counts n */
    LIMIT_ADD,      /* c += a of f32 with muster's kernels, likewise */
    LIMIT_TCP_GBPS, /* streams between pairs of processes, both ways, together */
    LIMIT_LINE,     /* us from one processor's store to another's load of a cache line */
    LIMIT_TCP_US,   /* us that a byte takes through loopback, both sides looking for it all the time */
    LIMIT_KINDS,
};
extern const char *const limit_names[LIMIT_KINDS];

enum { LIMITS_MOST = 160, LIMITS_ROUNDS_MOST = 25, LIMITS_PROCESSES_MOST = 256 };

struct limit {
    enum limit_kind kind;
    int processes;
    size_t bytes; /* of each array, or of each piece that is sent; 0: of no meaning */
    double samples[LIMITS_ROUNDS_MOST];
    double value; /* the best of them; 0: it could not be measured */
};

struct bench_limits {
    struct limit at[LIMITS_MOST];
    int n, rounds;
    double seconds; /* of one sample */
    int processors; /* of the machine that was measured; 0: this one */
};

/*
 * Measures with so many processes at a time, or as many as there are processors if those are fewer; rounds and seconds that are 0 are
 * set. False if the user wants to end. Runs between launch_open and launch_close.
 */
bool limits_measure(struct bench_limits *limits, const int *processes, int n);

/*
 * GB/s of so many processes together whose arrays have so many bytes: measured, or between what was measured. 0 if nothing was.
 */
double limits_rate(const struct bench_limits *limits, enum limit_kind kind, int processes, double bytes);
/* Microseconds of LIMIT_LINE or LIMIT_TCP_US. */
double limits_delay(const struct bench_limits *limits, enum limit_kind kind);

/* Processors that this process may use. */
int limits_processors(void);
/* Bytes of the last-level cache. */
size_t limits_cache(void);

/* limits_workers.c: all of these that want so many processes; false if the user wants to end. */
bool limits_run_crew(struct bench_limits *limits, int processes);

#endif
